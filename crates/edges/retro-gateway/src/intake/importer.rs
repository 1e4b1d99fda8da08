//! Defines the port through which the gateway reads runs in other formats.

use bytes::Bytes;
use retro_core::dead_letter::Rejection;
use retro_core::id::Workflow;
use retro_core::run::RunOutcome;
use retro_core::trace_collection::SpanOutline;
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

/// What a request of an exporter contains.
#[derive(Debug, Default)]
pub struct ReceivedTraces {
    /// Traces with at least one valid span.
    pub traces: Vec<ReceivedTrace>,
    /// Number of spans that belong to no trace, since their ids are not valid.
    pub invalid_spans: usize,
}

/// Spans of one trace in a request of an exporter.
#[derive(Debug)]
pub struct ReceivedTrace {
    /// Id of the trace.
    pub trace_id: String,
    /// Its spans, each once. Empty for a trace with a run whose documents would take too much memory.
    pub spans: Vec<ReceivedSpan>,
    /// Number of its spans in the request, with those that come twice.
    pub received: usize,
    /// `true` if the root has ended, and no span refers to one that is missing.
    pub is_complete: bool,
    /// Run of a complete trace; `None` if spans are missing, or if no agent, model or tool was called.
    pub run: Option<RunEvent>,
    /// Workflow of the run; `None` until the run was published.
    pub workflow: Option<Workflow>,
}

/// A span in a request of an exporter.
#[derive(Debug)]
pub struct ReceivedSpan {
    /// What decides when its trace is read.
    pub outline: SpanOutline,
    /// The span with its resource, as OTLP in JSON, with plain objects as attributes.
    pub document: String,
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

    /// Returns the traces of an OTLP request. Fails if the request is invalid, or if it has more than `bytes_max` bytes.
    fn import_traces(
        &self,
        request: &Bytes,
        is_protobuf: bool,
        bytes_max: usize,
    ) -> Result<ReceivedTraces, Rejection>;

    /// Returns the run of the spans of one trace, each as [`ReceivedSpan::document`], as a run of this workflow if one is
    /// given; `None` if no agent, model or tool was called, or nothing of it was captured. Fails if the run is invalid.
    fn assemble_trace(
        &self,
        documents: &[Vec<u8>],
        workflow: Option<&Workflow>,
    ) -> Result<Option<RunEvent>, Rejection>;

    /// Returns these spans as one file, which `retro emit` reads. Fails if a document is damaged.
    fn join_spans(&self, documents: &[Vec<u8>]) -> Result<Vec<u8>, Rejection>;
}
