//! Sends the tests' HTTP requests.

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::Value;

use super::World;

/// Response to a POST of events.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EventsResponse {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    /// `true` if the response is the stored one of an earlier request with the same key.
    pub(crate) replayed: bool,
    pub(crate) body: Value,
}

impl World {
    /// Returns the status and body of a GET for a tenant.
    pub(crate) async fn get(&self, tenant: &str, path: &str) -> (u16, String) {
        self.get_in_format(tenant, path, "application/json").await
    }

    /// Returns the status and body of a GET for a tenant in this media type.
    pub(crate) async fn get_in_format(&self, tenant: &str, path: &str, form: &str) -> (u16, String) {
        let url = format!("{}{path}", self.http_url());
        let request = self.http.get(url).header("Retro-Tenant", tenant).header(ACCEPT, form);
        let response = request.send().await.expect("the program answers");
        (response.status().as_u16(), response.text().await.expect("a text"))
    }

    /// Posts events for a tenant in one of the CloudEvents media types, with optional additional headers.
    pub(crate) async fn post_events(
        &self,
        tenant: &str,
        form: &str,
        more: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> EventsResponse {
        let url = format!("{}/v1/events", self.http_url());
        let mut request = self.http.post(url).header("Retro-Tenant", tenant).header(CONTENT_TYPE, form);
        for (name, value) in more {
            request = request.header(*name, *value);
        }
        let response = request.body(body).send().await.expect("the program answers");
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (retry_after, replayed) = (header("retry-after"), header("idempotency-replayed").is_some());
        EventsResponse { status, retry_after, replayed, body: response.json().await.expect("JSON") }
    }

    /// Returns the status and JSON body of a POST for a tenant.
    pub(crate) async fn post_json(&self, tenant: &str, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}{path}", self.http_url());
        let request = self.http.post(url).header("Retro-Tenant", tenant).json(body);
        let response = request.send().await.expect("the program answers");
        (response.status().as_u16(), response.json().await.expect("JSON"))
    }

    /// Returns the JSON of another server than the program; `None` if it does not answer.
    pub(crate) async fn fetch_json(&self, url: &str) -> Option<Value> {
        self.http.get(url).send().await.ok()?.json().await.ok()
    }

    /// Returns the context that a tenant's run gets at the start of a step.
    pub(crate) async fn fetch_context(&self, tenant: &str, question: &Value) -> Value {
        let url = format!("{}/v1/context", self.http_url());
        let request = self.http.post(url).header("Retro-Tenant", tenant).json(question);
        let response =
            request.send().await.expect("the program answers").error_for_status().expect("a context");
        response.json().await.expect("JSON")
    }
}
