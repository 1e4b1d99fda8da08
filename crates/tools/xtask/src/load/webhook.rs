//! Builds and delivers webhooks, each with its own ID and signature.

use std::time::Duration;

use anyhow::Result;
use hmac::{Hmac, KeyInit as _, Mac as _};
use retro_eval::http_client::configure_client;
use serde_json::json;
use sha2::Sha256;

const SECRET: &str = "a secret of a load and of nothing else";
/// Environment variables of the instance under load.
pub(super) const BRIDGE_VARIABLES: [(&str, &str); 3] = [
    ("RETRO_BRIDGE_LISTEN", "127.0.0.1:0"),
    ("RETRO_GITHUB_SECRET", SECRET),
    ("RETRO_GITHUB_TENANTS", "acme/* = default"),
];
/// Number of pull requests over which the comments are distributed. On a single pull request, the comments
/// would exceed the limit per pull request, and some would be dropped.
const PULL_REQUESTS: u32 = 1000;
/// GitHub's timeout for the response to a webhook.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A webhook to deliver.
#[derive(Debug)]
pub(super) struct Webhook {
    event: &'static str,
    /// Delivery ID, which is also the event ID.
    pub(super) delivery: String,
    body: String,
}

impl Webhook {
    /// Builds the webhook with this number: a finished workflow run if the number is even, a comment on a
    /// pull request if it is odd.
    pub(super) fn from_number(number: u32) -> Self {
        let repository = json!({"full_name": "acme/shop", "html_url": "https://github.com/acme/shop"});
        let (event, payload) = if number.is_multiple_of(2) {
            let run = json!({"id": number, "run_attempt": 1, "name": "ci", "path": ".github/workflows/ci.yml",
                "conclusion": "success", "status": "completed", "head_sha": format!("{number:040x}")});
            ("workflow_run", json!({"action": "completed", "repository": repository, "workflow_run": run}))
        } else {
            let by = json!({"login": "ann", "type": "User"});
            let comment = json!({"id": number, "body": "Looks good to me.", "user": by,
                "author_association": "MEMBER", "created_at": "2026-01-01T00:00:00Z"});
            let issue = json!({"number": 1 + number % PULL_REQUESTS, "pull_request": {}, "user": by});
            (
                "issue_comment",
                json!({"action": "created", "repository": repository, "issue": issue,
                "comment": comment, "sender": by}),
            )
        };
        Self { event, delivery: format!("load-{number}"), body: payload.to_string() }
    }
}

/// Builds an HTTP client with GitHub's timeout.
pub(super) fn build_client() -> Result<reqwest::Client> {
    Ok(configure_client().timeout(RESPONSE_TIMEOUT).build()?)
}

/// Delivers a webhook once and returns the response status, or `None` if there was no response in time.
pub(super) async fn deliver_webhook(http: &reqwest::Client, url: &str, webhook: &Webhook) -> Option<u16> {
    let keyed: Hmac<Sha256> =
        Hmac::new_from_slice(SECRET.as_bytes()).expect("a key of any length makes an HMAC");
    let signed = keyed.chain_update(&webhook.body).finalize().into_bytes();
    let digits: String = signed.iter().map(|byte| format!("{byte:02x}")).collect();
    let request = http
        .post(url)
        .header("Content-Type", "application/json")
        .header("X-GitHub-Event", webhook.event)
        .header("X-GitHub-Delivery", &webhook.delivery)
        .header("X-Hub-Signature-256", format!("sha256={digits}"))
        .body(webhook.body.clone());
    Some(request.send().await.ok()?.status().as_u16())
}
