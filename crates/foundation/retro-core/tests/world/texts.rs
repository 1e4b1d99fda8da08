//! An embedder that checks which texts a decision compares.

use std::collections::BTreeSet;

use retro_core::similarity::{ComparesTexts, Embedder, NgramEmbedder, SimilarityScale};

/// The built-in embedder for texts that were collected before a decision. It fails the test if the decision
/// compares another text, because a running program would have no vector for it.
pub(crate) struct CollectedTexts(BTreeSet<String>);

impl CollectedTexts {
    /// Collects the texts of a decision from its facts.
    pub(crate) fn of(facts: &impl ComparesTexts) -> Self {
        Self::new(facts.texts_to_compare())
    }

    pub(crate) fn new(texts: Vec<String>) -> Self {
        let count = texts.len();
        let texts: BTreeSet<_> = texts.into_iter().collect();
        assert_eq!(texts.len(), count, "a text was collected twice");
        Self(texts)
    }
}

impl Embedder for CollectedTexts {
    fn name(&self) -> &str {
        NgramEmbedder.name()
    }

    fn scale(&self) -> SimilarityScale {
        NgramEmbedder.scale()
    }

    fn embed(&self, text: &str) -> Option<Vec<i32>> {
        assert!(
            self.0.contains(text),
            "{text:?} is compared and was not collected; these were: {:?}",
            self.0
        );
        NgramEmbedder.embed(text)
    }
}
