//! Posts signed review comments as GitHub does.

use std::time::Duration;

use anyhow::{Result, ensure};
use retro_github::WebhookSecrets;
use serde_json::{Value, json};

use super::cases::Case;

const SECRET: &str = "a secret of an evaluation and of nothing else";
/// Environment variables of the instance. The reviewer does not wait for further remarks, because there are
/// none.
pub(super) const BRIDGE_VARIABLES: [(&str, &str); 4] = [
    ("RETRO_BRIDGE_LISTEN", "127.0.0.1:0"),
    ("RETRO_GITHUB_SECRET", SECRET),
    ("RETRO_GITHUB_TENANTS", "acme/* = default"),
    ("RETRO_REVIEW_DEBOUNCE_S", "0"),
];
/// Number of pull requests on which each text is posted. On the second one, the text is a repeated request,
/// which counts for more.
pub(super) const PULL_REQUESTS: u64 = 2;
/// Maximum number of attempts to deliver a comment while the bridge cannot accept it.
const TRIES_MAX: u32 = 20;
/// Pause before a delivery is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Posts a text as a comment on a line of a pull request. Fails if the bridge does not accept it.
pub(super) async fn post_comment(http: &reqwest::Client, url: &str, case: &Case, number: u64) -> Result<()> {
    let body = build_payload(case, number).to_string();
    let mut status = 0;
    for _ in 0..TRIES_MAX {
        let sent = http
            .post(url)
            .header("Content-Type", "application/json")
            .header("X-GitHub-Event", "pull_request_review_comment")
            .header("X-GitHub-Delivery", format!("{}-{number}", case.repo.replace('/', "-")))
            .header("X-Hub-Signature-256", WebhookSecrets::new(&[SECRET]).sign(body.as_bytes()))
            .body(body.clone())
            .send()
            .await?;
        status = sent.status().as_u16();
        if status == 202 {
            return Ok(());
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    ensure!(status == 202, "the bridge answered {}#{number} with {status} {TRIES_MAX} times", case.repo);
    Ok(())
}

fn build_payload(case: &Case, number: u64) -> Value {
    let by = json!({"login": case.who.login(), "type": "User"});
    let at = "2026-11-20T10:00:00Z";
    json!({
        "action": "created",
        "repository": {"full_name": case.repo, "html_url": format!("https://github.com/{}", case.repo)},
        "pull_request": {"number": number, "state": "open", "user": {"login": "jo", "type": "User"}},
        "comment": {
            "id": number, "body": case.text, "user": by, "author_association": case.who.association(),
            "path": "src/lib.rs", "line": 3, "created_at": at, "updated_at": at,
        },
        "sender": by,
    })
}
