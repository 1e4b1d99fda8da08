//! Holds vectors that were fetched before a decision.

use std::collections::BTreeMap;

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
