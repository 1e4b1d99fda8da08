//! Detects marks that prevent two lessons from being merged, however similar their words are: negation,
//! numbers, identifiers and reversed advice.

use std::collections::BTreeSet;

use super::ngram::is_light_word;
use super::words::{content_words, is_negation, is_stop_word};
use crate::memory::Lesson;

/// Returns `true` if two different lessons may be merged. If both lessons have a signature, the signatures
/// must be equal, or state the same remedy of one class of errors. Otherwise negation, numbers and identifiers of
/// their texts must agree, and short texts must share most of their words.
pub fn may_merge(a: &Lesson, b: &Lesson) -> bool {
    may_merge_by(a, b, |a, b| TextFeatures::from_text(a).may_merge(&TextFeatures::from_text(b)))
}

/// Implements [`may_merge`] with a given function that compares the texts.
pub(super) fn may_merge_by(a: &Lesson, b: &Lesson, texts: impl FnOnce(&str, &str) -> bool) -> bool {
    match (a.cue.signature(), b.cue.signature()) {
        (Some(one), Some(other)) => one == other || a.cue.is_same_remedy(&b.cue),
        _ => texts(a.comparison_text(), b.comparison_text()),
    }
}

/// Features of a text other than its vector. Extracting them takes longer than computing a cosine, so they
/// are extracted once per text and batch.
#[derive(Debug)]
pub(super) struct TextFeatures {
    marks: TextMarks,
    subject_words: BTreeSet<String>,
}

impl TextFeatures {
    pub(super) fn from_text(text: &str) -> Self {
        Self { marks: TextMarks::from_text(text), subject_words: subject_words(text) }
    }

    pub(super) fn may_merge(&self, other: &Self) -> bool {
        self.marks.agrees_with(&other.marks)
            && !differ_in_few_words(&self.subject_words, &other.subject_words)
    }

    pub(super) fn opposes(&self, other: &Self) -> bool {
        !self.marks.advises_same(&other.marks)
    }
}

/// Number of meaningful words below which a text is short, so that a single word is a large part of it.
const FEW_WORDS: usize = 4;

/// Returns `true` if the shorter of two texts has fewer than [`FEW_WORDS`] words, and the longer one is not
/// the same words with at most one word added (none if the shorter text is a single word). Two rules of four
/// words may share half of them by chance ("sort the imports of each module", "test each endpoint of the
/// module"), and no cosine distinguishes that from a paraphrase.
fn differ_in_few_words(a: &BTreeSet<String>, b: &BTreeSet<String>) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let mostly_equal = short.is_subset(long) && long.len() - short.len() < short.len().clamp(1, 2);
    short.len() < FEW_WORDS && !mostly_equal
}

/// Returns the meaningful words of a text, in the singular.
fn subject_words(text: &str) -> BTreeSet<String> {
    let meaningful = content_words(text).filter(|word| !is_light_word(word));
    meaningful.map(|word| word.strip_suffix('s').map_or(word.clone(), str::to_owned)).collect()
}

/// Returns `true` if two lessons give opposite advice: one prefers what the other avoids, or one negates the
/// other. A tombstone for wrong advice must not block the right advice.
pub fn are_opposite(a: &Lesson, b: &Lesson) -> bool {
    are_opposite_by(a, b, |a, b| TextFeatures::from_text(a).opposes(&TextFeatures::from_text(b)))
}

/// Implements [`are_opposite`] with a given function that compares the texts.
pub(super) fn are_opposite_by(a: &Lesson, b: &Lesson, texts: impl FnOnce(&str, &str) -> bool) -> bool {
    match (a.cue.signature(), b.cue.signature()) {
        (Some(_), Some(_)) => a.cue.opposes(&b.cue),
        _ => texts(a.comparison_text(), b.comparison_text()),
    }
}

/// Marks that must agree before two texts may be merged.
#[derive(Debug)]
struct TextMarks {
    negated: bool,
    /// Words after "instead of" and similar phrases, which name the rejected alternative.
    against: BTreeSet<String>,
    /// Numbers and identifiers in the text.
    exact: BTreeSet<String>,
}

/// Number of words after "instead of" that name the rejected alternative: a noun and perhaps an adjective.
/// More words would reach into the advice itself ("Instead of x use y").
const AGAINST_WORDS: usize = 2;

/// Two-word phrases that introduce the rejected alternative.
const OPPOSING_PHRASES: &[[&str; 2]] = &[["instead", "of"], ["rather", "than"]];

impl TextMarks {
    fn from_text(text: &str) -> Self {
        let mut marks = Self { negated: false, against: advised_against(text), exact: BTreeSet::new() };
        for token in text.split_whitespace() {
            let token = token.trim_matches(|c: char| ",.;:!?()[]\"".contains(c));
            let lower = token.to_lowercase().replace('’', "'");
            if is_negation(&lower) || lower == "instead" {
                // Two negations cancel: "never without a test" advises the same as "always with a test".
                marks.negated = !marks.negated;
            } else if is_exact(token) {
                marks.exact.insert(token.trim_matches(|c: char| "`'".contains(c)).to_owned());
            }
        }
        marks
    }

    fn advises_same(&self, other: &Self) -> bool {
        let nothing_against = self.against.is_empty() && other.against.is_empty();
        self.negated == other.negated && (nothing_against || !self.against.is_disjoint(&other.against))
    }

    fn agrees_with(&self, other: &Self) -> bool {
        self.advises_same(other) && self.exact == other.exact
    }
}

fn advised_against(text: &str) -> BTreeSet<String> {
    let all: Vec<String> =
        text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).map(str::to_lowercase).collect();
    let turns =
        all.windows(2).enumerate().filter(|(_, pair)| OPPOSING_PHRASES.iter().any(|turn| turn == pair));
    turns
        .flat_map(|(at, _)| all[at + 2..].iter().filter(|word| !is_stop_word(word)).take(AGAINST_WORDS))
        .cloned()
        .collect()
}

/// Returns `true` if a word counts as a number or an identifier: it starts or ends with a backtick, starts with
/// a quote or `--`, contains a digit or one of the characters `_/.=$<>#@`, or mixes lower case with a capital
/// letter after the first character.
fn is_exact(token: &str) -> bool {
    let quoted =
        token.len() > 2 && (token.starts_with('`') || token.ends_with('`') || token.starts_with('\''));
    let inner = |c: char| c.is_ascii_digit() || "_/.=$<>#@".contains(c);
    let camel = token.chars().skip(1).any(char::is_uppercase) && token.chars().any(char::is_lowercase);
    quoted || token.chars().any(inner) || camel || token.starts_with("--")
}
