//! Judges what a sentence switches off: a check, a proof, or a thing that only has the name of one.

use super::kind::Danger;
use super::kind::Danger::{ChecksOff, VerificationOff};
use super::reading::{Reading, gap};
use super::words::part::{CHECK, DIGEST, LAX, OFF, PROOF, THING, VERIFY};
use super::words::{is_one_of, meaning};

/// Nouns after a check that make the whole a thing: "test data", "review comments", "CI logs".
const THINGS: &str = "data database databases db dir directory directories folder folders file files log logs output outputs fixture fixtures container containers user users account accounts env environment environments cluster server servers result results report reports name names id ids token tokens runner runners bucket buckets table tables schema image images cache caches artifact artifacts page pages comment comments thread app branch branches request requests link number message bot host url plan dependencies dependency package packages library framework key keys path paths store store's header headers project projects record records mail email e-mail e-mails emails deployment deployments machine instance instances box boxes mode ticket change changes queue resource resources repository";

/// Nouns of checks that are not made of parts with a meaning.
const OTHER_NOUNS: &str = "audit audits assertion assertions assert pre-commit sast quarantine approval-gate type-check two-factor branch-protection host hostname";

/// Returns the danger of switching off what the noun at a word names, if it names a check.
pub(super) fn judge_noun(reading: &Reading<'_>, at: usize) -> Option<Danger> {
    let word = reading.words.get(at)?;
    if !(word.parts.has(CHECK | PROOF | VERIFY | DIGEST) || word.is(OTHER_NOUNS)) {
        return None;
    }
    let named_thing = word.is_name() && word.parts.has(THING) && !word.parts.has(PROOF);
    let is_setting = reading.words.get(at + 1).is_some_and(|next| next.gap & gap::ASSIGN != 0);
    if word.is_address() || word.text.contains('/') || word.parts.has(OFF | LAX) || named_thing || is_setting
    {
        return None;
    }
    let before = before(reading, at);
    // After these words, "test", "check" and "review" are verbs.
    // `web-test` in quotation marks is a name of something else.
    let labelled = word.gap & gap::TICK != 0
        && word.text.contains(['-', '_'])
        && word.parts.list.len() == 2
        && word.parts.list[1].0 == "test"
        && word.parts.list[0].1 == 0;
    let verb = labelled
        || is_one_of(before, "to then please and or you must should will can")
            && word.is("test check review lint scan verify sign validate guard gate protect");
    let last = end_of_noun(reading, at);
    let thing =
        reading.words.get(last + 1).is_some_and(|next| next.is(THINGS)) && !reading.begins_clause(last + 1);
    if verb || thing {
        return None;
    }
    let group = || reading.words[at..=last].iter();
    let named = |any_of: u16| group().any(|word| word.parts.has(any_of));
    if word.is_option() && !word.parts.has(PROOF | VERIFY) {
        return None;
    }
    if word.parts.list.len() > 2
        && word.is_name()
        && !word.parts.has(PROOF | VERIFY)
        && word.parts.list.first().is_none_or(|(first, _)| first != "test")
    {
        return None;
    }
    let digest = word.parts.has(DIGEST)
        && group().any(|word| word.parts.has(CHECK | VERIFY) || word.is("mismatch mismatches"));
    let host = word.text == "host" && is_one_of(reading.text(at + 1), "key keys")
        || word.is("hostname") && named(CHECK | VERIFY);
    if word.parts.has(PROOF | VERIFY) || digest || host || word.parts.has(CHECK) && named(PROOF | VERIFY) {
        return Some(VerificationOff);
    }
    if word.is("policy policies")
        && !is_one_of(before, "security branch review merge approval protection access")
    {
        return None;
    }
    (word.parts.has(CHECK) || !word.is("host hostname")).then_some(ChecksOff)
}

/// Returns the last word of the noun that begins at a word: "certificate verification errors".
pub(super) fn end_of_noun(reading: &Reading<'_>, at: usize) -> usize {
    let mut last = at;
    for next in reading.rest_of_clause(at, 3) {
        let word = &reading.words[next];
        let goes_on = !word.is_option()
            && (meaning(word.text) & (CHECK | PROOF | VERIFY | DIGEST) != 0
                || word.is("error errors warning warnings failure failures mismatch mismatches step steps stage job jobs suite suites case cases rule rules gate key keys stages process requirement requirements policy pipeline authentication phase validation problems problem"));
        if !goes_on {
            break;
        }
        last = next;
    }
    last
}

/// Returns the text of the word before a word, or nothing if there is none.
pub(super) fn before<'t>(reading: &Reading<'t>, at: usize) -> &'t str {
    at.checked_sub(1).map_or("", |before| reading.text(before))
}
