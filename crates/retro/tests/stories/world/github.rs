//! Plays GitHub for the bridge: webhook payloads, signed and posted.

use std::path::Path;

use retro_checker::{StateSource, StoredMessage};
use retro_testkit::sign_webhook;
use serde_json::{Value, json};

use super::World;

/// Secret that signs the tests' webhooks.
pub(crate) const WEBHOOK_SECRET: &str = "known to GitHub and to the bridge";
/// Environment of a bridge: any free port, and every repository of `acme` mapped to the tenant `acme`.
pub(crate) const BRIDGE_ENV: [(&str, &str); 3] = [
    ("RETRO_BRIDGE_LISTEN", "127.0.0.1:0"),
    ("RETRO_GITHUB_SECRET", WEBHOOK_SECRET),
    ("RETRO_GITHUB_TENANTS", "acme/* = acme"),
];

/// A webhook to post.
#[derive(Debug, Clone)]
pub(crate) struct Webhook {
    /// Event name, sent as `X-GitHub-Event`.
    pub(crate) event: String,
    /// Delivery id, sent as `X-GitHub-Delivery`.
    pub(crate) delivery: String,
    /// Secret that signs the webhook.
    pub(crate) secret: String,
    /// Payload of the webhook.
    pub(crate) body: Vec<u8>,
}

impl Webhook {
    /// Returns a webhook of an event with a delivery id, signed by [`WEBHOOK_SECRET`].
    pub(crate) fn new(event: &str, delivery: &str, payload: &Value) -> Self {
        Self {
            event: event.to_owned(),
            delivery: delivery.to_owned(),
            secret: WEBHOOK_SECRET.to_owned(),
            body: payload.to_string().into_bytes(),
        }
    }

    /// Returns a webhook with a payload from the fixtures; see [`load_payload`].
    pub(crate) fn from_fixture(event: &str, delivery: &str, file: &str) -> Self {
        Self::new(event, delivery, &load_payload(event, file))
    }

    /// Returns the webhook signed by another secret.
    pub(crate) fn signed_by(self, secret: &str) -> Self {
        Self { secret: secret.to_owned(), ..self }
    }
}

/// Loads a recorded payload from the bridge's fixtures, with `acme/shop` as its repository.
pub(crate) fn load_payload(event: &str, file: &str) -> Value {
    let path = super::project_path(&format!("crates/edges/retro-github/fixtures/{event}/{file}.json"));
    let text = std::fs::read_to_string(Path::new(&path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut payload: Value = serde_json::from_str(&text).expect("a payload is JSON");
    payload["repository"]["full_name"] = json!("acme/shop");
    payload["repository"]["html_url"] = json!("https://github.com/acme/shop");
    payload
}

impl World {
    /// Posts a webhook to the bridge and returns the status and body of the response.
    pub(crate) async fn post_webhook(&self, webhook: &Webhook) -> (u16, Value) {
        let response = self.build_webhook_request(webhook).send().await.expect("the program answers");
        (response.status().as_u16(), response.json().await.expect("JSON"))
    }

    /// Returns the request for a webhook without sending it.
    pub(crate) fn build_webhook_request(&self, webhook: &Webhook) -> reqwest::RequestBuilder {
        let Webhook { event, delivery, secret, body } = webhook;
        self.http
            .post(self.bridge_url().expect("a bridge is configured"))
            .header("Content-Type", "application/json")
            .header("X-GitHub-Event", event)
            .header("X-GitHub-Delivery", delivery)
            .header("X-Hub-Signature-256", sign_webhook(secret, body))
            .body(body.clone())
    }

    /// Returns the messages of the stream `RETRO_GITHUB`, read without the program.
    pub(crate) async fn list_github_messages(&self) -> Vec<StoredMessage> {
        let source = StateSource::open(&self.database_address(), Some(self.nats_url())).await;
        let state = source.expect("the database exists").read_state().await.expect("the broker answers");
        state.broker.find_stream("RETRO_GITHUB").expect("the stream exists").messages.clone()
    }

    /// Returns the events of the stream `RETRO_GITHUB`.
    pub(crate) async fn list_github_events(&self) -> Vec<Value> {
        let messages = self.list_github_messages().await;
        let read =
            |message: &StoredMessage| serde_json::from_slice(&message.payload).expect("an event is JSON");
        messages.iter().map(read).collect()
    }

    /// Returns the URL at which webhooks are accepted.
    fn bridge_url(&self) -> Option<String> {
        if self.bridge_url.is_some() {
            return self.bridge_url.clone();
        }
        let text = std::fs::read_to_string(self.data_dir().join("instance.json")).ok()?;
        let instance: Value = serde_json::from_str(&text).ok()?;
        instance["bridge_url"].as_str().map(str::to_owned)
    }
}
