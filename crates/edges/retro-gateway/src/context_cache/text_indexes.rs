//! Caches the indexes of prepared memories' texts, by which they are compared with tasks.
//!
//! Apart from the memories, because an index is several times as large as they are and most agents name no task.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use retro_core::recall::{PreparedMemories, TextIndex};

/// Maximum size of the indexes and of the memories that they belong to, in bytes: those of about 500 steps with 50
/// memories each. An index that is not cached takes a reading of the database and about a millisecond.
const CACHED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Expected size of the index of a scope, in bytes.
const INDEX_BYTES: u64 = 128 * 1024;

/// Index with the memories that it belongs to.
struct IndexedMemories {
    /// Kept, so that the address, by which an index is found, is no other memories' while the index is cached.
    memories: Arc<PreparedMemories>,
    index: Arc<TextIndex>,
}

#[derive(Clone)]
struct SizeWeighter;

impl Weighter<usize, Arc<IndexedMemories>> for SizeWeighter {
    fn weight(&self, _address: &usize, indexed: &Arc<IndexedMemories>) -> u64 {
        (indexed.memories.size_bytes() + indexed.index.size_bytes()) as u64
    }
}

/// Indexes by the address of the memories that they belong to.
pub(crate) struct TextIndexes(Cache<usize, Arc<IndexedMemories>, SizeWeighter>);

impl TextIndexes {
    pub(crate) fn new() -> Self {
        let scopes = usize::try_from(CACHED_BYTES_MAX / INDEX_BYTES).unwrap_or(usize::MAX);
        Self(Cache::with_weighter(scopes, CACHED_BYTES_MAX, SizeWeighter))
    }

    /// Returns the index of these memories, if it is cached.
    pub(crate) fn find(&self, memories: &Arc<PreparedMemories>) -> Option<Arc<TextIndex>> {
        self.0.get(&Arc::as_ptr(memories).addr()).map(|cached| cached.index.clone())
    }

    /// Caches the index of these memories.
    pub(crate) fn insert(&self, memories: Arc<PreparedMemories>, index: Arc<TextIndex>) {
        self.0.insert(Arc::as_ptr(&memories).addr(), Arc::new(IndexedMemories { memories, index }));
    }
}

#[cfg(test)]
mod tests {
    use retro_core::policy::Policy;
    use retro_core::recall::RecallCandidate;

    use super::*;
    use crate::testing::active_memory;

    #[test]
    fn an_index_belongs_to_its_memories_and_is_larger_than_they_are() {
        let candidates = vec![RecallCandidate { memory: active_memory("select", 300), presentations: 0 }];
        let prepare = || Arc::new(PreparedMemories::new(candidates.clone(), &Policy::default()));
        let (indexes, one, same_again) = (TextIndexes::new(), prepare(), prepare());
        assert!(indexes.find(&one).is_none());
        let index = Arc::new(one.index_texts(&candidates));
        indexes.insert(one.clone(), index.clone());
        assert!(indexes.find(&one).is_some_and(|found| Arc::ptr_eq(&found, &index)));
        assert!(indexes.find(&same_again).is_none());
        assert!(index.size_bytes() > one.size_bytes(), "the reason for a cache of its own");
    }

    #[test]
    fn the_memories_of_a_million_fit_beside_it() {
        // A lesson of ordinary length.
        let title = "When `deploy_service` answers “missing required argument region”, set `region` to `eu-central-1`";
        let candidate = |nth: usize| {
            let memory = active_memory(&format!("{title} {nth}"), 300);
            RecallCandidate { memory, presentations: 0 }
        };
        let prepared = PreparedMemories::new((0..50).map(candidate).collect(), &Policy::default());
        let bytes = prepared.size_bytes() * 20_000;
        assert!(bytes < 256 * 1024 * 1024, "{bytes} bytes, more than a gateway caches");
    }
}
