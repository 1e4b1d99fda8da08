//! Extracts typed parts of a request for handlers. Every rejection is a [`Problem`].

use std::error::Error as _;
use std::str::FromStr;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;

use crate::body_budget::{BodyLimits, ReadBodyError, read_body};
use crate::problem::Problem;

/// Maximum size of a JSON body, in bytes. A request contains a handful of names of at most 256 bytes each; 64
/// KiB leaves space for fields of later versions and is still harmless.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Timeout for receiving a JSON body, in seconds. 64 KiB need less on loopback, and an endless body must not
/// keep its connection open.
pub const BODY_READ_S_MAX: u64 = 10;

/// A JSON body of at most `BYTES_MAX` bytes, by default [`BODY_BYTES_MAX`]. Unknown fields are ignored, so a
/// newer client can use an older server.
#[derive(Debug, Clone)]
pub struct JsonBody<T, const BYTES_MAX: usize = BODY_BYTES_MAX>(pub T);

impl<T: DeserializeOwned, S: Send + Sync, const BYTES_MAX: usize> FromRequest<S> for JsonBody<T, BYTES_MAX> {
    type Rejection = Problem;

    async fn from_request(request: Request, _state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body is not JSON",
                "send the body as JSON with `Content-Type: application/json`",
            ));
        }
        let limits = BodyLimits::new(BYTES_MAX, Duration::from_secs(BODY_READ_S_MAX));
        let bytes = read_body(request, limits).await?;
        parse_json(&bytes, BYTES_MAX).map(Self)
    }
}

/// Returns `true` if `Content-Type` is `application/json` or `application/*+json`.
pub fn is_json(headers: &HeaderMap) -> bool {
    let essence = media_type(headers);
    essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Returns the content type in lower case without its parameters; empty if there is none.
pub fn media_type(headers: &HeaderMap) -> String {
    let named = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    named.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Parses a JSON body of at most `bytes_max` bytes. Fails with the problem that [`JsonBody`] would answer, for bodies that
/// do not come over HTTP.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8], bytes_max: usize) -> Result<T, Problem> {
    if bytes.len() > bytes_max {
        return Err(ReadBodyError::TooLarge(bytes_max).into());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let inner = error.into_inner();
        // Only a value of the wrong type has a field to report; malformed JSON has a line and column.
        if inner.is_data() && path != "." {
            Problem::invalid_field(path, inner.to_string())
        } else {
            Problem::unreadable_request(format!("the body cannot be read: {inner}"))
        }
    })?;
    deserializer
        .end()
        .map_err(|error| Problem::unreadable_request(format!("after the JSON value: {error}")))?;
    Ok(value)
}

/// Query parameters of a request, deserialized into `T`.
#[derive(Debug, Clone)]
pub struct QueryParams<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(params)) => Ok(Self(params)),
            Err(rejection) => {
                let message = rejection.source().map_or_else(|| rejection.body_text(), ToString::to_string);
                Err(match message.split_once(": ") {
                    Some((path, detail)) => Problem::invalid_field(path, detail),
                    None => Problem::unreadable_request(format!("the query cannot be read: {message}")),
                })
            }
        }
    }
}

/// Id in the path of a request, such as `{id}` in `/v1/memories/{id}`.
#[derive(Debug, Clone)]
pub struct PathId<T>(pub T);

impl<T: FromStr<Err: std::fmt::Display>, S: Send + Sync> FromRequestParts<S> for PathId<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::invalid_field("id", rejection.body_text()))?;
        text.parse()
            .map(Self)
            .map_err(|error| Problem::invalid_field("id", format!("{text:?} is not an id: {error}")))
    }
}

/// Returns the media type in `offered` that the `Accept` header prefers; the first one if several are equally
/// preferred or none is accepted. Weights are honoured; parameters other than `q` are ignored.
pub fn negotiate_media_type<'a>(headers: &HeaderMap, offered: &[&'a str]) -> &'a str {
    let named: Vec<_> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let ranges: Vec<_> = named.iter().flat_map(|value| value.split(',')).map(parse_media_range).collect();
    let best = |kind: &str| {
        // The most specific range that matches a media type determines its weight.
        let covering = ranges.iter().filter_map(|(range, q)| Some((match_specificity(range, kind)?, *q)));
        covering.max_by_key(|(specific, _)| *specific).map_or(0, |(_, q)| q)
    };
    // `max_by_key` returns the last maximum, so reverse to let the first offered type win a tie.
    let weighed = offered.iter().rev().map(|kind| (best(kind), *kind));
    weighed.max_by_key(|(q, _)| *q).map(|(_, kind)| kind).expect("at least one media type is offered")
}

/// Parses a media range into its lower-case name and its weight in thousandths.
fn parse_media_range(text: &str) -> (String, u16) {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let q = parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |q| q.parse::<f64>().unwrap_or(0.0));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1000")]
    let q = (q * 1000.0).clamp(0.0, 1000.0) as u16;
    (name, q)
}

fn match_specificity(range: &str, kind: &str) -> Option<u8> {
    let family = kind.split('/').next().unwrap_or_default();
    match range {
        "*/*" => Some(0),
        _ if range.strip_suffix("/*") == Some(family) => Some(1),
        _ if range == kind => Some(2),
        _ => None,
    }
}
