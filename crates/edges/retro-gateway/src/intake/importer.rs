//! Defines the port through which the gateway reads runs in other formats.

use bytes::Bytes;
use retro_core::dead_letter::Rejection;
use retro_core::id::Workflow;
use retro_core::run::RunOutcome;
use retro_events::run_completed::RunEvent;

/// Facts of a run that its file may lack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportFacts {
    /// Workflow, instead of one that is derived from the file.
    pub workflow: Option<Workflow>,
    /// Outcome, unless the file states one.
    pub outcome: Option<RunOutcome>,
    /// Task, unless the file names one.
    pub task: Option<String>,
}

/// A trace in a request of an exporter.
#[derive(Debug)]
pub struct ReceivedTrace {
    /// Id of the trace.
    pub trace_id: String,
    /// Number of its spans in the request.
    pub spans: usize,
    /// Its run; `None` if spans of it are missing.
    pub run: Option<RunEvent>,
}

/// Reads runs in other formats. Pure: the same bytes give the same runs.
pub trait RunImporter: Send + Sync {
    /// Returns the runs of a file in any supported format, each with its location in the file. Fails if one of them is
    /// invalid, or if the file has more than `bytes_max` bytes.
    fn import_transcript(
        &self,
        file: &Bytes,
        bytes_max: usize,
        facts: &ImportFacts,
    ) -> Result<Vec<(String, RunEvent)>, Rejection>;

    /// Returns the traces of an OTLP request that agents, models or tools are in. Fails if the request is invalid, or if
    /// it has more than `bytes_max` bytes.
    fn import_traces(
        &self,
        request: &Bytes,
        is_protobuf: bool,
        bytes_max: usize,
    ) -> Result<Vec<ReceivedTrace>, Rejection>;
}
