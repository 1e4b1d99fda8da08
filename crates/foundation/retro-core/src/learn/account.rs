//! Sums the verdicts of a retrospective on one memory, and decides how they change its weight.
//!
//! Only the strongest verdict of a run on a memory counts: harmed takes precedence over helped, helped over
//! applied, applied over ignored, and ignored over "cue not met". A contradiction counts as harm, once per
//! run.

use std::collections::{BTreeMap, BTreeSet};

use crate::calls::UnneededMemory;
use crate::finding::MemoryVerdict;
use crate::id::RunId;
use crate::memory::{Memory, WeightPart, WeightReason};
use crate::policy::Policy;
use crate::weight::WeightDelta;

/// Verdicts of a retrospective on one memory.
#[derive(Default)]
pub(super) struct MemoryAccount {
    /// Strongest verdict of each run on the memory.
    runs: BTreeMap<RunId, RunVerdict>,
    /// Strongest verdict of each person on the memory.
    people: BTreeMap<String, RunVerdict>,
    /// Indices of the mutations that the verdicts come from. All of these mutations get the outcome for the
    /// memory.
    pub(super) rows: Vec<usize>,
    /// Numbers of the calls that work without the memory; `None` if it is needed, or if that is not known.
    pub(super) unneeded: Option<UnneededMemory>,
}

/// Verdict of one run, or of one person, on a memory.
pub(super) struct RunVerdict {
    pub(super) verdict: MemoryVerdict,
    /// What contradicts the memory in the run, which counts as harm; `None` if nothing does.
    pub(super) contradicted: Option<ContradictionSource>,
    pub(super) read: bool,
    pub(super) reason: String,
}

/// What contradicts a memory in a run. What the trace shows counts for more than what somebody says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ContradictionSource {
    /// Somebody says so.
    Feedback,
    /// The trace of the run shows it.
    Trace,
}

impl MemoryAccount {
    /// Creates the account of a memory that got no verdicts.
    pub(super) fn of_sweep(unneeded: Option<UnneededMemory>) -> Self {
        Self { unneeded, ..Self::default() }
    }

    pub(super) fn record_verdict(&mut self, row: usize, run: &RunId, verdict_entry: RunVerdict) {
        self.rows.push(row);
        record_strongest(&mut self.runs, run, verdict_entry);
    }

    /// Records the verdict of a person. It says nothing about the runs of the retrospective.
    pub(super) fn record_person(&mut self, row: usize, by: &String, verdict_entry: RunVerdict) {
        self.rows.push(row);
        record_strongest(&mut self.people, by, verdict_entry);
    }

    pub(super) fn contradicting_runs(&self) -> BTreeSet<RunId> {
        let contradicts = |(_, entry): &(&RunId, &RunVerdict)| entry.contradicted.is_some();
        self.runs.iter().filter(contradicts).map(|(run, _)| run.clone()).collect()
    }

    /// Returns `true` if nothing but what is said contradicts the memory, and it helped in more runs than those in which
    /// that is said. Mistaken or hostile words of a few must not end what most runs profit from.
    pub(super) fn is_contradiction_outvoted(&self) -> bool {
        let mut sources = self.runs.values().filter_map(|entry| entry.contradicted);
        let helped = self.runs.values().filter(|entry| entry.verdict == MemoryVerdict::Helped).count();
        sources.all(|source| source == ContradictionSource::Feedback)
            && helped > self.contradicting_runs().len()
    }

    /// Returns `true` if the agent of any run read or followed the memory.
    fn was_used(&self) -> bool {
        self.runs.values().any(|entry| entry.read || entry.verdict <= MemoryVerdict::Applied)
    }

    fn cue_never_met(&self) -> bool {
        self.runs.values().all(|entry| entry.verdict == MemoryVerdict::CueNotMet)
    }

    /// Returns the weight change for the verdict of a run or a person, which may be zero. Returns `None` if the memory was not
    /// read and either ignored or its cue not met, because these verdicts are evaluated over all runs together.
    fn verdict_part(&self, entry: &RunVerdict, policy: &Policy) -> Option<WeightPart> {
        let (delta, kind) = match entry.verdict {
            MemoryVerdict::Harmed if entry.contradicted.is_some() => {
                (policy.harmed_delta, WeightReason::Contradicted)
            }
            MemoryVerdict::Harmed => (policy.harmed_delta, WeightReason::Harmed),
            // What works without the memory was not its help.
            MemoryVerdict::Helped if self.unneeded.is_some() => (0, WeightReason::Applied),
            MemoryVerdict::Helped => (policy.helped_delta, WeightReason::Helped),
            MemoryVerdict::Applied => (0, WeightReason::Applied),
            MemoryVerdict::Ignored | MemoryVerdict::CueNotMet if entry.read => (0, WeightReason::Read),
            MemoryVerdict::Ignored | MemoryVerdict::CueNotMet => return None,
        };
        Some(WeightPart {
            delta: WeightDelta(delta),
            kind,
            run: None,
            by: None,
            reason: entry.reason.clone(),
        })
    }

    /// Returns the weight changes for the verdicts of runs, followed by those of people.
    fn verdict_parts(&self, policy: &Policy) -> Vec<WeightPart> {
        let of_run = |(run, entry): (&RunId, &RunVerdict)| {
            Some(WeightPart { run: Some(run.clone()), ..self.verdict_part(entry, policy)? })
        };
        let of_person = |(by, entry): (&String, &RunVerdict)| {
            Some(WeightPart { by: Some(by.clone()), ..self.verdict_part(entry, policy)? })
        };
        self.runs.iter().filter_map(of_run).chain(self.people.iter().filter_map(of_person)).collect()
    }
}

/// Records a verdict of a run or a person, unless a stronger one is recorded.
fn record_strongest<K: Ord + Clone>(all: &mut BTreeMap<K, RunVerdict>, key: &K, verdict_entry: RunVerdict) {
    let Some(strongest) = all.get_mut(key) else {
        all.insert(key.clone(), verdict_entry);
        return;
    };
    // Reading is a fact about the run, so it must survive when a stronger verdict replaces this one.
    strongest.read |= verdict_entry.read;
    // A contradiction is recorded even over an equal verdict, or the run would not count as
    // contradicting.
    if verdict_entry.contradicted.is_some() || verdict_entry.verdict < strongest.verdict {
        strongest.contradicted = strongest.contradicted.max(verdict_entry.contradicted);
        strongest.verdict = verdict_entry.verdict;
        strongest.reason = verdict_entry.reason;
    }
}

/// Effect of a retrospective on the weight of an active memory.
pub(super) enum WeightDecision {
    Unchanged,
    Exempted { cue_not_met: u32 },
    Moved { parts: Vec<WeightPart>, cue_not_met: u32 },
}

/// Decides how a retrospective changes the weight of a memory. A memory in limbo that an agent nevertheless
/// used loses no weight for being in limbo. A pinned memory loses weight only by the verdicts of runs.
pub(super) fn decide_weight(
    memory: &Memory,
    account: &MemoryAccount,
    observed: bool,
    policy: &Policy,
) -> WeightDecision {
    let mut parts = account.verdict_parts(policy);
    let presented = !account.runs.is_empty();
    let mut cue_not_met = memory.cue_not_met;
    let mut exempt = false;
    if account.was_used() {
        cue_not_met = 0;
    } else if presented && account.cue_never_met() {
        cue_not_met += 1;
        exempt = cue_not_met <= policy.cue_not_met_max;
        if !exempt {
            let reason = format!("its cue has not come up for {cue_not_met} retrospectives in a row");
            parts.push(policy_part(policy.ignored_delta, WeightReason::Ignored, reason));
        }
    } else if presented {
        cue_not_met = 0;
        parts.push(policy_part(
            policy.ignored_delta,
            WeightReason::Ignored,
            "presented, and read or applied in no run".to_owned(),
        ));
    }
    if let Some(unneeded) = account.unneeded.filter(|_| !observed) {
        let reason = format!(
            "of the newest {} calls that did not follow it {} failed: it is not needed any more",
            unneeded.calls, unneeded.failed
        );
        parts.push(policy_part(policy.unneeded_delta, WeightReason::Unneeded, reason));
    }
    // In limbo, the weight is too low for the memory to be presented and too high for it to be archived.
    let in_limbo = (policy.archive_weight..policy.inject_weight_min).contains(&memory.weight.get());
    if in_limbo && observed {
        let reason = "in limbo, and observed again".to_owned();
        parts.push(policy_part(policy.limbo_observed_delta, WeightReason::Observed, reason));
    } else if in_limbo && parts.is_empty() {
        let reason = "in limbo: too light to be presented, so nobody could read it".to_owned();
        parts.push(policy_part(policy.ignored_delta, WeightReason::Limbo, reason));
    }
    if memory.pinned_by.is_some() {
        // Verdicts of runs and of people still count: only what the policy takes from a memory that is not used is kept.
        parts.retain(|part| part.run.is_some() || part.by.is_some() || part.delta > WeightDelta(0));
    }
    if !parts.is_empty() {
        WeightDecision::Moved { parts, cue_not_met }
    } else if exempt {
        WeightDecision::Exempted { cue_not_met }
    } else {
        WeightDecision::Unchanged
    }
}

const fn policy_part(delta: i32, kind: WeightReason, reason: String) -> WeightPart {
    WeightPart { delta: WeightDelta(delta), kind, run: None, by: None, reason }
}
