//! Requests that their callers give a key (`Idempotency-Key`), so that sending one again does not do it again: the
//! answer that was given is given again, whichever process is asked.
//!
//! What may succeed later (429, 5xx) is not kept. The work goes on when its caller hangs up, since that is when a caller
//! asks again. A process that dies at it leaves the key taken for [`UNDER_WAY_S_MAX`]; so whatever is done here has to be
//! harmless when it is done twice, as everything is that goes through an inbox or has an id derived from what caused it.

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
use retro_store::{Begun, KeptAnswer, RequestName, RequestStore, RequestTimes, StoreError};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::problem::Problem;

/// The header that names a request.
pub const KEY_HEADER: &str = "idempotency-key";
/// The longest key, in bytes: a UUID has 36, and some callers put their own ids together.
pub const KEY_BYTES_MAX: usize = 255;
/// How long the same key is refused while a request is under way, seconds: longer than any takes.
pub const UNDER_WAY_S_MAX: u64 = 120;
/// How long an answer is given again, seconds: a day.
pub const KEPT_S: u64 = 24 * 3600;

/// When to ask again while the same request is under way, seconds: most take less than one.
const AGAIN_SOON_S: u32 = 1;
/// How often what is old is forgotten: rows of a day make no difference to those of a minute.
const FORGET_EVERY: Duration = Duration::from_secs(60);
/// How many requests are forgotten at once: 166 a second, and a transaction of some milliseconds.
const FORGOTTEN_AT_ONCE: u32 = 10_000;
/// The longest answer that is kept, in bytes: a batch of which every event is refused, each with a long path.
const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The key of a request, when its caller gave one: 1 to [`KEY_BYTES_MAX`] visible ASCII characters.
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
            return Err(Problem::field("Idempotency-Key", detail));
        }
        Ok(Self(Some(String::from_utf8_lossy(key).into_owned())))
    }
}

/// Does things once.
#[derive(Clone)]
pub struct Idempotency {
    store: Arc<dyn RequestStore>,
}

/// One request.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The caller's tenant.
    pub tenant: &'a Tenant,
    /// Method and path, such as `POST /v1/events`.
    pub route: &'static str,
    /// The caller's key.
    pub key: IdempotencyKey,
    /// Everything that makes it another request: body, and whichever headers count.
    pub content: &'a [&'a [u8]],
}

impl Idempotency {
    /// Over a database.
    pub fn new(store: Arc<dyn RequestStore>) -> Self {
        Self { store }
    }

    /// Does the work, unless it was done under this key before: then the answer that was given is given again, with
    /// `Idempotency-Replayed: true`. The same key with other content is refused (422), one under way, too (409). Without
    /// a key the work is done and nothing is looked up.
    pub async fn once<W>(&self, asked: Asked<'_>, work: W) -> Response
    where
        W: Future<Output = Response> + Send + 'static,
    {
        let Asked { tenant, route, key, content } = asked;
        let Some(key) = key.0 else { return work.await };
        let name = RequestName { tenant: tenant.clone(), route, key };
        let times = RequestTimes { under_way_s: UNDER_WAY_S_MAX, kept_s: KEPT_S };
        match self.store.begin_request(&name, &fingerprint(content), times).await {
            Ok(Begun::Now(token)) => self.clone().carry_out(name, token, work).await,
            Ok(Begun::Answered(answer)) => again(answer),
            Ok(Begun::UnderWay) => under_way().into_response(),
            Ok(Begun::Differs) => differs().into_response(),
            Err(cause) => not_looked_up(&cause).into_response(),
        }
    }

    /// Forgets what is no longer answered, until `stop`; in any number of processes at once.
    pub async fn forget_old(self, stop: CancellationToken) {
        let mut looks = tokio::time::interval(FORGET_EVERY);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = looks.tick() => {}
            }
            match self.store.forget_requests(KEPT_S, FORGOTTEN_AT_ONCE).await {
                Ok(0) => {}
                Ok(forgotten) => info!(forgotten, "forgot {forgotten} requests that were answered a day ago"),
                Err(cause) => warn!(cause = %cause, "old requests were not forgotten: {cause}"),
            }
        }
    }

    async fn carry_out<W>(self, name: RequestName, token: u64, work: W) -> Response
    where
        W: Future<Output = Response> + Send + 'static,
    {
        let working = tokio::spawn(async move {
            let (answer, kept) = kept(work.await).await;
            if let Err(cause) = self.store.end_request(&name, token, kept.as_ref()).await {
                warn!(cause = %cause, "what was answered to {} could not be kept: {cause}", name.route);
            }
            answer
        });
        working.await.unwrap_or_else(|panicked| {
            error!("a request ended in the middle: {panicked}");
            let detail = "the request ended in the middle; the server's log says where";
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the request was not finished", detail)
                .into_response()
        })
    }
}

/// A hash of the parts' hashes: no part can be moved into its neighbour, and none is copied.
fn fingerprint(content: &[&[u8]]) -> String {
    let hashes: String = content.iter().map(|part| sha256_hex(part)).collect();
    sha256_hex(hashes.as_bytes())
}

/// The answer, and what of it is kept: nothing of one that may be another later.
async fn kept(answer: Response) -> (Response, Option<KeptAnswer>) {
    let status = answer.status();
    let may_change = status.is_server_error()
        || [StatusCode::TOO_MANY_REQUESTS, StatusCode::CONFLICT, StatusCode::REQUEST_TIMEOUT]
            .contains(&status);
    if may_change {
        return (answer, None);
    }
    let (head, body) = answer.into_parts();
    let Ok(body) = to_bytes(body, ANSWER_BYTES_MAX).await else {
        let detail =
            format!("the answer is longer than {ANSWER_BYTES_MAX} bytes, and a request with a key keeps it");
        let problem = Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer is too long", detail);
        return (problem.into_response(), None);
    };
    let content_type = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kept = KeptAnswer {
        status: status.as_u16(),
        content_type: content_type.unwrap_or("application/octet-stream").to_owned(),
        body: body.to_vec(),
    };
    (Response::from_parts(head, Body::from(body)), Some(kept))
}

fn again(answer: KeptAnswer) -> Response {
    let KeptAnswer { status, content_type, body } = answer;
    let mut response = (StatusCode::from_u16(status).unwrap_or(StatusCode::OK), body).into_response();
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&content_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    response
}

fn under_way() -> Problem {
    let detail = "a request with this key is under way; ask again for its answer";
    Problem::new(StatusCode::CONFLICT, "the same request is under way", detail)
        .with_code("request_under_way")
        .retry_after(AGAIN_SOON_S)
}

fn differs() -> Problem {
    let detail = "this key was given to a request of another content; give each request a key of its own";
    let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "the key is taken", detail);
    Problem { path: Some("Idempotency-Key".to_owned()), ..problem.with_code("key_reused") }
}

/// The store's own words go to the log.
fn not_looked_up(cause: &StoreError) -> Problem {
    warn!(cause = %cause, "a request's key could not be looked up: {cause}");
    let detail =
        "whether this was done before cannot be looked up now; ask again, or without Idempotency-Key";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the database is not available", detail)
        .with_code("database_away")
        .retry_after(AGAIN_SOON_S)
}

#[cfg(test)]
mod tests;
