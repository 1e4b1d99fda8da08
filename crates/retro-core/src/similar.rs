//! Similarity of lessons: by signature where both carry one, else by the cosine of an embedder.
//!
//! The default embedder hashes words and character n-grams; it needs no weights. Vectors are integers and so is
//! the cosine (thousandths), so that both databases and every machine agree. Thresholds belong to an embedder.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use crate::memory::Lesson;

/// Turns a text into a vector. An embedder has a name and a version: its thresholds and vectors belong to it.
pub trait Embedder: Send + Sync {
    /// Name and version, such as `ngram-1`.
    fn name(&self) -> &str;
    /// The vector of a text; all vectors of one embedder have the same length. Up to 4,096 components between
    /// −1,000,000 and 1,000,000: [`cosine`] has room for no more.
    fn embed(&self, text: &str) -> Vec<i32>;
}

/// Hashed words and character trigrams, 512 buckets. Words weigh three times a trigram.
#[derive(Debug, Clone, Copy, Default)]
pub struct NgramEmbedder;

const BUCKETS: usize = 512;
const WORD_WEIGHT: i32 = 3;
const TRIGRAM_WEIGHT: i32 = 1;

impl Embedder for NgramEmbedder {
    fn name(&self) -> &str {
        "ngram-1"
    }

    fn embed(&self, text: &str) -> Vec<i32> {
        let mut vector = vec![0i32; BUCKETS];
        for word in words(text) {
            add(&mut vector, &word, WORD_WEIGHT);
            let padded: Vec<char> = format!(" {word} ").chars().collect();
            for trigram in padded.windows(3) {
                add(&mut vector, &trigram.iter().collect::<String>(), TRIGRAM_WEIGHT);
            }
        }
        vector
    }
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
        .filter(|word| !STOP_WORDS.contains(&word.as_str()))
}

/// Adds a feature to its bucket with a sign drawn from its hash, so that collisions cancel instead of adding up.
fn add(vector: &mut [i32], feature: &str, weight: i32) {
    let hash = fnv1a(feature.as_bytes());
    let bucket = usize::try_from(hash % BUCKETS as u64).expect("below the number of buckets");
    let sign = if hash >> 63 == 0 { 1 } else { -1 };
    vector[bucket] += sign * weight;
}

/// FNV-1a, 64 bits: the same on every machine and in every version of this program.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The cosine of two vectors in thousandths, negative ones as 0; 0 when either is empty. Integers throughout.
pub fn cosine(a: &[i32], b: &[i32]) -> u16 {
    let dot = |x: &[i32], y: &[i32]| -> i128 {
        x.iter().zip(y).map(|(x, y)| i128::from(*x) * i128::from(*y)).sum()
    };
    let product = dot(a, b);
    let norms = dot(a, a) * dot(b, b);
    if product <= 0 || norms == 0 {
        return 0;
    }
    let square = (product * product * 1_000_000 / norms).unsigned_abs();
    u16::try_from(square.isqrt().min(1000)).expect("at most 1000")
}

/// How similar two lessons of one scope are, in thousandths: 1000 or 0 by their signatures where both carry one, else
/// the cosine of their texts.
pub fn similarity(embedder: &dyn Embedder, a: &Lesson, b: &Lesson) -> u16 {
    Vectors::new(embedder).similarity(a, b)
}

/// The vectors of texts, each embedded once: a writer compares every finding with every memory of its step.
pub(crate) struct Vectors<'e> {
    embedder: &'e dyn Embedder,
    known: RefCell<HashMap<String, Rc<[i32]>>>,
}

impl<'e> Vectors<'e> {
    pub(crate) fn new(embedder: &'e dyn Embedder) -> Self {
        Self { embedder, known: RefCell::default() }
    }

    /// As [`similarity`].
    pub(crate) fn similarity(&self, a: &Lesson, b: &Lesson) -> u16 {
        match (a.cue.signature(), b.cue.signature()) {
            (Some(a), Some(b)) if a == b => 1000,
            (Some(_), Some(_)) => 0,
            _ => cosine(&self.of(a.text()), &self.of(b.text())),
        }
    }

    fn of(&self, text: &str) -> Rc<[i32]> {
        let known = self.known.borrow().get(text).cloned();
        known.unwrap_or_else(|| {
            let vector: Rc<[i32]> = self.embedder.embed(text).into();
            self.known.borrow_mut().insert(text.to_owned(), Rc::clone(&vector));
            vector
        })
    }
}

/// Whether two lessons may be merged although they differ: never on a mismatch of negation, number or identifier.
/// Equal signatures have settled that already.
pub fn may_merge(a: &Lesson, b: &Lesson) -> bool {
    match (a.cue.signature(), b.cue.signature()) {
        (Some(a), Some(b)) => a == b,
        _ => Marks::of(a.text()).agree(&Marks::of(b.text())),
    }
}

/// Whether two lessons give opposite advice: one prefers what the other avoids, or one is the other's negation.
/// What was deleted because it was wrong must not keep the right advice away.
pub fn opposite(a: &Lesson, b: &Lesson) -> bool {
    match (a.cue.signature(), b.cue.signature()) {
        (Some(_), Some(_)) => a.cue.opposes(&b.cue),
        _ => !Marks::of(a.text()).advise_alike(&Marks::of(b.text())),
    }
}

/// What must agree between two texts before they may be called the same.
#[derive(Debug)]
struct Marks {
    negated: bool,
    /// The first words after "instead of" and the like: what is advised against.
    against: BTreeSet<String>,
    /// Numbers and identifiers.
    exact: BTreeSet<String>,
}

/// Words after "instead of" that are taken for what is advised against: a name and perhaps an adjective. More would
/// reach into the advice itself ("Instead of x use y").
const AGAINST_WORDS: usize = 2;

/// Two words after which stands what is advised against.
const TURNS_AGAINST: &[[&str; 2]] = &[["instead", "of"], ["rather", "than"]];

const NEGATIONS: &[&str] = &[
    "not",
    "no",
    "never",
    "don't",
    "dont",
    "doesn't",
    "cannot",
    "can't",
    "without",
    "avoid",
    "instead",
    "stop",
    "isn't",
    "won't",
    "shouldn't",
    "mustn't",
];

impl Marks {
    fn of(text: &str) -> Self {
        let mut marks = Self { negated: false, against: against(text), exact: BTreeSet::new() };
        for token in text.split_whitespace() {
            let token = token.trim_matches(|c: char| ",.;:!?()[]\"".contains(c));
            let lower = token.to_lowercase().replace('’', "'");
            if NEGATIONS.contains(&lower.as_str()) {
                marks.negated = !marks.negated;
            } else if is_exact(token) {
                marks.exact.insert(token.trim_matches(|c: char| "`'".contains(c)).to_owned());
            }
        }
        marks
    }

    fn advise_alike(&self, other: &Self) -> bool {
        let nothing_against = self.against.is_empty() && other.against.is_empty();
        self.negated == other.negated && (nothing_against || !self.against.is_disjoint(&other.against))
    }

    fn agree(&self, other: &Self) -> bool {
        self.advise_alike(other) && self.exact == other.exact
    }
}

fn against(text: &str) -> BTreeSet<String> {
    let all: Vec<String> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_lowercase).collect();
    let turns = all.windows(2).enumerate().filter(|(_, pair)| TURNS_AGAINST.iter().any(|turn| turn == pair));
    turns
        .flat_map(|(at, _)| {
            all[at + 2..].iter().filter(|word| !STOP_WORDS.contains(&word.as_str())).take(AGAINST_WORDS)
        })
        .cloned()
        .collect()
}

/// Numbers, and identifiers: quoted in backticks or quotes, with an inner capital, underscore, slash, dot or digit.
fn is_exact(token: &str) -> bool {
    let quoted = token.len() > 2 && (token.starts_with('`') || token.starts_with('\''));
    let inner = |c: char| c.is_ascii_digit() || "_/.=$<>#@".contains(c);
    let camel = token.chars().skip(1).any(char::is_uppercase) && token.chars().any(char::is_lowercase);
    quoted || token.chars().any(inner) || camel || token.starts_with("--")
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
        let large = vec![1_000_000i32; 4096];
        let small: Vec<i32> = large.iter().map(|x| -x).collect();
        assert_eq!((cosine(&large, &large), cosine(&large, &small)), (1000, 0));
    }
}
