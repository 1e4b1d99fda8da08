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

use std::collections::BTreeMap;
use std::sync::PoisonError;

use retro_core::id::{MemoryId, Tenant};
use retro_core::similar::{Embedder, KnownVectors, NgramEmbedder, Unready, Wanted};
use retro_store::{MemoryText, SourceError, StoreError, VectorSource};
use tracing::{debug, info, warn};

use crate::Writer;

/// Tries of one decision; the last takes what there is.
const ROUNDS_MAX: u32 = 3;
/// Texts that a source is asked for in one round: a few times what one retrospective finds. Memories that are more than
/// that behind wait for the sweep.
const TEXTS_PER_ROUND_MAX: usize = 256;
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

/// The rounds of one decision.
pub(crate) struct Rounds<'w> {
    writer: &'w Writer,
    tenant: &'w Tenant,
    known: Option<KnownVectors>,
    left: u32,
}

/// What one round compares by.
pub(crate) enum Hand<'r> {
    BuiltIn,
    Known { wanted: Wanted<'r>, is_last: bool },
}

impl Hand<'_> {
    pub(crate) fn embedder(&self) -> &dyn Embedder {
        match self {
            Self::BuiltIn => &NgramEmbedder,
            Self::Known { wanted, .. } => wanted,
        }
    }

    /// What was decided, if it may be stored.
    pub(crate) fn ready<T>(&self, decided: T) -> Result<T, Unready> {
        match self {
            Self::Known { wanted, is_last: false } if !wanted.missed().is_empty() => Err(Unready),
            _ => Ok(decided),
        }
    }

    /// The texts whose vectors it wanted.
    pub(crate) fn missed(&self) -> Vec<String> {
        match self {
            Self::BuiltIn => Vec::new(),
            Self::Known { wanted, .. } => wanted.missed().into_iter().collect(),
        }
    }
}

impl Rounds<'_> {
    pub(crate) fn hand(&self) -> Hand<'_> {
        match &self.known {
            None => Hand::BuiltIn,
            Some(known) => Hand::Known { wanted: Wanted::beside(known), is_last: self.left == 0 },
        }
    }

    /// Gets the vectors that a round wanted. Fails when the database is away, never because of the source.
    pub(crate) async fn get(&mut self, missed: Vec<String>) -> Result<(), StoreError> {
        self.left = self.left.saturating_sub(1);
        let (Some(known), Some(source)) = (&mut self.known, &self.writer.vectors) else { return Ok(()) };
        let mut found = self.writer.store.vectors(self.tenant, source.name(), &missed).await?;
        let mut unknown: Vec<String> =
            missed.iter().filter(|text| !found.contains_key(*text)).cloned().collect();
        unknown.truncate(TEXTS_PER_ROUND_MAX);
        found.extend(made(&**source, unknown).await.unwrap_or_default());
        for text in missed {
            let vector = found.remove(&text);
            known.vectors.insert(text, vector);
        }
        Ok(())
    }
}

/// Vectors of texts, by text; `None`, and a word about it, when the source has none to give now.
async fn made(source: &dyn VectorSource, texts: Vec<String>) -> Option<BTreeMap<String, Vec<i32>>> {
    if texts.is_empty() {
        return Some(BTreeMap::new());
    }
    match source.embed(&texts).await {
        Ok(vectors) => {
            retro_meter::EMBEDDED.add(texts.len() as u64, ["made"]);
            Some(texts.into_iter().zip(vectors).collect())
        }
        Err(SourceError::LeftAlone(problem)) => {
            retro_meter::EMBEDDED.add(texts.len() as u64, ["left_alone"]);
            debug!(embedder = source.name(), "{} texts: {problem}", texts.len());
            None
        }
        Err(SourceError::Failed(problem)) => {
            retro_meter::EMBEDDED.add(texts.len() as u64, ["failed"]);
            warn!(
                embedder = source.name(),
                "{} texts are compared by the built-in embedder: {problem}",
                texts.len()
            );
            None
        }
    }
}

impl Writer {
    pub(crate) fn rounds<'w>(&'w self, tenant: &'w Tenant) -> Rounds<'w> {
        let known = self.vectors.as_ref().map(|source| KnownVectors {
            name: source.name().to_owned(),
            scale: source.scale(),
            vectors: BTreeMap::new(),
        });
        Rounds { writer: self, tenant, known, left: ROUNDS_MAX - 1 }
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
