//! Judges a rule of the repository by its words over the whole run.
//!
//! A rule is about how code is written, not about how a tool is called, so it can only be judged by its
//! words. Its *words* are the significant words of its title. Its *advice* is these words without those after
//! "instead of", "rather than" and similar phrases.
//!
//! * **Advice.** *Applied*: one text of the agent contains most of the advice. *Ignored*: one text contains
//!   half of the rule's words, so the rule's situation came up, but no text contains the advice. *Cue not
//!   met*: no text contains half of the rule's words.
//! * **Prohibition.** Following it leaves no trace. *Applied*: a line of a message or of the reasoning
//!   contains a negation and most of the forbidden words. *Ignored*: the arguments of one call contain all
//!   forbidden words. *Cue not met*: no text contains half of the rule's words. Otherwise the run shows
//!   nothing, and there is no verdict.
//!
//! A rule with fewer than two words gets no verdict either, because a single word occurs in every other
//! trace. In case of doubt nothing counts against a rule, because a rule that is ignored often enough is
//! archived.

use std::collections::BTreeSet;

use retro_core::finding::{MemoryVerdict, Quote};
use retro_core::trajectory::{QuotePlace, Turn, TurnSource};

use super::super::quote;
use super::{MemoryCase, Ruling, TURN_CHARS_MAX, WORDS_SHARED_MIN, agent_texts};

/// Minimum number of significant words of a rule that can be judged.
const RULE_WORDS_MIN: usize = 2;
/// Number of words after "instead of" that count as advised against: a name and perhaps an adjective.
const AGAINST_WORDS: usize = 2;
/// Minimum share of a rule's words, in per cent, that a text must contain to show that the rule's situation
/// came up.
const WORDS_MET_MIN: usize = 50;

impl<'b> MemoryCase<'b> {
    /// Judges the rule. Returns `None` if the run does not show whether the rule was followed.
    pub(super) fn judge_by_rule(&self) -> Option<Ruling> {
        let title = self.memory.title.as_str();
        let all = significant_words(title);
        if all.len() < RULE_WORDS_MIN {
            return None;
        }
        if starts_with_prohibition(title) {
            self.judge_by_prohibition(title, &all)
        } else {
            self.judge_by_advice(title, &all)
        }
    }

    fn judge_by_advice(&self, title: &str, all: &BTreeSet<String>) -> Option<Ruling> {
        let advice = advised_words(title);
        let followed = |text: &&AgentText<'_>| {
            advice.len() >= RULE_WORDS_MIN && contains_words(text.2, &advice, WORDS_SHARED_MIN)
        };
        if let Some(quote) = self.all_agent_texts().find(|text| followed(&text)).and_then(quote_text) {
            let reason = "one turn of the agent does what it says".to_owned();
            return Some(Ruling(MemoryVerdict::Applied, reason, Some(quote)));
        }
        Some(
            match self
                .all_agent_texts()
                .find(|text| contains_words(text.2, all, WORDS_MET_MIN))
                .and_then(quote_text)
            {
                Some(quote) => {
                    let reason =
                        "its situation came up, and no turn of the agent does what it says".to_owned();
                    Ruling(MemoryVerdict::Ignored, reason, Some(quote))
                }
                None => cue_not_met(),
            },
        )
    }

    fn judge_by_prohibition(&self, title: &str, all: &BTreeSet<String>) -> Option<Ruling> {
        let forbidden = significant_words(prohibited_clause(title));
        if forbidden.len() < RULE_WORDS_MIN {
            return None;
        }
        let heeded = self.all_agent_texts().filter(|text| !text.1).find_map(|AgentText(place, _, text)| {
            let minds =
                |line: &&str| contains_negation(line) && contains_words(line, &forbidden, WORDS_SHARED_MIN);
            text.lines().find(minds).and_then(|line| quote::quote_at(place, line))
        });
        if let Some(quote) = heeded {
            let reason = "the agent minded it in words".to_owned();
            return Some(Ruling(MemoryVerdict::Applied, reason, Some(quote)));
        }
        let done =
            self.all_agent_texts().filter(|text| text.1).find(|text| contains_words(text.2, &forbidden, 100));
        if let Some(quote) = done.and_then(quote_text) {
            let reason = "a call holds all that it forbids".to_owned();
            return Some(Ruling(MemoryVerdict::Ignored, reason, Some(quote)));
        }
        let came_up = self.all_agent_texts().any(|text| contains_words(text.2, all, WORDS_MET_MIN));
        (!came_up).then(cue_not_met)
    }

    /// Returns everything that the agent wrote: messages, reasoning and arguments.
    fn all_agent_texts(&self) -> impl Iterator<Item = AgentText<'b>> {
        let own = self.turns.iter().filter(|(_, turn)| turn.source == TurnSource::Agent);
        own.flat_map(|(at, turn): &(u32, &'b Turn)| {
            agent_texts(*at, turn).map(|(place, text)| {
                let asked_for = matches!(place, QuotePlace::Arguments { .. });
                AgentText(place, asked_for, quote::first_chars(text, TURN_CHARS_MAX))
            })
        })
    }
}

/// Text that the agent wrote: the place, `true` for the arguments of a call, and the beginning of the text.
#[derive(Clone, Copy)]
struct AgentText<'t>(QuotePlace, bool, &'t str);

fn quote_text(text: AgentText<'_>) -> Option<Quote> {
    quote::quote_at(text.0, text.2)
}

fn cue_not_met() -> Ruling {
    Ruling(MemoryVerdict::CueNotMet, "nothing that the agent did is about it".to_owned(), None)
}

/// Returns `true` if a text contains at least this share (in per cent) of the words, and at least two of
/// them.
fn contains_words(text: &str, wanted: &BTreeSet<String>, hundredths: usize) -> bool {
    let shared = significant_words(text).intersection(wanted).count();
    shared >= RULE_WORDS_MIN && shared * 100 >= wanted.len() * hundredths
}

/// Returns `true` if a rule begins with a prohibition.
fn starts_with_prohibition(title: &str) -> bool {
    let lower = title.to_lowercase();
    ["never ", "do not ", "don't ", "avoid ", "stop ", "no "].iter().any(|word| lower.starts_with(word))
}

fn contains_negation(line: &str) -> bool {
    let lower = line.to_lowercase();
    ["never", "not ", "n't ", "avoid", "without", "no "].iter().any(|word| lower.contains(word))
}

/// Returns the first clause of a prohibition, which names what is forbidden.
fn prohibited_clause(title: &str) -> &str {
    title.split([';', ',', '.', ':']).next().unwrap_or(title)
}

/// Returns the words of a title without those after "instead of" and similar phrases.
fn advised_words(title: &str) -> BTreeSet<String> {
    let lower = title.to_lowercase();
    let marks = ["instead of", "rather than", " over ", " never ", " not "];
    let Some((before, behind)) = marks.iter().find_map(|mark| lower.split_once(mark)) else {
        return significant_words(title);
    };
    let against: BTreeSet<String> = significant_words_in_order(behind).take(AGAINST_WORDS).collect();
    let rest = significant_words_in_order(behind).skip(AGAINST_WORDS);
    significant_words_in_order(before).chain(rest).filter(|word| !against.contains(word)).collect()
}

fn significant_words(text: &str) -> BTreeSet<String> {
    significant_words_in_order(text).collect()
}

/// Returns the significant words of a text in order, in lower case and without the plural "s".
fn significant_words_in_order(text: &str) -> impl Iterator<Item = String> {
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
