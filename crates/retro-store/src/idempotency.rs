//! The port of idempotent requests: it stores the response to a request that carries an idempotency key.

use async_trait::async_trait;
use retro_core::id::Tenant;

use crate::Result;

/// Identity of a request that carries an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// Tenant of the caller.
    pub tenant: Tenant,
    /// Method and path. The same key on another route is another request.
    pub route: &'static str,
    /// Idempotency key that the caller chose.
    pub key: String,
}

/// Timeouts in seconds, by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyTimeouts {
    /// Time that a caller may take to finish the request; after that another caller may take it over.
    pub lock_timeout_s: u64,
    /// Time for which a response is kept.
    pub retention_s: u64,
}

/// Outcome of beginning a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeginRequestResult {
    /// The caller may process the request. Holds the fencing token, which only increases and must be passed
    /// when the request ends.
    Started(u64),
    /// Another caller is processing the request.
    InProgress,
    /// The key was used before for a request with different content.
    ContentMismatch,
    /// The request was processed before; holds the stored response.
    Answered(StoredResponse),
}

/// A stored response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResponse {
    /// HTTP status code.
    pub status: u16,
    /// Content type of the body.
    pub content_type: String,
    /// Body as sent.
    pub body: Vec<u8>,
}

/// Stores responses by idempotency key.
#[async_trait]
pub trait IdempotencyStore: Send + Sync {
    /// Begins a request. Only one of two concurrent calls may process it. `fingerprint` is the SHA-256 of its content,
    /// in hexadecimal.
    async fn begin_request(
        &self,
        name: &RequestKey,
        fingerprint: &str,
        times: IdempotencyTimeouts,
    ) -> Result<BeginRequestResult>;

    /// Ends a request by storing its response or, without one, by deleting the key, so that the request can be
    /// repeated. Does nothing when another caller took the request over.
    async fn end_request(&self, name: &RequestKey, token: u64, answer: Option<&StoredResponse>)
    -> Result<()>;

    /// Deletes requests that began more than `older_than_s` seconds ago, the oldest first, at most `limit`.
    /// Returns the number of deleted requests.
    async fn purge_requests(&self, older_than_s: u64, limit: u32) -> Result<u64>;
}
