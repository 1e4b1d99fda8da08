use std::sync::Arc;

use retro_core::policy::Policy;
use serde_json::{Value, json};

use super::*;
use crate::testing::{FakeStore, Trouble, active_memory};

/// Creates a store in which `default` has `select` and `acme` has `insert`, in the same workflow and step.
fn two_tenants() -> FakeStore {
    let mut store = FakeStore::with_memories(vec![active_memory("select", 300)]);
    store.memories.push((Tenant::new("acme").unwrap(), active_memory("insert", 300)));
    store
}

fn respond_from(store: FakeStore) -> (AgentResponder, Arc<FakeStore>) {
    let store = Arc::new(store);
    (AgentResponder::new(Gateway::new(store.clone(), Arc::new(Policy::default()))), store)
}

async fn ask_raw(
    responder: &AgentResponder,
    operation: AgentOperation,
    subject: &str,
    payload: &[u8],
) -> AgentReply {
    let payload = payload.to_vec().into();
    let request = AgentRequest { operation, subject: subject.to_owned(), payload };
    match responder.begin_answer(request) {
        BegunAnswer::Ready(reply) => reply,
        BegunAnswer::Pending(reply) => reply.await,
    }
}

async fn ask(
    responder: &AgentResponder,
    operation: AgentOperation,
    tenant: &str,
    request: &Value,
) -> (u16, Value) {
    let subject = operation.subject_of_tenant(&Tenant::new(tenant).unwrap());
    let reply = ask_raw(responder, operation, &subject, request.to_string().as_bytes()).await;
    let answer: Value = serde_json::from_slice(&reply.payload).unwrap();
    let status = reply.refusal.map_or(200, |refusal| refusal.status);
    assert!(status == 200 || answer["status"] == status, "{answer}");
    (status, answer)
}

#[tokio::test]
async fn each_operation_answers_the_tenant_of_its_subject_and_records_what_it_hands_out() {
    let (responder, store) = respond_from(two_tenants());
    for (tenant, own, foreign) in [("default", "select", "insert"), ("acme", "insert", "select")] {
        let (own, foreign) = (active_memory(own, 0).id, active_memory(foreign, 0).id);
        let question =
            json!({"workflow": "shop", "run_id": "run-7", "from_the_future": true, "tenant": "other"});
        let (status, answer) = ask(&responder, AgentOperation::Context, tenant, &question).await;
        assert_eq!((status, &answer["recorded"]), (200, &json!("recorded")), "{answer}");
        assert_eq!(
            (&answer["memories"][0]["id"], answer["memories"].as_array().unwrap().len()),
            (&json!(own), 1)
        );

        let read = |id| json!({"memory": id, "run": "run-7"});
        let (_, answer) = ask(&responder, AgentOperation::ReadMemory, tenant, &read(own)).await;
        assert_eq!(
            (&answer["memory"]["id"], &answer["recorded"]),
            (&json!(own), &json!("recorded")),
            "{answer}"
        );
        let (status, answer) = ask(&responder, AgentOperation::ReadMemory, tenant, &read(foreign)).await;
        assert_eq!((status, &answer["title"]), (404, &json!("there is no such thing")), "{answer}");

        let search = json!({"query": "select insert", "workflow": "shop", "run": "run-7"});
        let (_, answer) = ask(&responder, AgentOperation::SearchMemories, tenant, &search).await;
        assert!(!answer.to_string().contains(&foreign.to_string()), "{answer}");

        let feedback = json!({"memory": own, "verdict": "helped", "run": "run-7", "workflow": "shop"});
        let (_, answer) = ask(&responder, AgentOperation::GiveFeedback, tenant, &feedback).await;
        assert_eq!(answer["recorded"], "recorded", "{answer}");
    }
    let records = store.records.lock().unwrap();
    assert!(
        records.iter().any(|(key, _, what, _)| key == "acme/shop" && *what == "presented"),
        "{records:?}"
    );
}

#[tokio::test]
async fn what_cannot_be_answered_is_refused_as_over_http() {
    let (responder, _) = respond_from(two_tenants());
    let context = AgentOperation::Context;
    let large = format!(r#"{{"workflow": "{}"}}"#, "x".repeat(BODY_BYTES_MAX));
    for (payload, status, words) in [
        ("", 400, "the body cannot be read: EOF"),
        ("{", 400, "the body cannot be read: EOF"),
        (r#"{"workflow": "shop"} more"#, 400, "after the JSON value"),
        (r#"{"workflow": 5}"#, 400, r#""path":"workflow""#),
        ("{}", 400, "missing field `workflow`"),
        (&large, 413, "the body is larger than 65536 bytes"),
    ] {
        let reply = ask_raw(&responder, context, "retro.agents.context.default", payload.as_bytes()).await;
        let refusal = reply.refusal.expect(words);
        assert_eq!(refusal.status, status, "{payload:.40}");
        let problem = String::from_utf8(reply.payload.to_vec()).unwrap();
        assert!(problem.contains(words), "{payload:.40}: {problem}");
        assert!(refusal.reason.len() > 20 && problem.contains("detail"), "{refusal:?}");
    }
    let reply = ask_raw(&responder, context, "retro.agents.context.=61", br#"{"workflow": "shop"}"#).await;
    let problem = String::from_utf8(reply.payload.to_vec()).unwrap();
    assert!(problem.contains("subject.tenant") && reply.refusal.unwrap().status == 400, "{problem}");

    let (status, problem) = ask(
        &responder,
        AgentOperation::SearchMemories,
        "default",
        &json!({"query": "a", "repo": "a/b", "k": 21}),
    )
    .await;
    assert_eq!((status, &problem["path"]), (400, &json!("k")), "{problem}");
    let memory = active_memory("select", 0).id;
    let person = json!({"memory": memory, "verdict": "wrong", "by": "ada"});
    let (status, problem) = ask(&responder, AgentOperation::GiveFeedback, "default", &person).await;
    assert_eq!((status, &problem["code"]), (403, &json!("insufficient_scope")), "{problem}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_database_answers_with_nothing_and_the_reason() {
    let (responder, _) = respond_from(FakeStore { trouble: Trouble::Hangs, ..two_tenants() });
    let question = json!({"workflow": "shop", "run_id": "run-7"});
    let (status, answer) = ask(&responder, AgentOperation::Context, "default", &question).await;
    let reason = answer["reason"].as_str().unwrap();
    assert!(status == 200 && reason.contains("did not answer within 200 ms"), "{answer}");
}

#[tokio::test]
async fn a_tenant_with_too_many_requests_is_answered_at_once_and_others_as_before() {
    let (responder, store) = respond_from(two_tenants());
    let responder = AgentResponder { in_progress: TenantLimiter::new(2, 1), ..responder };
    let subject = AgentOperation::Context.subject_of_tenant(&Tenant::default_tenant());
    let payload = br#"{"workflow": "shop", "run_id": "run-7"}"#;
    let request =
        AgentRequest { operation: AgentOperation::Context, subject, payload: payload.to_vec().into() };
    let BegunAnswer::Pending(first) = responder.begin_answer(request) else {
        panic!("nothing is in progress")
    };

    let memory = active_memory("select", 0).id;
    for (operation, request, recorded) in [
        (AgentOperation::Context, json!({"workflow": "shop", "run_id": "run-8"}), "nothing"),
        (AgentOperation::ReadMemory, json!({"memory": memory}), "preview"),
        (
            AgentOperation::SearchMemories,
            json!({"query": "a", "workflow": "shop", "run": "run-8"}),
            "nothing",
        ),
        (
            AgentOperation::GiveFeedback,
            json!({"memory": memory, "verdict": "helped", "run": "run-8", "workflow": "shop"}),
            "unknown",
        ),
    ] {
        let (status, answer) = ask(&responder, operation, "default", &request).await;
        assert_eq!((status, &answer["recorded"]), (200, &json!(recorded)), "{answer}");
        assert!(answer["reason"].as_str().unwrap().contains("too many requests"), "{answer}");
    }
    let question = json!({"workflow": "shop", "run_id": "run-8"});
    let (_, answer) = ask(&responder, AgentOperation::Context, "acme", &question).await;
    assert_eq!(answer["memories"].as_array().unwrap().len(), 1, "another tenant: {answer}");

    assert!(first.await.refusal.is_none());
    let (_, answer) = ask(&responder, AgentOperation::Context, "default", &question).await;
    assert_eq!(answer["memories"].as_array().unwrap().len(), 1, "the permit was released: {answer}");
    assert!(store.feedback.lock().unwrap().is_empty());
}
