use std::io::Write as _;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use serde_json::Value;
use tower::ServiceExt;

use super::super::{TraceSettings, ingest_routes};
use super::*;
use retro_adapters::ImportOptions;
use retro_core::id::Tenant;
use retro_core::time::FixedClock;
use retro_core::trace_collection::TraceWaits;
use retro_store::{CollectedTraceStore as _, DeadLetter, DeadLetterFilter, OperatorStore as _};
use retro_store_sql::SqliteStore;
use tempfile::TempDir;

use crate::testing::{FakeBroker, IMPATIENT, PATIENT, build_ingest, build_ingest_with_traces};

/// An ingest service with a database of its own.
struct Collecting {
    service: IngestService,
    store: Arc<SqliteStore>,
    _folder: TempDir,
}

impl Collecting {
    async fn start(broker: &Arc<FakeBroker>, waits: TraceWaits) -> Self {
        Self::start_with_space(broker, waits, 1 << 20).await
    }

    async fn start_with_space(broker: &Arc<FakeBroker>, waits: TraceWaits, tenant_bytes_max: u64) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let store = SqliteStore::open_and_migrate(&folder.path().join("retro.db")).await.expect("a new file");
        let store = Arc::new(store);
        let clock = FixedClock("2026-11-20T10:00:00Z".parse().expect("a time"));
        let traces = TraceSettings { store: store.clone(), waits, tenant_bytes_max, lease_s: 60 };
        let service = build_ingest_with_traces(broker, Arc::new(clock), traces).0;
        Self { service, store, _folder: folder }
    }

    /// Decides about traces until nothing is due.
    async fn read_traces(&self) {
        while self.service.read_due_traces().await.expect("the database answers") > 0 {}
    }

    async fn list_dead_letters(&self, tenant: &str) -> Vec<DeadLetter> {
        let tenant = Tenant::new(tenant).expect("a name");
        let filter = DeadLetterFilter::default();
        self.store.list_dead_letters(&tenant, &filter).await.expect("the database answers")
    }
}

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
    // A tool in another one with its name would be the same call.
    let name = format!("ls-{id}");
    span(trace, id, parent, &[("gen_ai.tool.name", &name), ("gen_ai.tool.call.result", "README")])
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
    post_as(service, "acme", kind, encoding, body).await
}

async fn post_as(
    service: &IngestService,
    tenant: &str,
    kind: &str,
    encoding: Option<&str>,
    body: Vec<u8>,
) -> Answer {
    let mut request = Request::post("/v1/traces").header("Retro-Tenant", tenant).header("Content-Type", kind);
    if let Some(encoding) = encoding {
        request = request.header("Content-Encoding", encoding);
    }
    let app = retro_http::finish_router(ingest_routes().with_state(service.clone()));
    let response = app
        .oneshot(request.body(Body::from(body)).expect("the route answers in its own encoding"))
        .await
        .expect("an answer of OTLP");
    service.traces.tasks.close();
    service.traces.tasks.wait().await;
    service.traces.tasks.reopen();
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

/// Returns attempt and number of calls of each published run.
fn published_calls(broker: &FakeBroker) -> Vec<(u64, usize)> {
    let events = broker.events.lock().expect("the route answers in its own encoding");
    let count = |event: &retro_events::ValidatedEvent| {
        let event: Value =
            serde_json::from_slice(&event.payload).expect("the route answers in its own encoding");
        let turns = event["data"]["trajectory"]["steps"].as_array().expect("a trajectory").clone();
        let calls = turns.iter().filter_map(|turn| turn["tool_calls"].as_array()).map(Vec::len).sum();
        (event["data"]["attempt"].as_u64().unwrap_or(1), calls)
    };
    events.iter().map(count).collect()
}

fn id(trace: u8) -> String {
    format!("{trace:02x}").repeat(16)
}

#[tokio::test]
async fn whole_traces_become_runs_at_once_and_others_wait_or_are_ignored() {
    let broker = Arc::<FakeBroker>::default();
    let world = Collecting::start(&broker, PATIENT).await;
    let web = span(3, 1, 0, &[("http.request.method", "GET")]);
    let spans = vec![tool(1, 1, 0), tool(1, 2, 1), tool(2, 2, 1), tool(2, 3, 1), web];
    assert_eq!(post_spans(&world.service, spans).await, (0, String::new()));
    assert_eq!(published_runs(&broker), [id(1)]);
    let known =
        world.store.list_collected_traces(&Tenant::new("acme").unwrap(), &[id(1), id(2), id(3)]).await;
    assert_eq!(known.unwrap(), [id(1), id(2)], "a web request is not stored");
    world.read_traces().await;
    assert_eq!(published_runs(&broker), [id(1)]);
    let mut running = tool(4, 1, 0);
    running.end_time_unix_nano = 0;
    assert_eq!(post_spans(&world.service, vec![running]).await.0, 0);
    world.read_traces().await;
    assert_eq!(published_runs(&broker), [id(1)], "its root has not ended");
}

#[tokio::test]
async fn parts_are_put_together_once_in_any_order_and_repeated() {
    let broker = Arc::<FakeBroker>::default();
    let world = Collecting::start(&broker, PATIENT).await;
    for part in [vec![tool(1, 2, 1)], vec![tool(1, 2, 1), tool(1, 4, 3)], vec![tool(1, 3, 1)]] {
        assert_eq!(post_spans(&world.service, part).await, (0, String::new()));
        world.read_traces().await;
        assert_eq!(published_runs(&broker), Vec::<String>::new());
    }
    for _ in 0..2 {
        assert_eq!(post_spans(&world.service, vec![tool(1, 1, 0), tool(1, 5, 1)]).await.0, 0);
        world.read_traces().await;
        assert_eq!(published_runs(&broker), [id(1)]);
    }
    assert_eq!(published_calls(&broker), [(1, 5)]);
}

#[tokio::test]
async fn what_comes_after_a_part_that_looks_whole_makes_a_newer_attempt_of_the_run() {
    let broker = Arc::<FakeBroker>::default();
    let world = Collecting::start(&broker, PATIENT).await;
    assert_eq!(post_spans(&world.service, vec![tool(1, 1, 0), tool(1, 3, 1)]).await.0, 0);
    assert_eq!(post_spans(&world.service, vec![tool(1, 2, 1)]).await.0, 0);
    assert_eq!(published_calls(&broker), [(1, 2)]);
    let later = TraceSettings {
        store: world.store.clone(),
        waits: IMPATIENT,
        tenant_bytes_max: 1 << 20,
        lease_s: 60,
    };
    let clock = FixedClock("2026-11-20T10:00:00Z".parse().unwrap());
    let other = build_ingest_with_traces(&broker, Arc::new(clock), later).0;
    // Nothing is due yet for whom waits; a span makes it due for whom does not.
    assert_eq!(post_spans(&other, vec![tool(1, 4, 1)]).await.0, 0);
    while other.read_due_traces().await.unwrap() > 0 {}
    assert_eq!(published_calls(&broker), [(1, 2), (2, 4)]);
    assert_eq!(published_runs(&broker), [id(1), id(1)], "the counter counts it once");
    let (rejected, reason) = post_spans(&world.service, vec![tool(1, 6, 1)]).await;
    assert!(rejected == 1 && reason.contains("trace_quiet_s") && reason.contains(&id(1)), "{reason}");
}

#[tokio::test]
async fn a_trace_whose_root_does_not_come_is_a_dead_letter_with_its_spans() {
    let broker = Arc::<FakeBroker>::default();
    let world = Collecting::start(&broker, IMPATIENT).await;
    let web = span(2, 1, 9, &[("http.request.method", "GET")]);
    let secret = span(1, 3, 1, &[("gen_ai.tool.name", "ls"), ("password", "swordfish-77")]);
    assert_eq!(post_spans(&world.service, vec![tool(1, 2, 1), secret, web]).await.0, 0);
    world.read_traces().await;
    let dead_letters = world.list_dead_letters("acme").await;
    let [dead_letter] = dead_letters.as_slice() else { panic!("{dead_letters:?}") };
    assert_eq!(dead_letter.message.rejection.code.as_str(), "trace_incomplete");
    let file = retro_store::decompress_document(&dead_letter.message.payload).unwrap();
    assert!(!String::from_utf8(file.clone()).unwrap().contains("swordfish"), "secrets are not stored");
    let runs = retro_adapters::import_file(&file, "spans.json", &ImportOptions::default()).unwrap();
    assert_eq!(runs.len(), 1, "`retro emit` reads the file");
    assert_eq!(world.list_dead_letters("other").await, Vec::new());
    assert_eq!(post_spans(&world.service, vec![tool(1, 1, 0)]).await.0, 1, "its root comes too late");
    assert_eq!(published_runs(&broker), Vec::<String>::new());
}

#[tokio::test]
async fn another_tenants_span_of_the_same_trace_is_another_trace() {
    let broker = Arc::<FakeBroker>::default();
    let world = Collecting::start(&broker, PATIENT).await;
    assert_eq!(post_spans(&world.service, vec![tool(1, 2, 1)]).await.0, 0);
    let other =
        post_as(&world.service, "other", PROTOBUF_MEDIA_TYPE, None, encode(vec![tool(1, 1, 0)])).await;
    assert_eq!(other.status, 200);
    assert_eq!(published_calls(&broker), [(1, 1)], "it looks whole, and it is");
    assert_eq!(post_spans(&world.service, vec![tool(1, 1, 0)]).await.0, 0);
    world.read_traces().await;
    assert_eq!(published_calls(&broker), [(1, 1), (1, 2)]);
}

#[tokio::test]
async fn a_tenant_without_space_is_told_so_and_whole_traces_are_still_accepted() {
    let broker = Arc::<FakeBroker>::default();
    let world = Collecting::start_with_space(&broker, PATIENT, 1000).await;
    assert_eq!(post_spans(&world.service, vec![tool(1, 2, 1)]).await.0, 0);
    let parts = (2..6).map(|span| tool(1, span + 1, 1)).collect();
    let full = post(&world.service, PROTOBUF_MEDIA_TYPE, None, encode(parts)).await;
    assert_eq!(full.status, 429);
    let problem: Value = serde_json::from_slice(&full.body).unwrap();
    assert_eq!(problem["code"], "traces_full", "{problem}");
    let whole = (1..6).map(|span| tool(2, span, span - 1)).collect();
    assert_eq!(post_spans(&world.service, whole).await.0, 0);
    assert_eq!(published_runs(&broker), [id(2)]);
    let other =
        post_as(&world.service, "other", PROTOBUF_MEDIA_TYPE, None, encode(vec![tool(1, 2, 1)])).await;
    assert_eq!(other.status, 200, "another tenant has space of its own");
}

#[tokio::test]
async fn spans_without_valid_ids_are_rejected_one_by_one() {
    let broker = Arc::<FakeBroker>::default();
    let world = Collecting::start(&broker, PATIENT).await;
    let nowhere = span(0, 1, 0, &[("gen_ai.tool.name", "ls")]);
    let (rejected, reason) = post_spans(&world.service, vec![nowhere, tool(1, 1, 0)]).await;
    assert!(rejected == 1 && reason.contains("no valid ids"), "{reason}");
    assert_eq!(published_runs(&broker), [id(1)]);
}

#[tokio::test]
async fn json_and_gzip_are_read_and_an_empty_request_is_none() {
    let broker = Arc::<FakeBroker>::default();
    let world = Collecting::start(&broker, PATIENT).await;
    let service = &world.service;
    let traces = |parent: &str| {
        let attributes = json!([{"key": "gen_ai.tool.name", "value": {"stringValue": "ls"}}]);
        let span = json!({
            "traceId": id(4), "spanId": "0000000000000001", "parentSpanId": parent, "name": "ls",
            "startTimeUnixNano": "1764374400000000000", "endTimeUnixNano": "1764374401000000000",
            "attributes": attributes,
        });
        let zeros = json!({"traceId": "0".repeat(32), "spanId": "0000000000000001"});
        json!({"resourceSpans": [{"scopeSpans": [{"spans": [span, zeros]}]}]}).to_string().into_bytes()
    };
    let part = post(service, "application/json", None, traces("")).await;
    let part: Value = serde_json::from_slice(&part.body).unwrap();
    assert_eq!(part["partialSuccess"]["rejectedSpans"], "1");

    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&encode(vec![tool(5, 1, 0)])).unwrap();
    let packed = post(service, PROTOBUF_MEDIA_TYPE, Some("gzip"), gzip.finish().unwrap()).await;
    assert_eq!((packed.status, packed.body.len()), (200, 0));
    assert_eq!(post(service, PROTOBUF_MEDIA_TYPE, None, Vec::new()).await.status, 200);
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
    let answer = post(&service, PROTOBUF_MEDIA_TYPE, None, encode(vec![tool(1, 1, 0)])).await;
    assert_eq!(answer.status, 503, "without the database nobody knows what is stored of the trace");
}

#[tokio::test]
async fn a_trace_that_the_broker_does_not_accept_is_read_later() {
    let away = FakeBroker {
        trouble: Some(retro_events::IntakeError::Unavailable("away".into())),
        ..FakeBroker::default()
    };
    let world = Collecting::start(&Arc::new(away), PATIENT).await;
    let answer = post(&world.service, PROTOBUF_MEDIA_TYPE, None, encode(vec![tool(1, 1, 0)])).await;
    assert_eq!(answer.status, 503, "an exporter sends it again");
    assert_eq!(post_spans(&world.service, vec![tool(2, 2, 1)]).await.0, 0, "parts need no broker");
    assert_eq!(post_spans(&world.service, vec![tool(2, 1, 0)]).await.0, 0);
    assert_eq!(world.service.read_due_traces().await.unwrap(), 0, "the broker does not accept the run");
    assert_eq!(world.list_dead_letters("acme").await, Vec::new());
}
