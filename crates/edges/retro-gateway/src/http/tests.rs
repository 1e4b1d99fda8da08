use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use retro_core::id::Tenant;
use retro_core::policy::Policy;
use retro_http::{Probes, Readiness};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::testing::{FakeStore, Trouble, active_memory, build_ingest, memory_alike};

/// Creates a store in which `default` has `select` and `acme` has `insert`, in the same workflow and step.
fn two_tenants() -> Arc<FakeStore> {
    let mut shelf = FakeStore::with_memories(vec![active_memory("select", 300)]);
    shelf.memories.push((Tenant::new("acme").unwrap(), active_memory("insert", 300)));
    Arc::new(shelf)
}

fn app(shelf: Arc<FakeStore>, readiness: Readiness) -> Router {
    let gateway = Gateway::new(shelf, Arc::new(Policy::default()));
    let (ingest, _) = build_ingest(&Arc::default());
    let metrics = Arc::new(|| "retro_build_info 1\n".to_owned());
    let probes = Probes { ready: Arc::new(move || readiness.clone()), metrics };
    retro_http::finish_router(build_router(gateway, ingest, probes))
}

async fn ask(app: Router, request: Request<Body>) -> (u16, String) {
    let response = app.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

async fn get_as(tenant: &str, path: &str) -> (u16, String) {
    let request = Request::get(path).header("Retro-Tenant", tenant).body(Body::empty()).unwrap();
    ask(app(two_tenants(), Readiness::Ready), request).await
}

async fn context_as(tenant: &str, body: &Value) -> (u16, Value) {
    let request = Request::post("/v1/context")
        .header("Retro-Tenant", tenant)
        .header("Content-Type", "application/json")
        .body(Body::from(body.to_string()));
    let (status, text) = ask(app(two_tenants(), Readiness::Ready), request.unwrap()).await;
    (status, serde_json::from_str(&text).unwrap())
}

#[tokio::test]
async fn context_contains_memories_of_the_tenant_only() {
    let question = json!({"workflow": "shop", "run_id": "run-7", "from_the_future": true});
    for (tenant, own) in [("default", "select"), ("acme", "insert")] {
        let (status, answer) = context_as(tenant, &question).await;
        assert_eq!((status, &answer["recorded"]), (200, &json!("recorded")), "{answer}");
        let ids: Vec<_> =
            answer["memories"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
        assert_eq!(ids, [json!(active_memory(own, 0).id)], "{tenant}");
    }
    let (_, stranger) = context_as("stranger", &question).await;
    assert_eq!(stranger["memories"], json!([]));
}

#[tokio::test]
async fn another_tenant_s_memory_answers_exactly_like_a_missing_one() {
    let own = active_memory("select", 0).id;
    let (status, body) = get_as("default", &format!("/v1/memories/{own}?run=run-7")).await;
    assert_eq!(status, 200, "positive control: {body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((&body["memory"]["id"], &body["recorded"]), (&json!(own), &json!("recorded")));

    let foreign = get_as("acme", &format!("/v1/memories/{own}?run=run-7")).await;
    let nobody_s = active_memory("missing", 0).id;
    let missing = get_as("acme", &format!("/v1/memories/{nobody_s}?run=run-7")).await;
    assert_eq!(foreign.0, 404);
    assert_eq!(foreign.1.replace(&own.to_string(), "ID"), missing.1.replace(&nobody_s.to_string(), "ID"));
}

#[tokio::test]
async fn a_short_id_reads_the_memory_and_records_its_full_id() {
    let shelf = two_tenants();
    let id = active_memory("select", 0).id;
    let gateway = Gateway::new(shelf.clone(), Arc::new(Policy::default()));
    let question = serde_json::from_value(json!({"workflow": "shop"})).unwrap();
    let text = gateway.context(&Tenant::default_tenant(), question).await.text;
    let named = text.split(['[', ']']).nth(1).unwrap();
    assert_eq!(named, id.short_id(), "{text}");
    let request = Request::get(format!("/v1/memories/{named}?run=run-7")).body(Body::empty()).unwrap();
    let (status, body) = ask(app(shelf.clone(), Readiness::Ready), request).await;
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &answer["memory"]["id"]), (200, &json!(id)), "{body}");
    let records: Vec<_> = shelf.records.lock().unwrap().iter().map(|(.., what, id)| (*what, *id)).collect();
    assert_eq!(records, [("read", id)]);
}

#[tokio::test]
async fn an_ambiguous_short_id_asks_for_more_digits_in_its_own_tenant_only() {
    let own = active_memory("select", 0).id;
    let twin = memory_alike("twin", own);
    let mut shelf = FakeStore::with_memories(vec![active_memory("select", 300)]);
    shelf.memories.push((Tenant::new("acme").unwrap(), twin.clone()));
    let twins = FakeStore::with_memories(vec![active_memory("select", 300), twin.clone()]);
    let (apart, together) = (Arc::new(shelf), Arc::new(twins));
    let named = |shelf: &Arc<FakeStore>, tenant: &str, name: &str| {
        let request = Request::get(format!("/v1/memories/{name}")).header("Retro-Tenant", tenant);
        ask(app(shelf.clone(), Readiness::Ready), request.body(Body::empty()).unwrap())
    };
    let short = own.short_id();
    for (tenant, id) in [("default", own), ("acme", twin.id)] {
        let (status, body) = named(&apart, tenant, &short).await;
        assert!(status == 200 && body.contains(&id.to_string()), "{tenant}: {body}");
    }
    let (status, body) = named(&apart, "nobody", &short).await;
    assert!(status == 404 && body.contains(&format!("no memory {short} in this tenant")), "{body}");
    let (status, body) = named(&together, "default", &short).await;
    assert!(status == 409 && body.contains("give more digits"), "{body}");
    assert!(!body.contains(&own.to_string()) && body.contains(r#""status":409"#), "{body}");
    for id in [own, twin.id] {
        let (status, body) = named(&together, "default", &id.to_string()[..10]).await;
        assert!(status == 200 && body.contains(&id.to_string()), "{body}");
    }
}

#[tokio::test]
async fn reading_another_tenant_s_memory_records_nothing() {
    let shelf = two_tenants();
    let path = format!("/v1/memories/{}?run=run-7", active_memory("select", 0).id);
    for (tenant, recorded) in [("acme", 0), ("default", 1)] {
        let request = Request::get(&path).header("Retro-Tenant", tenant).body(Body::empty()).unwrap();
        ask(app(shelf.clone(), Readiness::Ready), request).await;
        assert_eq!(shelf.records.lock().unwrap().len(), recorded, "{tenant}");
    }
}

#[tokio::test]
async fn an_invalid_field_is_a_problem_with_its_path() {
    let cases = [
        (json!({"workflow": ""}), "workflow", "workflow is empty"),
        (json!({"workflow": "shop", "run_id": 7}), "run_id", "invalid type"),
        (json!({"workflow": "shop", "step": "a\nb"}), "step", "control character"),
    ];
    for (body, path, expected) in cases {
        let (status, problem) = context_as("default", &body).await;
        assert_eq!((status, &problem["path"]), (400, &json!(path)), "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.contains(expected)), "{problem}");
    }
    let (status, problem) = get_as("default", "/v1/memories/seven").await;
    assert_eq!(status, 400, "{problem}");
    let id = active_memory("select", 0).id;
    let (status, problem) = get_as("default", &format!("/v1/memories/{id}?run=")).await;
    assert!(status == 400 && problem.contains(r#""path":"run""#), "{problem}");
}

#[tokio::test]
async fn metrics_are_the_same_for_every_tenant() {
    for tenant in ["default", "acme"] {
        let (status, text) = get_as(tenant, "/metrics").await;
        assert_eq!((status, text.as_str()), (200, "retro_build_info 1\n"), "{tenant}");
    }
}

#[tokio::test]
async fn readiness_follows_the_ready_check_and_liveness_does_not() {
    let not_ready = Readiness::NotReady("the broker is away".to_owned());
    for (path, readiness, status) in
        [("/livez", not_ready.clone(), 200), ("/readyz", not_ready, 503), ("/readyz", Readiness::Ready, 200)]
    {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let (got, body) = ask(app(two_tenants(), readiness), request).await;
        assert_eq!(got, status, "{path}: {body}");
        assert_eq!(body.contains("the broker is away"), status == 503, "{body}");
    }
}

async fn give_feedback(shelf: &Arc<FakeStore>, tenant: &str, body: &Value) -> (u16, Value) {
    let request = Request::post("/v1/feedback")
        .header("Retro-Tenant", tenant)
        .header("Content-Type", "application/json")
        .body(Body::from(body.to_string()));
    let (status, text) = ask(app(shelf.clone(), Readiness::Ready), request.unwrap()).await;
    (status, serde_json::from_str(&text).unwrap())
}

#[tokio::test]
async fn feedback_is_recorded_once_whatever_words_come_with_it() {
    let shelf = two_tenants();
    let id = active_memory("select", 0).id;
    let said = json!({"memory": id.short_id(), "verdict": "helped", "run": "run-7", "workflow": "shop"});
    let (status, answer) = give_feedback(&shelf, "default", &said).await;
    assert_eq!((status, &answer["recorded"]), (200, &json!("recorded")), "{answer}");
    let mut again = said.clone();
    again["why"] = json!("once more");
    let (status, answer) = give_feedback(&shelf, "default", &again).await;
    assert_eq!((status, &answer["recorded"]), (200, &json!("already_recorded")), "{answer}");
    assert_eq!(shelf.feedback.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn feedback_on_another_tenant_s_memory_answers_exactly_like_on_a_missing_one() {
    let shelf = two_tenants();
    let (own, nobody_s) = (active_memory("select", 0).id, active_memory("missing", 0).id);
    let said = |id: &str| json!({"memory": id, "verdict": "hurt", "by": "ann"});
    let foreign = give_feedback(&shelf, "acme", &said(&own.to_string())).await;
    let missing = give_feedback(&shelf, "acme", &said(&nobody_s.to_string())).await;
    assert_eq!(foreign.0, 404);
    let as_missing = |answer: &Value, id: &str| answer.to_string().replace(id, "ID");
    assert_eq!(as_missing(&foreign.1, &own.to_string()), as_missing(&missing.1, &nobody_s.to_string()));
    assert!(shelf.feedback.lock().unwrap().is_empty());
    assert_eq!(give_feedback(&shelf, "default", &said(&own.to_string())).await.0, 200, "positive control");
}

#[tokio::test]
async fn a_wrong_field_of_feedback_is_named() {
    let shelf = two_tenants();
    let id = active_memory("select", 0).id.to_string();
    for (body, path) in [
        (json!({"memory": "xyz", "verdict": "helped", "by": "ann"}), "memory"),
        (json!({"memory": id, "verdict": "great", "by": "ann"}), "verdict"),
        (json!({"memory": id, "verdict": "helped"}), "by"),
        (json!({"memory": id, "verdict": "helped", "run": "r"}), "workflow"),
        (json!({"memory": id, "verdict": "helped", "by": "ann", "why": "x".repeat(2000)}), "why"),
    ] {
        let (status, answer) = give_feedback(&shelf, "default", &body).await;
        assert_eq!((status, answer["path"].as_str()), (400, Some(path)), "{answer}");
    }
}

#[tokio::test]
async fn an_agent_speaks_of_another_repositorys_memory_only_if_it_was_handed_it() {
    let mut memory = active_memory("select", 300);
    let repo = retro_core::id::Repository::new("acme/shop").unwrap();
    let retro_core::memory::MemoryScope::Step { audience, .. } = &mut memory.scope else { panic!("a step") };
    *audience = retro_core::audience::Audience::Repository(repo);
    let shelf = Arc::new(FakeStore::with_memories(vec![memory.clone()]));
    let said = json!({"memory": memory.id, "verdict": "helped", "run": "run-7", "workflow": "shop"});
    assert_eq!(give_feedback(&shelf, "default", &said).await.0, 404);
    let key = "default/shop".to_owned();
    shelf.records.lock().unwrap().push((key, "run-7".to_owned(), "withheld", memory.id));
    assert_eq!(give_feedback(&shelf, "default", &said).await.0, 404, "it was withheld");
    let key =
        retro_core::id::WorkflowKey { tenant: Tenant::default_tenant(), workflow: "shop".parse().unwrap() };
    shelf.records.lock().unwrap().push((key.to_string(), "run-7".to_owned(), "read", memory.id));
    assert_eq!(give_feedback(&shelf, "default", &said).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn feedback_while_the_database_hangs_is_uncertain_and_no_error() {
    for trouble in [Trouble::Down, Trouble::Hangs, Trouble::OnlyRecordingHangs] {
        let memories = vec![(Tenant::default_tenant(), active_memory("select", 300))];
        let shelf = Arc::new(FakeStore { trouble, memories, ..FakeStore::default() });
        let id = active_memory("select", 0).id;
        let (status, answer) =
            give_feedback(&shelf, "default", &json!({"memory": id, "verdict": "helped", "by": "ann"})).await;
        assert_eq!((status, &answer["recorded"]), (200, &json!("unknown")), "{trouble:?}: {answer}");
    }
}
