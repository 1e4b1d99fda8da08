//! Fetches the vectors for comparing requests from the configured source, and caches them in this process.
//!
//! A pull request is decided again after each new remark, and each time it is compared with the same requests on
//! other pull requests. Requests are not memories, so their vectors are not stored in the database; the process
//! caches some of them and fetches the others again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retro_core::similarity::EmbeddingResolver;
use retro_store::review::OTHER_REQUESTS_MAX;
use retro_store::{EmbeddingSource, TEXTS_PER_PASS_MAX, embed_texts};

/// Maximum number of cached texts: enough for the requests of a few repositories. With the longest vectors,
/// the cache takes 32 MB.
const CACHED_TEXTS_MAX: usize = 4 * OTHER_REQUESTS_MAX as usize;

pub(crate) struct RequestVectors {
    source: Option<Arc<dyn EmbeddingSource>>,
    cache: Mutex<BTreeMap<String, Vec<i32>>>,
}

impl RequestVectors {
    /// Creates the cache for a source; `None` selects the built-in embedder.
    pub(crate) fn new(source: Option<Arc<dyn EmbeddingSource>>) -> Self {
        Self { source, cache: Mutex::default() }
    }

    /// Creates the resolver that fetches the missing vectors for one decision.
    pub(crate) fn resolver(&self) -> EmbeddingResolver {
        let of = |source: &Arc<dyn EmbeddingSource>| {
            EmbeddingResolver::for_embedder(source.name(), source.scale())
        };
        self.source.as_ref().map_or_else(EmbeddingResolver::built_in, of)
    }

    /// Returns the vectors of these texts that are available. Never fails: texts without a vector are compared
    /// by the built-in embedder.
    pub(crate) async fn fetch_vectors(&self, texts: &[String]) -> BTreeMap<String, Vec<i32>> {
        let Some(source) = &self.source else { return BTreeMap::new() };
        // The block releases the lock before the source is awaited.
        let mut found: BTreeMap<_, _> = {
            let cached = self.lock_cache();
            texts.iter().filter_map(|text| Some((text.clone(), cached.get(text)?.clone()))).collect()
        };
        let mut unknown: Vec<_> = texts.iter().filter(|text| !found.contains_key(*text)).cloned().collect();
        // Bounds the time of one pass; the built-in embedder compares the rest.
        unknown.truncate(TEXTS_PER_PASS_MAX);
        let made = embed_texts(&**source, unknown).await.unwrap_or_default();
        let mut cached = self.lock_cache();
        // Clearing the whole cache needs no bookkeeping of ages; the next decision fetches its texts again.
        if cached.len() + made.len() > CACHED_TEXTS_MAX {
            cached.clear();
        }
        cached.extend(made.clone());
        found.extend(made);
        found
    }

    fn lock_cache(&self) -> MutexGuard<'_, BTreeMap<String, Vec<i32>>> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
