//! Responds with the media type that the caller prefers.

use axum::Json;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use retro_http::negotiate_media_type;
use serde::Serialize;

/// Width of the tables in plain text, in columns, which fits most windows.
pub(crate) const TEXT_COLUMNS: u16 = 140;

/// Responds with JSON, or with plain text if the `Accept` header prefers it.
pub(crate) fn json_or_text<T: Serialize>(
    headers: &HeaderMap,
    value: &T,
    render_text: impl FnOnce(&T) -> String,
) -> Response {
    match negotiate_media_type(headers, &["application/json", "text/plain"]) {
        "text/plain" => text_response("text/plain; charset=utf-8", render_text(value)),
        _ => Json(value).into_response(),
    }
}

/// Responds with a text of this media type.
pub(crate) fn text_response(kind: &'static str, body: String) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}
