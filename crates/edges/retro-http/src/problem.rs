//! Renders rejected requests as problem details (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// A rejected request, rendered as `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// HTTP status code.
    #[serde(serialize_with = "serialize_status")]
    #[schema(value_type = u16)]
    pub status: StatusCode,
    /// Short summary, the same for every problem of this kind.
    pub title: &'static str,
    /// Explanation of the error in this request and how to fix it.
    pub detail: String,
    /// Stable code by which programs can recognize the problem; absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Path of the invalid field, such as `memories[2].id`; absent if the problem is not in a single field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Number of seconds after which the request may succeed, also sent as the `Retry-After` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u32>,
}

impl Problem {
    /// Returns a 400 for a field, parameter or header that cannot be parsed.
    pub fn invalid_field(path: impl Into<String>, detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::BAD_REQUEST, "a field cannot be read", detail);
        Self { path: Some(path.into()), ..problem }
    }

    /// Returns a 400 for a request that cannot be parsed at all.
    pub fn unreadable_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "the request cannot be read", detail)
    }

    /// Returns a 404 for an object that does not exist in the caller's tenant. The response is byte for byte
    /// the same if another tenant has the object.
    pub fn not_found(what: &str, name: impl std::fmt::Display) -> Self {
        let detail = format!("there is no {what} {name} in this tenant");
        Self::new(StatusCode::NOT_FOUND, "there is no such thing", detail)
    }

    /// Returns a 409 for a name that matches several objects of the caller's tenant. `detail` explains how to
    /// name exactly one.
    pub fn ambiguous_name(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "the name is ambiguous", detail)
    }

    /// Returns a problem with this status, title and detail.
    pub fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, title, detail: detail.into(), code: None, path: None, retry_after_s: None }
    }

    /// Returns the problem with a code for programs.
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Returns the problem with a `Retry-After` of `seconds`.
    pub fn with_retry_after(self, seconds: u32) -> Self {
        Self { retry_after_s: Some(seconds), ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).expect("a problem always serializes");
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (self.status, [(header::CONTENT_TYPE, kind)], body).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

fn serialize_status<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}
