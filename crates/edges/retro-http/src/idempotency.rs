//! Makes requests idempotent: resending a request with the same `Idempotency-Key` returns the stored response
//! instead of repeating the effect. Any process that shares the database can return it.
//!
//! Responses that may differ later (408, 409, 429, 5xx) are not stored. The work continues if the client
//! disconnects, because a client that lost its connection is the one that retries. If a process dies during
//! the work, its key stays locked for [`IN_PROGRESS_S_MAX`] seconds, and the retry repeats the work; the work
//! must therefore be safe to repeat. It is, if it goes through an inbox or its ids are derived from its
//! cause.

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

/// Name of the header with the key of a request.
pub const KEY_HEADER: &str = "idempotency-key";
/// Maximum length of a key, in bytes. A UUID has 36, and some clients combine several ids.
pub const KEY_BYTES_MAX: usize = 255;
/// Maximum time for which a key is locked by a request in progress, in seconds. Longer than any request
/// takes.
pub const IN_PROGRESS_S_MAX: u64 = 120;
/// Retention of a stored response, in seconds (one day).
pub const ANSWER_TTL_S: u64 = 24 * 3600;

/// `Retry-After` in seconds, sent while the same request is in progress or the database is unavailable.
const RETRY_SOON_S: u32 = 1;
/// Interval between purges of expired requests. The rows that expire in a minute are few compared with a
/// day's.
const PURGE_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of requests deleted by one purge. Allows 166 per second on average, in a transaction of a
/// few milliseconds.
const PURGE_BATCH_MAX: u32 = 10_000;
/// Maximum size of a stored response, in bytes: enough for a batch in which every event is rejected with a
/// long path.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Idempotency key of a request: 1 to [`KEY_BYTES_MAX`] visible ASCII characters; `None` if the client sent
/// no key.
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

/// Runs each request with an idempotency key only once.
#[derive(Clone)]
pub struct Idempotency {
    store: Arc<dyn IdempotencyStore>,
}

/// A request with its tenant, key and content.
#[derive(Debug)]
pub struct IdempotentRequest<'a> {
    /// Tenant of the client.
    pub tenant: &'a Tenant,
    /// Method and path of the route, such as `POST /v1/events`.
    pub route: &'static str,
    /// Key that the client sent, if any.
    pub key: IdempotencyKey,
    /// Content that identifies the request: its body and the relevant headers.
    pub content: &'a [&'a [u8]],
}

impl Idempotency {
    /// Creates the service over a store.
    pub fn new(store: Arc<dyn IdempotencyStore>) -> Self {
        Self { store }
    }

    /// Runs `work`, unless the tenant has already used this key on this route: then returns the stored
    /// response with `Idempotency-Replayed: true`. Responds with 422 if the content differs, and with 409 if
    /// the request is still in progress. Without a key, runs `work` without using the database.
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
            // Refuse: running the work without a lookup could repeat it.
            Err(cause) => lookup_failed_problem(&cause).into_response(),
        }
    }

    /// Deletes expired requests until `stop` is cancelled. May run in several processes at the same time.
    pub async fn purge_expired(self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(PURGE_INTERVAL);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            match self.store.purge_requests(ANSWER_TTL_S, PURGE_BATCH_MAX).await {
                Ok(0) => {}
                Ok(purged) => info!(purged, "purged {purged} expired idempotency keys"),
                Err(cause) => warn!(cause = %cause, "expired idempotency keys could not be purged: {cause}"),
            }
        }
    }

    async fn run_and_store<W>(self, name: RequestKey, token: u64, work: W) -> Response
    where
        W: Future<Output = Response> + Send + 'static,
    {
        // A separate task, so the work and its response survive a client that disconnects.
        let task = tokio::spawn(async move {
            let (answer, stored) = buffer_answer(work.await).await;
            // If this fails, the lock expires by itself and a retry runs the work again.
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

/// Hashes the hashes of all parts. Moving bytes from one part to the next changes the result, and no part is
/// copied.
fn fingerprint_content(content: &[&[u8]]) -> String {
    let hashes: String = content.iter().map(|part| sha256_hex(part)).collect();
    sha256_hex(hashes.as_bytes())
}

/// Returns the response and the copy to store. The copy is `None` if the response may differ later or is too
/// long; a response that is too long becomes a 500.
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

/// Returns a 503 and logs the store's error, which is not sent to the client.
fn lookup_failed_problem(cause: &StoreError) -> Problem {
    warn!(cause = %cause, "an idempotency key could not be looked up: {cause}");
    let detail = "it cannot be looked up now whether this request was done before; retry later, or without Idempotency-Key";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the database is not available", detail)
        .with_code("database_away")
        .with_retry_after(RETRY_SOON_S)
}

#[cfg(test)]
mod tests;
