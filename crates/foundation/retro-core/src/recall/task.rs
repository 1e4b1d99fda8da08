//! What a run is about to do, in a form that memories are compared with.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::terms::{Term, for_each_term};
use crate::similarity::{Embedder as _, MeasuredVector, NgramEmbedder, SimilarityScale};

/// Maximum length of the text of a task that is read, in bytes. A task states what is to be done in a few sentences;
/// what follows is mostly logs and code that it quotes.
pub const TASK_BYTES_MAX: usize = 4096;

/// A task, prepared for comparison. Its text decides only in which order memories get their places.
#[derive(Debug)]
pub struct RecallTask {
    text: String,
    /// Distinct terms, sorted by hash.
    pub(super) terms: Vec<Term>,
    /// Vector of the built-in embedder.
    pub(super) vector: MeasuredVector,
}

impl RecallTask {
    /// Prepares a text, of which at most [`TASK_BYTES_MAX`] bytes are read. Returns `None` if it contains no word.
    pub fn new(text: &str) -> Option<Self> {
        let text = &text[..text.floor_char_boundary(TASK_BYTES_MAX)];
        let mut terms = Vec::new();
        for_each_term(text, |term| terms.push(term));
        terms.sort_by_key(|term| term.hash);
        terms.dedup_by_key(|term| term.hash);
        if terms.is_empty() {
            return None;
        }
        let vector = NgramEmbedder.embed(text).map(MeasuredVector::from_vector)?;
        Some(Self { text: text.to_owned(), terms, vector })
    }

    /// Returns the text that is compared.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns a digest by which an equal task is recognised without keeping its text.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.text.as_bytes()).into()
    }
}

/// Vectors of another embedder than the built-in one, for a task and for the titles of memories.
#[derive(Debug, Clone)]
pub struct TaskVectors {
    /// Scale of the embedder's cosines.
    pub scale: SimilarityScale,
    /// Vector of the task.
    pub task: Arc<[i32]>,
    /// Vectors by title. A memory without one is compared by the built-in embedder.
    pub memories: HashMap<String, Arc<[i32]>>,
}
