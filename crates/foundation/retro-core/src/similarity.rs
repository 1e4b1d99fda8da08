//! Compares lessons: by signature if both lessons have one, otherwise by the cosine of their embeddings.
//!
//! The built-in embedder hashes words and character n-grams and needs no model weights. Vectors and cosines
//! (in thousandths) are integers, so both databases and all machines agree. Because thresholds depend on the
//! embedder, its [`SimilarityScale`] maps its cosines to a common scale. If the embedder in use has no vector
//! for a text, the built-in embedder compares it, so forbidden lessons stay forbidden while a source of vectors
//! is unavailable. Vectors are resolved before a decision, see [`ResolvedVectors`].

mod embedder;
mod known;
mod marks;
mod measured_vector;
mod ngram;
mod relation;
mod resolved;
mod scale;
mod texts;
mod vector;
mod words;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::memory::Lesson;

use marks::TextFeatures;

pub use embedder::Embedder;
pub use known::KnownVectors;
pub use marks::{are_opposite, may_merge};
pub(crate) use measured_vector::MeasuredVector;
pub use ngram::NgramEmbedder;
pub(crate) use ngram::is_light_word;
pub use relation::{LessonRelation, relate_lessons, replaces};
pub use resolved::{ComparesTexts, ResolvedVectors, ScopeChanged};
pub use scale::{ScaleError, SimilarityScale};
pub(crate) use texts::ComparedLessons;
pub use vector::{COMPONENT_MAX, COMPONENTS_MAX, cosine_similarity};
pub(crate) use words::{content_words, is_stop_word};

/// Returns the similarity of two lessons of one scope, in thousandths of the common [`SimilarityScale`]. If
/// both lessons have a signature, the result is 1000 for equal signatures and 0 for different ones. Otherwise
/// the result is derived from the cosine of their texts.
pub fn lesson_similarity(embedder: &dyn Embedder, a: &Lesson, b: &Lesson) -> u16 {
    VectorCache::new(embedder).lesson_similarity(a, b)
}

/// Caches the vector and features of each text, because the writer compares every finding with every memory
/// of its step.
pub(crate) struct VectorCache<'e> {
    embedder: &'e dyn Embedder,
    known: CachedVectors,
    /// Vectors of the built-in embedder, for texts that were compared with a text that `embedder` has no
    /// vector for.
    built_in: CachedVectors,
    features: RefCell<HashMap<String, Rc<TextFeatures>>>,
}

type CachedVectors = RefCell<HashMap<String, Option<Rc<MeasuredVector>>>>;

impl<'e> VectorCache<'e> {
    pub(crate) fn new(embedder: &'e dyn Embedder) -> Self {
        Self {
            embedder,
            known: RefCell::default(),
            built_in: RefCell::default(),
            features: RefCell::default(),
        }
    }

    /// Cached version of the free function [`lesson_similarity`].
    pub(crate) fn lesson_similarity(&self, a: &Lesson, b: &Lesson) -> u16 {
        match (a.cue.signature(), b.cue.signature()) {
            (Some(one), Some(other)) if one == other || a.cue.is_same_remedy(&b.cue) => 1000,
            (Some(_), Some(_)) => 0,
            _ => self.text_similarity(a.comparison_text(), b.comparison_text()),
        }
    }

    /// Cached version of the free function [`may_merge`].
    pub(crate) fn may_merge(&self, a: &Lesson, b: &Lesson) -> bool {
        marks::may_merge_by(a, b, |a, b| self.text_features(a).may_merge(&self.text_features(b)))
    }

    /// Cached version of the free function [`are_opposite`].
    pub(crate) fn are_opposite(&self, a: &Lesson, b: &Lesson) -> bool {
        marks::are_opposite_by(a, b, |a, b| self.text_features(a).opposes(&self.text_features(b)))
    }

    fn text_features(&self, text: &str) -> Rc<TextFeatures> {
        // Cloned to end the borrow, during which `borrow_mut` below would panic.
        let remembered = self.features.borrow().get(text).cloned();
        remembered.unwrap_or_else(|| {
            let computed = Rc::new(TextFeatures::from_text(text));
            self.features.borrow_mut().insert(text.to_owned(), computed.clone());
            computed
        })
    }

    fn text_similarity(&self, a: &str, b: &str) -> u16 {
        let placed = |embedder: &dyn Embedder, known: &CachedVectors| {
            let (a, b) = (cached_vector(embedder, known, a)?, cached_vector(embedder, known, b)?);
            Some(embedder.scale().normalize_cosine(a.cosine_similarity(&b)))
        };
        placed(self.embedder, &self.known)
            .or_else(|| placed(&NgramEmbedder, &self.built_in))
            .unwrap_or_default()
    }
}

fn cached_vector(embedder: &dyn Embedder, known: &CachedVectors, text: &str) -> Option<Rc<MeasuredVector>> {
    // Cloned to end the borrow, during which `borrow_mut` below would panic.
    let remembered = known.borrow().get(text).cloned();
    remembered.unwrap_or_else(|| {
        let vector = embedder.embed(text).map(|vector| Rc::new(MeasuredVector::from_vector(vector)));
        known.borrow_mut().insert(text.to_owned(), vector.clone());
        vector
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::LessonCue;

    fn text(title: &str) -> Lesson {
        Lesson {
            subject: String::new(),
            title: title.into(),
            content: String::new(),
            cue: LessonCue::default(),
            worded_by: None,
        }
    }

    fn similar(a: &str, b: &str) -> u16 {
        lesson_similarity(&NgramEmbedder, &text(a), &text(b))
    }

    #[test]
    fn paraphrases_are_nearer_than_strangers() {
        let near = similar("List the tables before querying one", "Before you query, list all the tables");
        let far = similar("List the tables before querying one", "Ask the user for the payment method");
        assert!(near > 600 && far < 200, "near {near}, far {far}");
        assert_eq!(similar("the same words", "the same words"), 1000);
        assert_eq!(similar("", "words"), 0);
    }

    /// Cached texts give the same results as fresh ones, in any order.
    #[test]
    fn cached_texts_give_the_same_results() {
        let texts = [
            "Retry the call",
            "Never retry the call",
            "Wait 5 seconds",
            "Use rg instead of grep",
            "once",
            "",
        ];
        let signed = Lesson {
            cue: LessonCue { tool: Some("sh".into()), error: Some("once".into()), ..LessonCue::default() },
            ..text("once")
        };
        let all: Vec<_> = texts.map(text).into_iter().chain([signed]).collect();
        let vectors = VectorCache::new(&NgramEmbedder);
        for (a, b) in
            all.iter().flat_map(|a| all.iter().map(move |b| (a, b))).cycle().take(2 * all.len().pow(2))
        {
            assert_eq!(vectors.may_merge(a, b), may_merge(a, b), "{a:?} {b:?}");
            assert_eq!(vectors.are_opposite(a, b), are_opposite(a, b), "{a:?} {b:?}");
            assert_eq!(
                vectors.lesson_similarity(a, b),
                lesson_similarity(&NgramEmbedder, a, b),
                "{a:?} {b:?}"
            );
        }
    }

    #[test]
    fn negation_number_and_identifier_forbid_a_merge() {
        for (a, b) in [
            ("Retry the call", "Never retry the call"),
            ("Wait 5 seconds", "Wait 50 seconds"),
            ("Query table `orders`", "Query table `order_items`"),
            ("Set payment_id first", "Set user_id first"),
        ] {
            assert!(!may_merge(&text(a), &text(b)), "{a} / {b}");
        }
        assert!(may_merge(&text("List the tables first"), &text("First list all tables")));
    }

    #[test]
    fn short_lessons_merge_only_when_they_are_about_the_same() {
        for (a, b) in [
            ("Sort the imports of each module", "Test each endpoint of the module"),
            ("Log the errors of the parser", "Test the errors of the parser"),
            ("once", "Retry at once"),
        ] {
            assert!(!may_merge(&text(a), &text(b)), "{a} / {b}");
        }
        assert!(may_merge(&text("Sort the imports"), &text("Always sort every import")));
        assert!(may_merge(&text("Sort the imports of a module"), &text("Sort the imports of a Rust module")));
    }

    #[test]
    fn reversed_advice_is_another_lesson() {
        let (rg, grep) = (text("Use rg instead of grep"), text("Use grep instead of rg"));
        assert!(!may_merge(&rg, &grep) && are_opposite(&rg, &grep));
        assert!(may_merge(&rg, &text("Instead of plain grep, use rg")));
        assert!(may_merge(&rg, &text("Use rg instead of the plain grep")));
        assert!(are_opposite(&text("Retry the call"), &text("Never retry the call")));
        assert!(
            !are_opposite(&text("Wait 5 seconds"), &text("Wait 50 seconds")),
            "another number is not the opposite"
        );
    }

    #[test]
    fn lessons_with_signatures_are_opposite_by_what_they_prefer() {
        let swap = |avoid: &str, prefer: &str| Lesson {
            cue: LessonCue {
                tool: Some("sh".into()),
                error: Some("not found".into()),
                avoid: Some(avoid.into()),
                prefer: Some(prefer.into()),
                worked: None,
            },
            ..text("the same words")
        };
        assert!(are_opposite(&swap("a", "b"), &swap("b", "a")));
        assert!(!are_opposite(&swap("a", "b"), &swap("a", "c")));
        assert_eq!(
            lesson_similarity(&NgramEmbedder, &swap("a", "b"), &swap("b", "a")),
            0,
            "words no longer matter"
        );
    }

    #[test]
    fn the_largest_vectors_do_not_overflow_the_cosine() {
        let large = vec![COMPONENT_MAX; COMPONENTS_MAX];
        let small: Vec<i32> = large.iter().map(|x| -x).collect();
        assert_eq!((cosine_similarity(&large, &large), cosine_similarity(&large, &small)), (1000, 0));
    }

    #[test]
    fn texts_without_a_vector_use_the_built_in_embedder() {
        let scale = SimilarityScale { contradiction: 800, tombstone: 850, merge: 900 };
        let (one, same, odd) = ("List the tables", "Show me every table", "List the tables first");
        let vectors = [(one, Some(vec![9, 1])), (same, Some(vec![9, 2])), (odd, None)];
        let vectors = vectors.into_iter().map(|(text, vector)| (text.to_owned(), vector)).collect();
        let known = KnownVectors { name: "small".into(), scale, vectors };
        assert!(
            lesson_similarity(&known, &text(one), &text(same)) > SimilarityScale::MERGE,
            "by its own vectors"
        );
        assert_eq!(
            lesson_similarity(&known, &text(one), &text(odd)),
            similar(one, odd),
            "nobody can get one"
        );
    }
}
