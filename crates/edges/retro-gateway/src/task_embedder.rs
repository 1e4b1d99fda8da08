//! Embeds tasks by the configured embedder, for requests that cannot wait for it.
//!
//! A call goes on when its request has stopped waiting, so that the embedder's circuit breaker learns how it ended, and
//! a repeated request finds the vector. The number of such calls is bounded, and each ends after the embedder's own
//! timeout.

use std::collections::HashMap;
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use retro_core::id::Tenant;
use retro_core::recall::RecallTask;
use retro_core::similarity::SimilarityScale;
use retro_http::TenantLimiter;
use retro_redact::Redactor;
use retro_store::{EmbeddingSource, EmbeddingStore, embed_texts};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

/// Maximum number of tasks that are embedded at a time: enough for an embedder that answers in time, and few for one
/// that does not.
const CALLS_MAX: usize = 8;
/// Maximum number of tasks of one tenant that are embedded at a time.
const TENANT_CALLS_MAX: usize = 6;
/// Maximum size of the vectors that are cached, in bytes: 10,000 with 1,536 components.
const CACHED_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Expected number of cached vectors.
const CACHED_VECTORS: usize = 10_000;

/// Digest of a tenant and a text.
type VectorKey = [u8; 32];

/// Embeds tasks, and caches their vectors and those of memories.
pub(crate) struct TaskEmbedder {
    source: Arc<dyn EmbeddingSource>,
    stored: Arc<dyn EmbeddingStore>,
    cached: Arc<Cache<VectorKey, Arc<[i32]>, VectorWeighter>>,
    calls: TenantLimiter,
}

#[derive(Debug, Clone)]
struct VectorWeighter;

impl Weighter<VectorKey, Arc<[i32]>> for VectorWeighter {
    fn weight(&self, _key: &VectorKey, vector: &Arc<[i32]>) -> u64 {
        (size_of::<VectorKey>() + size_of_val::<[i32]>(vector)) as u64
    }
}

/// Vector of a task that is there, on its way, or not to be had.
pub(crate) enum PendingVector {
    Cached(Arc<[i32]>),
    Called(oneshot::Receiver<Option<Arc<[i32]>>>),
    Busy,
}

/// Vectors of titles that are cached, and the titles without one.
#[derive(Default)]
pub(crate) struct TitleVectors {
    pub(crate) found: HashMap<String, Arc<[i32]>>,
    pub(crate) missing: Vec<String>,
}

impl PendingVector {
    /// Waits for the vector, at most until a time. Fails with the reason if it is not to be had by then.
    pub(crate) async fn wait(self, until: Instant) -> Result<Arc<[i32]>, String> {
        let receiver = match self {
            Self::Cached(vector) => return Ok(vector),
            Self::Busy => return Err("the embedder has too many tasks to embed".to_owned()),
            Self::Called(receiver) => receiver,
        };
        match timeout_at(until, receiver).await {
            Ok(Ok(Some(vector))) => Ok(vector),
            // The log says why. An agent is not told addresses.
            Ok(_) => Err("the embedder is not available".to_owned()),
            Err(_) => Err("the embedder did not answer in time".to_owned()),
        }
    }
}

impl TaskEmbedder {
    pub(crate) fn new(source: Arc<dyn EmbeddingSource>, stored: Arc<dyn EmbeddingStore>) -> Self {
        // Otherwise the first request would spend its time on compiling the rules for secrets.
        let _ = Redactor::shared().redact_text("");
        let cached = Arc::new(Cache::with_weighter(CACHED_VECTORS, CACHED_BYTES_MAX, VectorWeighter));
        Self { source, stored, cached, calls: TenantLimiter::new(CALLS_MAX, TENANT_CALLS_MAX) }
    }

    pub(crate) fn name(&self) -> &str {
        self.source.name()
    }

    pub(crate) fn scale(&self) -> SimilarityScale {
        self.source.scale()
    }

    /// Returns the vector of a task if it is cached, and otherwise begins to embed it, without the secrets in it.
    pub(crate) fn request_vector(&self, tenant: &Tenant, task: &RecallTask) -> PendingVector {
        let key = vector_key(tenant, task.text());
        if let Some(vector) = self.cached.get(&key) {
            return PendingVector::Cached(vector);
        }
        let Some(turn) = self.calls.try_acquire(tenant) else { return PendingVector::Busy };
        let (sender, receiver) = oneshot::channel();
        let (source, cached, text) = (self.source.clone(), self.cached.clone(), task.text().to_owned());
        tokio::spawn(async move {
            let text = Redactor::shared().redact_text(&text).into_owned();
            let embedded = embed_texts(&*source, vec![text]).await;
            let vector = embedded.and_then(|vectors| vectors.into_values().next()).map(Arc::from);
            if let Some(vector) = &vector {
                cached.insert(key, Arc::clone(vector));
            }
            // Nobody may be waiting any more.
            let _ = sender.send(vector);
            drop(turn);
        });
        PendingVector::Called(receiver)
    }

    /// Returns the vectors of titles that are cached.
    pub(crate) fn find_vectors<'t>(
        &self,
        tenant: &Tenant,
        titles: impl Iterator<Item = &'t str>,
    ) -> TitleVectors {
        let mut vectors = TitleVectors::default();
        for title in titles {
            match self.cached.get(&vector_key(tenant, title)) {
                Some(vector) => _ = vectors.found.insert(title.to_owned(), vector),
                None => vectors.missing.push(title.to_owned()),
            }
        }
        vectors
    }

    /// Loads the vectors of the tenant's titles that the writer has stored, and caches them.
    pub(crate) async fn load_vectors(
        &self,
        tenant: &Tenant,
        titles: &[String],
    ) -> retro_store::Result<HashMap<String, Arc<[i32]>>> {
        let loaded = self.stored.load_embeddings(tenant, self.source.name(), titles).await?;
        let cache = |(title, vector): (String, Vec<i32>)| {
            let vector: Arc<[i32]> = vector.into();
            self.cached.insert(vector_key(tenant, &title), vector.clone());
            (title, vector)
        };
        Ok(loaded.into_iter().map(cache).collect())
    }
}

fn vector_key(tenant: &Tenant, text: &str) -> VectorKey {
    Sha256::new().chain_update(tenant.as_str()).chain_update([0]).chain_update(text).finalize().into()
}
