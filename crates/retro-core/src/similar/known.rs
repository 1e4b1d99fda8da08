//! Vectors that were made elsewhere, handed to a decision that waits for nobody.
//!
//! A model on a disk or behind an address cannot be asked in the middle of a decision, which is plain and runs under the
//! lock of its workflow. So a decision is tried with the vectors that are at hand and notes the texts it compared without
//! one; somebody gets those vectors, outside of any transaction, and it is decided again. What nobody can get is compared
//! by the built-in embedder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::{Embedder, Scale};

/// The vectors of one embedder that are at hand.
#[derive(Debug, Clone)]
pub struct KnownVectors {
    /// The embedder's name and version.
    pub name: String,
    /// What its cosines mean.
    pub scale: Scale,
    /// Vectors by text; `None`: nobody can get it now.
    pub vectors: BTreeMap<String, Option<Vec<i32>>>,
}

/// A decision that wants vectors which are not at hand: nothing may be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it wants vectors that are not at hand")]
pub struct Unready;

/// Known vectors, and the texts that were wanted beside them.
#[derive(Debug)]
pub struct Wanted<'v> {
    known: &'v KnownVectors,
    missed: Mutex<BTreeSet<String>>,
}

impl<'v> Wanted<'v> {
    /// Over what is at hand; nothing was missed yet.
    pub fn beside(known: &'v KnownVectors) -> Self {
        Self { known, missed: Mutex::default() }
    }

    /// The texts that were compared although nobody has tried to get their vectors, in order.
    pub fn missed(&self) -> BTreeSet<String> {
        self.missed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Embedder for KnownVectors {
    fn name(&self) -> &str {
        &self.name
    }

    fn scale(&self) -> Scale {
        self.scale
    }

    fn embed(&self, text: &str) -> Option<Vec<i32>> {
        self.vectors.get(text).cloned().flatten()
    }
}

impl Embedder for Wanted<'_> {
    fn name(&self) -> &str {
        self.known.name()
    }

    fn scale(&self) -> Scale {
        self.known.scale()
    }

    fn embed(&self, text: &str) -> Option<Vec<i32>> {
        match self.known.vectors.get(text) {
            Some(vector) => vector.clone(),
            None => {
                self.missed.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned());
                None
            }
        }
    }
}
