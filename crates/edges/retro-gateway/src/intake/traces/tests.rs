use std::io::Write as _;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use serde_json::Value;
use tower::ServiceExt;

use super::super::ingest_routes;
use super::*;
use crate::testing::{FakeBroker, build_ingest};

/// Returns the span of a tool in a trace; 0 as the parent is none.
fn span(trace: u8, id: u8, parent: u8, attributes: &[(&str, &str)]) -> Span {
    let attribute = |(key, text): &(&str, &str)| {
        let value = Some(AnyValue { value: Some(any_value::Value::StringValue((*text).to_owned())) });
        KeyValue { key: (*key).to_owned(), value, ..KeyValue::default() }
    };
    Span {
        trace_id: vec![trace; 16],
        span_id: vec![id; 8],
        parent_span_id: if parent == 0 { Vec::new() } else { vec![parent; 8] },
        start_time_unix_nano: 1_764_374_400_000_000_000 + u64::from(id),
        end_time_unix_nano: 1_764_374_401_000_000_000,
        attributes: attributes.iter().map(attribute).collect(),
        ..Span::default()
    }
}

fn tool(trace: u8, id: u8, parent: u8) -> Span {
    span(trace, id, parent, &[("gen_ai.tool.name", "ls"), ("gen_ai.tool.call.result", "README")])
}

fn encode(spans: Vec<Span>) -> Vec<u8> {
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

struct Answer {
    status: u16,
    kind: String,
    body: Bytes,
}

async fn post(service: &IngestService, kind: &str, encoding: Option<&str>, body: Vec<u8>) -> Answer {
    let mut request = Request::post("/v1/traces").header("Retro-Tenant", "acme").header("Content-Type", kind);
    if let Some(encoding) = encoding {
        request = request.header("Content-Encoding", encoding);
    }
    let app = retro_http::finish_router(ingest_routes().with_state(service.clone()));
    let response = app
        .oneshot(request.body(Body::from(body)).expect("the route answers in its own encoding"))
        .await
        .expect("an answer of OTLP");
    Answer {
        status: response.status().as_u16(),
        kind: response.headers()[header::CONTENT_TYPE]
            .to_str()
            .expect("the route answers in its own encoding")
            .to_owned(),
        body: to_bytes(response.into_body(), 1 << 20).await.expect("the route answers in its own encoding"),
    }
}

/// Posts spans as protobuf, and returns how many were rejected and why.
async fn post_spans(service: &IngestService, spans: Vec<Span>) -> (i64, String) {
    let answer = post(service, PROTOBUF_MEDIA_TYPE, None, encode(spans)).await;
    assert_eq!((answer.status, answer.kind.as_str()), (200, PROTOBUF_MEDIA_TYPE));
    let partial = ExportTraceServiceResponse::decode(answer.body)
        .expect("the route answers in its own encoding")
        .partial_success;
    partial.map(|partial| (partial.rejected_spans, partial.error_message)).unwrap_or_default()
}

fn published_runs(broker: &FakeBroker) -> Vec<String> {
    let events = broker.events.lock().expect("the route answers in its own encoding");
    let run_id = |payload: &Bytes| {
        let event: Value = serde_json::from_slice(payload).expect("the route answers in its own encoding");
        event["data"]["run_id"].as_str().expect("the route answers in its own encoding").to_owned()
    };
    events.iter().map(|event| run_id(&event.payload)).collect()
}

fn id(trace: u8) -> String {
    format!("{trace:02x}").repeat(16)
}

#[tokio::test]
async fn whole_traces_become_runs_and_others_are_rejected_or_ignored() {
    let broker = Arc::<FakeBroker>::default();
    let service = build_ingest(&broker).0;
    let web = span(3, 1, 9, &[("http.request.method", "GET")]);
    let spans = vec![tool(1, 1, 0), tool(1, 2, 1), tool(2, 2, 1), tool(2, 3, 1), web];
    let (rejected, reason) = post_spans(&service, spans).await;
    assert_eq!(rejected, 2, "{reason}");
    assert!(
        reason.contains(&id(2)) && reason.contains("groupbytrace") && !reason.contains(&id(3)),
        "{reason}"
    );
    assert_eq!(published_runs(&broker), [id(1)]);
}

#[tokio::test]
async fn the_last_part_of_a_trace_is_no_whole_trace() {
    let broker = Arc::<FakeBroker>::default();
    let service = build_ingest(&broker).0;
    assert_eq!(post_spans(&service, vec![tool(1, 2, 1)]).await.0, 1);
    assert_eq!(post_spans(&service, vec![tool(1, 1, 0), tool(1, 3, 1)]).await.0, 2);
    let mut running = tool(2, 1, 0);
    running.end_time_unix_nano = 0;
    assert_eq!(post_spans(&service, vec![running]).await.0, 1, "its root has not ended");
    assert_eq!(published_runs(&broker), Vec::<String>::new());
}

#[tokio::test]
async fn json_and_gzip_are_read_and_an_empty_request_is_none() {
    let broker = Arc::<FakeBroker>::default();
    let service = build_ingest(&broker).0;
    let traces = |parent: &str| {
        let attributes = json!([{"key": "gen_ai.tool.name", "value": {"stringValue": "ls"}}]);
        let span = json!({
            "traceId": id(4), "spanId": "0000000000000001", "parentSpanId": parent, "name": "ls",
            "startTimeUnixNano": "1764374400000000000", "endTimeUnixNano": "1764374401000000000",
            "attributes": attributes,
        });
        json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).to_string().into_bytes()
    };
    let whole = post(&service, "application/json", None, traces("")).await;
    assert_eq!((whole.status, &whole.body[..]), (200, &b"{}"[..]));
    let part = post(&service, "application/json", None, traces("00000000000000aa")).await;
    let part: Value = serde_json::from_slice(&part.body).unwrap();
    assert_eq!(part["partialSuccess"]["rejectedSpans"], "1");

    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&encode(vec![tool(5, 1, 0)])).unwrap();
    let packed = post(&service, PROTOBUF_MEDIA_TYPE, Some("gzip"), gzip.finish().unwrap()).await;
    assert_eq!((packed.status, packed.body.len()), (200, 0));
    assert_eq!(post(&service, PROTOBUF_MEDIA_TYPE, None, Vec::new()).await.status, 200);
    assert_eq!(published_runs(&broker), [id(4), id(5)]);
}

#[tokio::test]
async fn a_request_that_is_none_is_refused() {
    let broker = Arc::<FakeBroker>::default();
    let service = build_ingest(&broker).0;
    for (kind, body, status) in [
        (PROTOBUF_MEDIA_TYPE, b"{}".to_vec(), 400),
        ("application/json", b"[".to_vec(), 400),
        ("application/json", br#"{"resourceSpans": 7}"#.to_vec(), 422),
        ("text/plain", b"{}".to_vec(), 415),
    ] {
        let answer = post(&service, kind, None, body).await;
        assert_eq!((answer.status, answer.kind.as_str()), (status, "application/problem+json"), "{kind}");
    }
    let broken = FakeBroker {
        trouble: Some(retro_events::IntakeError::Unavailable("away".into())),
        ..FakeBroker::default()
    };
    let service = build_ingest(&Arc::new(broken)).0;
    let answer = post(&service, PROTOBUF_MEDIA_TYPE, None, encode(vec![tool(1, 1, 0)])).await;
    assert_eq!(answer.status, 503, "an exporter sends it again");
}
