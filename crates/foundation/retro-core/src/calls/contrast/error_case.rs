//! One error with the runs that met it and those that did not: what runs did about it, and what they do anyway.

use std::borrow::Borrow;

use super::super::reaction::{ChangedPart, Reaction, ReactionEnding, label_of_words};
use super::super::summary::{CallSummary, hash_label};
use super::witness::{ReactionCounts, Witness, exceeds_share, parts_of};

/// Minimum number of runs in which the same call was answered in another way, and of witnesses, before they are compared.
const OTHER_ANSWERS_MIN: usize = 5;
/// Maximum share of these runs that did the same as after the error, in per cent, if it is a reaction to the error; and
/// minimum share of them if it is what comes next anyway.
const SPECIFIC_SHARE_MAX: usize = 10;
const ANYWAY_SHARE_MIN: usize = 50;
/// Minimum share of the runs past a suspected answer that did the same about it, in per cent, if nothing else speaks
/// against the answer.
const SPECIFIC_WITNESSES_SHARE: usize = 60;

/// Numbers of runs in which a call was answered in another way than with an error.
struct OtherAnswers {
    runs: usize,
    /// Runs that then did the same as after the error.
    same: usize,
}

impl OtherAnswers {
    const fn is_at_least(&self, percent: usize) -> bool {
        self.runs >= OTHER_ANSWERS_MIN && self.same * 100 >= self.runs * percent
    }

    const fn is_at_most(&self, percent: usize) -> bool {
        self.runs >= OTHER_ANSWERS_MIN && self.same * 100 <= self.runs * percent
    }
}

/// Error of a reaction, with the runs that met it and those that did not.
pub(super) struct ErrorCase<'c> {
    /// Reaction that is judged.
    pub(super) about: &'c Reaction,
    /// Newest reactions to the error, one a witness.
    pub(super) witnesses: Vec<Witness<'c>>,
    /// Summaries of the runs that did not meet the error.
    pub(super) without: Vec<&'c CallSummary>,
}

impl ErrorCase<'_> {
    /// Counts what the witnesses did. A run after whose failing call only its ordinary work came gave up.
    pub(super) fn count_reactions(&self) -> ReactionCounts {
        let mut counts = ReactionCounts::default();
        for witness in &self.witnesses {
            counts.repeats_failed += u32::from(witness.reaction.repeats_failed);
            match &witness.reaction.ending {
                ReactionEnding::GaveUp => counts.gave_up += 1,
                ReactionEnding::Repeated => counts.repeated += 1,
                ReactionEnding::Changed { .. } if self.goes_on(witness.reaction) => {
                    counts.gave_up += 1;
                }
                ReactionEnding::Changed { .. } => counts.changed += 1,
            }
        }
        counts
    }

    /// Returns `true` if a run went on with its ordinary work after an error: everything that is different comes without
    /// the error as well, or another tool or subcommand does that was called instead.
    pub(super) fn goes_on(&self, reaction: &Reaction) -> bool {
        let parts = parts_of(reaction);
        let is_routine = |part: &ChangedPart| self.is_routine_call(part, reaction);
        let mut replacements = parts.iter().filter(|part| part.replacement().is_some());
        !parts.is_empty()
            && (parts.iter().all(is_routine)
                || replacements.any(is_routine)
                || self.count_after_other_answers(reaction, parts, does_same).is_at_least(ANYWAY_SHARE_MIN))
    }

    /// Returns `true` if most runs add the same one thing to the call after this answer, and after no other answer to the
    /// same call.
    pub(super) fn is_specific_to_answer(&self, own: &[&ChangedPart], counts: &ReactionCounts) -> bool {
        let adds_one = matches!(own, [part] if part.avoid.is_none() && !part.dropped);
        let all = counts.changed + counts.repeated + counts.gave_up;
        adds_one
            && counts.with_remedy as usize >= OTHER_ANSWERS_MIN
            && exceeds_share(counts.with_remedy, all, SPECIFIC_WITNESSES_SHARE)
            && self.count_after_other_answers(self.about, own, changes_same).is_at_most(SPECIFIC_SHARE_MAX)
    }

    /// Counts the runs without the error that made the same call and were answered in another way, and those of them
    /// that then did the same as after the error.
    fn count_after_other_answers<P: Borrow<ChangedPart>>(
        &self,
        reaction: &Reaction,
        parts: &[P],
        is_same: impl Fn(&ChangedPart, &ChangedPart) -> bool,
    ) -> OtherAnswers {
        let mut counts = OtherAnswers { runs: 0, same: 0 };
        if reaction.shape == 0 {
            return counts;
        }
        for summary in &self.without {
            let same_call = summary.reactions.iter().filter(|other| other.shape == reaction.shape);
            let reacts_so = |other: &Reaction| {
                let has = |part: &P| parts_of(other).iter().any(|one| is_same(part.borrow(), one));
                parts.iter().all(has)
            };
            let reacts: Vec<bool> = same_call.map(reacts_so).collect();
            let is_kept = summary.kept_calls.binary_search(&reaction.shape).is_ok();
            counts.runs += usize::from(is_kept || !reacts.is_empty());
            counts.same += usize::from(reacts.contains(&true));
        }
        counts
    }

    /// Returns the parts of a reaction without the calls in between that runs without the error make as well. Empty if the
    /// run went on with its ordinary work.
    pub(super) fn parts_that_matter<'r>(&self, reaction: &'r Reaction) -> Vec<&'r ChangedPart> {
        if self.goes_on(reaction) {
            return Vec::new();
        }
        parts_of(reaction).iter().filter(|part| !self.is_routine_call(part, reaction)).collect()
    }

    /// Returns `true` if runs without the error make the call that a part names before theirs, at least half as often as
    /// the witnesses of the error do. Another tool in the place of the failing one may come after it as well.
    fn is_routine_call(&self, part: &ChangedPart, reaction: &Reaction) -> bool {
        let replacement = part.replacement();
        let instead = replacement.is_some();
        let called = match part.words.as_slice() {
            [] => replacement,
            words => Some(label_of_words(words)),
        };
        let Some(called) = called else { return false };
        let label = hash_label(&reaction.step, &called);
        let failing = hash_label(&reaction.step, &reaction.call);
        let (mut without, mut making) = (0, 0);
        for summary in &self.without {
            let place = |hash: u32| summary.routine.iter().position(|other| *other == hash);
            let Some(at) = place(failing) else { continue };
            without += 1;
            making += usize::from(place(label).is_some_and(|before| before < at || instead));
        }
        let makes =
            |witness: &&Witness<'_>| parts_of(witness.reaction).iter().any(|other| other.slot == part.slot);
        let after_error = self.witnesses.iter().filter(makes).count();
        // making / without ≥ after_error / witnesses / 2
        making > 0 && making * self.witnesses.len() * 2 >= after_error * without
    }
}

/// Returns `true` if two parts change the same place.
fn changes_same(one: &ChangedPart, other: &ChangedPart) -> bool {
    one.slot == other.slot
}

/// Returns `true` if two parts change the same place in the same way.
fn does_same(one: &ChangedPart, other: &ChangedPart) -> bool {
    let is_bare = one.forms.is_empty() && other.forms.is_empty();
    changes_same(one, other)
        && one.words == other.words
        && (is_bare || one.forms.iter().any(|form| other.forms.contains(form)))
}
