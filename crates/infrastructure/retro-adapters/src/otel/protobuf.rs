//! Reads spans from protobuf: a request as exporters send it, or a file of the collector's exporter with
//! `format: proto`, in which the length of each request precedes it.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value as Any};
use opentelemetry_proto::tonic::trace::v1::{Span as WireSpan, Status, status::StatusCode};
use prost::Message as _;
use prost::encoding::{WireType, decode_key, decode_varint};
use retro_core::canonical::encode_hex;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use serde_json::Value;

use super::span::{Attributes, KINDS_OF_REQUESTS, Span, SpanEvent, SpanStatus, is_caused_remotely};

/// Maximum number of fields in a request, of messages that take memory of their own: two bytes may take a hundred times
/// as many.
const MESSAGES_MAX: usize = 250_000;
/// Maximum nesting of messages, as the decoder has it.
const DEPTH_MAX: usize = 100;
/// Number of bytes of the length before a request in a file.
const LENGTH_BYTES: usize = 4;

/// Returns the spans of a file, or `None` if it is no protobuf of traces.
pub(crate) fn parse_file(bytes: &[u8]) -> Option<Result<Vec<Span>, Rejection>> {
    let spans = match bytes.first()? {
        0x0a => parse_request(bytes),
        // The first byte of a length below 16 MiB; no text begins with it.
        0x00 => parse_requests(bytes),
        _ => None,
    };
    // A text that happens to be a request has no span.
    spans.filter(|spans| !matches!(spans, Ok(spans) if spans.is_empty()))
}

/// Returns the spans of one request, or `None` if the bytes are none, or if a span has no valid ids.
pub(crate) fn parse_request(bytes: &[u8]) -> Option<Result<Vec<Span>, Rejection>> {
    let mut invalid = 0;
    parse_spans(bytes, &mut invalid).filter(|_| invalid == 0)
}

/// Returns the spans of one request, or `None` if the bytes are none. Spans without valid ids are left out and counted.
pub(crate) fn parse_spans(bytes: &[u8], invalid: &mut usize) -> Option<Result<Vec<Span>, Rejection>> {
    let mut messages = 0;
    count_messages(bytes, Kind::Request, DEPTH_MAX, &mut messages)?;
    if messages > MESSAGES_MAX {
        let detail = format!("more than {MESSAGES_MAX} spans, events and attributes; send them in parts");
        return Some(Err(Rejection::of_message(DeadLetterCode::TooManyValues, detail)));
    }
    let request = ExportTraceServiceRequest::decode(bytes).ok()?;
    Some(Ok(convert_request(request, invalid)))
}

fn parse_requests(mut bytes: &[u8]) -> Option<Result<Vec<Span>, Rejection>> {
    let mut spans = Vec::new();
    while !bytes.is_empty() {
        let (length, rest) = bytes.split_at_checked(LENGTH_BYTES)?;
        let length = u32::from_be_bytes(length.try_into().ok()?);
        let (request, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        match parse_request(request)? {
            Ok(found) => spans.extend(found),
            Err(rejection) => return Some(Err(rejection)),
        }
        bytes = rest;
    }
    Some(Ok(spans))
}

/// Kind of a message whose parts take memory of their own.
#[derive(Clone, Copy)]
enum Kind {
    Request,
    ResourceSpans,
    Resource,
    ScopeSpans,
    Span,
    Event,
    Attribute,
    Value,
    List,
    Map,
    Other,
}

impl Kind {
    const fn of_field(self, field: u32) -> Self {
        match (self, field) {
            (Self::Request, 1) => Self::ResourceSpans,
            (Self::ResourceSpans, 1) => Self::Resource,
            (Self::ResourceSpans, 2) => Self::ScopeSpans,
            (Self::ScopeSpans, 2) => Self::Span,
            (Self::Span, 11 | 13) => Self::Event,
            (Self::Resource, 1) | (Self::Span, 9) | (Self::Event, 3 | 4) => Self::Attribute,
            (Self::Attribute, 2) => Self::Value,
            (Self::Value, 5) => Self::List,
            (Self::Value, 6) => Self::Map,
            (Self::List, 1) => Self::Value,
            (Self::Map, 1) => Self::Attribute,
            _ => Self::Other,
        }
    }
}

/// Counts the fields of a message and of those in it, up to the maximum. Returns `None` if it is no message.
fn count_messages(mut bytes: &[u8], kind: Kind, depth: usize, count: &mut usize) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    while !bytes.is_empty() && *count <= MESSAGES_MAX {
        *count += 1;
        let (field, wire_type) = decode_key(&mut bytes).ok()?;
        let skipped = match wire_type {
            WireType::Varint => {
                decode_varint(&mut bytes).ok()?;
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => {
                let length = usize::try_from(decode_varint(&mut bytes).ok()?).ok()?;
                let part = bytes.get(..length)?;
                let kind = kind.of_field(field);
                if !matches!(kind, Kind::Other) {
                    count_messages(part, kind, depth, count)?;
                }
                length
            }
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        bytes = bytes.get(skipped..)?;
    }
    Some(())
}

/// Returns the spans with valid ids, and counts the others.
fn convert_request(request: ExportTraceServiceRequest, invalid: &mut usize) -> Vec<Span> {
    let mut spans = Vec::new();
    for group in request.resource_spans {
        let attributes = group.resource.map(|resource| resource.attributes).unwrap_or_default();
        let resource = Arc::new(convert_attributes(attributes));
        for span in group.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            match convert_span(span, &resource) {
                Some(span) => spans.push(span),
                None => *invalid += 1,
            }
        }
    }
    spans
}

/// Returns a span, or `None` if it has no valid ids.
fn convert_span(span: WireSpan, resource: &Arc<Attributes>) -> Option<Span> {
    if span.trace_id.len() != 16 || span.trace_id.iter().all(|byte| *byte == 0) || span.span_id.len() != 8 {
        return None;
    }
    let Status { message, code } = span.status.unwrap_or_default();
    let status = match StatusCode::try_from(code) {
        Ok(StatusCode::Error) => SpanStatus::Error,
        Ok(StatusCode::Ok) => SpanStatus::Ok,
        _ => SpanStatus::Unset,
    };
    let events = span
        .events
        .into_iter()
        .map(|event| SpanEvent { name: event.name, attributes: convert_attributes(event.attributes) });
    let parent_id = super::span::normalize_id(&encode_hex(&span.parent_span_id));
    let is_of_request = KINDS_OF_REQUESTS.contains(&span.kind);
    Some(Span {
        trace_id: encode_hex(&span.trace_id),
        span_id: encode_hex(&span.span_id),
        has_remote_parent: is_caused_remotely(&parent_id, span.flags, is_of_request),
        parent_id,
        name: span.name,
        start: span.start_time_unix_nano.into(),
        end: span.end_time_unix_nano.into(),
        attributes: convert_attributes(span.attributes),
        events: events.collect(),
        status,
        status_message: message,
        resource: Arc::clone(resource),
    })
}

fn convert_attributes(attributes: Vec<KeyValue>) -> Attributes {
    attributes.into_iter().map(|entry| (entry.key, convert_value(entry.value))).collect()
}

fn convert_value(value: Option<AnyValue>) -> Value {
    match value.and_then(|value| value.value) {
        Some(Any::StringValue(text)) => text.into(),
        Some(Any::BoolValue(flag)) => flag.into(),
        Some(Any::IntValue(number)) => number.into(),
        Some(Any::DoubleValue(number)) => number.into(),
        Some(Any::ArrayValue(list)) => {
            list.values.into_iter().map(|item| convert_value(Some(item))).collect()
        }
        Some(Any::KvlistValue(list)) => Value::Object(convert_attributes(list.values)),
        _ => Value::Null,
    }
}
