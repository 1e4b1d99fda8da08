//! Vectors of a source that is not built in: got outside of every transaction, kept in the background.
//!
//! **The need.** A decision runs under the lock of its workflow and waits for nobody. **The design.** It is tried with the vectors
//! that are at hand; the texts that it compared without one are noted, nothing is stored, their vectors are got from the
//! database or the source, and it is tried again. Since the same texts come back with the same facts, the second time nearly
//! always goes through; whoever changed the facts between costs another round, and after the last one it is decided with
//! what there is. **What is missing** is compared by the built-in embedder: a source that is away, or that has only begun with the
//! memories, leaves every tombstone and every threshold in force.
//!
//! What a source once made of a memory is kept. The sweep goes over all memories, page by page and for ever, so it is
//! begun anew by a restart and by another embedder, and costs a question a page when nothing is missing.

use std::sync::{Arc, PoisonError};

use retro_core::id::{MemoryId, Tenant};
use retro_core::similar::{self, Hand};
use retro_store::{MemoryText, StoreError, TEXTS_PER_ROUND_MAX, VectorSource, made};
use tracing::{debug, info};

use crate::Writer;

/// Memories that one sweep looks at.
const MEMORIES_PER_SWEEP: u32 = 1000;
/// Texts that a source is asked for at once by the sweep; what they became is kept before the next.
const TEXTS_PER_KEEPING: usize = 64;
/// What an embedder of before made is forgotten after a week: until then going back to it costs nothing.
const FORGET_AFTER_S: u64 = 7 * 24 * 3600;
/// Rows that are forgotten at once.
const FORGOTTEN_PER_SWEEP: u32 = 1000;

/// How far the sweep has come.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    after: Option<(Tenant, MemoryId)>,
}

/// The rounds of one decision, and where their vectors are got.
pub(crate) struct Rounds<'w> {
    writer: &'w Writer,
    tenant: &'w Tenant,
    rounds: similar::Rounds,
}

impl Rounds<'_> {
    pub(crate) fn hand(&self) -> Hand<'_> {
        self.rounds.hand()
    }

    /// Gets the vectors that a round wanted. Fails when the database is away, never because of the source.
    pub(crate) async fn get(&mut self, missed: Vec<String>) -> Result<(), StoreError> {
        let Some(source) = &self.writer.vectors else { return Ok(()) };
        let mut found = self.writer.store.vectors(self.tenant, source.name(), &missed).await?;
        let mut unknown: Vec<String> =
            missed.iter().filter(|text| !found.contains_key(*text)).cloned().collect();
        unknown.truncate(TEXTS_PER_ROUND_MAX);
        found.extend(made(&**source, unknown).await.unwrap_or_default());
        self.rounds.got(missed, found);
        Ok(())
    }
}

impl Writer {
    pub(crate) fn rounds<'w>(&'w self, tenant: &'w Tenant) -> Rounds<'w> {
        let of = |source: &Arc<dyn VectorSource>| similar::Rounds::of(source.name(), source.scale());
        let rounds = self.vectors.as_ref().map_or_else(similar::Rounds::built_in, of);
        Rounds { writer: self, tenant, rounds }
    }

    /// Looks at the next memories and keeps the vectors of those that lack one. Returns how many were made. Does nothing
    /// with the built-in embedder.
    pub async fn sweep_vectors(&self) -> Result<usize, StoreError> {
        let Some(source) = &self.vectors else { return Ok(0) };
        let embedder = source.name();
        let after = self.pass.lock().unwrap_or_else(PoisonError::into_inner).after.clone();
        if after.is_none() {
            self.tell_lacking(embedder).await?;
        }
        let page = self.store.lacking_vectors(embedder, after.as_ref(), MEMORIES_PER_SWEEP).await?;
        let made = self.keep_made(&**source, &page.lacking).await?;
        if made > 0 {
            info!(embedder, "kept {made} vectors of memories");
            self.tell_lacking(embedder).await?;
        }
        if page.after.is_none() {
            let forgotten = self.store.forget_vectors(embedder, FORGET_AFTER_S, FORGOTTEN_PER_SWEEP).await?;
            debug!(embedder, forgotten, "looked at every memory");
        }
        self.pass.lock().unwrap_or_else(PoisonError::into_inner).after = page.after;
        Ok(made)
    }

    async fn tell_lacking(&self, embedder: &str) -> Result<(), StoreError> {
        let lacking = self.store.lacking_vectors_count(embedder).await?;
        retro_meter::VECTORS_LACKING.show([], lacking as f64);
        Ok(())
    }

    /// As many as the source gives; what it refuses is asked for again in the next pass.
    async fn keep_made(
        &self,
        source: &dyn VectorSource,
        lacking: &[MemoryText],
    ) -> Result<usize, StoreError> {
        let mut kept = 0;
        for some in lacking.chunks(TEXTS_PER_KEEPING) {
            let texts = some.iter().map(|one| one.text.clone()).collect();
            let Some(vectors) = made(source, texts).await else { break };
            let pairs: Vec<_> =
                some.iter().filter_map(|one| Some((one.clone(), vectors.get(&one.text)?.clone()))).collect();
            self.store.keep_vectors(source.name(), &pairs).await?;
            kept += pairs.len();
        }
        Ok(kept)
    }
}
