//! Resolves the vectors for the writer's decisions, and stores the vectors of memories in the background.
//!
//! A decision loads its vectors from the database, and gets missing ones from the source, before its transaction
//! begins ([`VectorResolver`]).
//!
//! Vectors of memories are stored. The sweep visits all memories page by page, and then starts over. A
//! restart or another embedder also starts it over, and a page without missing vectors costs one query.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use retro_consumer::Sweep;
use retro_core::id::Tenant;
use retro_core::similarity::{ComparesTexts, ResolvedVectors};
use retro_store::{
    Decision, EmbeddingSource, MemoryText, StoreError, StoredVectors, VectorResolver, WriterStore,
    embed_texts,
};
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

/// Sweep that stores the vectors of memories. Separate from the writer's own sweep, so a slow source does not
/// delay other work.
pub struct VectorSweep(Arc<Writer>);

impl VectorSweep {
    /// Creates the sweep over a writer, which has the source and the store.
    pub const fn new(writer: Arc<Writer>) -> Self {
        Self(writer)
    }
}

#[async_trait]
impl Sweep for VectorSweep {
    async fn sweep(&self) -> Result<usize, StoreError> {
        self.0.sweep_vectors().await
    }
}

/// Stored vectors of the memories of a tenant.
struct TenantVectors<'w> {
    store: &'w dyn WriterStore,
    tenant: &'w Tenant,
}

#[async_trait]
impl StoredVectors for TenantVectors<'_> {
    async fn load_vectors(
        &self,
        embedder: &str,
        texts: &[String],
    ) -> Result<BTreeMap<String, Vec<i32>>, StoreError> {
        self.store.load_embeddings(self.tenant, embedder, texts).await
    }
}

impl Writer {
    /// Makes a decision about memories of a tenant that compares texts, see [`VectorResolver::decide`].
    pub(crate) async fn decide_with_vectors<F, T, C, D>(
        &self,
        tenant: &Tenant,
        collect: impl Fn() -> C,
        decide: impl Fn(ResolvedVectors) -> D,
    ) -> Result<T, StoreError>
    where
        F: ComparesTexts,
        C: Future<Output = Result<Option<F>, StoreError>>,
        D: Future<Output = Result<Decision<T>, StoreError>>,
    {
        let stored = TenantVectors { store: &*self.store, tenant };
        VectorResolver::new(self.vectors.as_deref(), &stored).decide(collect, decide).await
    }

    /// Checks the next memories, and fetches and stores the vectors that are missing. Returns the number of
    /// vectors stored. Does nothing with the built-in embedder.
    async fn sweep_vectors(&self) -> Result<usize, StoreError> {
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
        retro_telemetry::metrics::EMBEDDINGS_MISSING.set([], lacking as f64);
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
