//! Asking over HTTP.

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde_json::Value;

use super::World;

/// What was answered to events.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Posted {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    /// Whether it is what was answered before.
    pub(crate) replayed: bool,
    pub(crate) body: Value,
}

impl World {
    /// Status and body of a GET for a tenant.
    pub(crate) async fn get(&self, tenant: &str, path: &str) -> (u16, String) {
        self.get_as(tenant, path, "application/json").await
    }

    /// The same, in a form.
    pub(crate) async fn get_as(&self, tenant: &str, path: &str, form: &str) -> (u16, String) {
        let url = format!("{}{path}", self.http_url());
        let request = self.http.get(url).header("Retro-Tenant", tenant).header(ACCEPT, form);
        let response = request.send().await.expect("it answers");
        (response.status().as_u16(), response.text().await.expect("a text"))
    }

    /// Posts events for a tenant, in one of the forms of CloudEvents, perhaps with more headers.
    pub(crate) async fn post_events(
        &self,
        tenant: &str,
        form: &str,
        more: &[(&str, &str)],
        body: impl Into<reqwest::Body>,
    ) -> Posted {
        let url = format!("{}/v1/events", self.http_url());
        let mut request = self.http.post(url).header("Retro-Tenant", tenant).header(CONTENT_TYPE, form);
        for (name, value) in more {
            request = request.header(*name, *value);
        }
        let response = request.body(body).send().await.expect("it answers");
        let status = response.status().as_u16();
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (retry_after, replayed) = (header("retry-after"), header("idempotency-replayed").is_some());
        Posted { status, retry_after, replayed, body: response.json().await.expect("JSON") }
    }

    /// Status and JSON of a POST for a tenant.
    pub(crate) async fn post(&self, tenant: &str, path: &str, body: &Value) -> (u16, Value) {
        let url = format!("{}{path}", self.http_url());
        let request = self.http.post(url).header("Retro-Tenant", tenant).json(body);
        let response = request.send().await.expect("it answers");
        (response.status().as_u16(), response.json().await.expect("JSON"))
    }

    /// What a run of a tenant is handed at a step's start.
    pub(crate) async fn context(&self, tenant: &str, question: &Value) -> Value {
        let url = format!("{}/v1/context", self.http_url());
        let request = self.http.post(url).header("Retro-Tenant", tenant).json(question);
        let response = request.send().await.expect("it answers").error_for_status().expect("a context");
        response.json().await.expect("JSON")
    }
}
