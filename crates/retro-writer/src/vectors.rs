//! Fetches vectors from an external source outside of any transaction, and stores them in the background.
//!
//! **The need.** A decision runs under the lock of its workflow and must not wait for a service. **The design.**
//! The decision is tried with the vectors that are already available. If it compares texts without a vector,
//! nothing is stored. The missing vectors are fetched from the database or the source, and the decision is tried
//! again. The same facts lead to the same texts, so the second pass nearly always succeeds. Each concurrent
//! change of the facts costs another pass, and the last pass decides with the vectors that are available.
//! **Missing vectors** are replaced by the built-in embedder, so tombstones and thresholds stay in force while a
//! source is unavailable or has embedded only some of the memories.
//!
//! Vectors of memories are stored. The sweep visits all memories page by page, and then starts over. A
//! restart or another embedder also starts it over, and a page without missing vectors costs one query.

use std::sync::{Arc, PoisonError};

use retro_core::id::{MemoryId, Tenant};
use retro_core::similarity::{self, ResolverPass};
use retro_store::{EmbeddingSource, MemoryText, StoreError, TEXTS_PER_PASS_MAX, embed_texts};
use tracing::{debug, info};

use crate::Writer;

/// Maximum number of memories checked per sweep.
const MEMORIES_PER_SWEEP: u32 = 1000;
/// Maximum number of texts per request of the sweep to the source. The vectors of a request are stored before
/// the next request.
const TEXTS_PER_BATCH: usize = 64;
/// Age in seconds after which the vectors of a former embedder are deleted: a week, in which switching back
/// requires no new vectors.
const STALE_VECTOR_AGE_S: u64 = 7 * 24 * 3600;
/// Maximum number of stored vectors deleted per sweep.
const DELETED_PER_SWEEP: u32 = 1000;

/// Position of the sweep: the memory after which it continues.
#[derive(Debug, Default)]
pub(crate) struct SweepCursor {
    after: Option<(Tenant, MemoryId)>,
}

/// Fetches the vectors for all passes of one decision.
pub(crate) struct EmbeddingFetcher<'w> {
    writer: &'w Writer,
    tenant: &'w Tenant,
    resolver: similarity::EmbeddingResolver,
}

impl EmbeddingFetcher<'_> {
    pub(crate) fn next_pass(&self) -> ResolverPass<'_> {
        self.resolver.next_pass()
    }

    /// Fetches the vectors that were missing in a pass. Fails if the database is unavailable. A failure of the
    /// source is not an error.
    pub(crate) async fn fetch_missing(&mut self, missing: Vec<String>) -> Result<(), StoreError> {
        let Some(source) = &self.writer.vectors else { return Ok(()) };
        let mut found = self.writer.store.load_embeddings(self.tenant, source.name(), &missing).await?;
        let mut unknown: Vec<String> =
            missing.iter().filter(|text| !found.contains_key(*text)).cloned().collect();
        // Bounds the time of one pass; the built-in embedder compares the rest.
        unknown.truncate(TEXTS_PER_PASS_MAX);
        // A failing source is not an error: texts without a vector are compared by the built-in embedder.
        found.extend(embed_texts(&**source, unknown).await.unwrap_or_default());
        self.resolver.add_vectors(missing, found);
        Ok(())
    }
}

impl Writer {
    pub(crate) fn embedding_fetcher<'w>(&'w self, tenant: &'w Tenant) -> EmbeddingFetcher<'w> {
        let of = |source: &Arc<dyn EmbeddingSource>| {
            similarity::EmbeddingResolver::for_embedder(source.name(), source.scale())
        };
        let resolver = self.vectors.as_ref().map_or_else(similarity::EmbeddingResolver::built_in, of);
        EmbeddingFetcher { writer: self, tenant, resolver }
    }

    /// Checks the next memories, and fetches and stores the vectors that are missing. Returns the number of
    /// vectors stored. Does nothing with the built-in embedder.
    pub async fn sweep_vectors(&self) -> Result<usize, StoreError> {
        let Some(source) = &self.vectors else { return Ok(0) };
        let embedder = source.name();
        // Cloned, so that the lock is not held across an `await`.
        let after = self.vector_cursor.lock().unwrap_or_else(PoisonError::into_inner).after.clone();
        if after.is_none() {
            self.record_missing_vectors(embedder).await?;
        }
        let page = self.store.list_missing_embeddings(embedder, after.as_ref(), MEMORIES_PER_SWEEP).await?;
        let made = self.embed_and_store(&**source, &page.missing).await?;
        if made > 0 {
            info!(embedder, "stored {made} vectors of memories");
            self.record_missing_vectors(embedder).await?;
        }
        if page.after.is_none() {
            let forgotten =
                self.store.purge_embeddings(embedder, STALE_VECTOR_AGE_S, DELETED_PER_SWEEP).await?;
            debug!(embedder, forgotten, "checked every memory");
        }
        self.vector_cursor.lock().unwrap_or_else(PoisonError::into_inner).after = page.after;
        Ok(made)
    }

    async fn record_missing_vectors(&self, embedder: &str) -> Result<(), StoreError> {
        let lacking = self.store.count_missing_embeddings(embedder).await?;
        retro_meter::EMBEDDINGS_MISSING.set([], lacking as f64);
        Ok(())
    }

    /// Embeds texts and stores the vectors that the source returns. Refused texts are requested again in the
    /// next round of the sweep. Returns the number of vectors stored.
    async fn embed_and_store(
        &self,
        source: &dyn EmbeddingSource,
        lacking: &[MemoryText],
    ) -> Result<usize, StoreError> {
        let mut kept = 0;
        for some in lacking.chunks(TEXTS_PER_BATCH) {
            let texts = some.iter().map(|one| one.text.clone()).collect();
            // The source is unavailable: the remaining texts are requested in the next round.
            let Some(vectors) = embed_texts(source, texts).await else { break };
            let pairs: Vec<_> =
                some.iter().filter_map(|one| Some((one.clone(), vectors.get(&one.text)?.clone()))).collect();
            self.store.store_embeddings(source.name(), &pairs).await?;
            kept += pairs.len();
        }
        Ok(kept)
    }
}
