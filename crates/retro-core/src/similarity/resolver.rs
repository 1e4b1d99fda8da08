//! Resolves missing vectors around a decision: tries the decision with the known vectors, lets the caller
//! fetch the missing ones, and tries again. The last pass decides with the vectors known by then.

use std::collections::BTreeMap;

use super::{Embedder, KnownVectors, MissingEmbeddings, NgramEmbedder, RequestedTexts, SimilarityScale};

/// Maximum number of passes of one decision. The last pass decides with the vectors known by then.
const PASSES_MAX: u32 = 3;

/// State of one decision: the known vectors and the number of remaining passes.
#[derive(Debug)]
pub struct EmbeddingResolver {
    known: Option<KnownVectors>,
    passes_left: u32,
}

/// Vectors used in one pass.
#[derive(Debug)]
pub enum ResolverPass<'r> {
    /// The pass uses the built-in embedder, which has every vector.
    BuiltIn,
    /// The pass uses the known vectors of another embedder.
    Known {
        /// Known vectors of the embedder, which also record the missing texts.
        requested: RequestedTexts<'r>,
        /// `true` if this pass decides even if vectors are missing.
        is_last: bool,
    },
}

impl EmbeddingResolver {
    /// Creates a resolver for the built-in embedder, which needs only one pass.
    pub fn built_in() -> Self {
        Self { known: None, passes_left: 0 }
    }

    /// Creates a resolver for the embedder with this name and scale. No vectors are known yet.
    pub fn for_embedder(name: &str, scale: SimilarityScale) -> Self {
        let known = KnownVectors { name: name.to_owned(), scale, vectors: BTreeMap::new() };
        Self { known: Some(known), passes_left: PASSES_MAX - 1 }
    }

    /// Returns the vectors for the next pass.
    pub fn next_pass(&self) -> ResolverPass<'_> {
        match &self.known {
            None => ResolverPass::BuiltIn,
            Some(known) => {
                ResolverPass::Known { requested: RequestedTexts::over(known), is_last: self.passes_left == 0 }
            }
        }
    }

    /// Ends a pass and stores the vectors found for its missing texts. From now on, the built-in embedder
    /// compares the texts without a vector.
    pub fn add_vectors(&mut self, missed: Vec<String>, mut found: BTreeMap<String, Vec<i32>>) {
        self.passes_left = self.passes_left.saturating_sub(1);
        let Some(known) = &mut self.known else { return };
        for text in missed {
            let vector = found.remove(&text);
            known.vectors.insert(text, vector);
        }
    }
}

impl ResolverPass<'_> {
    /// Returns the embedder of this pass.
    pub fn embedder(&self) -> &dyn Embedder {
        match self {
            Self::BuiltIn => &NgramEmbedder,
            Self::Known { requested: wanted, .. } => wanted,
        }
    }

    /// Returns the decision if it may be stored. Fails if vectors are missing and another pass follows.
    pub fn ensure_complete<T>(&self, decided: T) -> Result<T, MissingEmbeddings> {
        match self {
            Self::Known { requested: wanted, is_last: false } if !wanted.missing_texts().is_empty() => {
                Err(MissingEmbeddings)
            }
            _ => Ok(decided),
        }
    }

    /// Returns the texts that this pass requested but had no vector for.
    pub fn missing_texts(&self) -> Vec<String> {
        match self {
            Self::BuiltIn => Vec::new(),
            Self::Known { requested: wanted, .. } => wanted.missing_texts().into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: SimilarityScale = SimilarityScale { contradiction: 500, tombstone: 600, merge: 700 };

    #[test]
    fn a_decision_is_complete_when_all_vectors_were_requested_or_in_the_last_pass() {
        assert!(EmbeddingResolver::built_in().next_pass().ensure_complete(()).is_ok());
        let mut rounds = EmbeddingResolver::for_embedder("small@2", SCALE);
        let tried = |rounds: &EmbeddingResolver, text: &str| {
            let hand = rounds.next_pass();
            let vector = hand.embedder().embed(text);
            (hand.ensure_complete(vector), hand.missing_texts())
        };
        let (decided, missed) = tried(&rounds, "known");
        assert_eq!((decided, &*missed), (Err(MissingEmbeddings), &["known".to_owned()][..]));
        rounds.add_vectors(missed, BTreeMap::from([("known".to_owned(), vec![1, 2])]));
        assert_eq!(tried(&rounds, "known").0, Ok(Some(vec![1, 2])));
        let (decided, missed) = tried(&rounds, "away");
        assert_eq!(decided, Err(MissingEmbeddings));
        rounds.add_vectors(missed, BTreeMap::new());
        assert_eq!(tried(&rounds, "away"), (Ok(None), vec![]), "nobody has it");
        assert_eq!(tried(&rounds, "new").0, Ok(None), "the last round takes what there is");
    }
}
