use std::sync::{Arc, Mutex, mpsc};

use axum::body::{Body, to_bytes};
use axum::http::Request;
use jiff::Timestamp;
use retro_core::id::Tenant;
use retro_core::time::Clock;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::super::ingest_routes;
use super::*;
use crate::testing::{BOUNDS, FakeBroker, build_ingest, build_ingest_with_clock};

const SINGLE: &str = "application/cloudevents+json";

fn event(run: &str) -> Value {
    let data =
        json!({"workflow": "shop", "run_id": run, "outcome": "success", "from_the_future": {"a": null}});
    let kind = "dev.retrospect.run.completed.v1";
    json!({"specversion": "1.0", "id": run, "source": "/engine", "type": kind, "myext": "kept", "data": data})
}

/// Returns an event with a trajectory of about `bytes` bytes.
fn with_body(run: &str, bytes: usize) -> Value {
    let mut event = event(run);
    let step = json!({"step_id": 1, "source": "user", "message": "x".repeat(bytes)});
    event["data"]["trajectory"] = json!({
        "schema_version": "ATIF-v1.6", "session_id": run, "steps": [step],
        "agent": {"name": "a", "version": "1", "model_name": "m"},
    });
    event
}

struct Answer {
    status: u16,
    retry_after: Option<String>,
    body: Value,
}

async fn send(broker: &Arc<FakeBroker>, request: Request<Body>) -> Answer {
    let response = retro_http::finish_router(ingest_routes().with_state(build_ingest(broker).0))
        .oneshot(request)
        .await
        .unwrap();
    let status = response.status().as_u16();
    let retry_after = response.headers().get("Retry-After").map(|value| value.to_str().unwrap().to_owned());
    let kind = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
    assert_eq!(kind == "application/problem+json", status >= 400, "{status} {kind}");
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    Answer { status, retry_after, body: serde_json::from_slice(&bytes).unwrap() }
}

async fn post_to(broker: &Arc<FakeBroker>, kind: &str, body: impl Into<Body>) -> Answer {
    let request = Request::post("/v1/events").header("Retro-Tenant", "acme").header("Content-Type", kind);
    send(broker, request.body(body.into()).unwrap()).await
}

/// Clock whose first reading waits until another task sends the time.
#[derive(Debug)]
struct AwaitedClock(Mutex<mpsc::Receiver<Timestamp>>);

impl Clock for AwaitedClock {
    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().recv().unwrap()
    }
}

#[test]
fn other_tasks_run_while_an_event_is_validated() {
    // One worker: a validation that kept it would wait for the sender forever.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for kind in [SINGLE, BATCH_MEDIA_TYPE] {
        let (sender, receiver) = mpsc::channel();
        let broker = Arc::new(FakeBroker::default());
        let service = build_ingest_with_clock(&broker, Arc::new(AwaitedClock(Mutex::new(receiver)))).0;
        let body = if kind == SINGLE { event("r-1") } else { json!([event("r-1")]) };
        let request = Request::post("/v1/events").header("Retro-Tenant", "acme").header("Content-Type", kind);
        let request = request.body(Body::from(body.to_string())).unwrap();
        let router = retro_http::finish_router(ingest_routes().with_state(service));
        let answered = runtime.spawn(router.oneshot(request));
        runtime.spawn(async move { sender.send("2026-11-20T10:00:00Z".parse().unwrap()).unwrap() });
        assert_eq!(runtime.block_on(answered).unwrap().unwrap().status(), 202, "{kind}");
    }
}

fn published(broker: &FakeBroker) -> Vec<Value> {
    let events = broker.events.lock().unwrap();
    assert!(events.iter().all(|event| event.key.to_string() == "acme/shop"));
    events.iter().map(|event| serde_json::from_slice(&event.payload).unwrap()).collect()
}

#[tokio::test]
async fn an_event_is_published_unchanged_for_the_caller_s_tenant() {
    let broker = Arc::<FakeBroker>::default();
    let answer = post_to(&broker, SINGLE, event("1").to_string()).await;
    assert_eq!((answer.status, answer.body), (202, json!({"accepted": 1, "refused": []})));
    let published = published(&broker).remove(0);
    assert_eq!((&published["myext"], &published["data"]), (&json!("kept"), &event("1")["data"]));
}

#[tokio::test]
async fn binary_mode_gives_the_same_event() {
    let broker = Arc::<FakeBroker>::default();
    let event = event("grün");
    let mut request = Request::post("/v1/events")
        .header("Retro-Tenant", "acme")
        .header("Content-Type", "application/json; charset=utf-8")
        .header("ce-id", "gr%C3%BCn");
    for name in ["specversion", "source", "type", "myext"] {
        request = request.header(format!("ce-{name}"), event[name].as_str().unwrap());
    }
    let answer = send(&broker, request.body(event["data"].to_string().into()).unwrap()).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let mut published = published(&broker).remove(0);
    published.as_object_mut().unwrap().remove("datacontenttype");
    assert_eq!(published, event);
}

#[tokio::test]
async fn invalid_events_of_a_batch_are_listed_and_the_others_accepted() {
    let broker = Arc::<FakeBroker>::default();
    let mut foreign = event("3");
    foreign["tenant"] = json!("other");
    let mut nameless = event("4");
    nameless["data"]["run_id"] = json!(7);
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let batch = format!("[{}, 7, {}, {foreign}, {nameless}, {deep}]", event("1"), event("2"));
    let answer = post_to(&broker, BATCH_MEDIA_TYPE, batch).await;
    assert_eq!((answer.status, &answer.body["accepted"]), (207, &json!(2)), "{}", answer.body);
    let refused: Vec<_> = answer.body["refused"].as_array().unwrap().iter().map(short).collect();
    let wanted = [
        (1, "not_cloud_event", "[1].specversion"),
        (3, "tenant_mismatch", "[3].tenant"),
        (4, "field_invalid", "[4].data.run_id"),
        (5, "too_deep", "[5]"),
    ];
    assert_eq!(refused, wanted);
    let ids: Vec<_> = published(&broker).iter().map(|event| event["id"].clone()).collect();
    assert_eq!(ids, [json!("1"), json!("2")]);
}

fn short(refused: &Value) -> (u64, &str, &str) {
    let text = |name: &str| refused[name].as_str().unwrap();
    (refused["index"].as_u64().unwrap(), text("code"), text("path"))
}

#[tokio::test]
async fn a_batch_of_invalid_events_is_a_problem_and_an_empty_one_is_not() {
    let broker = Arc::<FakeBroker>::default();
    let answer = post_to(&broker, BATCH_MEDIA_TYPE, "[7, {}]").await;
    assert_eq!((answer.status, &answer.body["path"]), (422, &json!("[0].specversion")), "{}", answer.body);
    assert_eq!(answer.body["refused"].as_array().unwrap().len(), 2);
    let answer = post_to(&broker, BATCH_MEDIA_TYPE, "[]").await;
    assert_eq!((answer.status, &answer.body["accepted"]), (202, &json!(0)));
    assert!(published(&broker).is_empty());
}

#[tokio::test]
async fn an_invalid_event_is_a_problem_with_the_code_and_path_of_its_dead_letter() {
    let with = |path: &str, value: Value| {
        let mut event = event("1");
        *event.pointer_mut(path).unwrap() = value;
        event.to_string().into_bytes()
    };
    let many = format!("[{}]", vec!["{}"; 1001].join(","));
    let large = format!("{{\"{}\": 1}}", "x".repeat(EVENT_BYTES_MAX));
    let bulky = with("/data/from_the_future", json!("x".repeat(1 << 20)));
    let cases = [
        (SINGLE, b"{".to_vec(), 400, "not_json", None),
        (SINGLE, b"\"\xff\"".to_vec(), 400, "not_utf8", None),
        (SINGLE, b"{}".to_vec(), 400, "not_cloud_event", Some("specversion")),
        (SINGLE, "[".repeat(10_000).into_bytes(), 400, "too_deep", None),
        (SINGLE, with("/specversion", json!("2.0")), 400, "spec_version_unknown", Some("specversion")),
        (SINGLE, with("/type", json!("dev.retrospect.run.completed.v9")), 422, "type_unknown", Some("type")),
        (SINGLE, with("/data/run_id", json!("")), 422, "field_invalid", Some("data.run_id")),
        (SINGLE, bulky, 413, "oversized", None),
        (BATCH_MEDIA_TYPE, event("1").to_string().into_bytes(), 400, "not_cloud_event", None),
        (BATCH_MEDIA_TYPE, b"[{".to_vec(), 400, "not_json", None),
        (BATCH_MEDIA_TYPE, many.into_bytes(), 413, "oversized", None),
    ];
    for (kind, body, status, code, path) in cases {
        let start = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
        let answer = post_to(&Arc::default(), kind, body).await;
        assert_eq!((answer.status, &answer.body["code"]), (status, &json!(code)), "{start}: {}", answer.body);
        assert_eq!(answer.body.get("path"), path.map(|path| json!(path)).as_ref(), "{start}");
    }
    let answer = post_to(&Arc::default(), SINGLE, large).await;
    assert_eq!(answer.status, 413, "{}", answer.body);
    for (name, value) in [("Content-Type", "text/plain"), ("Content-Encoding", "br")] {
        let request = Request::post("/v1/events").header(name, value).header("Content-Type", SINGLE);
        assert_eq!(
            send(&Arc::default(), request.body(Body::from("{}")).unwrap()).await.status,
            415,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_compressed_body_is_accepted_and_a_truncated_one_is_refused() {
    let single = event("1").to_string();
    for (kind, plain) in [(SINGLE, single.clone()), (BATCH_MEDIA_TYPE, format!("[{single}]"))] {
        let broker = Arc::<FakeBroker>::default();
        let packed = zstd::encode_all(plain.as_bytes(), 3).unwrap();
        for (bytes, status, code) in
            [(&packed[..], 202, Value::Null), (&packed[..packed.len() / 2], 400, json!("encoding_invalid"))]
        {
            let request = Request::post("/v1/events")
                .header("Retro-Tenant", "acme")
                .header("Content-Type", kind)
                .header("Content-Encoding", "zstd");
            let answer = send(&broker, request.body(Body::from(bytes.to_vec())).unwrap()).await;
            assert_eq!((answer.status, &answer.body["code"]), (status, &code), "{kind}: {}", answer.body);
        }
        assert_eq!(published(&broker).len(), 1, "{kind}");
    }
}

#[tokio::test]
async fn a_large_trajectory_is_uploaded_for_the_tenant_and_referenced() {
    let broker = Arc::<FakeBroker>::default();
    let batch = json!([with_body("1", 100 * 1024), with_body("2", 100), with_body("3", 17 << 20)]);
    let answer = post_to(&broker, BATCH_MEDIA_TYPE, batch.to_string()).await;
    assert_eq!(answer.status, 413, "the batch as a whole: {}", answer.body);
    let batch = json!([with_body("1", 100 * 1024), with_body("2", 100)]);
    let answer = post_to(&broker, BATCH_MEDIA_TYPE, batch.to_string()).await;
    assert_eq!(answer.status, 202, "{}", answer.body);
    let bodies = broker.bodies.lock().unwrap();
    let [(tenant, bytes)] = &bodies[..] else { panic!("{} bodies", bodies.len()) };
    assert_eq!(serde_json::from_slice::<Value>(bytes).unwrap(), batch[0]["data"]["trajectory"]);
    let events = published(&broker);
    let reference = &events[0]["data"]["dataref"];
    assert_eq!(reference["sha256"], retro_core::canonical::sha256_hex(bytes));
    assert!(tenant.as_str() == "acme" && reference["name"].as_str().unwrap().starts_with("acme/"));
    assert_eq!(events[0]["data"].get("trajectory"), None);
    assert_eq!(events[1]["data"]["trajectory"], batch[1]["data"]["trajectory"]);
}

#[tokio::test]
async fn a_trajectory_that_is_too_large_is_refused_at_its_path() {
    let event = with_body("1", 16 << 20);
    let answer = post_to(&Arc::default(), SINGLE, event.to_string()).await;
    assert_eq!((answer.status, &answer.body["path"]), (413, &json!("data.trajectory")), "{}", answer.body);
}

#[tokio::test]
async fn a_tenant_over_its_budget_is_refused_and_another_is_not() {
    let broker = Arc::<FakeBroker>::default();
    let (service, budget) = build_ingest(&broker);
    let acme = Tenant::new("acme").unwrap();
    let mut held = budget.open_permit(Some(&acme));
    held.charge(BOUNDS.owner_bytes_max).unwrap();
    let app = retro_http::finish_router(ingest_routes().with_state(service));
    for (tenant, status) in [("acme", 429), ("other", 202)] {
        let request =
            Request::post("/v1/events").header("Retro-Tenant", tenant).header("Content-Type", SINGLE);
        let request = request.body(Body::from(event("1").to_string())).unwrap();
        let response = app.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{tenant}");
        assert_eq!(response.headers().contains_key("Retry-After"), status == 429);
    }
}

#[tokio::test]
async fn failures_of_the_broker_are_answered_with_retry_after() {
    for (trouble, code, again) in [
        (IntakeError::Full("maximum bytes exceeded".to_owned()), "intake_full", "30"),
        (IntakeError::Unavailable("gone".to_owned()), "broker_away", "1"),
        (IntakeError::Unconfirmed("timed out".to_owned()), "outcome_unknown", "1"),
    ] {
        let broker = Arc::new(FakeBroker { trouble: Some(trouble), ..FakeBroker::default() });
        let answer = post_to(&broker, SINGLE, event("1").to_string()).await;
        assert_eq!((answer.status, &answer.body["code"]), (503, &json!(code)));
        assert_eq!(answer.retry_after.as_deref(), Some(again));
    }
    let full = Some(IntakeError::Full("no space".to_owned()));
    let broker = Arc::new(FakeBroker { trouble: full, ..FakeBroker::default() });
    let answer = post_to(&broker, SINGLE, with_body("1", 100 * 1024).to_string()).await;
    assert_eq!((answer.status, answer.retry_after.as_deref()), (503, Some("1")), "{}", answer.body);
}
