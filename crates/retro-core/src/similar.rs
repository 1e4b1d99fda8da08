//! Similarity of lessons: by signature where both carry one, else by the cosine of an embedder.
//!
//! The built-in embedder hashes words and character n-grams; it needs no weights. Vectors are integers and so is
//! the cosine (thousandths), so that both databases and every machine agree. A cosine means what its embedder's [`Scale`]
//! makes of it: thresholds belong to an embedder. A text of which the embedder in use has no vector yet is compared by the
//! built-in one, so that nothing that is forbidden comes back while vectors are made.

mod known;
mod marks;
mod measured;
mod ngram;
mod rounds;
mod scale;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use crate::memory::Lesson;

use marks::Told;
use measured::Measured;

pub use known::{KnownVectors, Unready, Wanted};
pub use marks::{may_merge, opposite};
pub use ngram::NgramEmbedder;
pub use rounds::{Hand, Rounds};
pub use scale::{Scale, ScaleError};

/// Most components of a vector.
pub const COMPONENTS_MAX: usize = 4096;
/// Greatest size of a component, either sign: [`cosine`] has room for no more.
pub const COMPONENT_MAX: i32 = 1_000_000;

/// Turns a text into a vector. An embedder has a name with a version: its scale and its vectors belong to it.
pub trait Embedder: Send + Sync {
    /// Name and version, such as `ngram-2`.
    fn name(&self) -> &str;
    /// What its cosines mean.
    fn scale(&self) -> Scale;
    /// The vector of a text; all vectors of one embedder have the same length, at most [`COMPONENTS_MAX`] components of at
    /// most [`COMPONENT_MAX`]. `None` when it has none of this text now.
    fn embed(&self, text: &str) -> Option<Vec<i32>>;
}

/// Words that tie sentences together and say nothing about them.
const STOP_WORDS: &[&str] = &[
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "is", "it", "of", "on", "or",
    "that", "the", "then", "this", "to", "was", "when", "with", "you", "your",
];

pub(crate) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .filter(|word| !is_stop_word(word))
}

fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.contains(&word)
}

/// The cosine of two vectors in thousandths, negative ones as 0; 0 when either is empty. Integers throughout.
pub fn cosine(a: &[i32], b: &[i32]) -> u16 {
    cosine_of(dot(a, b), dot(a, a), dot(b, b))
}

/// The same from the product of two vectors and that of each with itself.
fn cosine_of(product: i64, a: i64, b: i64) -> u16 {
    let product = i128::from(product);
    let norms = i128::from(a) * i128::from(b);
    if product <= 0 || norms == 0 {
        return 0;
    }
    let square = (product * product * 1_000_000 / norms).unsigned_abs();
    u16::try_from(square.isqrt().min(1000)).expect("at most 1000")
}

/// 4,096 products of at most 10¹² stay below 2⁶³.
fn dot(a: &[i32], b: &[i32]) -> i64 {
    a.iter().zip(b).map(|(a, b)| i64::from(*a) * i64::from(*b)).sum()
}

/// How similar two lessons of one scope are, in thousandths of the common [`Scale`]: 1000 or 0 by their signatures where
/// both carry one, else by the cosine of their texts.
pub fn similarity(embedder: &dyn Embedder, a: &Lesson, b: &Lesson) -> u16 {
    Vectors::new(embedder).similarity(a, b)
}

/// The vectors of texts and what else is read in them, each embedded, measured and read once: a writer compares every finding with every memory of its step.
pub(crate) struct Vectors<'e> {
    embedder: &'e dyn Embedder,
    known: Remembered,
    /// Of texts that were compared with one of which the embedder has no vector.
    built_in: Remembered,
    told: RefCell<HashMap<String, Rc<Told>>>,
}

type Remembered = RefCell<HashMap<String, Option<Rc<Measured>>>>;

impl<'e> Vectors<'e> {
    pub(crate) fn new(embedder: &'e dyn Embedder) -> Self {
        Self { embedder, known: RefCell::default(), built_in: RefCell::default(), told: RefCell::default() }
    }

    /// As [`similarity`].
    pub(crate) fn similarity(&self, a: &Lesson, b: &Lesson) -> u16 {
        match (a.cue.signature(), b.cue.signature()) {
            (Some(a), Some(b)) if a == b => 1000,
            (Some(_), Some(_)) => 0,
            _ => self.of_texts(a.text(), b.text()),
        }
    }

    /// As [`may_merge`].
    pub(crate) fn may_merge(&self, a: &Lesson, b: &Lesson) -> bool {
        marks::may_merge_by(a, b, |a, b| self.told(a).may_merge(&self.told(b)))
    }

    /// As [`opposite`].
    pub(crate) fn opposite(&self, a: &Lesson, b: &Lesson) -> bool {
        marks::opposite_by(a, b, |a, b| self.told(a).opposes(&self.told(b)))
    }

    fn told(&self, text: &str) -> Rc<Told> {
        let remembered = self.told.borrow().get(text).cloned();
        remembered.unwrap_or_else(|| {
            let told = Rc::new(Told::of(text));
            self.told.borrow_mut().insert(text.to_owned(), told.clone());
            told
        })
    }

    fn of_texts(&self, a: &str, b: &str) -> u16 {
        let placed = |embedder: &dyn Embedder, known: &Remembered| {
            // Both are asked for, so that somebody who notes what is missing has all of it.
            let (a, b) = (of(embedder, known, a), of(embedder, known, b));
            Some(embedder.scale().place(a?.cosine(&*b?)))
        };
        placed(self.embedder, &self.known)
            .or_else(|| placed(&NgramEmbedder, &self.built_in))
            .unwrap_or_default()
    }
}

fn of(embedder: &dyn Embedder, known: &Remembered, text: &str) -> Option<Rc<Measured>> {
    let remembered = known.borrow().get(text).cloned();
    remembered.unwrap_or_else(|| {
        let vector = embedder.embed(text).map(|vector| Rc::new(Measured::of(vector)));
        known.borrow_mut().insert(text.to_owned(), vector.clone());
        vector
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Cue;

    fn text(title: &str) -> Lesson {
        Lesson { subject: String::new(), title: title.into(), content: String::new(), cue: Cue::default() }
    }

    fn similar(a: &str, b: &str) -> u16 {
        similarity(&NgramEmbedder, &text(a), &text(b))
    }

    #[test]
    fn paraphrases_are_nearer_than_strangers() {
        let near = similar("List the tables before querying one", "Before you query, list all the tables");
        let far = similar("List the tables before querying one", "Ask the user for the payment method");
        assert!(near > 600 && far < 200, "near {near}, far {far}");
        assert_eq!(similar("the same words", "the same words"), 1000);
        assert_eq!(similar("", "words"), 0);
    }

    /// Whatever was compared before, and in whichever order.
    #[test]
    fn what_is_remembered_of_a_text_answers_as_the_text_does() {
        let texts = [
            "Retry the call",
            "Never retry the call",
            "Wait 5 seconds",
            "Use rg instead of grep",
            "once",
            "",
        ];
        let signed = Lesson {
            cue: Cue { tool: Some("sh".into()), error: Some("once".into()), ..Cue::default() },
            ..text("once")
        };
        let all: Vec<_> = texts.map(text).into_iter().chain([signed]).collect();
        let vectors = Vectors::new(&NgramEmbedder);
        for (a, b) in
            all.iter().flat_map(|a| all.iter().map(move |b| (a, b))).cycle().take(2 * all.len().pow(2))
        {
            assert_eq!(vectors.may_merge(a, b), may_merge(a, b), "{a:?} {b:?}");
            assert_eq!(vectors.opposite(a, b), opposite(a, b), "{a:?} {b:?}");
            assert_eq!(vectors.similarity(a, b), similarity(&NgramEmbedder, a, b), "{a:?} {b:?}");
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
    fn advice_turned_round_is_another_lesson() {
        let (rg, grep) = (text("Use rg instead of grep"), text("Use grep instead of rg"));
        assert!(!may_merge(&rg, &grep) && opposite(&rg, &grep));
        assert!(may_merge(&rg, &text("Instead of plain grep, use rg")));
        assert!(may_merge(&rg, &text("Use rg instead of the plain grep")));
        assert!(opposite(&text("Retry the call"), &text("Never retry the call")));
        assert!(
            !opposite(&text("Wait 5 seconds"), &text("Wait 50 seconds")),
            "another number is not the opposite"
        );
    }

    #[test]
    fn lessons_with_signatures_are_opposite_by_what_they_prefer() {
        let swap = |avoid: &str, prefer: &str| Lesson {
            cue: Cue {
                tool: Some("sh".into()),
                error: Some("not found".into()),
                avoid: Some(avoid.into()),
                prefer: Some(prefer.into()),
            },
            ..text("the same words")
        };
        assert!(opposite(&swap("a", "b"), &swap("b", "a")));
        assert!(!opposite(&swap("a", "b"), &swap("a", "c")));
        assert_eq!(similarity(&NgramEmbedder, &swap("a", "b"), &swap("b", "a")), 0, "words no longer matter");
    }

    #[test]
    fn the_cosine_has_room_for_the_largest_vectors_an_embedder_may_give() {
        let large = vec![COMPONENT_MAX; COMPONENTS_MAX];
        let small: Vec<i32> = large.iter().map(|x| -x).collect();
        assert_eq!((cosine(&large, &large), cosine(&large, &small)), (1000, 0));
    }

    #[test]
    fn what_has_no_vector_is_compared_by_the_built_in_embedder_and_noted() {
        let scale = Scale { contradiction: 800, tombstone: 850, merge: 900 };
        let (one, same, odd) = ("List the tables", "Show me every table", "List the tables first");
        let vectors = [(one, Some(vec![9, 1])), (same, Some(vec![9, 2])), (odd, None)];
        let vectors = vectors.into_iter().map(|(text, vector)| (text.to_owned(), vector)).collect();
        let known = KnownVectors { name: "small".into(), scale, vectors };
        let wanted = Wanted::beside(&known);
        assert!(similarity(&wanted, &text(one), &text(same)) > Scale::MERGE, "by its own vectors");
        assert_eq!(similarity(&wanted, &text(one), &text(odd)), similar(one, odd), "nobody can get one");
        assert!(wanted.missed().is_empty());
        let (new, newer) = ("Read the log", "Read the log twice");
        assert_eq!(similarity(&wanted, &text(new), &text(newer)), similar(new, newer), "nobody tried");
        assert_eq!(wanted.missed().into_iter().collect::<Vec<_>>(), [new, newer]);
    }
}
