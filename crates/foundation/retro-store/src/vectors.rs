//! Resolves the vectors of texts before a decision compares them.
//!
//! **The need.** A decision runs in a transaction under the lock of its workflow and must not wait for an
//! embedding model.
//!
//! **The design.** [`VectorResolver::decide`] has three steps. *Collect*: the facts are read from a snapshot,
//! without a lock, and say which texts the decision may compare. *Resolve*: their vectors are loaded, and the
//! missing ones come from the source. *Decide*: the transaction reads the facts again and decides with these
//! vectors. With the built-in embedder there is nothing to resolve, so nothing is collected either.
//!
//! **A scope that changes** between the first step and the third may contain a text that was not collected. Then
//! the transaction stores nothing, and all three steps are repeated for the new text, at most
//! [`DECISION_ATTEMPTS_MAX`] times in all. A decision is never made with another embedder for lack of time.
//!
//! **Texts without a vector**, because the source is unavailable or refuses them, are compared by the built-in
//! embedder. That is settled before the transaction begins, and a source that failed is not called again for the
//! same text by a repetition.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use retro_core::similarity::{ComparesTexts, KnownVectors, ResolvedVectors, ScopeChanged};
use tracing::debug;

use crate::{Decision, EmbeddingSource, Result, StoreError, embed_texts};

/// Maximum number of texts that a source embeds for one attempt of a decision: several times the number that
/// one retrospective finds. Texts beyond it are compared by the built-in embedder until a background sweep, if
/// one runs, has embedded them.
pub const TEXTS_EMBEDDED_MAX: usize = 256;
/// Number of texts of the first call of the source for a decision. New texts come first, so the findings of a
/// retrospective get their vectors even if the source is too slow for the stored texts, or refuses one of them.
const TEXTS_PER_FIRST_CALL: usize = 16;
/// Maximum number of texts per further call.
const TEXTS_PER_CALL: usize = 64;
/// Maximum number of attempts of one decision. Each attempt after the first means that another decision changed
/// the same scope within the seconds that resolving takes, so more of them would only compete.
pub const DECISION_ATTEMPTS_MAX: u32 = 3;

/// Vectors that were computed for earlier decisions.
#[async_trait]
pub trait StoredVectors: Send + Sync {
    /// Returns the vectors of the named embedder for those of the texts that are stored.
    async fn load_vectors(&self, embedder: &str, texts: &[String]) -> Result<BTreeMap<String, Vec<i32>>>;

    /// Offers vectors that the source has just computed. Does nothing by default.
    fn offer_vectors(&self, _computed: &BTreeMap<String, Vec<i32>>) {}
}

/// Resolves vectors from those that are stored and from a source. Without a source, decisions use the built-in
/// embedder.
pub struct VectorResolver<'a> {
    source: Option<&'a dyn EmbeddingSource>,
    stored: &'a dyn StoredVectors,
}

impl<'a> VectorResolver<'a> {
    /// Creates a resolver; without a source it selects the built-in embedder.
    pub fn new(source: Option<&'a dyn EmbeddingSource>, stored: &'a dyn StoredVectors) -> Self {
        Self { source, stored }
    }

    /// Makes a decision that compares texts: collects the facts, resolves the vectors of their texts, and
    /// decides. `collect` loads the facts without a lock; `decide` runs the transaction, in which
    /// [`ResolvedVectors::embedder_for`] checks the facts again.
    ///
    /// Fails with [`StoreError::Undecided`] if the scope changed in every attempt. Then nothing was stored.
    pub async fn decide<F, T, C, D>(
        &self,
        collect: impl Fn() -> C,
        decide: impl Fn(ResolvedVectors) -> D,
    ) -> Result<T>
    where
        F: ComparesTexts,
        C: Future<Output = Result<Option<F>>>,
        D: Future<Output = Result<Decision<T>>>,
    {
        let Some(source) = self.source else {
            let decided = decide(ResolvedVectors::BuiltIn).await?;
            return decided.map_err(|ScopeChanged| StoreError::Undecided { attempts: 1 });
        };
        let mut known = no_vectors(source);
        for _ in 0..DECISION_ATTEMPTS_MAX {
            // Without facts there is nothing to decide, and the transaction says why.
            let texts = collect().await?.map_or_else(Vec::new, |facts| facts.texts_to_compare());
            self.add_vectors(source, &mut known, texts).await?;
            let shared = Arc::new(known);
            if let Ok(decided) = decide(ResolvedVectors::Known(shared.clone())).await? {
                return Ok(decided);
            }
            retro_telemetry::metrics::SCOPE_CHANGES.add(1, []);
            debug!("the memories to compare changed while their vectors were resolved: nothing is stored");
            known = Arc::unwrap_or_clone(shared);
        }
        Err(StoreError::Undecided { attempts: DECISION_ATTEMPTS_MAX })
    }

    /// Resolves the vectors for a decision about `facts` that cannot change any more.
    pub async fn resolve(&self, facts: &(impl ComparesTexts + Sync)) -> Result<ResolvedVectors> {
        let Some(source) = self.source else { return Ok(ResolvedVectors::BuiltIn) };
        let mut known = no_vectors(source);
        self.add_vectors(source, &mut known, facts.texts_to_compare()).await?;
        Ok(ResolvedVectors::Known(Arc::new(known)))
    }

    /// Resolves the texts that are not in `known` yet. Fails if the stored vectors cannot be loaded. A failure of
    /// the source is not an error: its texts are known to have no vector.
    async fn add_vectors(
        &self,
        source: &dyn EmbeddingSource,
        known: &mut KnownVectors,
        texts: Vec<String>,
    ) -> Result<()> {
        let new: Vec<String> = texts.into_iter().filter(|text| !known.vectors.contains_key(text)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let mut found = self.stored.load_vectors(source.name(), &new).await?;
        let unknown = new.iter().filter(|text| !found.contains_key(*text));
        // Bounds the time of one attempt. New texts come first, so those cut off are mostly of memories.
        let unknown: Vec<String> = unknown.take(TEXTS_EMBEDDED_MAX).cloned().collect();
        let (first, rest) = unknown.split_at(unknown.len().min(TEXTS_PER_FIRST_CALL));
        for texts in std::iter::once(first).chain(rest.chunks(TEXTS_PER_CALL)) {
            // A source that failed would probably fail again, and each call may take as long as its timeout.
            let Some(computed) = embed_texts(source, texts.to_vec()).await else { break };
            self.stored.offer_vectors(&computed);
            found.extend(computed);
        }
        for text in new {
            let vector = found.remove(&text);
            known.vectors.insert(text, vector);
        }
        Ok(())
    }
}

fn no_vectors(source: &dyn EmbeddingSource) -> KnownVectors {
    KnownVectors { name: source.name().to_owned(), scale: source.scale(), vectors: BTreeMap::new() }
}

#[cfg(test)]
mod tests;
