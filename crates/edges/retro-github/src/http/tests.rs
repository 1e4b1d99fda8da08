use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::request::Builder;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use tower::ServiceExt as _;

use super::*;
use crate::signature::WebhookSecrets;
use crate::testing::{FakeBroker, SECRETS, read_fixture, test_bridge};

fn signed(secret: &str, body: &[u8]) -> String {
    let keyed: Hmac<Sha256> = Hmac::new_from_slice(secret.as_bytes()).unwrap();
    let bytes = keyed.chain_update(body).finalize().into_bytes();
    format!("sha256={}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Builds a webhook request as GitHub sends it.
fn webhook(event: &str, secret: &str, body: &str) -> Request {
    from_github(event, &signed(secret, body.as_bytes())).body(Body::from(body.to_owned())).unwrap()
}

fn from_github(event: &str, signature: &str) -> Builder {
    Request::post(ROUTE)
        .header("content-type", "application/json")
        .header("x-github-event", event)
        .header("x-github-delivery", "delivery-1")
        .header("x-hub-signature-256", signature)
}

async fn answered(broker: &Arc<FakeBroker>, request: Request) -> (u16, Value) {
    let api = router(test_bridge(broker));
    let response = routes_of(api).oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), 1024 * 1024).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

fn routes_of(api: Api) -> Router {
    retro_http::finish_router(api)
}

fn stored(broker: &FakeBroker) -> (usize, usize) {
    (broker.published.lock().unwrap().len(), broker.runs.lock().unwrap().len())
}

#[tokio::test]
async fn a_webhook_signed_with_either_secret_reaches_the_tenant_of_its_repository() {
    let broker = Arc::default();
    for secret in SECRETS {
        let (status, answer) =
            answered(&broker, webhook("pull_request", secret, &read_fixture("pull_request", "opened"))).await;
        assert_eq!((status, answer["outcome"].as_str()), (202, Some("accepted")), "{answer}");
    }
    let run = webhook("workflow_run", SECRETS[1], &read_fixture("workflow_run", "completed"));
    assert_eq!(answered(&broker, run).await.0, 202);
    assert_eq!(stored(&broker), (2, 1));
    let published = broker.published.lock().unwrap();
    assert_eq!(published[0].subject, "retro.github.acme.pull_request");
    let event: Value = serde_json::from_slice(&published[0].payload).unwrap();
    assert_eq!(
        (event["id"].as_str(), event["data"]["repo"].as_str()),
        (Some("delivery-1"), Some("Codertocat/Hello-World"))
    );
    let run = &broker.runs.lock().unwrap()[0];
    assert_eq!(run.key.to_string(), "acme/github.com/Kobzol/bors-kindergarten/test.yml");
}

#[tokio::test]
async fn a_webhook_with_an_unknown_signature_is_rejected_unread() {
    let broker = Arc::default();
    let body = read_fixture("pull_request", "opened");
    let unsigned =
        |signature: &str| from_github("pull_request", signature).body(Body::from(body.clone())).unwrap();
    let wrong = signed("another secret", body.as_bytes());
    let other_body = signed(SECRETS[0], b"{}");
    for signature in [wrong.as_str(), &other_body, "foo", ""] {
        let (status, problem) = answered(&broker, unsigned(signature)).await;
        assert_eq!((status, problem["status"].as_u64()), (401, Some(401)), "{problem}");
    }
    let no_json = from_github("pull_request", &wrong).body(Body::from("no JSON")).unwrap();
    assert_eq!(answered(&broker, no_json).await.0, 401, "the signature comes first");
    let sha1 =
        Request::post(ROUTE).header("content-type", "application/json").header("x-github-event", "push");
    let sha1 = sha1.header("x-hub-signature", "sha1=7b5b4a5c").body(Body::from("{}")).unwrap();
    let (status, problem) = answered(&broker, sha1).await;
    assert!(status == 401 && problem["detail"].as_str().unwrap().contains("SHA-1"), "{problem}");
    assert_eq!(stored(&broker), (0, 0));
}

#[tokio::test]
async fn an_ignored_webhook_is_answered_with_the_reason() {
    let broker = Arc::default();
    for (event, name, outcome) in [
        ("ping", "ping", "ping"),
        ("issue_comment", "on-issue", "ignored"),
        ("push", "push", "ignored"),
        ("pull_request", "null-repo", "incomplete"),
        ("pull_request", "merged", "unmapped"),
    ] {
        let (status, answer) =
            answered(&broker, webhook(event, SECRETS[0], &read_fixture(event, name))).await;
        assert_eq!((status, answer["outcome"].as_str()), (200, Some(outcome)), "{event}/{name}: {answer}");
    }
    let shape = webhook("push", SECRETS[0], r#"{"commits": 7}"#);
    let (status, answer) = answered(&broker, shape).await;
    assert_eq!((status, answer["outcome"].as_str()), (200, Some("incomplete")), "{answer}");
    assert!(answer["reason"].as_str().unwrap().contains("`commits`"), "{answer}");
    let (status, answer) = answered(&broker, webhook("star", SECRETS[0], "{}")).await;
    assert_eq!((status, answer["outcome"].as_str()), (200, Some("ignored")));
    assert_eq!(stored(&broker), (0, 0));
}

#[tokio::test]
async fn an_invalid_webhook_is_rejected_with_a_reason() {
    let broker = Arc::default();
    let body = read_fixture("pull_request", "opened");
    let without = |name: &str| {
        let mut request = webhook("pull_request", SECRETS[0], &body);
        request.headers_mut().remove(name);
        request
    };
    let mut form = webhook("pull_request", SECRETS[0], "payload=%7B%7D");
    form.headers_mut().insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
    let announced =
        from_github("push", "sha256=00").header("content-length", "26214401").body(Body::empty()).unwrap();
    let unannounced = vec![0; WEBHOOK_BYTES_MAX + 1];
    let unannounced = Body::from_stream(futures::stream::iter([Ok::<_, std::io::Error>(unannounced)]));
    let unannounced = from_github("push", "sha256=00").body(unannounced).unwrap();
    for (request, status, says) in [
        (form, 415, "choose the content type application/json"),
        (without("content-type"), 415, "Content-Type: application/json"),
        (without("x-github-event"), 400, "X-GitHub-Event"),
        (without("x-github-delivery"), 400, "X-GitHub-Delivery"),
        (webhook("push", SECRETS[0], "no JSON"), 422, "cannot be read"),
        (announced, 413, "25 MB"),
        (unannounced, 413, "25 MB"),
    ] {
        let (found, problem) = answered(&broker, request).await;
        let detail = problem["detail"].as_str().unwrap();
        assert!(found == status && detail.contains(says), "{status} {says}: {problem}");
    }
    assert_eq!(stored(&broker), (0, 0));
}

#[tokio::test]
async fn a_webhook_that_was_not_stored_fails_the_delivery() {
    for (trouble, code) in [
        (IntakeError::Full(String::new()), "intake_full"),
        (IntakeError::Unavailable(String::new()), "broker_away"),
        (IntakeError::Unconfirmed(String::new()), "outcome_unknown"),
    ] {
        let broker = Arc::new(FakeBroker { error: Some(trouble), ..FakeBroker::default() });
        for (event, name) in [("pull_request", "opened"), ("workflow_run", "completed")] {
            let (status, problem) =
                answered(&broker, webhook(event, SECRETS[0], &read_fixture(event, name))).await;
            assert_eq!((status, problem["code"].as_str()), (503, Some(code)), "{problem}");
            assert!(problem["retry_after_s"].as_u64().is_some());
        }
        let ping = answered(&broker, webhook("ping", SECRETS[0], "{}")).await;
        assert_eq!(ping.0, 200, "nothing is to be stored");
    }
}

/// Checks published signatures against the secrets that made them.
#[test]
fn published_signature_vectors_are_verified() {
    let vectors = include_str!("../../fixtures/hmac_vectors.jsonl");
    let mut checked = 0;
    for line in vectors.lines() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| vector[key].as_str().unwrap();
        let secrets = WebhookSecrets::new(&[text("secret")]);
        let found = secrets.verify_signature(Some(text("signature").as_bytes()), text("body").as_bytes());
        assert_eq!(Some(found.is_ok()), vector["expect_valid"].as_bool(), "{line}");
        checked += 1;
    }
    assert_eq!(checked, 9);
}
