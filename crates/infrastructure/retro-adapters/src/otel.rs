//! Parser for traces of OpenTelemetry: OTLP as JSON (one document, or one a line) or protobuf, and spans as SDKs print
//! them. All spans of a trace are one run, wherever they are in a file.
//!
//! Attributes are those of the GenAI conventions in each of their forms, of OpenInference and of OpenLLMetry. What a span
//! is follows from its structure, never from who wrote it; see [`classify`](kind::classify) and `messages.rs`.

mod json;
mod kind;
mod messages;
mod protobuf;
mod span;
mod timeline;
mod trace;

use std::collections::BTreeMap;

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use serde_json::Value;

use crate::import::{ImportOptions, ImportedRun};
use crate::{join_locations, prefix_path};

pub(crate) use json::contains_spans;
pub(crate) use protobuf::parse_file as parse_protobuf;
pub(crate) use span::Span;

/// Maximum number of spans of a file. A trace with more calls than this is longer than any trajectory may be.
const SPANS_MAX: usize = 100_000;

/// Returns the spans of the documents of a file. Documents without spans, as those with metrics, are left out.
pub(crate) fn parse_documents(documents: &[(String, &Value)]) -> Result<Vec<Span>, Rejection> {
    let mut spans = Vec::new();
    for (place, document) in documents {
        let found = json::parse_document(document).map_err(|rejection| prefix_path(place, rejection))?;
        spans.extend(found);
    }
    Ok(spans)
}

/// Returns the runs of all traces in which a model or a tool was called, in the order of their starts. Other traces, as
/// those of web requests, are left out. Fails if none is left, or if there are too many spans.
pub(crate) fn build_runs(spans: Vec<Span>, options: &ImportOptions) -> Result<Vec<ImportedRun>, Rejection> {
    if spans.len() > SPANS_MAX {
        let detail = format!("{} spans; at most {SPANS_MAX} are accepted", spans.len());
        return Err(Rejection::of_message(DeadLetterCode::TooManyValues, detail));
    }
    let count = spans.len();
    let traces = group_by_trace(spans);
    let mut runs = Vec::new();
    for trace in &traces {
        let place = format!("trace {}", trace.spans[0].trace_id);
        let run = trace.build_run(options).map_err(|rejection| prefix_path(&place, rejection))?;
        runs.extend(run.map(|run| ImportedRun { location: join_locations(&place, &run.location), ..run }));
    }
    if runs.is_empty() {
        let detail = format!(
            "{count} spans in {} traces, none with a message or a call of a tool: instrumentations leave out what was said \
             unless capturing content is switched on",
            traces.len()
        );
        return Err(Rejection::of_message(DeadLetterCode::TrajectoryInvalid, detail));
    }
    if traces.len() == 1 {
        runs.iter_mut().for_each(|run| run.location.clear());
    }
    Ok(runs)
}

/// Puts the spans of each trace together. A span that comes twice counts once: the copy that ended last.
fn group_by_trace(spans: Vec<Span>) -> Vec<trace::Trace> {
    let mut traces: BTreeMap<String, Vec<Span>> = BTreeMap::new();
    for span in spans {
        traces.entry(span.trace_id.clone()).or_default().push(span);
    }
    let mut traces: Vec<_> = traces.into_values().map(trace::Trace::new).collect();
    traces.sort_by_key(|trace| trace.spans[0].start);
    traces
}
