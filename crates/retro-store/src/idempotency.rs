//! Port of idempotent requests. It stores the response to each request that carries an idempotency key.

use async_trait::async_trait;
use retro_core::id::Tenant;

use crate::Result;

/// Identity of a request that carries an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// Tenant of the caller.
    pub tenant: Tenant,
    /// Method and path of the request. The same key on another route identifies another request.
    pub route: &'static str,
    /// Idempotency key that the caller chose.
    pub key: String,
}

/// Timeouts for idempotent requests, measured by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyTimeouts {
    /// Time in seconds that a caller has to finish the request. After that, another caller may take it over.
    pub lock_timeout_s: u64,
    /// Time in seconds for which a response is kept.
    pub retention_s: u64,
}

/// Outcome of beginning a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeginRequestResult {
    /// The caller may process the request. Holds a fencing token, which only increases and must be passed when the
    /// request ends.
    Started(u64),
    /// Another caller is processing the request.
    InProgress,
    /// The key was used before for a request with different content.
    ContentMismatch,
    /// The request was processed before. Holds the stored response.
    Answered(StoredResponse),
}

/// The stored response to an idempotent request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// HTTP status code of the response.
    pub status: u16,
    /// Media type of the body.
    pub content_type: String,
    /// Body of the response, as sent.
    pub body: Vec<u8>,
}

/// Stores the responses to requests by idempotency key.
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Begins a request. Of two concurrent calls with the same key, only one may process the request. `fingerprint` is
    /// the SHA-256 of the request's content, in hexadecimal.
    async fn begin_request(
        &self,
        name: &RequestKey,
        fingerprint: &str,
        times: IdempotencyTimeouts,
    ) -> Result<BeginRequestResult>;

    /// Ends a request by storing its response. Without a response, deletes the key instead, so that the request can be
    /// repeated. Does nothing when another caller has taken the request over.
    async fn end_request(&self, name: &RequestKey, token: u64, answer: Option<&StoredResponse>)
    -> Result<()>;

    /// Deletes requests that began more than `older_than_s` seconds ago, the oldest first, at most `limit`.
    /// Returns the number of deleted requests.
    async fn purge_requests(&self, older_than_s: u64, limit: u32) -> Result<u64>;
}
