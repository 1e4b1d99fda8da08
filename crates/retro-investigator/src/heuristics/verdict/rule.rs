//! A rule of the repository, judged by its words over the whole run.
//!
//! A rule says how code is written, not how a tool is called, so its words are all there is. Let its *words* be those of its
//! title that mean something, and *its advice* those without what stands behind "instead of", "rather than" and the like.
//!
//! * **What to do.** *Applied*: one text of the agent holds most of the advice. *Ignored*: one holds half of its words, so the
//!   situation came up, and none holds the advice. *Cue not met*: none holds half.
//! * **What not to do.** Who keeps to it leaves no trace. *Applied*: a line of what the agent said or thought, with a negation,
//!   holds most of what is forbidden. *Ignored*: the arguments of one call hold all of it. *Cue not met*: no text holds half.
//!   Otherwise nobody can tell, and there is no verdict.
//!
//! A rule with fewer than two words has no verdict either: one word is in every other trace. When in doubt nothing counts against
//! a rule, since what ignores it often enough ends it.

use std::collections::BTreeSet;

use retro_core::finding::{Quote, Verdict};
use retro_core::trajectory::{Place, Source, Turn};

use super::super::quote;
use super::{Case, Ruling, TURN_CHARS_MAX, WORDS_SHARED_MIN, texts};

/// The fewest words that say what a rule is about.
const RULE_WORDS_MIN: usize = 2;
/// Words behind "instead of" that are advised against: a name and perhaps an adjective.
const AGAINST_WORDS: usize = 2;
/// The part of a rule's words that tells that its situation came up, in hundredths.
const WORDS_MET_MIN: usize = 50;

impl<'b> Case<'b> {
    /// `None` when nobody can tell.
    pub(super) fn by_rule(&self) -> Option<Ruling> {
        let title = self.memory.title.as_str();
        let all = words(title);
        if all.len() < RULE_WORDS_MIN {
            return None;
        }
        if forbids(title) { self.by_prohibition(title, &all) } else { self.by_advice(title, &all) }
    }

    fn by_advice(&self, title: &str, all: &BTreeSet<String>) -> Option<Ruling> {
        let advice = advice(title);
        let followed =
            |text: &&Said<'_>| advice.len() >= RULE_WORDS_MIN && holds(text.2, &advice, WORDS_SHARED_MIN);
        if let Some(quote) = self.said_by_agent().find(|text| followed(&text)).and_then(quoted) {
            let reason = "one turn of the agent does what it says".to_owned();
            return Some(Ruling(Verdict::Applied, reason, Some(quote)));
        }
        Some(match self.said_by_agent().find(|text| holds(text.2, all, WORDS_MET_MIN)).and_then(quoted) {
            Some(quote) => {
                let reason = "its situation came up, and no turn of the agent does what it says".to_owned();
                Ruling(Verdict::Ignored, reason, Some(quote))
            }
            None => nothing_about_it(),
        })
    }

    fn by_prohibition(&self, title: &str, all: &BTreeSet<String>) -> Option<Ruling> {
        let forbidden = words(forbidden(title));
        if forbidden.len() < RULE_WORDS_MIN {
            return None;
        }
        let minded = self.said_by_agent().filter(|text| !text.1).find_map(|Said(place, _, text)| {
            let minds = |line: &&str| negated(line) && holds(line, &forbidden, WORDS_SHARED_MIN);
            text.lines().find(minds).and_then(|line| quote::of(place, line))
        });
        if let Some(quote) = minded {
            let reason = "the agent minded it in words".to_owned();
            return Some(Ruling(Verdict::Applied, reason, Some(quote)));
        }
        let done = self.said_by_agent().filter(|text| text.1).find(|text| holds(text.2, &forbidden, 100));
        if let Some(quote) = done.and_then(quoted) {
            let reason = "a call holds all that it forbids".to_owned();
            return Some(Ruling(Verdict::Ignored, reason, Some(quote)));
        }
        let came_up = self.said_by_agent().any(|text| holds(text.2, all, WORDS_MET_MIN));
        (!came_up).then(nothing_about_it)
    }

    /// Everything that the agent said, thought and asked for.
    fn said_by_agent(&self) -> impl Iterator<Item = Said<'b>> {
        let own = self.turns.iter().filter(|(_, turn)| turn.source == Source::Agent);
        own.flat_map(|(at, turn): &(u32, &'b Turn)| {
            texts(*at, turn).map(|(place, text)| {
                let asked_for = matches!(place, Place::Arguments { .. });
                Said(place, asked_for, quote::head(text, TURN_CHARS_MAX))
            })
        })
    }
}

/// A text of the agent: where it stands, whether it is the arguments of a call, and its beginning.
#[derive(Clone, Copy)]
struct Said<'t>(Place, bool, &'t str);

fn quoted(said: Said<'_>) -> Option<Quote> {
    quote::of(said.0, said.2)
}

fn nothing_about_it() -> Ruling {
    Ruling(Verdict::CueNotMet, "nothing that the agent did is about it".to_owned(), None)
}

/// Whether a text holds so many hundredths of these words, and at least two of them.
fn holds(text: &str, wanted: &BTreeSet<String>, hundredths: usize) -> bool {
    let shared = words(text).intersection(wanted).count();
    shared >= RULE_WORDS_MIN && shared * 100 >= wanted.len() * hundredths
}

/// Whether a rule says what not to do, and nothing else first.
fn forbids(title: &str) -> bool {
    let lower = title.to_lowercase();
    ["never ", "do not ", "don't ", "avoid ", "stop ", "no "].iter().any(|word| lower.starts_with(word))
}

fn negated(line: &str) -> bool {
    let lower = line.to_lowercase();
    ["never", "not ", "n't ", "avoid", "without", "no "].iter().any(|word| lower.contains(word))
}

/// What a prohibition forbids: its first clause.
fn forbidden(title: &str) -> &str {
    title.split([';', ',', '.', ':']).next().unwrap_or(title)
}

/// The words of a title without what it advises against.
fn advice(title: &str) -> BTreeSet<String> {
    let lower = title.to_lowercase();
    let marks = ["instead of", "rather than", " over ", " never ", " not "];
    let Some((before, behind)) = marks.iter().find_map(|mark| lower.split_once(mark)) else {
        return words(title);
    };
    let against: BTreeSet<String> = words_in_order(behind).take(AGAINST_WORDS).collect();
    let rest = words_in_order(behind).skip(AGAINST_WORDS);
    words_in_order(before).chain(rest).filter(|word| !against.contains(word)).collect()
}

fn words(text: &str) -> BTreeSet<String> {
    words_in_order(text).collect()
}

/// The words of a text that mean something, in lower case and without a plural's s.
fn words_in_order(text: &str) -> impl Iterator<Item = String> {
    const COMMON: &[&str] = &[
        "the", "and", "for", "not", "any", "all", "our", "you", "are", "can", "use", "new", "one", "its",
        "but", "out", "using", "never", "always", "avoid", "don", "must", "should", "when", "with", "that",
        "this", "then", "than", "from", "into", "your", "have", "has", "instead", "rather", "prefer",
        "every", "each", "make", "sure", "stop", "does", "also", "only", "them", "they", "what", "which",
        "where", "here", "there",
    ];
    let split = text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase);
    split.filter(|word| word.chars().count() >= 3 && !COMMON.contains(&word.as_str())).map(|word| {
        let singular = word.strip_suffix('s').filter(|rest| rest.chars().count() >= 3);
        singular.map(str::to_owned).unwrap_or(word)
    })
}
