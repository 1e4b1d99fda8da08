//! Storage port of idempotent HTTP requests, which stores the response of each request that carries an
//! idempotency key.

use async_trait::async_trait;
use retro_core::id::Tenant;

use crate::Result;

/// Identity of an HTTP request that carries an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// Tenant of the caller.
    pub tenant: Tenant,
    /// Method and path template of the request. The same key on another route identifies another request.
    pub route: &'static str,
    /// Idempotency key chosen by the caller.
    pub key: String,
}

/// Timeouts of idempotent requests, measured by the database clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyTimeouts {
    /// Seconds after which another caller may take over an unfinished request.
    pub lock_timeout_s: u64,
    /// Seconds, from the start of the request, for which its response is kept.
    pub retention_s: u64,
}

/// Outcome of beginning a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeginRequestResult {
    /// The caller may process the request and must pass the contained fencing token to
    /// [`IdempotencyStore::end_request`].
    Started(u64),
    /// Another caller is processing the request.
    InProgress,
    /// The key was used before for a request with different content.
    ContentMismatch,
    /// The request was processed before; contains the stored response.
    Answered(StoredResponse),
}

/// Stored response to an idempotent request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// HTTP status code of the response.
    pub status: u16,
    /// `Content-Type` of the body.
    pub content_type: String,
    /// Body of the response as sent.
    pub body: Vec<u8>,
}

/// Serialises requests by idempotency key and stores their responses.
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Begins a request. Of several concurrent calls with the same key, only one gets
    /// [`BeginRequestResult::Started`]. `fingerprint` is the hexadecimal SHA-256 of the request content.
    async fn begin_request(
        &self,
        name: &RequestKey,
        fingerprint: &str,
        times: IdempotencyTimeouts,
    ) -> Result<BeginRequestResult>;

    /// Ends a request by storing its response. If `answer` is `None`, deletes the key instead, so the request
    /// can be retried. Does nothing if another caller has taken over the request.
    async fn end_request(&self, name: &RequestKey, token: u64, answer: Option<&StoredResponse>)
    -> Result<()>;

    /// Deletes at most `limit` requests that began at least `older_than_s` seconds ago, oldest first. Returns
    /// the number of deleted requests.
    async fn purge_requests(&self, older_than_s: u64, limit: u32) -> Result<u64>;
}
