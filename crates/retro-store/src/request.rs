//! The port that remembers what was answered to a request that its caller gave a key.

use async_trait::async_trait;
use retro_core::id::Tenant;

use crate::Result;

/// A request as its caller names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestName {
    /// The caller's tenant.
    pub tenant: Tenant,
    /// Method and path: the same key elsewhere is another request.
    pub route: &'static str,
    /// The caller's key.
    pub key: String,
}

/// How long things hold, seconds by the database's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestTimes {
    /// How long somebody may be at it; after that another may do it.
    pub under_way_s: u64,
    /// How long an answer is remembered.
    pub kept_s: u64,
}

/// What comes of beginning a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It is the caller's to do. The token, which only grows, proves it when it ends.
    Now(u64),
    /// Somebody is doing it at this moment.
    UnderWay,
    /// The name was given to a request of another content.
    Differs,
    /// It was done, and this was answered.
    Answered(KeptAnswer),
}

/// An answer as it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The HTTP status.
    pub status: u16,
    /// What kind the body is of.
    pub content_type: String,
    /// The body, as it was sent.
    pub body: Vec<u8>,
}

/// Remembering.
#[async_trait]
pub trait RequestStore: Send + Sync {
    /// Begins a request; of two that come at once one may do it. `fingerprint` is the SHA-256 of its content, hex.
    async fn begin_request(
        &self,
        name: &RequestName,
        fingerprint: &str,
        times: RequestTimes,
    ) -> Result<Begun>;

    /// Ends a request: keeps the answer, or, without one, forgets that it was begun, so that it can be done again.
    /// Nothing happens when another took it over.
    async fn end_request(&self, name: &RequestName, token: u64, answer: Option<&KeptAnswer>) -> Result<()>;

    /// Forgets requests that were begun longer ago than this, the oldest first, at most `limit`. Returns how many.
    async fn forget_requests(&self, older_than_s: u64, limit: u32) -> Result<u64>;
}
