//! Parser for traces of OpenTelemetry: OTLP as JSON (one document, or one a line) or protobuf, and spans as SDKs print
//! them. All spans of a trace are one run, wherever they are in a file.
//!
//! Attributes are those of the GenAI conventions in each of their forms, of OpenInference and of OpenLLMetry. What a span
//! is follows from its structure, never from who wrote it; see [`classify`](kind::classify) and `messages.rs`.

mod document;
mod json;
mod kind;
mod messages;
mod protobuf;
mod span;
mod timeline;
mod trace;

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use retro_core::canonical::sha256_hex;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::json::{JsonBounds, JsonDocument};
use retro_core::trace_collection::{SpanOutline, TraceShape, trace_shape};
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

/// What a request with traces contains.
#[derive(Debug, Default)]
pub struct ImportedTraces {
    /// Traces with at least one valid span, in the order of their starts.
    pub traces: Vec<ImportedTrace>,
    /// Number of spans that belong to no trace, since their ids are missing, all zeros or of another length.
    pub invalid_spans: usize,
}

/// Spans of one trace in a request.
#[derive(Debug)]
pub struct ImportedTrace {
    /// Id of the trace, which is that of its run.
    pub trace_id: String,
    /// Its spans, each once. Empty for a trace with a run if the documents of a request would take too much memory.
    pub spans: Vec<ImportedSpan>,
    /// Number of its spans in the request, with those that come twice.
    pub received: usize,
    /// `true` if the root has ended, and no span refers to one that is missing.
    pub is_complete: bool,
    /// Run of a complete trace; `None` if spans are missing, if no agent, model or tool was called, or if nothing of the
    /// trace was captured.
    pub run: Option<ImportedRun>,
}

/// A span of a request.
#[derive(Debug)]
pub struct ImportedSpan {
    /// What decides when its trace is read. A span without an id gets one from its content.
    pub outline: SpanOutline,
    /// The span as an OTLP document of its own in JSON, with its resource, and with plain objects as attributes:
    /// everything of it that is read. [`assemble_trace`] reads it, and so does [`crate::import_file`].
    pub document: String,
}

/// Parses the traces of a request as exporters send it, of at most `bytes_max` bytes. Fails if the request is invalid, or if
/// the run of a complete trace is, or if the documents of the other traces would take far more memory than the request.
pub fn import_traces(
    body: &Bytes,
    encoding: TraceEncoding,
    bytes_max: usize,
    options: &ImportOptions,
) -> Result<ImportedTraces, Rejection> {
    let (spans, invalid_spans) = parse_request(body, encoding, bytes_max)?;
    check_span_count(spans.len())?;
    let mut received: HashMap<String, usize> = HashMap::new();
    for span in &spans {
        *received.entry(span.trace_id.clone()).or_default() += 1;
    }
    let mut traces = Vec::new();
    let mut documents_left = documents_bytes_max(body.len());
    for trace in group_by_trace(spans) {
        let trace_id = trace.spans[0].trace_id.clone();
        let outlines = trace.outline_spans();
        let is_complete = trace_shape(&outlines) == TraceShape::Complete;
        let place = format!("trace {trace_id}");
        let run = match is_complete && outlines.iter().any(|span| span.is_call) {
            true => trace.build_run(options).map_err(|rejection| prefix_path(&place, rejection))?,
            false => None,
        };
        let run = run.map(|run| ImportedRun { location: place, ..run });
        let mut spans = Vec::new();
        for (span, outline) in trace.spans.iter().zip(outlines) {
            let span = import_span(span, outline);
            let Some(left) = documents_left.checked_sub(span.document.len()) else {
                if run.is_none() {
                    let detail = "its spans, each with its resource, take far more space than the request: send fewer in one";
                    return Err(Rejection::of_field(
                        DeadLetterCode::Oversized,
                        format!("trace {trace_id}"),
                        detail,
                    ));
                }
                spans.clear();
                break;
            };
            documents_left = left;
            spans.push(span);
        }
        traces.push(ImportedTrace { received: received[&trace_id], spans, trace_id, is_complete, run });
    }
    Ok(ImportedTraces { traces, invalid_spans })
}

/// Returns the maximum size of all documents of a request of this size: a small resource with many spans grows.
fn documents_bytes_max(request_bytes: usize) -> usize {
    let beginning = request_bytes.min(1 << 20);
    (64 << 10) + 8 * beginning + 2 * (request_bytes - beginning)
}

fn import_span(span: &Span, outline: SpanOutline) -> ImportedSpan {
    let document = document::write_span(span).to_string();
    let span_id = match outline.span_id.is_empty() {
        true => format!("no-id-{}", &sha256_hex(document.as_bytes())[..16]),
        false => outline.span_id,
    };
    ImportedSpan { outline: SpanOutline { span_id, ..outline }, document }
}

/// Returns the run of the spans of one trace, each as [`ImportedSpan::document`]; `None` if no agent, model or tool was
/// called in it, or nothing of it was captured. Their order does not matter. Fails if a document is damaged, or if the run
/// is invalid.
pub fn assemble_trace(
    documents: &[Vec<u8>],
    options: &ImportOptions,
) -> Result<Option<ImportedRun>, Rejection> {
    let mut spans = Vec::new();
    for document in documents {
        let document: Value = serde_json::from_slice(document)
            .map_err(|error| Rejection::of_message(DeadLetterCode::NotJson, error.to_string()))?;
        spans.extend(json::parse_document(&document)?);
    }
    match group_by_trace(spans).as_slice() {
        [] => Ok(None),
        [trace] if trace.outline_spans().iter().any(|span| span.is_call) => trace.build_run(options),
        [_] => Ok(None),
        traces => {
            let detail = format!("the spans are of {} traces; those of one are expected", traces.len());
            Err(Rejection::of_message(DeadLetterCode::TrajectoryInvalid, detail))
        }
    }
}

/// Returns one OTLP document in JSON with the spans of these, each as [`ImportedSpan::document`]. `retro emit` reads it.
pub fn join_span_documents(documents: &[Vec<u8>]) -> Result<Vec<u8>, serde_json::Error> {
    let mut groups = Vec::new();
    for document in documents {
        let mut document: Value = serde_json::from_slice(document)?;
        groups.extend(document["resourceSpans"].as_array_mut().map(std::mem::take).unwrap_or_default());
    }
    serde_json::to_vec(&serde_json::json!({ "resourceSpans": groups }))
}

/// Returns the spans of a request, and the number of those without valid ids.
fn parse_request(
    body: &Bytes,
    encoding: TraceEncoding,
    bytes_max: usize,
) -> Result<(Vec<Span>, usize), Rejection> {
    let mut invalid = 0;
    let spans = match encoding {
        TraceEncoding::Json => {
            let bounds = JsonBounds { bytes_max, values_max: UPLOAD_VALUES_MAX };
            let document = JsonDocument::parse(body, bounds)?;
            json::parse_spans(&document.root().to_value(), |_| {
                invalid += 1;
                Ok(())
            })?
        }
        TraceEncoding::Protobuf if body.is_empty() => Vec::new(),
        TraceEncoding::Protobuf => protobuf::parse_spans(body, &mut invalid).unwrap_or_else(|| {
            let detail = "is no ExportTraceServiceRequest";
            Err(Rejection::of_message(DeadLetterCode::NotJson, detail))
        })?,
    };
    Ok((spans, invalid))
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
