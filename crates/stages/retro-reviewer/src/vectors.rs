//! Resolves the vectors for comparing requests, and caches them in this process.
//!
//! A pull request is decided again after each new remark, and each time it is compared with the same requests on
//! other pull requests. Requests are not memories, so their vectors are not stored in the database; the process
//! caches some of them and fetches the others again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use retro_core::review::ReviewBatch;
use retro_core::similarity::ResolvedVectors;
use retro_store::review::OTHER_REQUESTS_MAX;
use retro_store::{EmbeddingSource, StoreError, StoredVectors, VectorResolver};

/// Maximum number of cached texts: enough for the requests of a few repositories. With the longest vectors,
/// the cache takes 32 MB.
const CACHED_TEXTS_MAX: usize = 4 * OTHER_REQUESTS_MAX as usize;

pub(crate) struct RequestVectors {
    source: Option<Arc<dyn EmbeddingSource>>,
    cache: RequestCache,
}

impl RequestVectors {
    /// Creates the cache for a source; `None` selects the built-in embedder.
    pub(crate) fn new(source: Option<Arc<dyn EmbeddingSource>>) -> Self {
        Self { source, cache: RequestCache::default() }
    }

    /// Resolves the vectors for deciding a batch.
    pub(crate) async fn resolve(&self, batch: &ReviewBatch) -> Result<ResolvedVectors, StoreError> {
        VectorResolver::new(self.source.as_deref(), &self.cache).resolve(batch).await
    }
}

/// Vectors by text.
#[derive(Default)]
struct RequestCache(Mutex<BTreeMap<String, Vec<i32>>>);

impl RequestCache {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<i32>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl StoredVectors for RequestCache {
    // The process has one source, so the embedder is always the same.
    async fn load_vectors(
        &self,
        _embedder: &str,
        texts: &[String],
    ) -> Result<BTreeMap<String, Vec<i32>>, StoreError> {
        let cached = self.lock();
        Ok(texts.iter().filter_map(|text| Some((text.clone(), cached.get(text)?.clone()))).collect())
    }

    fn offer_vectors(&self, computed: &BTreeMap<String, Vec<i32>>) {
        let mut cached = self.lock();
        // Clearing the whole cache needs no bookkeeping of ages; the next decision fetches its texts again.
        if cached.len() + computed.len() > CACHED_TEXTS_MAX {
            cached.clear();
        }
        cached.extend(computed.iter().map(|(text, vector)| (text.clone(), vector.clone())));
    }
}
