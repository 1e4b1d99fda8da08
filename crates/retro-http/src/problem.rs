//! Why a request was refused, as RFC 9457 has it.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

/// A refusal: rendered as `application/problem+json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// The HTTP status.
    #[serde(serialize_with = "as_number")]
    #[schema(value_type = u16)]
    pub status: StatusCode,
    /// The same for every problem of this kind.
    pub title: &'static str,
    /// What is wrong with this request and what would be right.
    pub detail: String,
    /// What is wrong, in one word that never changes, where a program may want to tell it from others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// The path of the field that is to blame, such as `memories[2].id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// After how many seconds the same request may succeed; also the header `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u32>,
}

impl Problem {
    /// A field, a parameter or a header that cannot be read: 400.
    pub fn field(path: impl Into<String>, detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::BAD_REQUEST, "a field cannot be read", detail);
        Self { path: Some(path.into()), ..problem }
    }

    /// A request that cannot be read as a whole: 400.
    pub fn unreadable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "the request cannot be read", detail)
    }

    /// There is no such thing in the caller's tenant: 404. Another tenant's answers with these very bytes.
    pub fn not_found(what: &str, name: impl std::fmt::Display) -> Self {
        let detail = format!("there is no {what} {name} in this tenant");
        Self::new(StatusCode::NOT_FOUND, "there is no such thing", detail)
    }

    /// More than one thing of the caller's tenant is named so: 409. `detail` says how to name one.
    pub fn ambiguous(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "more than one thing is named so", detail)
    }

    /// A refusal of another kind.
    pub fn new(status: StatusCode, title: &'static str, detail: impl Into<String>) -> Self {
        Self { status, title, detail: detail.into(), code: None, path: None, retry_after_s: None }
    }

    /// With a word for programs.
    pub fn with_code(self, code: &'static str) -> Self {
        Self { code: Some(code), ..self }
    }

    /// Worth another try after so many seconds.
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after_s: Some(seconds), ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).expect("a problem is plain data");
        let kind = HeaderValue::from_static("application/problem+json");
        let mut response = (self.status, [(header::CONTENT_TYPE, kind)], body).into_response();
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

fn as_number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}
