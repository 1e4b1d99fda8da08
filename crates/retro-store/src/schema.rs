//! Port of the schema check, which finds out whether the database is reachable and has this program's schema.

use async_trait::async_trait;

use crate::Result;

/// Reads the state of the schema. Only `retro migrate` changes it.
#[async_trait]
pub trait SchemaStore: Send + Sync {
    /// Returns the names of this program's migrations that the database lacks, in order. The list is empty when the
    /// database can be used. The query is cheap enough to run every second. Fails when the database does not answer.
    async fn list_missing_migrations(&self) -> Result<Vec<String>>;
    /// Returns the id of the database. It is generated when the database is created and never changes. A copy or a
    /// restored backup has the same id.
    async fn load_database_id(&self) -> Result<String>;
}
