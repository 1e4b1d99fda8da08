//! Checks that the database is reachable and has this program's schema.

use async_trait::async_trait;

use crate::Result;

/// Reads the state of the schema. Only `retro migrate` changes it.
#[async_trait]
pub trait SchemaStore: Send + Sync {
    /// Returns the names of this program's migrations that the database lacks, in order; empty when the database
    /// can be used. The query is small enough to run every second. Fails when the database does not answer.
    async fn list_missing_migrations(&self) -> Result<Vec<String>>;
    /// Returns the id of the database. It is generated when the database is created and never changes; a copy or a
    /// restored backup keeps it.
    async fn load_database_id(&self) -> Result<String>;
}
