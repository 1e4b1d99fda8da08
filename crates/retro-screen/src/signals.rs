//! Patterns of what attackers want, over the three views of a text.
//!
//! Each is general: it names a verb and what the verb is done to, not a sentence that somebody once wrote. A pattern that
//! honest reviews use too is only a hint. The tables are in files by what is wanted:
//! [`agent`] what is said to a model about itself, [`answer`] what its answer shall hold, [`world`] what shall be done
//! outside of the code, [`machine`] commands, addresses, markup and credentials.

mod agent;
mod answer;
mod machine;
mod world;

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use crate::folded::{View, Views};
use crate::reason::{Code, Reason, Strength};

/// A pattern with what it means. In `Words` and `Sentences` a text has only words and single spaces; `{n}` between two
/// words stands for at most `n` words, and names in capitals stand for what [`NAMES`] says.
pub(crate) struct Signal {
    code: Code,
    strength: Strength,
    view: View,
    pattern: &'static str,
}

const fn sure(code: Code, view: View, pattern: &'static str) -> Signal {
    Signal { code, strength: Strength::Sure, view, pattern }
}

const fn hint(code: Code, view: View, pattern: &'static str) -> Signal {
    Signal { code, strength: Strength::Hint, view, pattern }
}

/// Words that several patterns share.
const NAMES: &[(&str, &str)] = &[
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

/// The longest run of words that a pattern may skip, so that compiled patterns stay small.
const SKIPPED_WORDS_MAX: usize = 15;

/// A pattern, compiled, over bytes: folded words are ASCII but for other alphabets, and a class of bytes is a hundredth
/// of a class of characters. Each for itself: most begin with a few words, which are looked for first and are hardly ever
/// there, while one automaton of them all has too many states to be kept.
struct Matcher {
    signal: &'static Signal,
    regex: Regex,
}

static MATCHERS: LazyLock<Vec<Matcher>> = LazyLock::new(|| {
    let tables = [agent::SIGNALS, answer::SIGNALS, world::SIGNALS, machine::SIGNALS];
    tables.into_iter().flatten().map(Matcher::of).collect()
});

/// Most memory of one compiled pattern: it bounds what a text can make the matcher do for each byte.
const COMPILED_BYTES_MAX: usize = 1024 * 1024;

impl Matcher {
    fn of(signal: &'static Signal) -> Self {
        let pattern = spelt_out(signal.pattern);
        let regex = RegexBuilder::new(&pattern).unicode(false).size_limit(COMPILED_BYTES_MAX).build();
        Self { signal, regex: regex.unwrap_or_else(|error| panic!("pattern {pattern:?} compiles: {error}")) }
    }
}

/// Most places of one hint that are told: with one hint every few sentences a text is hostile long before.
const PLACES_MAX: usize = 16;

/// Every signal that a text gives: the first place of a sure sign, more of a hint.
pub(crate) fn find(text: &str, views: &Views) -> Vec<Reason> {
    let mut found = Vec::new();
    for Matcher { signal, regex } in MATCHERS.iter() {
        let folded = views.view(signal.view);
        let places = if signal.strength == Strength::Sure { 1 } else { PLACES_MAX };
        found.extend(
            regex
                .find_iter(folded.text.as_bytes())
                .take(places)
                .map(|at| Reason::new(signal.code, signal.strength, text, folded.origin(at.range()))),
        );
    }
    found
}

/// A pattern with its shorthand written out.
fn spelt_out(pattern: &str) -> String {
    let mut spelt = pattern.to_owned();
    // Names are looked up twice, since one of them may use another.
    for _ in 0..2 {
        for (name, words) in NAMES {
            spelt = spelt.replace(name, words);
        }
    }
    for most in 1..=SKIPPED_WORDS_MAX {
        for space in [" ", " ?"] {
            spelt = spelt.replace(&format!("{space}{{{most}}}"), &format!("{space}(?:[^ |]+ ){{0,{most}}}"));
        }
    }
    // Patterns of other alphabets are written as people write them, and folded like the text.
    spelt.chars().map(|c| if c.is_ascii() { c.to_string() } else { crate::fold(&c.to_string()) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles_within_its_bound() {
        assert!(MATCHERS.len() > 100);
    }

    #[test]
    fn shorthand_is_written_out() {
        assert_eq!(spelt_out(r"drop {2}it"), r"drop (?:[^ |]+ ){0,2}it");
        assert_eq!(spelt_out("пароль"), "napoлb");
    }
}
