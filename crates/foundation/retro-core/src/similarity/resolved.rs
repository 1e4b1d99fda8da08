//! Supplies vectors to decisions that must not wait.
//!
//! **The need.** A decision is a pure function that runs under the workflow lock, so it cannot call a model on
//! disk or at an endpoint.
//!
//! **The design.** Texts are collected, vectors are resolved, then the decision is made. The facts are read
//! once before the transaction, and [`ComparesTexts::texts_to_compare`] returns every text that the decision
//! may compare. Each gets its vector, or the knowledge that none can be fetched now. Inside the transaction,
//! [`ResolvedVectors::embedder_for`] checks the texts of the facts that were read under the lock. If the
//! memories have changed meanwhile so that another text has to be compared, no decision is made
//! ([`ScopeChanged`]), nothing is stored, and the texts are collected again.
//!
//! **Texts without a vector** are compared by the built-in embedder, so tombstones and thresholds stay in force
//! while a source is unavailable. That is known before the transaction begins. A text that was not collected is
//! never compared.

use std::sync::Arc;

use super::{Embedder, KnownVectors, NgramEmbedder};

/// Facts for a decision that compares texts.
pub trait ComparesTexts {
    /// Returns every text that the decision may compare, each once and the new texts first. Some of them may
    /// turn out not to be compared.
    fn texts_to_compare(&self) -> Vec<String>;
}

/// Vectors that were resolved before a decision.
#[derive(Debug, Clone)]
pub enum ResolvedVectors {
    /// The built-in embedder has every vector.
    BuiltIn,
    /// Vectors of another embedder for the texts that were collected.
    Known(Arc<KnownVectors>),
}

/// Error for a decision that was not made: a text to compare was not among the collected ones. The vectors have
/// to be resolved again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a text to compare was not there when the vectors were resolved, so nothing was decided")]
pub struct ScopeChanged;

impl ResolvedVectors {
    /// Returns the embedder for deciding about `facts`. Fails if one of their texts was not collected.
    pub fn embedder_for(&self, facts: &impl ComparesTexts) -> Result<&dyn Embedder, ScopeChanged> {
        match self {
            Self::BuiltIn => Ok(&NgramEmbedder),
            Self::Known(known) if known.covers(facts) => Ok(&**known),
            Self::Known(_) => Err(ScopeChanged),
        }
    }
}

impl KnownVectors {
    /// Returns `true` if every text to compare was collected, whether or not it has a vector.
    fn covers(&self, facts: &impl ComparesTexts) -> bool {
        facts.texts_to_compare().iter().all(|text| self.vectors.contains_key(text))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::similarity::SimilarityScale;

    struct Texts(&'static [&'static str]);

    impl ComparesTexts for Texts {
        fn texts_to_compare(&self) -> Vec<String> {
            self.0.iter().map(ToString::to_string).collect()
        }
    }

    #[test]
    fn a_decision_gets_an_embedder_only_if_all_its_texts_were_collected() {
        let scale = SimilarityScale { contradiction: 500, tombstone: 600, merge: 700 };
        let vectors = BTreeMap::from([("known".to_owned(), Some(vec![1, 2])), ("away".to_owned(), None)]);
        let known = KnownVectors { name: "small@2".to_owned(), scale, vectors };
        let resolved = ResolvedVectors::Known(Arc::new(known));
        let name = |texts: &'static [&'static str]| {
            resolved.embedder_for(&Texts(texts)).map(|embedder| embedder.name().to_owned())
        };
        assert_eq!(name(&["known", "away"]).as_deref(), Ok("small@2"), "having no vector is known as well");
        assert_eq!(name(&[]).as_deref(), Ok("small@2"));
        assert_eq!(name(&["known", "new"]), Err(ScopeChanged));
        let built_in = ResolvedVectors::BuiltIn;
        assert_eq!(built_in.embedder_for(&Texts(&["new"])).map(Embedder::name), Ok(NgramEmbedder.name()));
    }
}
