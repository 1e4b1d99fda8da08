//! Reads spans from JSON: OTLP (`resourceSpans`), and the form in which SDKs print a span (`context.trace_id`).

use std::sync::Arc;

use jiff::Timestamp;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use serde_json::{Map, Value};

use super::span::{
    Attributes, KINDS_OF_REQUESTS, Span, SpanEvent, SpanStatus, is_caused_remotely, normalize_id,
};

/// Returns `true` if a document contains spans in a form that is read.
pub(crate) fn contains_spans(document: &Value) -> bool {
    member(document, &["resourceSpans", "resource_spans"]).is_some() || is_printed_span(document)
}

fn is_printed_span(document: &Value) -> bool {
    document.pointer("/context/trace_id").is_some() && document.pointer("/context/span_id").is_some()
}

/// Returns the spans of a document. Fails with the path of a member that is no span of the format.
pub(crate) fn parse_document(document: &Value) -> Result<Vec<Span>, Rejection> {
    parse_spans(document, Err)
}

/// Returns the spans of a document. Each span that is invalid is passed to `on_invalid`, and left out unless that fails.
/// Fails also with the path of a member that is no list.
pub(crate) fn parse_spans(
    document: &Value,
    mut on_invalid: impl FnMut(Rejection) -> Result<(), Rejection>,
) -> Result<Vec<Span>, Rejection> {
    if is_printed_span(document) {
        return match parse_printed_span(document) {
            Ok(span) => Ok(vec![span]),
            Err(rejection) => on_invalid(rejection).map(|()| Vec::new()),
        };
    }
    let mut spans = Vec::new();
    for (place, group) in list_members(document, &["resourceSpans", "resource_spans"], "")? {
        let resource = group.get("resource").and_then(|resource| resource.get("attributes"));
        let resource = Arc::new(parse_attributes(resource));
        let scopes =
            list_members(group, &["scopeSpans", "scope_spans", "instrumentationLibrarySpans"], &place)?;
        for (place, scope) in scopes {
            for (place, span) in list_members(scope, &["spans"], &place)? {
                match parse_span(span, &resource, &place) {
                    Ok(span) => spans.push(span),
                    Err(rejection) => on_invalid(rejection)?,
                }
            }
        }
    }
    Ok(spans)
}

/// An event of a span that was exported as a log record.
pub(crate) struct LoggedEvent {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    /// Time in nanoseconds since 1970; 0 if not said.
    pub(crate) time: i128,
    pub(crate) event: SpanEvent,
}

/// Returns the events of GenAI among the log records of a document. Other records are left out.
pub(crate) fn parse_logged_events(document: &Value) -> Result<Vec<LoggedEvent>, Rejection> {
    let mut events = Vec::new();
    for (place, group) in list_members(document, &["resourceLogs", "resource_logs"], "")? {
        for (place, scope) in list_members(group, &["scopeLogs", "scope_logs"], &place)? {
            for (_, record) in list_members(scope, &["logRecords", "log_records"], &place)? {
                events.extend(parse_logged_event(record));
            }
        }
    }
    Ok(events)
}

fn parse_logged_event(record: &Value) -> Option<LoggedEvent> {
    let text = |keys: &[&str]| member(record, keys).and_then(Value::as_str).unwrap_or_default();
    let mut attributes = parse_attributes(record.get("attributes"));
    let named = attributes.get("event.name").and_then(Value::as_str).unwrap_or_default();
    let name =
        [text(&["eventName", "event_name"]), named].into_iter().find(|name| name.starts_with("gen_ai."))?;
    let name = name.to_owned();
    if let Some(Value::Object(body)) = record.get("body").map(parse_any_value) {
        attributes.extend(body);
    }
    let time = member(record, &["timeUnixNano", "time_unix_nano"]).filter(|time| time.as_str() != Some("0"));
    Some(LoggedEvent {
        trace_id: normalize_id(text(&["traceId", "trace_id"])),
        span_id: normalize_id(text(&["spanId", "span_id"])),
        time: nanoseconds(time.or_else(|| record.get("observedTimeUnixNano"))),
        event: SpanEvent { name, attributes },
    })
}

fn parse_span(span: &Value, resource: &Arc<Attributes>, place: &str) -> Result<Span, Rejection> {
    let text = |keys: &[&str]| member(span, keys).and_then(Value::as_str).unwrap_or_default();
    let trace_id = require_trace_id(text(&["traceId", "trace_id"]), &format!("{place}.traceId"))?;
    let events = span.get("events").and_then(Value::as_array).into_iter().flatten();
    let status = span.get("status");
    let parent_id = normalize_id(text(&["parentSpanId", "parent_span_id"]));
    let flags = span.get("flags").and_then(Value::as_u64).unwrap_or_default();
    let has_remote_parent =
        is_caused_remotely(&parent_id, u32::try_from(flags).unwrap_or_default(), is_of_request(span));
    Ok(Span {
        trace_id,
        span_id: normalize_id(text(&["spanId", "span_id"])),
        parent_id,
        has_remote_parent,
        name: text(&["name"]).to_owned(),
        start: nanoseconds(member(span, &["startTimeUnixNano", "start_time_unix_nano"])),
        end: nanoseconds(member(span, &["endTimeUnixNano", "end_time_unix_nano"])),
        attributes: parse_attributes(span.get("attributes")),
        events: events.map(parse_event).collect(),
        status: parse_status(status.and_then(|status| status.get("code"))),
        status_message: status.and_then(|s| s.get("message")?.as_str()).unwrap_or_default().to_owned(),
        resource: Arc::clone(resource),
    })
}

/// Parses a span as SDKs print it: ids are texts or numbers, and attributes are a plain object.
fn parse_printed_span(span: &Value) -> Result<Span, Rejection> {
    let id = |path: &str| match span.pointer(path) {
        Some(Value::String(text)) => normalize_id(text),
        Some(Value::Number(number)) => normalize_id(&format!("{:x}", number.as_u64().unwrap_or_default())),
        _ => String::new(),
    };
    let parent = if span.get("parent_id").is_some_and(|parent| !parent.is_null()) {
        id("/parent_id")
    } else {
        id("/parent/span_id")
    };
    let events = span.get("events").and_then(Value::as_array).into_iter().flatten();
    let resource = span.pointer("/resource/attributes");
    Ok(Span {
        trace_id: require_trace_id(&id("/context/trace_id"), "context.trace_id")?,
        span_id: id("/context/span_id"),
        has_remote_parent: span.pointer("/parent/is_remote") == Some(&Value::Bool(true))
            || is_caused_remotely(&parent, 0, is_of_request(span)),
        parent_id: parent,
        name: span.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        start: nanoseconds(span.get("start_time")),
        end: nanoseconds(span.get("end_time")),
        attributes: parse_attributes(span.get("attributes")),
        events: events.map(parse_event).collect(),
        status: parse_status(span.pointer("/status/status_code")),
        status_message: span
            .pointer("/status/description")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
        resource: Arc::new(parse_attributes(resource)),
    })
}

/// Returns `true` if the kind of a span, a number or its name, is that of a server or consumer.
fn is_of_request(span: &Value) -> bool {
    match span.get("kind") {
        Some(Value::Number(kind)) => KINDS_OF_REQUESTS.iter().any(|of| kind.as_i64() == Some((*of).into())),
        Some(Value::String(kind)) => kind.ends_with("SERVER") || kind.ends_with("CONSUMER"),
        _ => false,
    }
}

fn require_trace_id(text: &str, path: &str) -> Result<String, Rejection> {
    let id = normalize_id(text);
    if id.is_empty() {
        let detail = "is missing or all zeros: a span belongs to the trace that its id names";
        return Err(Rejection::of_field(DeadLetterCode::FieldInvalid, path, detail));
    }
    Ok(id)
}

fn parse_event(event: &Value) -> SpanEvent {
    SpanEvent {
        name: event.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
        attributes: parse_attributes(event.get("attributes")),
    }
}

/// Returns the status of its code, which is a number or its name.
fn parse_status(code: Option<&Value>) -> SpanStatus {
    match code {
        Some(Value::Number(number)) if number.as_u64() == Some(2) => SpanStatus::Error,
        Some(Value::Number(number)) if number.as_u64() == Some(1) => SpanStatus::Ok,
        Some(Value::String(name)) if name.ends_with("ERROR") => SpanStatus::Error,
        Some(Value::String(name)) if name.ends_with("OK") => SpanStatus::Ok,
        _ => SpanStatus::Unset,
    }
}

/// Returns a time in nanoseconds: a number, its digits, or a date as RFC 3339 has it; 0 for anything else.
fn nanoseconds(time: Option<&Value>) -> i128 {
    match time {
        Some(Value::Number(number)) => number.as_u64().map_or(0, i128::from),
        Some(Value::String(text)) => text
            .parse::<i128>()
            .unwrap_or_else(|_| text.parse::<Timestamp>().map_or(0, |time| time.as_nanosecond())),
        _ => 0,
    }
}

/// Returns the attributes of a list of keys and typed values, or of a plain object.
fn parse_attributes(attributes: Option<&Value>) -> Attributes {
    match attributes {
        Some(Value::Array(entries)) => entries
            .iter()
            .filter_map(|entry| {
                Some((entry.get("key")?.as_str()?.to_owned(), parse_any_value(entry.get("value")?)))
            })
            .collect(),
        Some(Value::Object(members)) => members.clone(),
        _ => Map::new(),
    }
}

/// Returns the value that a typed value of OTLP contains. The nesting is bounded by that of the document.
fn parse_any_value(value: &Value) -> Value {
    let Some((kind, content)) = value.as_object().and_then(|typed| typed.iter().next()) else {
        return Value::Null;
    };
    match kind.as_str() {
        "intValue" | "int_value" => match content.as_str().map(str::parse::<i64>) {
            Some(Ok(number)) => number.into(),
            _ => content.clone(),
        },
        "arrayValue" | "array_value" => {
            let items = content.get("values").and_then(Value::as_array).into_iter().flatten();
            items.map(parse_any_value).collect()
        }
        "kvlistValue" | "kvlist_value" => Value::Object(parse_attributes(content.get("values"))),
        "bytesValue" | "bytes_value" => Value::Null,
        _ => content.clone(),
    }
}

fn member<'a>(object: &'a Value, names: &[&str]) -> Option<&'a Value> {
    names.iter().find_map(|name| object.get(*name))
}

/// Returns the items of the member with one of these names, with their paths; none if it is missing.
fn list_members<'a>(
    object: &'a Value,
    names: &[&str],
    place: &str,
) -> Result<Vec<(String, &'a Value)>, Rejection> {
    let Some(name) = names.iter().find(|name| object.get(**name).is_some()) else { return Ok(Vec::new()) };
    let path = if place.is_empty() { (*name).to_owned() } else { format!("{place}.{name}") };
    match &object[*name] {
        Value::Array(items) => {
            let with_path = |(nth, item)| (format!("{path}[{nth}]"), item);
            Ok(items.iter().enumerate().map(with_path).collect())
        }
        Value::Null => Ok(Vec::new()),
        _ => Err(Rejection::of_field(DeadLetterCode::FieldInvalid, path, "is no list")),
    }
}
