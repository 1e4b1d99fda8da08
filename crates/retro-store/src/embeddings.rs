//! The port of embeddings, and the source that computes them. A model on disk or behind an address is called outside
//! of every transaction. The embeddings of memories are stored under the name of the embedder, so that a later
//! decision finds them in the database.

use std::collections::BTreeMap;

use async_trait::async_trait;
use retro_core::id::{MemoryId, Tenant};
use retro_core::similarity::SimilarityScale;
use tracing::{debug, warn};

use crate::Result;

/// Maximum number of texts embedded in one pass of a decision: several times as many as one retrospective finds.
/// Further texts are compared by the built-in embedder until a background sweep, where one runs, has embedded them.
pub const TEXTS_PER_PASS_MAX: usize = 256;

/// An embedder other than the built-in one.
#[async_trait]
pub trait EmbeddingSource: Send + Sync {
    /// Returns the name with a version of at most 200 bytes. Other weights need another name.
    fn name(&self) -> &str;

    /// Returns the scale by which the cosines are interpreted.
    fn scale(&self) -> SimilarityScale;

    /// Returns the vector of each text, in order, within the bounds of
    /// [`retro_core::similarity::Embedder::embed`]. Accepts any number of texts and enforces its own timeout.
    /// Fails for all texts together; the call may be repeated.
    async fn embed(&self, texts: &[String]) -> std::result::Result<Vec<Vec<i32>>, EmbeddingSourceError>;
}

/// Reason why there are no embeddings, for people. Contains neither texts nor keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingSourceError {
    /// The embedder was called and failed.
    #[error("{0}")]
    Failed(String),
    /// The embedder was not called, because its circuit breaker is open. The breaker has logged that already.
    #[error("{0}")]
    CircuitOpen(String),
}

/// Returns the embeddings of texts, by text, and counts the result in the metrics. Logs a failure and returns `None`;
/// the caller then compares by the built-in embedder.
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

/// A memory and the text by which it is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryText {
    /// Tenant that owns the memory.
    pub tenant: Tenant,
    /// Id of the memory.
    pub memory: MemoryId,
    /// Text to embed.
    pub text: String,
}

/// A page of memories in key order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MissingEmbeddingsPage {
    /// Memories of the page that can be compared, because they are living or have a tombstone, and that have no
    /// embedding by the embedder.
    pub missing: Vec<MemoryText>,
    /// Start of the next page; `None` on the last page.
    pub after: Option<(Tenant, MemoryId)>,
}

/// Stores embeddings.
#[async_trait]
pub trait EmbeddingStore: Send + Sync {
    /// Returns the stored embeddings of these texts by the embedder, among this tenant's memories.
    async fn load_embeddings(
        &self,
        tenant: &Tenant,
        embedder: &str,
        texts: &[String],
    ) -> Result<BTreeMap<String, Vec<i32>>>;

    /// Returns those of the next `limit` memories after the given one, over all tenants, that have no embedding by
    /// the embedder.
    async fn list_missing_embeddings(
        &self,
        embedder: &str,
        after: Option<&(Tenant, MemoryId)>,
        limit: u32,
    ) -> Result<MissingEmbeddingsPage>;

    /// Returns how many memories have no embedding by the embedder, counted up to
    /// [`COUNTED_MAX`](crate::metrics::COUNTED_MAX).
    async fn count_missing_embeddings(&self, embedder: &str) -> Result<u64>;

    /// Stores embeddings of memories in one transaction, in place of earlier ones by the same embedder.
    async fn store_embeddings(&self, embedder: &str, embeddings: &[(MemoryText, Vec<i32>)]) -> Result<()>;

    /// Deletes embeddings by other embedders that were stored more than `older_than_s` seconds ago; at most
    /// `limit`. Returns the number of deleted embeddings.
    async fn purge_embeddings(&self, embedder: &str, older_than_s: u64, limit: u32) -> Result<u64>;
}
