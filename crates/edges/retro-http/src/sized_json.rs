//! Answers whose size is known before they are written.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::problem::Problem;

/// A JSON answer of about `bytes_expected` bytes. `axum::Json` starts with 128 bytes and copies what it has written each
/// time it needs more.
#[derive(Debug, Clone)]
pub struct SizedJson<T> {
    /// What is answered.
    pub value: T,
    /// About the size of the answer, in bytes.
    pub bytes_expected: usize,
}

impl<T: Serialize> IntoResponse for SizedJson<T> {
    fn into_response(self) -> Response {
        let mut body = Vec::with_capacity(self.bytes_expected);
        match serde_json::to_writer(&mut body, &self.value) {
            Ok(()) => {
                let json = HeaderValue::from_static("application/json");
                ([(header::CONTENT_TYPE, json)], body).into_response()
            }
            Err(error) => {
                let detail = format!("it cannot be written as JSON: {error}");
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer is lost", detail).into_response()
            }
        }
    }
}
