//! Makes requests idempotent: with an `Idempotency-Key`, sending a request again does not repeat its effect. Every
//! process returns the stored answer.
//!
//! Answers that may differ later (408, 409, 429, 5xx) are not stored. The work continues when the caller
//! disconnects, because callers that lose their connection are those that retry. A process that dies during the
//! work leaves the key locked for [`IN_PROGRESS_S_MAX`]; the work must therefore be harmless when done twice. This
//! is true of everything that goes through an inbox or has an id derived from its cause.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use retro_core::canonical::sha256_hex;
use retro_core::id::Tenant;
use retro_store::{
    BeginRequestResult, IdempotencyStore, IdempotencyTimeouts, RequestKey, StoreError, StoredResponse,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::problem::Problem;

/// Header that carries the key of a request.
pub const KEY_HEADER: &str = "idempotency-key";
/// Longest key, in bytes. A UUID has 36, and some callers combine several ids.
pub const KEY_BYTES_MAX: usize = 255;
/// Time in seconds for which a key is refused while its request is in progress. It is longer than any request
/// takes.
pub const IN_PROGRESS_S_MAX: u64 = 120;
/// Time in seconds for which a stored answer is replayed, which is a day.
pub const ANSWER_TTL_S: u64 = 24 * 3600;

/// `Retry-After` in seconds while the same request is in progress, which usually takes less, or while the database
/// is unavailable.
const RETRY_SOON_S: u32 = 1;
/// Interval between two purges of expired requests. The rows that expire in a minute are few compared with those of
/// a day.
const PURGE_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of requests that one purge deletes. It allows 166 per second on average, in a transaction of a
/// few milliseconds.
const PURGE_BATCH_MAX: u32 = 10_000;
/// Maximum size of a stored answer, in bytes: enough for a batch in which every event is refused with a long
/// path.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Key of a request: 1 to [`KEY_BYTES_MAX`] visible ASCII characters; `None` if the caller gave no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(pub Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        let mut given = parts.headers.get_all(KEY_HEADER).iter();
        let Some(key) = given.next() else { return Ok(Self(None)) };
        let key = key.as_bytes();
        let is_key = (1..=KEY_BYTES_MAX).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
        if !is_key || given.next().is_some() {
            let detail = format!("give one key of 1 to {KEY_BYTES_MAX} visible ASCII characters");
            return Err(Problem::invalid_field("Idempotency-Key", detail));
        }
        Ok(Self(Some(String::from_utf8_lossy(key).into_owned())))
    }
}

/// Runs each keyed request once.
#[derive(Clone)]
pub struct Idempotency {
    store: Arc<dyn IdempotencyStore>,
}

/// A request with its caller, its key and its content.
#[derive(Debug)]
pub struct IdempotentRequest<'a> {
    /// Tenant of the caller.
    pub tenant: &'a Tenant,
    /// Method and path, such as `POST /v1/events`.
    pub route: &'static str,
    /// Key that the caller gave.
    pub key: IdempotencyKey,
    /// Everything that distinguishes the request from others, which is its body and the relevant headers.
    pub content: &'a [&'a [u8]],
}

impl Idempotency {
    /// Creates the service over a database.
    pub fn new(store: Arc<dyn IdempotencyStore>) -> Self {
        Self { store }
    }

    /// Runs `work`, unless the tenant has used this key on this route before. In that case the stored answer is
    /// returned with `Idempotency-Replayed: true`. The same key with different content is refused with 422, and a
    /// key whose request is in progress with 409. Without a key the work runs and the database is not asked.
    pub async fn run_once<W>(&self, request: IdempotentRequest<'_>, work: W) -> Response
    where
        W: Future<Output = Response> + Send + 'static,
    {
        let IdempotentRequest { tenant, route, key, content } = request;
        let Some(key) = key.0 else { return work.await };
        let name = RequestKey { tenant: tenant.clone(), route, key };
        let times = IdempotencyTimeouts { lock_timeout_s: IN_PROGRESS_S_MAX, retention_s: ANSWER_TTL_S };
        match self.store.begin_request(&name, &fingerprint_content(content), times).await {
            Ok(BeginRequestResult::Started(token)) => self.clone().run_and_store(name, token, work).await,
            Ok(BeginRequestResult::Answered(answer)) => replay_answer(answer),
            Ok(BeginRequestResult::InProgress) => in_progress_problem().into_response(),
            Ok(BeginRequestResult::ContentMismatch) => key_reused_problem().into_response(),
            Err(cause) => lookup_failed_problem(&cause).into_response(),
        }
    }

    /// Deletes expired requests until `stop` is cancelled. May run in any number of processes concurrently.
    pub async fn purge_expired(self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(PURGE_INTERVAL);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            match self.store.purge_requests(ANSWER_TTL_S, PURGE_BATCH_MAX).await {
                Ok(0) => {}
                Ok(forgotten) => info!(forgotten, "purged {forgotten} expired idempotency keys"),
                Err(cause) => warn!(cause = %cause, "expired idempotency keys could not be purged: {cause}"),
            }
        }
    }

    async fn run_and_store<W>(self, name: RequestKey, token: u64, work: W) -> Response
    where
        W: Future<Output = Response> + Send + 'static,
    {
        // A separate task, so that the work and its answer survive a caller that disconnects.
        let task = tokio::spawn(async move {
            let (answer, stored) = buffer_answer(work.await).await;
            if let Err(cause) = self.store.end_request(&name, token, stored.as_ref()).await {
                warn!(cause = %cause, "the answer to {} could not be stored: {cause}", name.route);
            }
            answer
        });
        task.await.unwrap_or_else(|panicked| {
            error!("a request panicked: {panicked}");
            let detail = "an internal error; the server's log has the details";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the request was not finished", detail)
                .into_response()
        })
    }
}

/// Returns a hash of the hashes of all parts. It changes when bytes move from one part to the next, and no part is
/// copied.
fn fingerprint_content(content: &[&[u8]]) -> String {
    let hashes: String = content.iter().map(|part| sha256_hex(part)).collect();
    sha256_hex(hashes.as_bytes())
}

/// Returns the answer and the copy of it to store. The copy is `None` for an answer that may differ later, and for
/// one that is too long, which becomes a 500.
async fn buffer_answer(answer: Response) -> (Response, Option<StoredResponse>) {
    let status = answer.status();
    let may_change = status.is_server_error()
        || [StatusCode::TOO_MANY_REQUESTS, StatusCode::CONFLICT, StatusCode::REQUEST_TIMEOUT]
            .contains(&status);
    if may_change {
        return (answer, None);
    }
    let (head, body) = answer.into_parts();
    let Ok(body) = to_bytes(body, ANSWER_BYTES_MAX).await else {
        let detail = format!(
            "the answer is longer than {ANSWER_BYTES_MAX} bytes, too long to store for the idempotency key"
        );
        let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer is too long", detail);
        return (problem.into_response(), None);
    };
    let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let stored = StoredResponse {
        status: status.as_u16(),
        content_type: content_type.unwrap_or("application/octet-stream").to_owned(),
        body: body.to_vec(),
    };
    (Response::from_parts(head, Body::from(body)), Some(stored))
}

fn replay_answer(answer: StoredResponse) -> Response {
    let StoredResponse { status, content_type, body } = answer;
    let mut response = (StatusCode::from_u16(status).unwrap_or(StatusCode::OK), body).into_response();
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&content_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    response
}

fn in_progress_problem() -> Problem {
    let detail = "a request with this key is in progress; retry later to get its answer";
    Problem::new(StatusCode::CONFLICT, "the same request is in progress", detail)
        .with_code("request_under_way")
        .with_retry_after(RETRY_SOON_S)
}

fn key_reused_problem() -> Problem {
    let detail = "this key was used for a request with different content; use a new key for each request";
    let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "the key was already used", detail);
    Problem { path: Some("Idempotency-Key".to_owned()), ..problem.with_code("key_reused") }
}

/// Returns a 503. The error of the store is only logged.
fn lookup_failed_problem(cause: &StoreError) -> Problem {
    warn!(cause = %cause, "an idempotency key could not be looked up: {cause}");
    let detail = "it cannot be looked up now whether this request was done before; retry later, or without Idempotency-Key";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the database is not available", detail)
        .with_code("database_away")
        .with_retry_after(RETRY_SOON_S)
}

#[cfg(test)]
mod tests;
