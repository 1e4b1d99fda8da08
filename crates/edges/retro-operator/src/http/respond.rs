//! Responds with the media type that the caller prefers.

use axum::Json;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use retro_http::negotiate_media_type;
use serde::Serialize;

use crate::html::{CONTENT_SECURITY_POLICY, render_markdown_page, render_text_page};

/// Width of the tables in plain text, in columns, which fits most windows.
pub(crate) const TEXT_COLUMNS: u16 = 140;

/// Responds with JSON, or with plain text or a page with this title if the `Accept` header prefers one.
pub(crate) fn json_or_text<T: Serialize>(
    headers: &HeaderMap,
    title: &str,
    value: &T,
    render_text: impl FnOnce(&T) -> String,
) -> Response {
    match negotiate_media_type(headers, &["application/json", "text/plain", "text/html"]) {
        "text/plain" => text_response("text/plain; charset=utf-8", render_text(value)),
        "text/html" => page_response(render_text_page(title, &render_text(value))),
        _ => Json(value).into_response(),
    }
}

/// Responds with JSON, or with Markdown, plain text or a page if the `Accept` header prefers one.
pub(crate) fn json_or_document<T: Serialize>(
    headers: &HeaderMap,
    value: &T,
    render_markdown: impl FnOnce(&T) -> String,
    render_text: impl FnOnce(&T) -> String,
) -> Response {
    match negotiate_media_type(headers, &["application/json", "text/markdown", "text/plain", "text/html"]) {
        "text/markdown" => text_response("text/markdown; charset=utf-8", render_markdown(value)),
        "text/plain" => text_response("text/plain; charset=utf-8", render_text(value)),
        "text/html" => page_response(render_markdown_page(&render_markdown(value))),
        _ => Json(value).into_response(),
    }
}

fn text_response(kind: &'static str, body: String) -> Response {
    ([(header::CONTENT_TYPE, kind)], body).into_response()
}

fn page_response(page: String) -> Response {
    let policy = (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY.as_str());
    ([policy, (header::CONTENT_TYPE, "text/html; charset=utf-8")], page).into_response()
}
