//! Port for storing embeddings, and the trait of the source that computes them. A model on disk or at an address is
//! called outside of every transaction. The embeddings of memories are stored under the name of their embedder, so that
//! a later decision finds them in the database.

use std::collections::BTreeMap;

use async_trait::async_trait;
use retro_core::id::{MemoryId, Tenant};
use retro_core::similarity::SimilarityScale;
use tracing::{debug, warn};

use crate::Result;

/// Maximum number of texts embedded in one pass of a decision: several times as many as one retrospective finds.
/// Further texts are compared by the built-in embedder until a background sweep, where one runs, has embedded them.
pub const TEXTS_PER_PASS_MAX: usize = 256;

/// Computes embeddings with a model other than the built-in embedder.
#[async_trait]
pub trait EmbeddingSource: Send + Sync {
    /// Returns the name of the embedder including its version, at most 200 bytes. An embedder with different weights
    /// must have a different name.
    fn name(&self) -> &str;

    /// Returns the scale that maps the cosines of this embedder to the common similarity scale.
    fn scale(&self) -> SimilarityScale;

    /// Returns the vector of each text, in order, within the bounds of [`retro_core::similarity::Embedder::embed`].
    /// Accepts any number of texts and enforces its own timeout. When one text fails, the whole call fails; it may be
    /// repeated.
    async fn embed(&self, texts: &[String]) -> std::result::Result<Vec<Vec<i32>>, EmbeddingSourceError>;
}

/// Reason why texts were not embedded, worded for people. It contains neither texts nor keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingSourceError {
    /// The embedder was called and failed.
    #[error("{0}")]
    Failed(String),
    /// The embedder was not called, because its circuit breaker is open. The breaker has already logged that.
    #[error("{0}")]
    CircuitOpen(String),
}

/// Returns a map from each text to its embedding, and counts the result in the metrics. On failure, logs it and returns
/// `None`; the caller then compares with the built-in embedder.
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
            retro_meter::TEXTS_EMBEDDED.add(count as u64, ["made"]);
            Some(texts.into_iter().zip(vectors).collect())
        }
        Err(EmbeddingSourceError::CircuitOpen(problem)) => {
            retro_meter::TEXTS_EMBEDDED.add(count as u64, ["left_alone"]);
            // The circuit breaker has logged the failure already, so this is not logged as a warning.
            debug!(embedder, "{count} texts are compared by the built-in embedder: {problem}");
            None
        }
        Err(EmbeddingSourceError::Failed(problem)) => {
            retro_meter::TEXTS_EMBEDDED.add(count as u64, ["failed"]);
            warn!(embedder, "{count} texts are compared by the built-in embedder: {problem}");
            None
        }
    }
}

/// The text by which a memory is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryText {
    /// Tenant that owns the memory.
    pub tenant: Tenant,
    /// Id of the memory.
    pub memory: MemoryId,
    /// Text of the memory, to be embedded.
    pub text: String,
}

/// A page of memories without an embedding, in key order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MissingEmbeddingsPage {
    /// Those memories of the page that have no embedding by the embedder although they can be compared, because they
    /// are living or have a tombstone.
    pub missing: Vec<MemoryText>,
    /// Last memory of the page, after which the next page starts; `None` on the last page.
    pub after: Option<(Tenant, MemoryId)>,
}

/// Stores the embeddings of memories.
#[async_trait]
pub trait EmbeddingStore: Send + Sync {
    /// Returns the stored embeddings of those of these texts that belong to this tenant's memories, as computed by the
    /// named embedder.
    async fn load_embeddings(
        &self,
        tenant: &Tenant,
        embedder: &str,
        texts: &[String],
    ) -> Result<BTreeMap<String, Vec<i32>>>;

    /// Looks at the next `limit` memories of all tenants after the given one, and returns those that have no embedding
    /// by the embedder.
    async fn list_missing_embeddings(
        &self,
        embedder: &str,
        after: Option<&(Tenant, MemoryId)>,
        limit: u32,
    ) -> Result<MissingEmbeddingsPage>;

    /// Returns the number of memories that have no embedding by the embedder, counted up to
    /// [`COUNTED_MAX`](crate::metrics::COUNTED_MAX).
    async fn count_missing_embeddings(&self, embedder: &str) -> Result<u64>;

    /// Stores embeddings of memories in one transaction, replacing earlier ones by the same embedder.
    async fn store_embeddings(&self, embedder: &str, embeddings: &[(MemoryText, Vec<i32>)]) -> Result<()>;

    /// Deletes embeddings that other embedders computed and that were stored more than `older_than_s` seconds ago, at
    /// most `limit`. Returns the number of deleted embeddings.
    async fn purge_embeddings(&self, embedder: &str, older_than_s: u64, limit: u32) -> Result<u64>;
}
