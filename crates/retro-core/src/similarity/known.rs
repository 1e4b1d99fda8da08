//! Precomputed vectors for a decision that must not wait.
//!
//! A model on disk or behind an address cannot be called during a decision, which is a pure function and runs under
//! the lock of its workflow. A decision is therefore tried with the known vectors and records the texts that have
//! none. The caller fetches their vectors outside of any transaction, and the decision is made again. Texts whose
//! vectors are not available are compared by the built-in embedder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::{Embedder, SimilarityScale};

/// Vectors of one embedder that are known before a decision.
#[derive(Debug, Clone)]
pub struct KnownVectors {
    /// Name and version of the embedder.
    pub name: String,
    /// Scale of the embedder's cosines.
    pub scale: SimilarityScale,
    /// Vectors by text. The value is `None` for a text whose vector is not available now.
    pub vectors: BTreeMap<String, Option<Vec<i32>>>,
}

/// A decision was made without some vectors, so its result must not be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("vectors are missing for some texts, so the decision cannot be stored")]
pub struct MissingEmbeddings;

/// Embedder over known vectors. It records each requested text that is not among them.
#[derive(Debug)]
pub struct RequestedTexts<'v> {
    known: &'v KnownVectors,
    missed: Mutex<BTreeSet<String>>,
}

impl<'v> RequestedTexts<'v> {
    /// Wraps known vectors. No text is recorded as missing yet.
    pub fn over(known: &'v KnownVectors) -> Self {
        Self { known, missed: Mutex::default() }
    }

    /// Returns the texts that were requested and are not among the known vectors, sorted.
    pub fn missing_texts(&self) -> BTreeSet<String> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Embedder for KnownVectors {
    fn name(&self) -> &str {
        &self.name
    }

    fn scale(&self) -> SimilarityScale {
        self.scale
    }

    fn embed(&self, text: &str) -> Option<Vec<i32>> {
        self.vectors.get(text).cloned().flatten()
    }
}

impl Embedder for RequestedTexts<'_> {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn scale(&self) -> SimilarityScale {
        self.known.scale()
    }

    fn embed(&self, text: &str) -> Option<Vec<i32>> {
        match self.known.vectors.get(text) {
            Some(vector) => vector.clone(),
            None => {
                // The set stays usable after a panic in another thread, because every insert leaves it
                // consistent.
                self.missed.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned());
                None
            }
        }
    }
}
