//! Gives the gateway the adapters, which read runs in other formats.

use bytes::Bytes;
use retro_adapters::{ImportOptions, TraceEncoding};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::Workflow;
use retro_events::run_completed::RunEvent;
use retro_gateway::{ImportFacts, ReceivedSpan, ReceivedTrace, ReceivedTraces, RunImporter};

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
        let options = ImportOptions { workflow, outcome, task, agents_md: None };
        let runs = retro_adapters::import_upload(file, bytes_max, &options)?;
        Ok(runs.into_iter().map(|run| (run.location, run.event)).collect())
    }

    fn import_traces(
        &self,
        request: &Bytes,
        is_protobuf: bool,
        bytes_max: usize,
    ) -> Result<ReceivedTraces, Rejection> {
        let encoding = if is_protobuf { TraceEncoding::Protobuf } else { TraceEncoding::Json };
        let imported =
            retro_adapters::import_traces(request, encoding, bytes_max, &ImportOptions::default())?;
        let span = |span: retro_adapters::ImportedSpan| ReceivedSpan {
            outline: span.outline,
            document: span.document,
        };
        let trace = |trace: retro_adapters::ImportedTrace| ReceivedTrace {
            trace_id: trace.trace_id,
            spans: trace.spans.into_iter().map(span).collect(),
            received: trace.received,
            is_complete: trace.is_complete,
            run: trace.run.map(|run| run.event),
            workflow: None,
        };
        let traces = imported.traces.into_iter().map(trace).collect();
        Ok(ReceivedTraces { traces, invalid_spans: imported.invalid_spans })
    }

    fn assemble_trace(
        &self,
        documents: &[Vec<u8>],
        workflow: Option<&Workflow>,
    ) -> Result<Option<RunEvent>, Rejection> {
        let options = ImportOptions { workflow: workflow.cloned(), ..ImportOptions::default() };
        Ok(retro_adapters::assemble_trace(documents, &options)?.map(|run| run.event))
    }

    fn join_spans(&self, documents: &[Vec<u8>]) -> Result<Vec<u8>, Rejection> {
        retro_adapters::join_span_documents(documents)
            .map_err(|error| Rejection::of_message(DeadLetterCode::NotJson, error.to_string()))
    }
}
