use async_trait::async_trait;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use retro_core::id::{ChangeId, MemoryId, NAME_BYTES_MAX, Tenant, WorkflowKey};
use retro_core::learn::{LessonWording, MemoryDecision, MemoryDecisionError, TextLengthError};
use retro_core::memory::{FoldError, MemoryScope};
use retro_store::{CommitResult, StoreError, UnresolvedRef};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::world::{World, rich_world, workflow_key};

/// Answers like the writer: it finds the memories of a world, and refuses to release one that is not held.
struct Writer {
    world: World,
}

impl Writer {
    fn decide(&self, tenant: &Tenant, name: MemoryRef, kind: &'static str) -> MemoryCommandOutcome {
        let ours = self.world.memories.iter().filter(|(owner, _)| owner == tenant);
        let found = ours.map(|(_, memory)| memory).find(|memory| name.matches_id(memory.id));
        let memory = found.ok_or(UnresolvedRef::Missing(name))?;
        if kind == "released" && memory.quarantine.is_none() {
            let change = ChangeId(retro_core::id::derive_uuid("a change", &[]));
            let problem = "it is not held".to_owned();
            return Err(FoldError { change, kind, memory: memory.id, problem }.into());
        }
        Ok((memory.id, CommitResult::Done))
    }
}

#[async_trait]
impl MemoryCommands for Writer {
    async fn release_memory(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
        command: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError> {
        let repeated = |(id, _)| (id, CommitResult::AlreadyDone);
        let outcome = self.decide(tenant, name, "released");
        Ok(if command.request == "again" { outcome.map(repeated) } else { outcome })
    }

    async fn retire_memory(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
        _: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError> {
        Ok(self.decide(tenant, name, "deleted"))
    }

    async fn decide_memory(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
        decision: &MemoryDecision,
        _: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError> {
        let outcome = self.decide(tenant, name, "decided");
        Ok(match decision {
            MemoryDecision::Unpin => outcome.and(Err(MemoryDecisionError::SameWords.into())),
            MemoryDecision::Revise(LessonWording { title: None, .. }) => outcome
                .and(Err(MemoryDecisionError::TextLength(TextLengthError { what: "title", max: 9 }).into())),
            _ => outcome,
        })
    }

    async fn add_memory(
        &self,
        key: &WorkflowKey,
        scope: &MemoryScope,
        wording: &LessonWording,
        command: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError> {
        let id = MemoryId::of_request(key, &command.request);
        assert_eq!((scope.step().unwrap().as_str(), wording.title.is_some()), ("main", true));
        Ok(Ok((id, CommitResult::Done)))
    }
}

/// Returns a world of `default` in which the memory about syntax is held.
fn world_with_held_memory() -> (World, MemoryId) {
    let mut world = rich_world();
    let id = world.memory_about("syntax");
    let (_, memory) = world.memories.iter_mut().find(|(_, memory)| memory.id == id).unwrap();
    memory.quarantine = Some("a person decides".to_owned());
    (world, id)
}

async fn post(tenant: &str, path: &str, key: Option<&str>, body: &Value) -> (u16, Value) {
    let (world, _) = world_with_held_memory();
    let app = retro_http::finish_router(router(Arc::new(Writer { world })));
    let mut request =
        Request::post(path).header("Retro-Tenant", tenant).header("Content-Type", "application/json");
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    let response = app.oneshot(request.body(Body::from(body.to_string())).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn a_held_memory_is_released_and_any_memory_is_retired() {
    let (world, id) = world_with_held_memory();
    let reason = json!({"reason": "the address is ours", "by": "ann"});
    for name in [id.to_string(), id.short_id()] {
        for verb in ["release", "retire"] {
            let (status, answer) =
                post("default", &format!("/v1/memories/{name}/{verb}"), None, &reason).await;
            assert_eq!((status, &answer["memory"]), (200, &json!(id)), "{verb} {name}: {answer}");
            assert_eq!(answer["status"], "done");
            assert!(answer["request"].as_str().unwrap().starts_with("derived-"), "{answer}");
        }
    }
    let free = world.memory_about("lock");
    let (status, answer) = post("default", &format!("/v1/memories/{free}/release"), None, &reason).await;
    assert_eq!((status, &answer["detail"]), (409, &json!("the memory cannot be released: it is not held")));
    assert_eq!(post("default", &format!("/v1/memories/{free}/retire"), None, &reason).await.0, 200);
}

#[tokio::test]
async fn a_memory_is_added_edited_switched_and_restored() {
    let (_, id) = world_with_held_memory();
    let reason = json!({"reason": "the address is ours", "by": "ann"});
    for verb in ["disable", "enable", "pin", "restore"] {
        let (status, answer) = post("default", &format!("/v1/memories/{id}/{verb}"), None, &reason).await;
        assert_eq!((status, &answer["memory"]), (200, &json!(id)), "{verb}: {answer}");
    }
    let (status, answer) = post("default", &format!("/v1/memories/{id}/unpin"), None, &reason).await;
    assert_eq!(
        (status, &answer["detail"]),
        (409, &json!("the memory cannot be unpinned: it says so already"))
    );
    let edit = format!("/v1/memories/{id}/edit");
    let words = |title: &str| json!({"title": title, "reason": "plainer", "by": "ann"});
    let (status, one) = post("default", &edit, None, &words("one")).await;
    let (_, other) = post("default", &edit, None, &words("other")).await;
    assert_eq!(status, 200, "{one}");
    assert_ne!(one["request"], other["request"], "other words are another request");
    let (status, answer) = post("default", &edit, None, &reason).await;
    assert_eq!((status, &answer["path"]), (400, &json!("title")), "{answer}");
    let written = json!({"workflow": "release", "title": "Ask first.", "reason": "policy"});
    let (status, one) = post("default", "/v1/memories", None, &written).await;
    assert_eq!((status, &one["status"]), (200, &json!("done")), "{one}");
    let (_, again) = post("default", "/v1/memories", None, &written).await;
    assert_eq!(one, again, "the same request adds the same memory");
    assert_eq!(post("default", "/v1/memories", None, &json!({"title": "Ask first."})).await.0, 400);
}

#[tokio::test]
async fn a_repeated_request_succeeds_and_says_so() {
    let (_, id) = world_with_held_memory();
    let path = format!("/v1/memories/{id}/release");
    let reason = json!({"reason": "the address is ours"});
    let (status, answer) = post("default", &path, Some("again"), &reason).await;
    assert_eq!(
        (status, &answer["status"], &answer["request"]),
        (200, &json!("already_done"), &json!("again"))
    );
    let named = json!({"reason": "the address is ours", "request": "again"});
    let (_, answer) = post("default", &path, Some("another"), &named).await;
    assert_eq!(answer["request"], "again", "the body takes precedence");
    let (_, once) = post("default", &path, None, &reason).await;
    for spelling in [id.to_string(), id.short_id(), id.to_string()[..13].to_uppercase()] {
        let path = format!("/v1/memories/{spelling}/release");
        let (_, again) = post("default", &path, None, &reason).await;
        assert_eq!(once["request"], again["request"], "equal requests derive the same id: {spelling}");
    }
}

#[tokio::test]
async fn another_tenant_s_memory_answers_exactly_like_a_missing_one() {
    let (_, id) = world_with_held_memory();
    let missing = retro_core::id::derive_uuid("missing", &[]).to_string();
    let reason = json!({"reason": "the address is ours", "title": "of an edit"});
    let acme = workflow_key("acme", "shop").tenant;
    for verb in ["release", "retire", "edit", "pin", "disable", "enable", "restore"] {
        let path = |id: &str| format!("/v1/memories/{id}/{verb}");
        assert_eq!(post("default", &path(&id.to_string()), None, &reason).await.0, 200, "positive control");
        for name in [id.to_string(), id.short_id()] {
            let (status, foreign) = post(acme.as_str(), &path(&name), None, &reason).await;
            let (_, none) = post(acme.as_str(), &path(&missing), None, &reason).await;
            let hide = |answer: &Value, id: &str| answer.to_string().replace(id, "ID");
            assert_eq!((status, hide(&foreign, &name)), (404, hide(&none, &missing)), "{verb} {name}");
        }
    }
}

#[tokio::test]
async fn a_command_without_a_reason_or_with_a_bad_field_is_refused() {
    let (_, id) = world_with_held_memory();
    let path = format!("/v1/memories/{id}/retire");
    for (body, field) in [
        (json!({"reason": " "}), "reason"),
        (json!({"reason": "r".repeat(1001)}), "reason"),
        (json!({"reason": "wrong", "by": ""}), "by"),
        (json!({"reason": "wrong", "request": ""}), "request"),
        (json!({"reason": "wrong", "request": "r".repeat(NAME_BYTES_MAX + 1)}), "request"),
    ] {
        let (status, answer) = post("default", &path, None, &body).await;
        assert_eq!((status, &answer["path"]), (400, &json!(field)), "{body}: {answer}");
    }
    assert_eq!(post("default", &path, None, &json!({"by": "ann"})).await.0, 400, "no reason");
    assert_eq!(post("default", &path, None, &json!({"reason": "wrong"})).await.0, 200, "positive control");
}
