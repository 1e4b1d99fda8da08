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

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::json::{JsonBounds, JsonDocument};
use serde_json::Value;

use crate::file_content::UPLOAD_VALUES_MAX;
use crate::import::{ImportOptions, ImportedRun};
use crate::location::{join_locations, prefix_path};

pub(crate) use json::contains_spans;
pub(crate) use protobuf::parse_file as parse_protobuf;
pub(crate) use span::Span;

/// Maximum number of spans of a file. A trace with more calls than this is longer than any trajectory may be.
const SPANS_MAX: usize = 100_000;

/// Returns the spans of the documents of a file, with the events that are in its log records. Other documents, as those
/// with metrics, are left out.
pub(crate) fn parse_documents(documents: &[(String, &Value)]) -> Result<Vec<Span>, Rejection> {
    let (mut spans, mut events) = (Vec::new(), Vec::new());
    for (place, document) in documents {
        let at_place = |rejection| prefix_path(place, rejection);
        spans.extend(json::parse_document(document).map_err(at_place)?);
        events.extend(json::parse_logged_events(document).map_err(at_place)?);
    }
    attach_events(&mut spans, events);
    Ok(spans)
}

/// Adds logged events to their spans, in the order of their times. Those of unknown spans are left out.
fn attach_events(spans: &mut [Span], mut events: Vec<json::LoggedEvent>) {
    if events.is_empty() {
        return;
    }
    let places: HashMap<(String, String), usize> = spans
        .iter()
        .enumerate()
        .map(|(at, span)| ((span.trace_id.clone(), span.span_id.clone()), at))
        .collect();
    events.sort_by_key(|event| event.time);
    for event in events {
        if let Some(at) = places.get(&(event.trace_id, event.span_id)) {
            spans[*at].events.push(event.event);
        }
    }
}

/// Encoding of a request with traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceEncoding {
    /// OTLP as JSON.
    Json,
    /// OTLP as protobuf.
    Protobuf,
}

/// A trace of a request.
#[derive(Debug)]
pub struct ImportedTrace {
    /// Id of the trace, which is that of its run.
    pub trace_id: String,
    /// Number of its spans in the request.
    pub spans: usize,
    /// Its run; `None` if spans of it are missing.
    pub run: Option<ImportedRun>,
}

/// Parses the traces of a request as exporters send it, of at most `bytes_max` bytes, in the order of their starts. A trace
/// is complete if its root has ended and no span refers to one that is missing; only such a trace has a run, since nothing
/// is kept of a trace between two requests. Traces in which no agent, model or tool was called, or of which nothing was
/// captured, are left out. Fails if the request is invalid.
pub fn import_traces(
    body: &Bytes,
    encoding: TraceEncoding,
    bytes_max: usize,
    options: &ImportOptions,
) -> Result<Vec<ImportedTrace>, Rejection> {
    let spans = parse_request(body, encoding, bytes_max)?;
    check_span_count(spans.len())?;
    let mut imported = Vec::new();
    for trace in group_by_trace(spans) {
        let (trace_id, spans) = (trace.spans[0].trace_id.clone(), trace.spans.len());
        let place = format!("trace {trace_id}");
        let run = match trace.is_complete() {
            true => match trace.build_run(options).map_err(|rejection| prefix_path(&place, rejection))? {
                Some(run) => Some(ImportedRun { location: place, ..run }),
                None => continue,
            },
            false if trace.calls_anything() => None,
            false => continue,
        };
        imported.push(ImportedTrace { trace_id, spans, run });
    }
    Ok(imported)
}

fn parse_request(body: &Bytes, encoding: TraceEncoding, bytes_max: usize) -> Result<Vec<Span>, Rejection> {
    match encoding {
        TraceEncoding::Json => {
            let bounds = JsonBounds { bytes_max, values_max: UPLOAD_VALUES_MAX };
            let document = JsonDocument::parse(body, bounds)?;
            json::parse_document(&document.root().to_value())
        }
        TraceEncoding::Protobuf if body.is_empty() => Ok(Vec::new()),
        TraceEncoding::Protobuf => protobuf::parse_request(body).unwrap_or_else(|| {
            let detail = "is no ExportTraceServiceRequest, or a span has no valid ids";
            Err(Rejection::of_message(DeadLetterCode::NotJson, detail))
        }),
    }
}

fn check_span_count(count: usize) -> Result<(), Rejection> {
    if count > SPANS_MAX {
        let detail = format!("{count} spans; at most {SPANS_MAX} are accepted");
        return Err(Rejection::of_message(DeadLetterCode::TooManyValues, detail));
    }
    Ok(())
}

/// Returns the runs of all traces in which a model or a tool was called, in the order of their starts. Other traces, as
/// those of web requests, are left out. Fails if none is left, or if there are too many spans.
pub(crate) fn build_runs(spans: Vec<Span>, options: &ImportOptions) -> Result<Vec<ImportedRun>, Rejection> {
    check_span_count(spans.len())?;
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
