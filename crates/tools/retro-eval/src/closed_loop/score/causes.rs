//! Determines which causes a program is expected to know, and which it knows.

use serde::Serialize;

use super::ratio::ratio;
use super::world_result::WorldResult;
use crate::closed_loop::simulation::{MemorySnapshot, WINDOW, WindowResult};
use crate::closed_loop::truth::WorldItem;
use crate::closed_loop::world::{Cause, CauseRemedy};

/// Minimum share of runs that encounter a cause before it is expected to be known. With four of ten runs
/// sampled, a rarer cause seldom appears in two of them.
pub(crate) const CAUSE_SHARE_MIN: f64 = 0.2;
/// Number of retrospectives after which a cause is expected to be known.
pub(crate) const KNOWN_AFTER: usize = 10;

impl Cause {
    /// Returns the share of runs that encounter the cause while it is present, averaged over complete cycles.
    fn expected_share(&self) -> f64 {
        let of_cycle =
            self.rhythm.map_or(1.0, |one| f64::from(one.runs[1] + 1 - one.runs[0]) / f64::from(one.every));
        self.chance * of_cycle
    }

    /// Returns `true` if the cause is present after `runs` runs and frequent enough for a memory of it to be
    /// expected.
    pub(super) fn is_expected(&self, runs: u32) -> bool {
        self.expected_share() >= CAUSE_SHARE_MIN && runs >= self.from && !self.is_fixed_at(runs)
    }
}

/// Returns `true` if an active memory states this remedy of a cause.
pub(super) fn is_known(look: &WindowResult, cause: usize, remedy: usize) -> bool {
    look.memories.iter().any(|one| one.active && one.claim.is_about(WorldItem::Cause(cause, remedy)))
}

/// Returns the index of the window after which a remedy is expected to be known.
fn first_due_window(remedy: &CauseRemedy<'_>) -> usize {
    ((remedy.from - 1) / WINDOW) as usize + KNOWN_AFTER - 1
}

/// Returns `true` if the cause is expected to be known after `runs` runs, and this remedy is the one that
/// works.
fn is_current(cause: &Cause, remedy: usize, runs: u32) -> bool {
    cause.is_expected(runs) && cause.remedy_at(runs) == remedy
}

/// What the score says about a remedy of a cause. Every one of them is counted somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CauseScore {
    /// An active memory named the remedy when it was due.
    Known,
    /// The remedy was due, and no active memory named it.
    Unknown,
    /// Too few runs meet the cause for a memory to be expected.
    Rare,
    /// The remedy did not last for ten retrospectives of this simulation.
    Brief,
}

/// A remedy of a cause, with its score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ScoredCause {
    /// Label of the cause, as `world/workflow cause`, with the first run of a remedy that replaced another.
    pub(crate) cause: String,
    pub(crate) score: CauseScore,
    /// Every memory about the tool when the remedy was due, as status and line; those of the same error first.
    pub(crate) near: Vec<(String, String)>,
}

/// Scores every remedy of every cause, ten retrospectives after it appeared.
pub(crate) fn score_causes(results: &[WorldResult<'_>]) -> Vec<ScoredCause> {
    let mut causes = Vec::new();
    for (results, story) in
        results.iter().flat_map(|results| results.workflow_results.iter().map(move |story| (results, story)))
    {
        let workflow = &results.world.workflows[story.workflow];
        for (at, cause) in workflow.causes.iter().enumerate() {
            let cause = cause.get_ref();
            for (number, remedy) in cause.remedies().iter().enumerate() {
                let from = if number == 0 { String::new() } else { format!(" from {}", remedy.from) };
                let look = story.windows.get(first_due_window(remedy));
                let due = look.filter(|look| is_current(cause, number, look.runs_completed));
                let score = match due {
                    _ if cause.expected_share() < CAUSE_SHARE_MIN => CauseScore::Rare,
                    None => CauseScore::Brief,
                    Some(look) if is_known(look, at, number) => CauseScore::Known,
                    Some(_) => CauseScore::Unknown,
                };
                causes.push(ScoredCause {
                    cause: format!("{}/{} {}{from}", results.world.name, workflow.name, cause.id),
                    score,
                    near: due.map_or_else(Vec::new, |look| list_near_memories(look, at, cause)),
                });
            }
        }
    }
    causes
}

/// Lists the memories that name the tool of a cause, as status and line; those that name its error first.
fn list_near_memories(look: &WindowResult, at: usize, cause: &Cause) -> Vec<(String, String)> {
    let names = |one: &&MemorySnapshot| {
        one.lesson.tool.as_deref() == Some(&cause.tool) || one.lesson.line.contains(&cause.tool)
    };
    let mut near: Vec<&MemorySnapshot> = look.memories.iter().filter(names).collect();
    let same_error = |one: &MemorySnapshot| {
        let about = one.claim.items.iter().chain(&one.claim.inexact);
        one.claim.errors.contains(&at)
            || about.into_iter().any(|item| matches!(item, WorldItem::Cause(of, _) if *of == at))
    };
    near.sort_by_key(|one| !same_error(one));
    near.into_iter().map(|one| (one.status.clone(), one.lesson.line.clone())).collect()
}

/// Returns the share of known causes over all retrospectives at which a cause was due.
pub(super) fn recall_kept(results: &[WorldResult<'_>]) -> Option<f64> {
    let (mut known, mut due) = (0.0, 0.0);
    for (results, story) in
        results.iter().flat_map(|results| results.workflow_results.iter().map(move |story| (results, story)))
    {
        for (at, cause) in results.world.workflows[story.workflow].causes.iter().enumerate() {
            let cause = cause.get_ref();
            for (number, remedy) in cause.remedies().iter().enumerate() {
                let looks = story.windows.iter().skip(first_due_window(remedy));
                for look in looks.filter(|look| is_current(cause, number, look.runs_completed)) {
                    due += 1.0;
                    known += f64::from(u8::from(is_known(look, at, number)));
                }
            }
        }
    }
    ratio(known, due)
}
