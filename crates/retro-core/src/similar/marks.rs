//! What forbids calling two lessons one, however alike their words are: negation, number, identifier, and advice turned
//! round.

use std::collections::BTreeSet;

use super::is_stop_word;
use crate::memory::Lesson;

/// Whether two lessons may be merged although they differ: never on a mismatch of negation, number or identifier.
/// Equal signatures have settled that already.
pub fn may_merge(a: &Lesson, b: &Lesson) -> bool {
    may_merge_by(a, b, |a, b| Told::of(a).may_merge(&Told::of(b)))
}

/// As [`may_merge`], where somebody knows how to compare the texts.
pub(super) fn may_merge_by(a: &Lesson, b: &Lesson, texts: impl FnOnce(&str, &str) -> bool) -> bool {
    match (a.cue.signature(), b.cue.signature()) {
        (Some(a), Some(b)) => a == b,
        _ => texts(a.text(), b.text()),
    }
}

/// What a text tells besides its vector. Reading it takes longer than any cosine, so a batch reads each once.
#[derive(Debug)]
pub(super) struct Told {
    marks: Marks,
    weighty: BTreeSet<String>,
}

impl Told {
    pub(super) fn of(text: &str) -> Self {
        Self { marks: Marks::of(text), weighty: weighty(text) }
    }

    pub(super) fn may_merge(&self, other: &Self) -> bool {
        self.marks.agree(&other.marks) && !differ_in_few_words(&self.weighty, &other.weighty)
    }

    pub(super) fn opposes(&self, other: &Self) -> bool {
        !self.marks.advise_alike(&other.marks)
    }
}

/// Words that mean something, below which a text is short: one of so few is a large part of what is said.
const FEW_WORDS: usize = 4;

/// Whether one of two texts is short and says something that the other does not, or little of what it says. Half of two rules
/// of four words may be the same by chance ("sort the imports of each module", "test each endpoint of the module"), which no
/// cosine tells from a paraphrase.
fn differ_in_few_words(a: &BTreeSet<String>, b: &BTreeSet<String>) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let told_by_both = short.is_subset(long) && long.len() - short.len() < short.len().clamp(1, 2);
    short.len() < FEW_WORDS && !told_by_both
}

/// The words of a text that say what it is about, in the singular.
fn weighty(text: &str) -> BTreeSet<String> {
    let meant = super::words(text).filter(|word| !super::ngram::is_light(word));
    meant.map(|word| word.strip_suffix('s').map_or(word.clone(), str::to_owned)).collect()
}

/// Whether two lessons give opposite advice: one prefers what the other avoids, or one is the other's negation.
/// What was deleted because it was wrong must not keep the right advice away.
pub fn opposite(a: &Lesson, b: &Lesson) -> bool {
    opposite_by(a, b, |a, b| Told::of(a).opposes(&Told::of(b)))
}

/// As [`opposite`], where somebody knows how to compare the texts.
pub(super) fn opposite_by(a: &Lesson, b: &Lesson, texts: impl FnOnce(&str, &str) -> bool) -> bool {
    match (a.cue.signature(), b.cue.signature()) {
        (Some(_), Some(_)) => a.cue.opposes(&b.cue),
        _ => texts(a.text(), b.text()),
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
        .flat_map(|(at, _)| all[at + 2..].iter().filter(|word| !is_stop_word(word)).take(AGAINST_WORDS))
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
