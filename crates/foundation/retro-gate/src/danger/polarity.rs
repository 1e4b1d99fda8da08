//! Decides if a text tells its reader to do what it mentions.
//!
//! "Never commit the key", "call `curl` without `-k`" and "remove `--no-verify`" undo a danger; "do not avoid
//! `--no-verify`" does not. Negations that govern a place are counted back to the start of the clause, and an
//! odd number undoes it. The answer of a tool and the condition of a rule mention things without asking for
//! them, so there a verb that demands it must stand before it.

use super::reading::{Reading, gap};
use super::words::{is_one_of, part};

/// Form of what was found, which decides what undoes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// An option, a key or a value.
    Machine,
    /// A phrase whose first word is a verb or a negation.
    Phrase,
    /// A statement that something is off or optional.
    State,
    /// A command that needs no verb before it.
    Command,
}

const NEGATIONS: &str = "not never dont don't without avoid avoids avoiding refuse refuses refusing refused refrain forbid forbids prohibit prohibits reject rejects cannot can't cant won't wont mustn't mustnt shouldn't shouldnt isn't isnt forbidden prohibited disallowed wrong doesn't doesnt didn't didnt neither nor stop stops nobody unable failed prevent prevents block blocks resist";

/// Verbs that undo an option or a setting which they take as their object.
const REMOVALS: &str = "remove removes removing removed drop drops dropping delete deletes deleting omit omits omitting strip strips stripping replace replaces replacing undo undoes revert reverts reverting unset uncheck discard rid";

/// Words that void a negation before them: "do not forget to", "do not hesitate to", "not only".
const VOIDING: &str = "forget hesitate worry fail afraid mind panic care only just yet wait bother matter";

/// Words that begin another thought, so that a negation before them does not reach further.
const TURNS: &str = "but then so because since therefore otherwise simply unless until";

/// Words that begin a condition.
const CONDITIONS: &str = "when whenever if once unless although though because since while as where";

/// Words that ask for what follows them.
const DEMANDS: &str = "use using pass add set run rerun re-run try must should need needs specify retry consider enable export append supply provide please call invoke put configure execute skip disable ignore instead";

/// Words after an option that say that it must not or cannot be used.
const REFUSALS: &str = "forbidden banned prohibited refused rejected disallowed unsupported unknown unrecognized unrecognised invalid deprecated removed fails failed blocked";

const SUBJECTS: &str = "you we they i it who that people users tests someone anybody anyone which to";

/// Maximum number of words that a negation governs.
const REACH_MAX: usize = 12;

impl Reading<'_> {
    /// Returns `true` if the text asks for what stands from the word `first` to the word `last`.
    pub(super) fn asks_for(&self, first: usize, last: usize, form: Form) -> bool {
        let searched = form != Form::Command && self.words.get(first).is_some_and(|word| word.in_message);
        let hinted = form != Form::Command && self.words.get(first).is_some_and(|word| word.in_hint);
        if searched || hinted || self.negations_before(first, form) % 2 == 1 || self.is_refused_after(last) {
            return false;
        }
        if self.is_reported_refused(first, last) && !self.has_demand_before(first) {
            return false;
        }
        // "CI fails if you skip the tests."
        let before = |distance: usize| first.checked_sub(distance).map_or("", |word| self.text(word));
        let by_others = is_one_of(before(1), SUBJECTS) && is_one_of(before(2), CONDITIONS)
            || is_one_of(before(1), "that which whoever");
        if form == Form::Phrase && by_others || form == Form::Machine && self.is_tested(first, last) {
            return false;
        }
        match (self.words.get(first).is_some_and(|word| word.in_answer), form) {
            (true, Form::Machine) => self.is_demanded(first, last),
            // Which statements of a tool are demands is decided where they are found.
            (true, Form::State) => true,
            (true, Form::Phrase) => !self.text(first).ends_with("ing"),
            (_, Form::Command) => true,
            (false, _) if !self.is_in_condition(first) => true,
            (false, Form::Machine) => self.is_demanded(first, last),
            (false, Form::State) => false,
            (false, Form::Phrase) => {
                first > 0 && !is_one_of(before(1), SUBJECTS) && !is_one_of(before(1), CONDITIONS)
            }
        }
    }

    /// Counts the negations that govern the word `at`.
    pub(super) fn negations_before(&self, at: usize, form: Form) -> usize {
        let (mut count, mut with, mut word) = (0, false, at);
        while word > 0 && at - word < REACH_MAX && !self.ends_reach(word) {
            word -= 1;
            let text = self.text(word);
            if is_one_of(text, TURNS) || text == "instead" && self.text(word + 1) != "of" {
                break;
            }
            if matches!(text, "and" | "&" | "plus") && !self.is_shared_negation(word) {
                break;
            }
            with |= matches!(text, "with" | "by" | "using");
            let negates = match text {
                "without" => !with && !is_one_of(self.text(word + 1), "waiting asking"),
                "instead" => !with,
                "rather" => !with && self.text(word + 1) == "than",
                "no" => is_one_of(
                    self.text(word + 1),
                    "longer need reason point excuse circumstances account way",
                ),
                "bad" => is_one_of(self.text(word + 1), "idea practice habit"),
                "leave" | "leaving" | "left" => {
                    form == Form::Machine
                        && (self.text(word + 1) == "out" || self.stands_within(at, 6, "out off away"))
                }
                "opposed" => self.text(word + 1) == "to",
                _ => is_one_of(text, NEGATIONS) && !self.is_voided(word),
            };
            let removes = form == Form::Machine && is_one_of(text, REMOVALS) && self.is_object(word, at);
            count += usize::from(negates || removes);
            // "Neither … nor" denies once.
            if text == "nor" {
                break;
            }
        }
        count
    }

    /// Returns `true` if a negation before the word `at` does not reach it. The edge of a short quotation, as
    /// in "never pass "-k"", ends nothing.
    fn ends_reach(&self, at: usize) -> bool {
        self.words[at].gap & gap::ENDS & !gap::COLON != 0
            || self.words[at].gap & gap::COLON != 0 && self.words[at].gap & gap::SPACE != 0
    }

    fn is_voided(&self, negation: usize) -> bool {
        let before = negation.checked_sub(1).map_or("", |before| self.text(before));
        let reads_if = matches!(before, "if" | "or" | "whether");
        let next = self.text(negation + 1);
        reads_if
            || is_one_of(next, VOIDING)
            || matches!(next, "be" | "ever") && is_one_of(self.text(negation + 2), VOIDING)
    }

    /// Returns `true` if a negation before "and" also governs what follows: "never commit and push the key".
    fn is_shared_negation(&self, and: usize) -> bool {
        let before = (and.saturating_sub(6)..and).rev().take_while(|word| !self.ends_reach(word + 1));
        for (distance, word) in before.enumerate() {
            if is_one_of(self.text(word), NEGATIONS) {
                return distance <= 1;
            }
            if self.words[word].parts.has(part::OFF | part::LAX) {
                return true;
            }
        }
        false
    }

    /// Returns `true` if only light words stand between a verb and the word `at`.
    fn is_object(&self, verb: usize, at: usize) -> bool {
        (verb + 1..at).all(|between| {
            self.words[between].is_option()
                || is_one_of(
                    self.text(between),
                    "the a an any all every flag option flags options setting line of its their or config -c",
                )
        })
    }

    fn stands_within(&self, at: usize, most: usize, table: &str) -> bool {
        self.rest_of_clause(at, most).any(|next| is_one_of(self.text(next), table))
    }

    fn is_refused_after(&self, last: usize) -> bool {
        let mut refused = false;
        for next in self.rest_of_clause(last, 5) {
            let text = self.text(next);
            if text == "to" && self.text(next + 1) == "be" {
                continue;
            }
            refused |= text == "left" && self.text(next + 1) == "out"
                || text == "no" && self.text(next + 1) == "longer";
            if is_one_of(
                text,
                "and or to with when if because so that which who whose where as before after until",
            ) {
                break;
            }
            let modal =
                matches!(text, "must" | "should" | "may") && matches!(self.text(next + 1), "not" | "never");
            let denied = matches!(text, "not" | "never")
                && is_one_of(
                    self.text(next + 1),
                    "allowed permitted supported accepted recommended an used acceptable ok okay exist work help apply needed required necessary",
                );
            refused |= modal || denied || is_one_of(text, REFUSALS);
        }
        refused
    }

    /// Returns `true` for "fail the build if `-k` is set".
    fn is_tested(&self, first: usize, last: usize) -> bool {
        let condition =
            (first.saturating_sub(3)..first).rev().take_while(|word| !self.begins_clause(word + 1));
        let is = is_one_of(self.text(last + 1), "is are was gets");
        is && is_one_of(self.text(last + 2), "used set passed given present found active")
            && condition.into_iter().any(|word| is_one_of(self.text(word), "if when whenever unless"))
    }

    /// Returns `true` if a verb before it or a phrase after it demands what stands from `first` to `last`.
    fn is_demanded(&self, first: usize, last: usize) -> bool {
        self.has_demand_before(first)
            || self.stands_within(last, 4, "required needed must mandatory instead")
                && !self.stands_within(last, 4, "not")
    }

    fn has_demand_before(&self, first: usize) -> bool {
        let mut word = first;
        while word > 0
            && first - word < REACH_MAX
            && self.words[word].gap & (gap::STOP | gap::COMMA | gap::SPEECH) == 0
        {
            word -= 1;
            let by_subject =
                word > 0 && is_one_of(self.text(word - 1), SUBJECTS) && self.text(word - 1) != "to";
            if is_one_of(self.text(word), DEMANDS) && !by_subject {
                return true;
            }
        }
        false
    }

    /// Returns `true` if the word stands in the condition of a rule: "When `git` answers …, call …".
    fn is_in_condition(&self, at: usize) -> bool {
        let begin = (at.saturating_sub(40)..=at).rev().find(|word| self.begins_clause(*word)).unwrap_or(at);
        if !is_one_of(self.text(begin), CONDITIONS) {
            return false;
        }
        let after = self.words.iter().skip(at + 1).take(40);
        let end = after.map(|word| word.gap).find(|gap| gap & (gap::COMMA | gap::STOP) != 0);
        end.is_some_and(|gap| gap & gap::COMMA != 0)
    }
}
