//! Writes a span as a document of its own.

use serde_json::{Map, Value, json};

use super::span::{FLAG_IS_REMOTE, FLAG_KNOWS_REMOTE, Span, SpanEvent, SpanStatus};

/// Beginnings of the attributes of a resource that are read. Others, such as those of a host or a container, would be stored
/// with each span.
const OF_RESOURCE: [&str; 6] = ["agent.", "cicd.", "gen_ai.", "retro.", "service.", "vcs."];

/// Returns an OTLP document in JSON with this span and its resource. Attributes are plain objects, so that a name such as
/// `password` stands before its value. The reader of documents returns the same span, with a part of its resource. Links,
/// the times of events and the scope are left out too, because nothing reads them.
pub(crate) fn write_span(span: &Span) -> Value {
    let mut written = json!({
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": span.attributes,
    });
    if !span.parent_id.is_empty() {
        written["parentSpanId"] = span.parent_id.as_str().into();
    }
    if span.has_remote_parent {
        written["flags"] = (FLAG_KNOWS_REMOTE | FLAG_IS_REMOTE).into();
    }
    if !span.events.is_empty() {
        written["events"] = span.events.iter().map(write_event).collect();
    }
    let code = match span.status {
        SpanStatus::Unset => 0,
        SpanStatus::Ok => 1,
        SpanStatus::Error => 2,
    };
    if code > 0 || !span.status_message.is_empty() {
        written["status"] = json!({"code": code, "message": span.status_message});
    }
    let is_read = |key: &str| OF_RESOURCE.iter().any(|start| key.starts_with(start));
    let resource = span.resource.iter().filter(|(key, _)| is_read(key));
    let resource: Map<String, Value> = resource.map(|(key, value)| (key.clone(), value.clone())).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{"spans": [written]}],
    }]})
}

fn write_event(event: &SpanEvent) -> Value {
    json!({"name": event.name, "attributes": event.attributes})
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::json::parse_document;
    use super::*;

    fn attributes(value: &Value) -> serde_json::Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    #[test]
    fn a_written_span_is_read_as_the_same_span_without_the_host_of_its_resource() {
        let values = json!({"text": "\u{0}é", "list": ["a", 1], "map": {"stringValue": "x", "b": null}, "n": -3, "f": 0.5});
        let event = SpanEvent { name: "gen_ai.choice".to_owned(), attributes: attributes(&values) };
        let full = Span {
            trace_id: "5b8aa5a2d2c872e8321cf37308d69df2".to_owned(),
            span_id: "051581bf3cb55c13".to_owned(),
            parent_id: "5fb397be34d26b51".to_owned(),
            has_remote_parent: true,
            name: "chat".to_owned(),
            start: 1_764_374_400_000_000_001,
            end: 1_764_374_401_000_000_001,
            attributes: attributes(&values),
            events: vec![event],
            status: SpanStatus::Error,
            status_message: "no".to_owned(),
            resource: Arc::new(attributes(&json!({"service.name": "shop"}))),
        };
        let bare = Span { trace_id: full.trace_id.clone(), ..Span::default() };
        let resource = Arc::new(attributes(&json!({"service.name": "shop", "host.name": "h"})));
        let hosted = Span { resource, ..full.clone() };
        for (written, read) in [(&full, &full), (&bare, &bare), (&hosted, &full)] {
            assert_eq!(parse_document(&write_span(written)), Ok(vec![read.clone()]));
        }
    }
}
