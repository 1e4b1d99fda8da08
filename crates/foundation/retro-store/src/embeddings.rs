//! Storage port for embeddings and the trait of embedding models.
//!
//! Models are called outside of transactions (see `vectors.rs`). Embeddings of memories are stored per
//! embedder, so later decisions load them from the database.

use std::collections::BTreeMap;

use async_trait::async_trait;
use retro_core::id::{MemoryId, Tenant};
use retro_core::similarity::SimilarityScale;
use tracing::{debug, warn};

use crate::Result;

/// Embedding model other than the built-in embedder.
#[async_trait]
pub trait EmbeddingSource: Send + Sync {
    /// Returns the name and version of the embedder, at most 200 bytes. Models with different weights must
    /// have different names.
    fn name(&self) -> &str;

    /// Returns the scale that maps this embedder's cosines to the common similarity scale.
    fn scale(&self) -> SimilarityScale;

    /// Returns one vector per text, in order, within the bounds of
    /// [`retro_core::similarity::Embedder::embed`]. Accepts any number of texts and enforces its own timeout.
    /// If one text fails, the whole call fails and may be retried.
    async fn embed(&self, texts: &[String]) -> std::result::Result<Vec<Vec<i32>>, EmbeddingSourceError>;
}

/// Error of an embedding model. Messages are human-readable and contain neither the texts nor API keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingSourceError {
    /// The model was called and failed.
    #[error("{0}")]
    Failed(String),
    /// The model was not called because its circuit breaker is open. The breaker has already logged the
    /// failure.
    #[error("{0}")]
    CircuitOpen(String),
}

/// Embeds texts and records the result in the metrics. Returns a map from text to embedding. If the model
/// fails, logs the failure and returns `None`; the caller then falls back to the built-in embedder.
pub async fn embed_texts(
    source: &dyn EmbeddingSource,
    texts: Vec<String>,
) -> Option<BTreeMap<String, Vec<i32>>> {
    if texts.is_empty() {
        return Some(BTreeMap::new());
    }
    let (embedder, count) = (source.name(), texts.len());
    match source.embed(&texts).await {
        Ok(vectors) => {
            retro_telemetry::metrics::TEXTS_EMBEDDED.add(count as u64, ["embedded"]);
            Some(texts.into_iter().zip(vectors).collect())
        }
        Err(EmbeddingSourceError::CircuitOpen(problem)) => {
            retro_telemetry::metrics::TEXTS_EMBEDDED.add(count as u64, ["circuit_open"]);
            // Not a warning, because the circuit breaker has already logged one and would otherwise be
            // drowned out.
            debug!(embedder, "{count} texts are compared by the built-in embedder: {problem}");
            None
        }
        Err(EmbeddingSourceError::Failed(problem)) => {
            retro_telemetry::metrics::TEXTS_EMBEDDED.add(count as u64, ["failed"]);
            warn!(embedder, "{count} texts are compared by the built-in embedder: {problem}");
            None
        }
    }
}

/// Text of a memory, by which its similarity to others is computed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryText {
    /// Tenant that owns the memory.
    pub tenant: Tenant,
    /// Id of the memory.
    pub memory: MemoryId,
    /// Text to embed.
    pub text: String,
}

/// Page of memories without an embedding, in key order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MissingEmbeddingsPage {
    /// Memories of the page that are living or have a tombstone and lack an embedding by the embedder.
    pub missing: Vec<MemoryText>,
    /// Cursor of the next page: the last memory of this one; `None` on the last page.
    pub after: Option<(Tenant, MemoryId)>,
}

/// Stores the embeddings of memories.
#[async_trait]
pub trait EmbeddingStore: Send + Sync {
    /// Returns the embeddings of texts that are stored for the tenant's memories and the named embedder.
    /// Other texts are absent from the map.
    async fn load_embeddings(
        &self,
        tenant: &Tenant,
        embedder: &str,
        texts: &[String],
    ) -> Result<BTreeMap<String, Vec<i32>>>;

    /// Scans the next `limit` memories of all tenants after `after`, and returns those without an embedding
    /// by the embedder.
    async fn list_missing_embeddings(
        &self,
        embedder: &str,
        after: Option<&(Tenant, MemoryId)>,
        limit: u32,
    ) -> Result<MissingEmbeddingsPage>;

    /// Returns the number of memories without an embedding by the embedder, capped at
    /// [`COUNTED_MAX`](crate::metrics::COUNTED_MAX).
    async fn count_missing_embeddings(&self, embedder: &str) -> Result<u64>;

    /// Stores embeddings of memories in one transaction, replacing earlier embeddings by the same embedder.
    async fn store_embeddings(&self, embedder: &str, embeddings: &[(MemoryText, Vec<i32>)]) -> Result<()>;

    /// Deletes at most `limit` embeddings by other embedders that were stored at least `older_than_s` seconds
    /// ago. Returns the number of deleted embeddings.
    async fn purge_embeddings(&self, embedder: &str, older_than_s: u64, limit: u32) -> Result<u64>;
}
