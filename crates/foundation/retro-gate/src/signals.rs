//! Patterns of attacks, which are matched against the three views of a text.
//!
//! Each pattern is general: a verb and its object, not a sentence of a known attack. A pattern that also
//! occurs in honest reviews is only a hint. The tables are grouped by the attacker's goal: [`agent`]
//! addresses the model itself, [`answer`] dictates its answer, [`world`] asks for actions outside the code,
//! and [`machine`] contains commands, addresses, markup and credentials.

mod agent;
mod answer;
mod machine;
mod signal;
mod world;

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use crate::folded::FoldedViews;
use crate::reason::{Reason, Strength};
use signal::Signal;

/// Names of word groups that several patterns share, each with its expression.
const SHORTHANDS: &[(&str, &str)] = &[
    (
        "INSTRUCTIONS",
        "(?:ins?tr[a-z]{4,9}|directions?|directives?|prompts?|orders?|guidelines?|programming|training)",
    ),
    (
        "PROMPT",
        "(?:system (?:prompt|message|instructions?)|(?:initial|original|hidden|base|first|above|previous|full|entire|whole|secret|starting|exact) (?:[a-z]+ )?(?:prompt|instructions?|messages?)|your (?:[a-z]+ )?(?:prompt|instructions?|guidelines|rules|directives|configuration|programming|system))",
    ),
    (
        "MODEL",
        "(?:chatgpt|chat gpt|openai|open ai|gpt ?[0-9]*|claude|gemini|llama|copilot|llms?|language models?|ai|ais|chatbots?|assistants?|artificial intelligence)",
    ),
    (
        "SECRET",
        "(?:pass ?words?|pass ?codes?|pass ?phrases?|pins?|secret (?:keys?|words?|codes?|phrases?)|secrets|credit card|card numbers?|social security|ssn|passports?|ibans?|bank (?:account|details)|api keys?|access tokens?|private keys?|login|credentials?)",
    ),
    (
        "PERSONAL",
        "(?:(?:e ?mail|home|postal|ip|street) address(?:es)?|e ?mail|birth ?(?:days?|dates?|years?)|dates? of birth|years? of birth|phone numbers?|mobile numbers?|favou?rite [a-z]+|(?:city|place|country) of residence|(?:current|home) (?:city|location)|medical (?:history|records?)|salary|full names?|marital status|maiden name)",
    ),
    (
        "TELL",
        "(?:tell|give|share|send|show|reveal|provide|say|disclose|spell|name|list|print|output|display|write|leak|expose|hand)",
    ),
    ("ANSWER", "(?:responses?|reply|replies|answers?|outputs?|summary|summaries|completions?)"),
    (
        "PLEASE",
        "(?:(?:please|now|then|just|also|and|so|first|next|instead|to|todo|do|important|note|task|urgent|you must|you should|you need to|you have to|can you|could you|would you|kindly|i want you to|i need you to|make sure to|be sure to|dont forget to|remember to) ){0,4}",
    ),
];

/// Maximum number of words that a pattern may skip, which keeps compiled patterns small.
const SKIPPED_WORDS_MAX: usize = 15;

/// A compiled pattern. Matches bytes: folded words are ASCII except in other alphabets, and a class of bytes
/// takes a hundredth of the memory of a class of characters. Patterns are compiled separately, because most
/// begin with a few literal words that text rarely contains, while one automaton for all patterns would have
/// too many states to cache.
struct Matcher {
    signal: &'static Signal,
    regex: Regex,
}

static MATCHERS: LazyLock<Vec<Matcher>> = LazyLock::new(|| {
    let tables = [agent::SIGNALS, answer::SIGNALS, world::SIGNALS, machine::SIGNALS];
    tables.into_iter().flatten().map(Matcher::compile).collect()
});

/// Maximum memory of one compiled pattern, in bytes. Also bounds the work per byte of text.
const COMPILED_BYTES_MAX: usize = 1024 * 1024;

impl Matcher {
    fn compile(signal: &'static Signal) -> Self {
        let pattern = expand_pattern(signal.pattern);
        let regex = RegexBuilder::new(&pattern).unicode(false).size_limit(COMPILED_BYTES_MAX).build();
        Self { signal, regex: regex.unwrap_or_else(|error| panic!("pattern {pattern:?} compiles: {error}")) }
    }
}

/// Maximum number of reported matches of one hint, so a long text does not produce thousands of reasons.
const PLACES_MAX: usize = 16;

/// Finds the signals in a text: the first match of each sure sign, and at most [`PLACES_MAX`] matches of each
/// hint.
pub(crate) fn find_signals(text: &str, views: &FoldedViews) -> Vec<Reason> {
    let mut found = Vec::new();
    for Matcher { signal, regex } in MATCHERS.iter() {
        let folded = views.view(signal.view);
        let places = if signal.strength == Strength::Sure { 1 } else { PLACES_MAX };
        found.extend(
            regex
                .find_iter(folded.text.as_bytes())
                .take(places)
                .map(|at| Reason::new(signal.code, signal.strength, text, folded.source_range(at.range()))),
        );
    }
    found
}

/// Expands the shorthands and the gaps between words in a pattern.
fn expand_pattern(pattern: &str) -> String {
    let mut spelt = pattern.to_owned();
    // Expanded twice, because one shorthand may use another.
    for _ in 0..2 {
        for (name, words) in SHORTHANDS {
            spelt = spelt.replace(name, words);
        }
    }
    for most in 1..=SKIPPED_WORDS_MAX {
        for space in [" ", " ?"] {
            spelt = spelt.replace(&format!("{space}{{{most}}}"), &format!("{space}(?:[^ |]+ ){{0,{most}}}"));
        }
    }
    // Patterns in other alphabets are written normally, and folded like the text.
    spelt
        .chars()
        .map(|c| if c.is_ascii() { c.to_string() } else { crate::fold_text(&c.to_string()) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_within_its_bound() {
        assert!(MATCHERS.len() > 100);
    }

    #[test]
    fn shorthands_are_expanded() {
        assert_eq!(expand_pattern(r"drop {2}it"), r"drop (?:[^ |]+ ){0,2}it");
        assert_eq!(expand_pattern("пароль"), "napoлb");
    }
}
