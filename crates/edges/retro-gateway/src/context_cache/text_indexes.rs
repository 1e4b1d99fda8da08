//! Caches the indexes of prepared memories' texts, by which they are compared with tasks.
//!
//! Apart from the memories, because an index is several times as large as they are and most agents name no task.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use retro_core::recall::{PreparedMemories, TextIndex};

/// Maximum size of the indexes and of the memories that they belong to, in bytes: those of about 500 steps with 50
/// memories each. An index that is not cached takes about a millisecond.
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

    /// Returns the index of these memories.
    pub(crate) fn find_or_build(&self, memories: &Arc<PreparedMemories>) -> Arc<TextIndex> {
        let address = Arc::as_ptr(memories).addr();
        if let Some(cached) = self.0.get(&address) {
            return cached.index.clone();
        }
        let index = Arc::new(memories.index_texts());
        let indexed = IndexedMemories { memories: memories.clone(), index: index.clone() };
        self.0.insert(address, Arc::new(indexed));
        index
    }
}

#[cfg(test)]
mod tests {
    use retro_core::policy::Policy;
    use retro_core::recall::RecallCandidate;

    use super::*;
    use crate::testing::active_memory;

    #[test]
    fn an_index_is_built_once_and_belongs_to_its_memories() {
        let prepare = |title| {
            let candidates = vec![RecallCandidate { memory: active_memory(title, 300), presentations: 0 }];
            Arc::new(PreparedMemories::new(candidates, &Policy::default()))
        };
        let (indexes, one, other) = (TextIndexes::new(), prepare("select"), prepare("insert"));
        let first = indexes.find_or_build(&one);
        assert!(Arc::ptr_eq(&first, &indexes.find_or_build(&one)));
        assert!(!Arc::ptr_eq(&first, &indexes.find_or_build(&other)));
        assert!(first.size_bytes() > one.size_bytes(), "the reason for a cache of its own");
    }
}
