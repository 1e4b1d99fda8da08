//! Supplies precomputed vectors to decisions that must not wait.
//!
//! A decision is a pure function that runs under the workflow lock, so it cannot call a model on disk or at
//! an endpoint. It is first tried with the known vectors and records the texts without a vector. The caller
//! fetches the missing vectors outside any transaction, and the decision is made again. Texts whose vectors
//! cannot be fetched are compared by the built-in embedder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::{Embedder, SimilarityScale};

/// Vectors of one embedder that are known before a decision is made.
#[derive(Debug, Clone)]
pub struct KnownVectors {
    /// Name and version of the embedder.
    pub name: String,
    /// Scale of the embedder's cosines.
    pub scale: SimilarityScale,
    /// Vectors by text; `None` for a text whose vector cannot be fetched now.
    pub vectors: BTreeMap<String, Option<Vec<i32>>>,
}

/// Error for a decision made without some vectors, which must not be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("vectors are missing for some texts, so the decision cannot be stored")]
pub struct MissingEmbeddings;

/// Embedder over known vectors that records each requested text without a vector.
#[derive(Debug)]
pub struct RequestedTexts<'v> {
    known: &'v KnownVectors,
    missed: Mutex<BTreeSet<String>>,
}

impl<'v> RequestedTexts<'v> {
    /// Wraps known vectors, with no text recorded as missing.
    pub fn over(known: &'v KnownVectors) -> Self {
        Self { known, missed: Mutex::default() }
    }

    /// Returns the requested texts that are not among the known vectors, sorted.
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
