//! Gives the gateway the adapters, which read runs in other formats.

use bytes::Bytes;
use retro_adapters::{ImportOptions, TraceEncoding};
use retro_core::dead_letter::Rejection;
use retro_events::run_completed::RunEvent;
use retro_gateway::{ImportFacts, ReceivedTrace, RunImporter};

/// Reads runs with the adapters of `retro emit`.
pub(crate) struct AdapterImporter;

impl RunImporter for AdapterImporter {
    fn import_transcript(
        &self,
        file: &Bytes,
        bytes_max: usize,
        facts: &ImportFacts,
    ) -> Result<Vec<(String, RunEvent)>, Rejection> {
        let ImportFacts { workflow, outcome, task } = facts.clone();
        let options = ImportOptions { workflow, outcome, task };
        let runs = retro_adapters::import_upload(file, bytes_max, &options)?;
        Ok(runs.into_iter().map(|run| (run.location, run.event)).collect())
    }

    fn import_traces(
        &self,
        request: &Bytes,
        is_protobuf: bool,
        bytes_max: usize,
    ) -> Result<Vec<ReceivedTrace>, Rejection> {
        let encoding = if is_protobuf { TraceEncoding::Protobuf } else { TraceEncoding::Json };
        let options = ImportOptions::default();
        let traces = retro_adapters::import_traces(request, encoding, bytes_max, &options)?;
        let received = traces.into_iter().map(|trace| ReceivedTrace {
            trace_id: trace.trace_id,
            spans: trace.spans,
            run: trace.run.map(|run| run.event),
        });
        Ok(received.collect())
    }
}
