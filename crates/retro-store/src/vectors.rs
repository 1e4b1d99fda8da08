//! The port of vectors, and of what makes them. A model that lies on a disk or behind an address is asked outside of every
//! transaction; what it made of the memories is kept, under its name, so that a decision finds it in the database.

use std::collections::BTreeMap;

use async_trait::async_trait;
use retro_core::id::{MemoryId, Tenant};
use retro_core::similar::Scale;
use tracing::{debug, warn};

use crate::Result;

/// Texts that a source is asked for in one round of a decision: a few times what one retrospective finds. What is more than that
/// behind is compared by the built-in embedder until a sweep has come to it, if there is one.
pub const TEXTS_PER_ROUND_MAX: usize = 256;

/// What makes vectors and is not built in.
#[async_trait]
pub trait VectorSource: Send + Sync {
    /// Its name with a version: other weights, another name. At most 200 bytes.
    fn name(&self) -> &str;

    /// What its cosines mean.
    fn scale(&self) -> Scale;

    /// The vector of each text, in their order, within the bounds of [`retro_core::similar::Embedder::embed`]. Takes any
    /// number of texts; ends by itself within its own time. Fails for all of them, and may be asked again.
    async fn embed(&self, texts: &[String]) -> std::result::Result<Vec<Vec<i32>>, SourceError>;
}

/// Why there are no vectors, in words for a person: no text and no key stands in them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// It was asked.
    #[error("{0}")]
    Failed(String),
    /// It was not asked, since it failed again and again; whoever decided that has told it.
    #[error("{0}")]
    LeftAlone(String),
}

/// Vectors of texts, by text, from whoever makes them; counted, and told when there are none: `None`, and the texts are
/// compared by the built-in embedder.
pub async fn made(source: &dyn VectorSource, texts: Vec<String>) -> Option<BTreeMap<String, Vec<i32>>> {
    if texts.is_empty() {
        return Some(BTreeMap::new());
    }
    let (embedder, count) = (source.name(), texts.len());
    match source.embed(&texts).await {
        Ok(vectors) => {
            retro_meter::EMBEDDED.add(count as u64, ["made"]);
            Some(texts.into_iter().zip(vectors).collect())
        }
        Err(SourceError::LeftAlone(problem)) => {
            retro_meter::EMBEDDED.add(count as u64, ["left_alone"]);
            debug!(embedder, "{count} texts are compared by the built-in embedder: {problem}");
            None
        }
        Err(SourceError::Failed(problem)) => {
            retro_meter::EMBEDDED.add(count as u64, ["failed"]);
            warn!(embedder, "{count} texts are compared by the built-in embedder: {problem}");
            None
        }
    }
}

/// A memory, and the text of it that is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryText {
    /// Whose it is.
    pub tenant: Tenant,
    /// The memory.
    pub memory: MemoryId,
    /// Its text.
    pub text: String,
}

/// Some memories in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LackingPage {
    /// Those of them that may be compared, since they live or have a tombstone, and have no vector of the embedder.
    pub lacking: Vec<MemoryText>,
    /// Where the next page begins; `None`: this is the last.
    pub after: Option<(Tenant, MemoryId)>,
}

/// Keeping vectors.
#[async_trait]
pub trait VectorStore: Send + Sync {
    /// Those vectors of texts that an embedder made for this tenant's memories.
    async fn vectors(
        &self,
        tenant: &Tenant,
        embedder: &str,
        texts: &[String],
    ) -> Result<BTreeMap<String, Vec<i32>>>;

    /// What lacks a vector of the embedder among the next `limit` memories of all tenants after the one named.
    async fn lacking_vectors(
        &self,
        embedder: &str,
        after: Option<&(Tenant, MemoryId)>,
        limit: u32,
    ) -> Result<LackingPage>;

    /// How many memories lack a vector of the embedder, counted up to [`COUNTED_MAX`](crate::level::COUNTED_MAX).
    async fn lacking_vectors_count(&self, embedder: &str) -> Result<u64>;

    /// One transaction: keeps vectors of memories in place of what the embedder made of them before.
    async fn keep_vectors(&self, embedder: &str, made: &[(MemoryText, Vec<i32>)]) -> Result<()>;

    /// Forgets vectors of other embedders that were kept so long ago, seconds; at most `limit`. Returns how many.
    async fn forget_vectors(&self, embedder: &str, older_than_s: u64, limit: u32) -> Result<u64>;
}
