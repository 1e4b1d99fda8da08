//! Whether the database is there and of this version: what a process asks before it works, and while it does.

use async_trait::async_trait;

use crate::Result;

/// Looking at the schema. Nothing here changes it: that is `retro migrate`'s.
#[async_trait]
pub trait SchemaStore: Send + Sync {
    /// The names of this program's migrations that the database lacks, in order; empty when it can be used. One small
    /// question, so that it may be asked every second. Fails when the database does not answer.
    async fn lacks(&self) -> Result<Vec<String>>;
    /// Which database this is: drawn when it was made, the same for ever, also for a copy or a restored backup.
    async fn identity(&self) -> Result<String>;
}
