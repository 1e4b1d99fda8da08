//! Collects what failed in the runs of a workflow, and what they did about it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::label::{label_of, to_count};
use crate::calls::{
    Contrast, ContrastAnswer, ERROR_CHARS_MAX, Reaction, ReactionCounts, ReactionEnding, SummaryContent,
    VOLATILE_MARK, WindowSummaries,
};
use crate::finding::format_advice;
use crate::id::{RunId, Step};

/// Maximum number of changes that are named for one failure.
const CHANGES_MAX: usize = 3;

/// A failure with what the runs did about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BriefedFailure {
    /// Step of the call.
    pub step: Step,
    /// What was called, as in [`super::BriefedOperation::call`], or its tool alone.
    pub call: String,
    /// Error with its changing parts masked.
    pub error: String,
    /// Number of calls that failed with it; 0 for an answer that only runs which changed the call took for a failure.
    pub calls: u32,
    /// Number of runs that met it.
    pub runs: u32,
    /// What the newest of these runs did about it, one a witness.
    pub counts: ReactionCounts,
    /// What runs changed before the call succeeded, each with the number of runs, the most frequent first.
    pub changes: Vec<(String, u32)>,
    /// What the contrast over these runs says.
    pub contrast: ContrastOpinion,
}

/// What the contrast over the runs says about a failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "says", rename_all = "snake_case")]
pub enum ContrastOpinion {
    /// Most runs that got past it share this remedy, in our words.
    Shared {
        /// What to do.
        advice: String,
        /// Number of runs that show it.
        runs: u32,
    },
    /// The identical call gets past it.
    PassesByItself,
    /// What followed it is what runs without it call as well.
    Routine,
    /// Too few runs did the same.
    Undecided,
}

/// A failure while it is counted.
#[derive(Default)]
struct Sightings<'a> {
    call: String,
    calls: u32,
    runs: BTreeSet<&'a RunId>,
    newest: Option<&'a Reaction>,
    changes: BTreeMap<&'a str, BTreeSet<&'a RunId>>,
}

/// Collects the failures, that in most runs first, at most `failures_max`. The summaries are sorted by ordinal.
pub(super) fn collect_failures(window: &WindowSummaries, failures_max: usize) -> Vec<BriefedFailure> {
    let mut found: BTreeMap<(&Step, &str, String), Sightings<'_>> = BTreeMap::new();
    for stored in &window.summaries {
        let SummaryContent::Summary(summary) = &stored.content else { continue };
        for error in &summary.errors {
            let Some(operation) = summary.operations.get(usize::from(error.operation)) else { continue };
            let seen = found.entry((&operation.step, &operation.tool, error.error.clone())).or_default();
            seen.call = label_of(operation);
            seen.calls = seen.calls.saturating_add(error.calls);
            seen.runs.insert(&stored.run);
        }
        for reaction in &summary.reactions {
            // The error of an operation is cut at this length.
            let error = reaction.error.chars().take(ERROR_CHARS_MAX).collect();
            let seen = found.entry((&reaction.step, &reaction.tool, error)).or_default();
            seen.runs.insert(&stored.run);
            seen.newest = Some(reaction);
            for form in changed_forms(reaction) {
                seen.changes.entry(form).or_default().insert(&stored.run);
            }
        }
    }
    let mut failures: Vec<_> = found.into_iter().collect();
    // A stable sort: failures of as many runs and calls stay in the order of their names.
    failures.sort_by_key(|(_, seen)| (Reverse(seen.runs.len()), Reverse(seen.calls)));
    // Before they are judged, because judging one reads all runs.
    failures.truncate(failures_max);
    let contrast = Contrast::of_window(window);
    let brief = |((step, tool, error), seen)| brief_failure(&contrast, step, tool, error, seen);
    failures.into_iter().map(brief).collect()
}

/// Returns every form of the changed parts of a reaction, without the mark of values that the task names.
fn changed_forms(reaction: &Reaction) -> impl Iterator<Item = &str> {
    let parts = match &reaction.ending {
        ReactionEnding::Changed { parts } => parts.as_slice(),
        ReactionEnding::GaveUp | ReactionEnding::Repeated => &[],
    };
    parts.iter().filter_map(|part| part.forms.first()).map(|form| form.trim_start_matches(VOLATILE_MARK))
}

fn brief_failure(
    contrast: &Contrast<'_>,
    step: &Step,
    tool: &str,
    error: String,
    seen: Sightings<'_>,
) -> BriefedFailure {
    let opinion = seen.newest.map(|reaction| contrast.judge_reaction(reaction));
    let (counts, opinion) = match opinion {
        Some(ContrastAnswer::Supported(remedy)) => {
            let forms: Vec<&str> = remedy.parts.iter().map(|part| part.form.as_str()).collect();
            let avoid =
                remedy.parts.first().filter(|_| forms.len() == 1).and_then(|part| part.avoid.as_deref());
            let (advice, runs) = (format_advice(&forms, avoid), to_count(remedy.runs.len()));
            (remedy.counts, ContrastOpinion::Shared { advice, runs })
        }
        Some(ContrastAnswer::PassesByItself(counts)) => (counts, ContrastOpinion::PassesByItself),
        Some(ContrastAnswer::Routine(counts)) => (counts, ContrastOpinion::Routine),
        Some(ContrastAnswer::Undecided(counts)) => (counts, ContrastOpinion::Undecided),
        None => (ReactionCounts::default(), ContrastOpinion::Undecided),
    };
    let mut changes: Vec<_> =
        seen.changes.into_iter().map(|(form, runs)| (form.to_owned(), to_count(runs.len()))).collect();
    changes.sort_by_key(|(_, runs)| Reverse(*runs));
    changes.truncate(CHANGES_MAX);
    BriefedFailure {
        step: step.clone(),
        call: if seen.call.is_empty() { tool.to_owned() } else { seen.call },
        error,
        calls: seen.calls,
        runs: to_count(seen.runs.len()),
        counts,
        changes,
        contrast: opinion,
    }
}
