//! GitHub, as the bridge meets it: payloads, signed and posted.

use std::path::Path;

use retro_checker::{StateSource, StoredMessage};
use retro_testkit::sign_webhook;
use serde_json::{Value, json};

use super::World;

/// The secret of the webhooks of stories.
pub(crate) const SECRET: &str = "known to GitHub and to the bridge";
/// What a bridge of a story is started with: any free port, and every repository of `acme` is the tenant `acme`'s.
pub(crate) const BRIDGED: [(&str, &str); 3] = [
    ("RETRO_BRIDGE_LISTEN", "127.0.0.1:0"),
    ("RETRO_GITHUB_SECRET", SECRET),
    ("RETRO_GITHUB_TENANTS", "acme/* = acme"),
];

/// A webhook on its way.
#[derive(Debug, Clone)]
pub(crate) struct Webhook {
    /// `X-GitHub-Event`.
    pub(crate) event: String,
    /// `X-GitHub-Delivery`.
    pub(crate) delivery: String,
    /// The secret that it is signed by.
    pub(crate) secret: String,
    /// Its body.
    pub(crate) body: Vec<u8>,
}

impl Webhook {
    /// One of an event under an id, signed by [`SECRET`].
    pub(crate) fn new(event: &str, delivery: &str, payload: &Value) -> Self {
        Self {
            event: event.to_owned(),
            delivery: delivery.to_owned(),
            secret: SECRET.to_owned(),
            body: payload.to_string().into_bytes(),
        }
    }

    /// One with a [`real`] payload.
    pub(crate) fn real(event: &str, delivery: &str, file: &str) -> Self {
        Self::new(event, delivery, &real(event, file))
    }

    /// The same, signed by another secret.
    pub(crate) fn signed_by(self, secret: &str) -> Self {
        Self { secret: secret.to_owned(), ..self }
    }
}

/// A real payload of the bridge's fixtures, whose repository is `acme/shop`.
pub(crate) fn real(event: &str, file: &str) -> Value {
    let path = super::project(&format!("crates/retro-github/fixtures/{event}/{file}.json"));
    let text = std::fs::read_to_string(Path::new(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut payload: Value = serde_json::from_str(&text).expect("a payload is JSON");
    payload["repository"]["full_name"] = json!("acme/shop");
    payload["repository"]["html_url"] = json!("https://github.com/acme/shop");
    payload
}

impl World {
    /// Posts a webhook to the bridge; status and answer.
    pub(crate) async fn webhook(&self, webhook: &Webhook) -> (u16, Value) {
        let response = self.webhook_request(webhook).send().await.expect("it answers");
        (response.status().as_u16(), response.json().await.expect("JSON"))
    }

    /// A webhook that is not yet on its way.
    pub(crate) fn webhook_request(&self, webhook: &Webhook) -> reqwest::RequestBuilder {
        let Webhook { event, delivery, secret, body } = webhook;
        self.http
            .post(self.bridge_url().expect("a bridge is configured"))
            .header("Content-Type", "application/json")
            .header("X-GitHub-Event", event)
            .header("X-GitHub-Delivery", delivery)
            .header("X-Hub-Signature-256", sign_webhook(secret, body))
            .body(body.clone())
    }

    /// What the broker keeps of what happened at GitHub, read without the program.
    pub(crate) async fn github_messages(&self) -> Vec<StoredMessage> {
        let source = StateSource::open(&self.database_address(), Some(self.nats_url())).await;
        let state = source.expect("the database is there").read_state().await.expect("the broker answers");
        state.broker.find_stream("RETRO_GITHUB").expect("the stream is there").messages.clone()
    }

    /// The events in it.
    pub(crate) async fn github_events(&self) -> Vec<Value> {
        let messages = self.github_messages().await;
        let read =
            |message: &StoredMessage| serde_json::from_slice(&message.payload).expect("an event is JSON");
        messages.iter().map(read).collect()
    }

    /// Where webhooks are taken.
    fn bridge_url(&self) -> Option<String> {
        if self.bridge_url.is_some() {
            return self.bridge_url.clone();
        }
        let text = std::fs::read_to_string(self.data().join("instance.json")).ok()?;
        let instance: Value = serde_json::from_str(&text).ok()?;
        instance["bridge_url"].as_str().map(str::to_owned)
    }
}
