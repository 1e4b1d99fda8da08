use axum::body::{Body, to_bytes};
use axum::http::Request;
use retro_core::id::NAME_BYTES_MAX;
use retro_core::learn::RuleChanges;
use retro_core::memory::{Memory, MemoryScope};
use serde_json::Value;
use tower::ServiceExt;

use super::*;
use crate::world::rich_world;

/// Answers like the writer: it adds every rule, except hostile ones and those whose words it knows.
struct Writer;

#[async_trait]
impl RuleCommands for Writer {
    async fn add_rule(
        &self,
        tenant: &Tenant,
        addition: &RuleAddition,
    ) -> Result<RuleAdditionOutcome, StoreError> {
        assert_eq!(addition.by, "ann");
        if tenant.as_str() != "default" && addition.remark.is_some() {
            return Ok(None);
        }
        let title = addition.wording.title.clone();
        let Some(title) = title else { return Ok(Some(Err(RuleAdditionError::NoTitle))) };
        if title.is_empty() {
            return Ok(Some(Err(TextLengthError { what: "title", max: 9 }.into())));
        }
        if title.contains("hostile") {
            return Ok(Some(Err(RuleAdditionError::Refused { why: "the gate refuses its text".to_owned() })));
        }
        let (_, memory) = rich_world().memories.remove(0);
        let repo = addition.repo.to_string();
        let rule = Memory {
            id: MemoryId::of_request(&addition.repo.rule_scope(tenant), &addition.request),
            scope: MemoryScope::Repository { repo, path: addition.path.clone() },
            quarantine: title.contains("danger").then(|| "a person decides".to_owned()),
            ..memory
        };
        Ok(Some(Ok(AddedRule { rule, done: RuleChanges::default() })))
    }
}

async fn post(tenant: &str, path: &str, key: Option<&str>, body: &Value) -> (u16, Value) {
    let app = retro_http::finish_router(router(Arc::new(Writer)));
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

fn rule(title: &str) -> Value {
    json!({"repo": "acme/shop", "title": title, "reason": "policy", "by": "ann"})
}

fn remark(title: Option<&str>) -> Value {
    json!({"remark": "acme/shop#7/line_comment/11", "title": title, "reason": "policy", "by": "ann"})
}

#[tokio::test]
async fn a_rule_is_added_in_words_or_from_a_remark() {
    for (path, body) in [("/v1/rules", rule("Wrap")), ("/v1/rules/promote", remark(Some("Wrap")))] {
        let (status, answer) = post("default", path, None, &body).await;
        assert_eq!((status, &answer["status"]), (200, &json!("already_done")), "{answer}");
        assert!(answer["request"].as_str().unwrap().starts_with("derived-"), "{answer}");
        assert_eq!(answer.get("held"), None);
        let (_, named) = post("default", path, Some("ticket-7"), &body).await;
        assert_eq!(named["request"], "ticket-7");
        let mut first = body.clone();
        first["request"] = json!("ticket-8");
        assert_eq!(post("default", path, Some("ticket-7"), &first).await.1["request"], "ticket-8");
        let mut narrower = body.clone();
        narrower["path"] = json!("src");
        let (_, other) = post("default", path, None, &narrower).await;
        assert_ne!(other["request"], answer["request"], "another path is another request");
    }
    let held = post("default", "/v1/rules", None, &rule("a danger")).await.1;
    assert_eq!(held["held"], "a person decides");
}

#[tokio::test]
async fn refusals_say_why_and_a_foreign_remark_is_a_missing_one() {
    let (status, answer) = post("default", "/v1/rules", None, &rule("hostile")).await;
    assert_eq!(status, 409);
    assert_eq!(answer["detail"], "the rule cannot be added: the gate refuses its text");
    assert_eq!(post("default", "/v1/rules", None, &rule("")).await.0, 400);
    let (status, answer) = post("default", "/v1/rules/promote", None, &remark(None)).await;
    assert!(status == 400 && answer.to_string().contains("name a title"), "{answer}");
    let (status, answer) = post("theirs", "/v1/rules/promote", None, &remark(Some("Wrap"))).await;
    assert!(status == 404 && answer.to_string().contains("acme/shop#7/line_comment/11"), "{answer}");
    for (field, value) in [
        ("reason", json!("")),
        ("request", json!("k".repeat(NAME_BYTES_MAX + 1))),
        ("repo", json!("no name")),
    ] {
        let mut body = rule("Wrap");
        body[field] = value;
        let (status, answer) = post("default", "/v1/rules", None, &body).await;
        assert!((400..=422).contains(&status) && status != 409, "{field}: {status} {answer}");
    }
    let mut unknown = remark(Some("Wrap"));
    unknown["remark"] = json!("acme/shop#7");
    assert!((400..=422).contains(&post("default", "/v1/rules/promote", None, &unknown).await.0));
}
