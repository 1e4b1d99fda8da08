//! Holds what one run did about an error against what all recent runs did: the contrast.
//!
//! A single run shows what it changed before a call succeeded, and that may have been anything. Over many runs the
//! remedy is what those have in common that got past the same error. So a lesson is counted, not guessed from the
//! words of the error, and it needs no knowledge of the tool:
//!
//! * Runs that repeated the identical call and succeeded show that the error passes by itself.
//! * A part of the change that most of the other runs share is the remedy. It is stated as specifically as they
//!   agree: the exact value, its form, or only the parameter.
//! * A call in between that runs make anyway, without the error, is no part of the remedy.
//! * Errors of one text may have several causes. So only runs that changed something in the same place as the
//!   run in question are compared with it, and the others count against it.
//!
//! Only the newest runs with an error count, because remedies change. Runs of one witness count once.

mod error_case;
mod harm;
mod statement;
#[cfg(test)]
mod tests;
mod witness;

use std::collections::BTreeSet;

use super::count::WindowSummaries;
use super::error_class::is_same_error_class;
use super::reaction::{ChangedPart, Reaction, ReactionEnding, TOOL_SLOT};
use super::summary::{CallSummary, SUMMARY_VERSION, StoredSummary, SummaryContent, hash_answer};
use crate::audience::RunRepository;
use crate::id::{Ordinal, Repository, RunId, Step};

use error_case::ErrorCase;
pub use harm::{HarmNumbers, UnneededMemory};
pub use statement::{SharedPart, SharedRemedy};
pub use witness::ReactionCounts;
use witness::{Witness, exceeds_share, parts_of, to_count};

/// Number of claimed runs, up to the end of the window, that a contrast reads.
pub const CONTRAST_RUNS: usize = 200;
/// Maximum number of reactions to one error that count, the newest. A remedy that replaced another becomes the
/// usual one after some windows.
const REACTIONS_COUNTED: usize = 24;
/// Minimum number of witnesses that share a remedy.
const WITNESSES_MIN: usize = 2;
/// Minimum number of witnesses if no answer says that a call failed.
const SUSPECTING_WITNESSES_MIN: usize = 3;
/// Minimum share of the runs that got past an error which share a remedy, in per cent.
const SHARE_MIN: usize = 40;
/// Maximum share of the repetitions of the identical call that succeed, in per cent. Above it, the error passes by
/// itself.
const REPEATED_SHARE_MAX: usize = 34;
/// Maximum share of the runs past the error in which the identical call was enough, in per cent.
const REPEATED_RUNS_MAX: usize = 20;
/// Maximum share of the runs with a suspected answer, in per cent. What most runs do anyway is a routine of two
/// calls.
const SUSPECTED_SHARE_MAX: usize = 70;

/// Minimum number of runs that kept a suspected answer and ended badly.
const KEPT_MIN: usize = 2;
/// Minimum share of the runs that kept a suspected answer which ended badly, in per cent.
const KEPT_BAD_MIN: usize = 90;
/// Maximum chance that these runs ended badly for other reasons.
const KEPT_CHANCE_MAX: f64 = 0.2;
/// Minimum number of runs with an error before what followed it is called a routine.
const ROUTINE_WITNESSES_MIN: usize = 4;
/// Minimum success of the runs that dropped something, in per cent of the success of the others, and minimum number of
/// others.
const DROPPED_SUCCESS_MIN: usize = 60;
const OTHERS_MIN: usize = 5;

/// Summaries of the newest claimed runs of a workflow, to hold claims against.
#[derive(Debug, Clone, Default)]
pub struct Contrast<'a> {
    /// Sorted by ordinal.
    runs: Vec<ContrastRun<'a>>,
    /// Ordinal of the first run of the window.
    window_from: Ordinal,
    /// `true` if runs of other repositories support no lesson.
    is_confined: bool,
}

/// Summary of one run in a contrast.
#[derive(Debug, Clone, Copy)]
struct ContrastRun<'a> {
    run: &'a RunId,
    ordinal: Ordinal,
    summary: &'a CallSummary,
}

/// Answer of a contrast about what a run did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContrastAnswer {
    /// Other runs did the same and got past the error.
    Supported(SharedRemedy),
    /// The identical call gets past the error as well, so nothing has to be changed.
    PassesByItself(ReactionCounts),
    /// All that came after the error is what runs without it call as well.
    Routine(ReactionCounts),
    /// Too few runs did the same, or the runs agree in nothing.
    Undecided(ReactionCounts),
}

/// Numbers of runs that kept a suspected answer, and of the others, by how they ended.
struct KeptAnswers {
    runs: usize,
    well: usize,
    bad: usize,
    others: usize,
    bad_others: usize,
}

impl KeptAnswers {
    /// Returns `true` if the runs that kept the answer ended badly, and more often than chance explains.
    fn are_worse_than_others(&self) -> bool {
        if self.bad < KEPT_MIN || self.bad * 100 < self.runs * KEPT_BAD_MIN {
            return false;
        }
        // The chance that as many of the others end badly.
        let rate = f64::from(to_count(self.bad_others + 1)) / f64::from(to_count(self.others + 2));
        (0..self.bad).fold(1.0, |chance, _| chance * rate) <= KEPT_CHANCE_MAX
    }
}

impl<'a> ContrastRun<'a> {
    const fn repository(&self) -> Option<&'a RunRepository> {
        self.summary.repository.as_ref()
    }

    /// Returns `true` if the run met an error of the same class.
    fn meets_error_of(&self, reaction: &Reaction) -> bool {
        self.summary.reactions.iter().any(|other| {
            other.step == reaction.step
                && other.tool == reaction.tool
                && is_same_error_class(&other.error, &reaction.error)
        })
    }
}

impl<'a> Contrast<'a> {
    /// Creates the contrast of a window: its runs and those claimed before it. Summaries that cannot be read, and
    /// those of another version, are left out.
    pub fn of_window(window: &'a WindowSummaries) -> Self {
        let readable = |stored: &'a StoredSummary| match &stored.content {
            SummaryContent::Summary(summary) if summary.version == SUMMARY_VERSION => {
                Some(ContrastRun { run: &stored.run, ordinal: stored.ordinal, summary })
            }
            _ => None,
        };
        let mut runs: Vec<_> = window.earlier.iter().chain(&window.summaries).filter_map(readable).collect();
        runs.drain(..runs.len().saturating_sub(CONTRAST_RUNS));
        let window_from = window.summaries.first().map_or(Ordinal::MAX, |first| first.ordinal);
        Self { runs, window_from, is_confined: false }
    }

    /// Returns the contrast over the runs of one repository, or over those of none. What another repository needs may
    /// be something else.
    pub fn limited_to(&self, repository: Option<&Repository>) -> Self {
        let is_of = |one: &&ContrastRun<'a>| one.repository().map(|named| &named.repo) == repository;
        Self { runs: self.runs.iter().filter(is_of).copied().collect(), ..*self }
    }

    /// Forbids that runs of other repositories support a lesson.
    pub fn confine_to_repositories(mut self) -> Self {
        self.is_confined = true;
        self
    }

    /// Returns `true` if runs of other repositories may support a lesson, and there are some.
    pub fn spans_repositories(&self) -> bool {
        let mut names = self.runs.iter().map(|one| one.repository().map(|named| &named.repo));
        let first = names.next();
        !self.is_confined && !names.all(|name| Some(name) == first)
    }

    /// Returns the repository that a run worked on, or `None` if it named none or has no summary.
    pub fn repository_of(&self, run: &RunId) -> Option<&'a RunRepository> {
        self.runs.iter().find(|one| one.run == run)?.repository()
    }

    /// Returns what a run did about its errors; empty if the run has no summary.
    pub fn reactions_of(&self, run: &RunId) -> &'a [Reaction] {
        let found = self.runs.iter().find(|one| one.run == run);
        found.map_or(&[], |one| one.summary.reactions.as_slice())
    }

    /// Judges what a run did about an error.
    pub fn judge_reaction(&self, reaction: &Reaction) -> ContrastAnswer {
        let case = self.collect_case(reaction);
        let mut counts = case.count_reactions();
        let tried = counts.repeated + counts.repeats_failed;
        if counts.repeated > 0
            && exceeds_share(counts.repeated, tried, REPEATED_SHARE_MAX)
            && exceeds_share(counts.repeated, counts.repeated + counts.changed, REPEATED_RUNS_MAX)
        {
            return ContrastAnswer::PassesByItself(counts);
        }
        let own = case.parts_that_matter(reaction);
        if own.is_empty() && !parts_of(reaction).is_empty() && case.witnesses.len() >= ROUTINE_WITNESSES_MIN {
            return ContrastAnswer::Routine(counts);
        }
        let shares_slot = |witness: &&Witness<'_>| {
            let parts = parts_of(witness.reaction);
            own.iter().any(|part| parts.iter().any(|other| other.slot == part.slot))
                && !case.goes_on(witness.reaction)
        };
        let alike: Vec<Witness<'_>> = case.witnesses.iter().filter(shares_slot).copied().collect();
        counts.with_remedy = to_count(alike.len());
        let needed = if reaction.suspected { SUSPECTING_WITNESSES_MIN } else { WITNESSES_MIN };
        let is_usual = !exceeds_share(counts.with_remedy, counts.changed + counts.repeated, SHARE_MIN - 1);
        if alike.len() < needed
            || is_usual
            || alike.iter().all(|witness| witness.ended_badly)
            || (reaction.suspected && !self.is_suspicion_borne_out(&case, &own, &counts))
            || (reaction.temporary && !counts.outweighs_words())
        {
            return ContrastAnswer::Undecided(counts);
        }
        let may_drop = own.iter().all(|part| part.dropped) && self.do_well_without(&alike);
        match SharedRemedy::find(&reaction.tool, &own, &alike, counts, may_drop) {
            // Those that changed the same place in another way do not show the remedy.
            Some(remedy) if remedy.runs.len() >= needed => ContrastAnswer::Supported(remedy),
            _ => ContrastAnswer::Undecided(counts),
        }
    }

    /// Counts what the newest runs with an error did about it.
    pub fn count_error(&self, step: &Step, tool: &str, error: &str) -> ReactionCounts {
        let reactions = self.runs.iter().rev().flat_map(|one| &one.summary.reactions);
        let mut of_error = reactions
            .filter(|one| one.step == *step && one.tool == tool && is_same_error_class(&one.error, error));
        of_error.next().map_or_else(ReactionCounts::default, |one| self.collect_case(one).count_reactions())
    }

    /// Collects the runs that met the error of a reaction, and the others.
    fn collect_case<'c>(&'c self, about: &'c Reaction) -> ErrorCase<'c> {
        let without = self.runs.iter().filter(|one| !one.meets_error_of(about)).map(|one| one.summary);
        ErrorCase { about, witnesses: self.find_witnesses(about), without: without.collect() }
    }

    /// Returns the newest reactions to the error of a reaction, one a witness. If at least two runs have exactly
    /// this error, only they count; otherwise all runs with an error of its class.
    fn find_witnesses(&self, about: &Reaction) -> Vec<Witness<'a>> {
        let exact = self.collect_witnesses(about, |error| error == about.error);
        let changed =
            exact.iter().filter(|one| matches!(one.reaction.ending, ReactionEnding::Changed { .. }));
        if changed.count() >= WITNESSES_MIN {
            return exact;
        }
        self.collect_witnesses(about, |error| is_same_error_class(error, &about.error))
    }

    fn collect_witnesses(&self, about: &Reaction, is_error: impl Fn(&str) -> bool) -> Vec<Witness<'a>> {
        let mut known: BTreeSet<&str> = BTreeSet::new();
        let mut found = Vec::new();
        for one in self.runs.iter().rev() {
            let of_error = |reaction: &&Reaction| {
                reaction.step == about.step && reaction.tool == about.tool && is_error(&reaction.error)
            };
            // A run may meet an error twice. What it changed says more than that it gave up.
            let same = one.summary.reactions.iter().filter(of_error);
            let Some(reaction) = same.min_by_key(|reaction| match reaction.ending {
                ReactionEnding::Repeated => 0,
                ReactionEnding::Changed { .. } => 1,
                ReactionEnding::GaveUp => 2,
            }) else {
                continue;
            };
            let names = one.summary.witnesses.iter().chain(&reaction.sources);
            let names: Vec<&str> = names.map(String::as_str).collect();
            if names.iter().any(|name| known.contains(name)) {
                continue;
            }
            known.extend(names);
            let ended_badly = one.summary.outcome.succeeded() == Some(false);
            found.push(Witness { run: one.run, ended_badly, reaction });
            if found.len() == REACTIONS_COUNTED {
                break;
            }
        }
        found
    }

    /// Returns `true` if the runs that left something out did nearly as well as the others: then it was not wanted.
    fn do_well_without(&self, witnesses: &[Witness<'_>]) -> bool {
        let well = witnesses.iter().filter(|witness| !witness.ended_badly).count();
        let is_other = |one: &&ContrastRun<'_>| witnesses.iter().all(|witness| witness.run != one.run);
        let others: Vec<_> = self.runs.iter().filter(is_other).collect();
        let others_well = others.iter().filter(|one| one.summary.outcome.succeeded() != Some(false)).count();
        // well / witnesses ≥ DROPPED_SUCCESS_MIN × others_well / others
        well > 0
            && others.len() >= OTHERS_MIN
            && well * others.len() * 100 >= witnesses.len() * others_well * DROPPED_SUCCESS_MIN
    }

    /// Returns `true` if there is more against a suspected answer than what one run did next: it reads as a complaint and
    /// runs that kept it did not do well, runs that kept it ended badly, or most runs add the same to the call
    /// after this answer, and after no other answer to the same call. Two calls that most runs make are a routine.
    fn is_suspicion_borne_out(
        &self,
        case: &ErrorCase<'_>,
        own: &[&ChangedPart],
        counts: &ReactionCounts,
    ) -> bool {
        let reaction = case.about;
        let kept = self.count_kept(reaction);
        let is_harmless = kept.well >= KEPT_MIN && kept.well > kept.bad;
        let complains = reaction.complains || case.is_specific_to_answer(own, counts);
        !self.is_routine_pair(reaction) && ((complains && !is_harmless) || kept.are_worse_than_others())
    }

    /// Counts how the runs ended that kept the answer of a reaction, and the others.
    fn count_kept(&self, reaction: &Reaction) -> KeptAnswers {
        let answer = hash_answer(&reaction.step, &reaction.tool, &reaction.error);
        let reacts = |one: &ContrastRun<'_>| {
            one.summary.reactions.iter().any(|other| {
                other.step == reaction.step && other.tool == reaction.tool && other.error == reaction.error
            })
        };
        let keeps = |one: &&ContrastRun<'_>| one.summary.kept.binary_search(&answer).is_ok() && !reacts(one);
        let (kept, others): (Vec<_>, Vec<_>) = self.runs.iter().partition(|one| keeps(one));
        let ended = |runs: &[&ContrastRun<'_>], well: bool| {
            runs.iter().filter(|one| one.summary.outcome.succeeded() == Some(well)).count()
        };
        KeptAnswers {
            runs: kept.len(),
            well: ended(&kept, true),
            bad: ended(&kept, false),
            others: others.len(),
            bad_others: ended(&others, false),
        }
    }

    /// Returns `true` if most runs that call the tool in the step, or the one called instead, get the suspected answer:
    /// then the two calls are a routine, and the first of them did not fail.
    fn is_routine_pair(&self, reaction: &Reaction) -> bool {
        let mut tools = parts_of(reaction).iter().filter_map(|part| part.slot.strip_prefix(TOOL_SLOT));
        let instead = tools.next().unwrap_or(&reaction.tool);
        let calls_tool = |one: &&ContrastRun<'_>| {
            one.summary
                .operations
                .iter()
                .any(|op| op.step == reaction.step && (op.tool == reaction.tool || op.tool == instead))
        };
        let calling = self.runs.iter().filter(calls_tool);
        let (mut all, mut suspecting) = (0, 0);
        for one in calling {
            all += 1;
            suspecting += u32::from(one.meets_error_of(reaction));
        }
        exceeds_share(suspecting, all, SUSPECTED_SHARE_MAX)
    }
}
