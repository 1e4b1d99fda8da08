//! Judges what a new lesson has to do with a known one of the same scope, by the order of their words: a known one is
//! replaced if the new one turns its advice round, rejects what it names, or puts something else in the same place of
//! the same sentence.
//!
//! Most replacements cannot be told by words: "cut releases every second Tuesday" and "we ship each Thursday" have
//! none in common. Those two stand side by side, because a lesson that still holds must not be taken away.

use std::collections::{BTreeMap, BTreeSet};

use super::VectorCache;
use super::embedder::Embedder;
use super::words::{is_negation, is_stop_word};
use crate::memory::Lesson;
use crate::policy::Policy;

/// What a new lesson has to do with a known one of the same scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LessonRelation {
    /// It says the same, and confirms it.
    Same,
    /// It takes the place of the known one: both cannot be followed.
    Replaces,
    /// Neither: both stand.
    Separate,
}

/// Judges what `new` has to do with `known`.
pub fn relate_lessons(
    embedder: &dyn Embedder,
    policy: &Policy,
    known: &Lesson,
    new: &Lesson,
) -> LessonRelation {
    let vectors = VectorCache::new(embedder);
    if vectors.is_replaced(policy, known, new) {
        LessonRelation::Replaces
    } else if vectors.same_similarity(policy, known, new).is_some() {
        LessonRelation::Same
    } else {
        LessonRelation::Separate
    }
}

impl VectorCache<'_> {
    /// Returns `true` if `new` takes the place of `known` and is similar enough to be about the same.
    pub(crate) fn is_replaced(&self, policy: &Policy, known: &Lesson, new: &Lesson) -> bool {
        replaces(known, new) && self.lesson_similarity(known, new) >= policy.rule_contradiction_similarity
    }

    /// Returns the similarity of two lessons if they are the same. Returns `None` if one replaces the other, a
    /// mismatch forbids to merge them, or the similarity is too low.
    pub(crate) fn same_similarity(&self, policy: &Policy, known: &Lesson, new: &Lesson) -> Option<u16> {
        let may_be_same = self.may_merge(known, new) && !replaces(known, new);
        let similarity = || self.lesson_similarity(known, new);
        may_be_same.then(similarity).filter(|similarity| *similarity >= policy.merge_similarity)
    }
}

/// Returns `true` if `new` takes the place of `known`: lessons with a signature by what they prefer and avoid, others
/// by their words.
pub fn replaces(known: &Lesson, new: &Lesson) -> bool {
    match (known.cue.signature(), new.cue.signature()) {
        (Some(_), Some(_)) => known.cue.opposes(&new.cue),
        _ => {
            let known = Statement::parse(known.comparison_text());
            let new = Statement::parse(new.comparison_text());
            !new.is_narrower_than(&known)
                && (new.reverses(&known)
                    || new.rejects_choice_of(&known)
                    || new.swaps_filler_of(&known)
                    || new.gives_other_value_than(&known))
        }
    }
}

/// Minimum share of all words that a lesson and its reversal have in common, in per cent.
const REVERSED_SHARE_MIN: usize = 50;
/// Maximum number of words that take the place of others.
const FILLER_WORDS_MAX: usize = 3;
/// Minimum number of words that two sentences with different fillers share.
const FRAME_WORDS_MIN: usize = 2;
/// Maximum number of words after "instead of" and the like that name what is rejected.
const REJECTED_WORDS_MAX: usize = 3;

/// Words that reject what follows, besides the negations.
const REJECTING: &[&str] = &["aren't", "drop"];
/// Words after a rejecting one that make it an exemption, which takes nothing away.
const EXEMPTING: &[&str] = &["need", "require", "have", "required", "necessary", "needed", "matter"];
/// Words that begin a condition. What holds under a condition narrows what holds in general.
const CONDITIONS: &[&str] =
    &["if", "when", "unless", "except", "only", "while", "until", "where", "inside", "within", "during"];
/// Words before a place in which there is a choice of one.
const CHOOSING: &[&str] = &[
    "use", "uses", "using", "used", "prefer", "choose", "is", "are", "be", "with", "at", "to", "as", "via",
    "by", "from", "under", "through", "set", "on",
];
/// Verbs that put something into one place, and the words that begin such a place.
const PLACING: &[&str] = &["put", "keep", "place", "live", "store", "go", "belong"];
const PLACES: &[&str] = &["in", "into", "next", "beside", "under", "outside", "inside", "at"];
/// Words between a choosing word and what is chosen.
const ARTICLES: &[&str] = &["a", "an", "the", "our", "your", "only"];
/// Words that ask, whatever for. A sentence is the same without them.
const ASKING: &[&str] = &["we", "our", "please", "always", "should", "must", "now", "will"];
/// Verbs of advice, whatever it is about.
const LIGHT: &[&str] = &[
    "use", "uses", "using", "used", "prefer", "pass", "set", "run", "call", "add", "give", "make", "keep",
    "all", "every", "each", "any", "do", "does", "have", "has", "need", "needs",
];

/// Word of a lesson.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    /// Word in lower case, as written. Words of grammar are compared in this form.
    form: String,
    /// The same without the ending of its form, by which the other words are compared.
    text: String,
    /// `true` for a number, a name in quotes, a path, an identifier or a name in capitals within a sentence.
    is_name: bool,
    /// `true` if the sentence rejects it.
    rejected: bool,
    /// `true` if it connects others or only advises.
    is_light: bool,
    /// 0-based index of its sentence.
    sentence: usize,
}

impl Word {
    fn is_number(&self) -> bool {
        self.text.starts_with(|c: char| c.is_ascii_digit())
    }

    /// Returns `true` for an option of a command or the name of a parameter.
    fn is_key(&self) -> bool {
        self.is_name && !self.is_number() && self.text.starts_with(|c: char| c == '-' || c.is_lowercase())
    }
}

/// Words of a lesson in their order.
#[derive(Debug)]
struct Statement {
    words: Vec<Word>,
}

impl Statement {
    fn parse(text: &str) -> Self {
        let mut words: Vec<Word> = Vec::new();
        let (mut rejecting, mut left, mut quoted, mut begins) = (false, usize::MAX, false, true);
        let mut sentence = 0;
        let raw: Vec<&str> = text.split_whitespace().collect();
        for (at, token) in raw.iter().enumerate() {
            let opens = token.trim_start_matches(['(', '"', '“']).starts_with('`');
            quoted |= opens;
            let bare = token.trim_matches(|c: char| ",.;:!?()[]\"“”`'’…".contains(c));
            let lower = bare.to_lowercase().replace('’', "'");
            let next = raw.get(at + 1).map(|next| next.to_lowercase());
            let is_pair = |first: &str, second: &str| lower == first && next.as_deref() == Some(second);
            if is_pair("instead", "of") || is_pair("rather", "than") || lower == "over" {
                (rejecting, left) = (true, REJECTED_WORDS_MAX);
            } else if is_negation(&lower) || REJECTING.contains(&lower.as_str()) {
                let exempts = next.is_some_and(|next| EXEMPTING.contains(&next.as_str()));
                // Two negations cancel: "never without a test" advises the same as "always with a test".
                (rejecting, left) = (!exempts && !rejecting, usize::MAX);
            } else if !lower.is_empty() && !ASKING.contains(&lower.as_str()) {
                let is_light = is_stop_word(&lower) || LIGHT.contains(&lower.as_str());
                let is_word = !is_light || quoted;
                words.push(Word {
                    text: stem_word(&lower).to_owned(),
                    form: lower,
                    is_name: quoted || is_name(bare, begins),
                    rejected: rejecting && is_word,
                    is_light: !is_word,
                    sentence,
                });
                left = left.saturating_sub(usize::from(rejecting && is_word));
                rejecting &= left > 0;
            }
            quoted &= !token.trim_end_matches([',', '.', ';', ':', '!', '?', ')', '"', '”']).ends_with('`')
                || (opens && token.matches('`').count() == 1);
            begins = token.ends_with(['.', ':', '!', '?']);
            sentence +=
                usize::from(token.ends_with(['.', ';', '!', '?']) || (token.ends_with(':') && at > 1));
            if token.ends_with([',', '.', ';', ':', '!', '?']) || matches!(*token, "-" | "–" | "—") {
                rejecting = false;
            }
        }
        Self { words }
    }

    fn content(&self) -> impl Iterator<Item = &Word> {
        self.words.iter().filter(|word| !word.is_light)
    }

    fn texts(&self) -> BTreeSet<&str> {
        self.content().map(|word| word.text.as_str()).collect()
    }

    /// Returns `true` if this lesson states a condition that the known one does not.
    fn is_narrower_than(&self, known: &Self) -> bool {
        self.count_conditions() > known.count_conditions()
    }

    fn count_conditions(&self) -> usize {
        self.words.iter().filter(|word| CONDITIONS.contains(&word.form.as_str())).count()
    }

    /// Returns `true` if the first sentence of this lesson has most words of the known one's and rejects what that
    /// advises, or the reverse.
    fn reverses(&self, known: &Self) -> bool {
        let first = |statement: &Self| -> BTreeMap<String, bool> {
            let words = statement.content().filter(|word| word.sentence == 0);
            words.map(|word| (word.text.clone(), word.rejected)).collect()
        };
        let (own, other) = (first(self), first(known));
        let shared = own.keys().filter(|text| other.contains_key(*text)).count();
        let turned =
            own.iter().filter(|(text, rejected)| other.get(*text).is_some_and(|was| was != *rejected));
        let turned = turned.count();
        let all = own.len() + other.len() - shared;
        turned > 0 && turned * 2 >= shared && shared * 100 >= all * REVERSED_SHARE_MIN
    }

    /// Returns `true` if this lesson rejects a name that the known one chooses.
    fn rejects_choice_of(&self, known: &Self) -> bool {
        let words = known.words.iter().enumerate();
        let mut chosen = words.filter(|(at, word)| word.is_name && !word.rejected && known.is_chosen_at(*at));
        // "Don't hold a `tracing` span" is about the span.
        let is_object = |at: usize| self.words.get(at + 1).is_none_or(|next| next.is_light || !next.rejected);
        let is_rejected = |name: &Word| {
            let places = (0..self.words.len()).filter(|at| self.words[*at].text == name.text);
            let mut same = places.peekable();
            same.peek().is_some()
                && same.all(|at| self.words[at].rejected && self.words[at].is_name && is_object(at))
        };
        chosen.any(|(_, name)| is_rejected(name))
    }

    /// Returns `true` if a word that introduces a choice stands before this place, apart from articles.
    fn is_chosen_at(&self, at: usize) -> bool {
        let before = self.words[..at].iter().rev().find(|word| !ARTICLES.contains(&word.form.as_str()));
        before.is_some_and(|before| CHOOSING.contains(&before.form.as_str()))
    }

    /// Returns `true` if this lesson has something else in a place of the known one in which there is a choice.
    fn swaps_filler_of(&self, known: &Self) -> bool {
        let Some(swap) = self.find_swap(known) else { return false };
        let filler =
            |statement: &Self| statement.words[swap.start..statement.words.len() - swap.rest].to_vec();
        let (own, other) = (filler(self), filler(known));
        let are_numbers = |words: &[Word]| words.iter().all(Word::is_number);
        let has_option = |words: &[Word]| words.iter().any(|word| word.text.starts_with('-'));
        let is_place =
            |words: &[Word]| words.first().is_some_and(|word| PLACES.contains(&word.form.as_str()));
        let puts = || self.words.iter().any(|word| PLACING.contains(&word.form.as_str()));
        let fits = (are_numbers(&own) && are_numbers(&other))
            || self.is_chosen_at(swap.start)
            || (is_place(&own) && is_place(&other) && puts());
        fits && !has_option(&own) && !has_option(&other)
    }

    /// Returns `true` if both lessons give a value to one option or parameter, or a number of one thing, and not the
    /// same.
    fn gives_other_value_than(&self, known: &Self) -> bool {
        let (own, other, texts) = (self.values(), known.values(), known.texts());
        // What comes first says what the value is for: anything new there makes it a case of its own.
        let is_about_same = |key: &str, value: &str| {
            let mut about = self.content().take_while(|word| word.text != value).peekable();
            about.peek().is_some() && about.all(|word| word.text == key || texts.contains(word.text.as_str()))
        };
        own.iter()
            .any(|(key, value)| other.get(key).is_some_and(|was| was != value) && is_about_same(key, value))
    }

    /// Returns the values that this lesson gives, by option, parameter or what a number counts. What has two values has
    /// none.
    fn values(&self) -> BTreeMap<&str, &str> {
        let content: Vec<&Word> = self.content().filter(|word| !word.rejected).collect();
        let mut found: BTreeMap<&str, &str> = BTreeMap::new();
        let mut twice: BTreeSet<&str> = BTreeSet::new();
        for pair in content.windows(2) {
            let [one, next] = pair else { continue };
            let given = if one.is_number() && !next.is_number() && !next.is_name {
                Some((next, one))
            } else if one.is_key() && (next.is_number() || (next.is_name && one.text.starts_with('-'))) {
                Some((one, next))
            } else {
                None
            };
            if let Some((key, value)) = given
                && found.insert(&key.text, &value.text).is_some()
            {
                twice.insert(&key.text);
            }
        }
        found.retain(|key, _| !twice.contains(key));
        found
    }

    /// Finds the one place in which two sentences of the same words differ.
    fn find_swap(&self, other: &Self) -> Option<Swap> {
        let same = |(a, b): &(&Word, &Word)| a.text == b.text && a.rejected == b.rejected;
        let start = self.words.iter().zip(&other.words).take_while(same).count();
        let most = self.words.len().min(other.words.len()) - start;
        let rest = self.words.iter().rev().zip(other.words.iter().rev()).take_while(same).count().min(most);
        let filler = |words: &[Word]| {
            let filler = &words[start..words.len() - rest];
            (1..=FILLER_WORDS_MAX).contains(&filler.iter().filter(|word| !word.is_light).count())
        };
        let frame = self.words[..start].iter().chain(&self.words[self.words.len() - rest..]);
        let is_frame = frame.filter(|word| !is_stop_word(&word.form)).count() >= FRAME_WORDS_MIN;
        (is_frame && filler(&self.words) && filler(&other.words)).then_some(Swap { start, rest })
    }
}

/// Place in which two sentences differ.
#[derive(Debug, Clone, Copy)]
struct Swap {
    /// Number of equal words before it.
    start: usize,
    /// Number of equal words after it.
    rest: usize,
}

/// Returns a word without the ending of its form.
fn stem_word(word: &str) -> &str {
    let mut stems = ["ing", "ed", "es", "s", "e"].into_iter().filter_map(|ending| word.strip_suffix(ending));
    stems.find(|stem| stem.len() > 3 && stem.chars().all(char::is_alphabetic)).unwrap_or(word)
}

/// Returns `true` for a number, a path, an identifier, or a word in capitals that does not begin a sentence.
fn is_name(token: &str, begins: bool) -> bool {
    let inner = |c: char| c.is_ascii_digit() || "_/.=$<>#@".contains(c);
    let camel = token.chars().skip(1).any(char::is_uppercase) && token.chars().any(char::is_lowercase);
    let proper = !begins && token.starts_with(char::is_uppercase) && token.chars().nth(1).is_some();
    token.contains(inner) || camel || proper || token.starts_with("--")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::LessonCue;
    use crate::similarity::NgramEmbedder;

    fn relate(known: &str, new: &str) -> LessonRelation {
        let lesson = |title: &str| Lesson {
            subject: String::new(),
            title: title.to_owned(),
            content: String::new(),
            cue: LessonCue::default(),
            worded_by: None,
        };
        relate_lessons(&NgramEmbedder, &Policy::default(), &lesson(known), &lesson(new))
    }

    #[test]
    fn something_else_in_a_place_of_choice_replaces() {
        for (known, new) in [
            ("Use Jest for unit tests", "We use Vitest for unit tests"),
            ("Use npm to install packages", "Use pnpm to install packages"),
            ("Manage state with Redux", "Manage state with Zustand"),
            ("Log retries at debug level", "Log retries at info level"),
            ("Keep the tests next to the source", "Keep the tests in the tests folder"),
            ("Timeouts are 5 seconds", "Timeouts are 30 seconds"),
            ("`helm upgrade`: pass `--timeout 5m`", "`helm upgrade`: set `--timeout` to `15m`"),
            ("Keep `limit` at 100 when calling `query_db`", "`query_db`: `limit` should be 500"),
            ("Always use mocks in tests", "Never use mocks in tests"),
            ("Prefer grep over rg for searches", "Prefer rg over grep for searches"),
            ("Use `moment` for dates", "Use `date-fns` instead of `moment` for dates"),
        ] {
            assert_eq!(relate(known, new), LessonRelation::Replaces, "{known} / {new}");
        }
    }

    #[test]
    fn what_can_be_followed_together_stands() {
        for (known, new) in [
            ("Use Jest for unit tests", "Use Jest's fake timers in scheduler tests"),
            ("Run `cargo fmt` before committing", "Run `cargo deny` before releasing"),
            ("Document public functions", "Document public classes"),
            ("Don't log request bodies", "Log the request id on every line"),
            ("PRs need a linked issue", "Typo fixes don't need an issue"),
            ("Use `pathlib` for paths", "Use `os.path` for paths if the loop is hot"),
            ("`create_invoice`: `tax_rate` is 19", "for `create_invoice` with books, `tax_rate` is 7"),
            (
                "Use `tracing` instead of `println!`",
                "Don't hold a `tracing` span guard across an await point",
            ),
            ("`search_docs`: pass `--json`", "`search_docs`: pass `--limit 5`"),
            ("Test without a network", "Never test without a clean database"),
            // A condition narrows, whatever its word.
            ("Use Jest for unit tests", "Unless a page is old, use Vitest for unit tests"),
            ("Timeouts are 5 seconds", "Timeouts are 30 seconds while a backup runs"),
        ] {
            assert_eq!(relate(known, new), LessonRelation::Separate, "{known} / {new}");
        }
    }

    #[test]
    fn other_words_for_the_same_confirm() {
        for (known, new) in [
            ("List the tables before querying one", "Before you query, list all the tables"),
            ("Sort the imports", "Always sort every import"),
        ] {
            assert_eq!(relate(known, new), LessonRelation::Same, "{known} / {new}");
        }
    }
}
