//! Applies verdicts, contradictions and disuse to memories: changes their weights, and archives, deletes or
//! supersedes them.
//!
//! Only the strongest verdict of a run on a memory counts: harmed takes precedence over helped, helped over
//! applied, applied over ignored, and ignored over "cue not met". A contradiction counts as harm, once per
//! run. The weight changes of one retrospective are summed, and only the result is clamped.

use std::collections::{BTreeMap, BTreeSet};

use super::apply::MemoryWriter;
use crate::finding::MemoryVerdict;
use crate::id::{MemoryId, RunId, Step};
use crate::memory::{ChangeEffect, Memory, MemoryStatus, WeightPart, WeightReason};
use crate::policy::Policy;
use crate::weight::WeightDelta;

/// Verdicts of a retrospective on one memory.
#[derive(Default)]
pub(super) struct MemoryAccount {
    /// Strongest verdict of each run on the memory.
    runs: BTreeMap<RunId, RunVerdict>,
    /// Indices of the mutations that the verdicts come from. All of these mutations get the outcome for the
    /// memory.
    rows: Vec<usize>,
}

struct RunVerdict {
    verdict: MemoryVerdict,
    contradicted: bool,
    read: bool,
    reason: String,
}

impl MemoryAccount {
    fn record_verdict(&mut self, row: usize, run: &RunId, verdict_entry: RunVerdict) {
        self.rows.push(row);
        let Some(strongest) = self.runs.get_mut(run) else {
            self.runs.insert(run.clone(), verdict_entry);
            return;
        };
        // Reading is a fact about the run, so it must survive when a stronger verdict replaces this one.
        strongest.read |= verdict_entry.read;
        // A contradiction is recorded even over an equal verdict, or the run would not count as
        // contradicting.
        if verdict_entry.contradicted || verdict_entry.verdict < strongest.verdict {
            strongest.contradicted |= verdict_entry.contradicted;
            strongest.verdict = verdict_entry.verdict;
            strongest.reason = verdict_entry.reason;
        }
    }

    fn contradicting_runs(&self) -> BTreeSet<RunId> {
        self.runs.iter().filter(|(_, entry)| entry.contradicted).map(|(run, _)| run.clone()).collect()
    }

    /// Returns `true` if the agent of any run read or followed the memory.
    fn was_used(&self) -> bool {
        self.runs.values().any(|entry| entry.read || entry.verdict <= MemoryVerdict::Applied)
    }

    fn cue_never_met(&self) -> bool {
        self.runs.values().all(|entry| entry.verdict == MemoryVerdict::CueNotMet)
    }
}

/// Kinds of change that settle a memory for a retrospective, including a refusal.
const SETTLING: &[&str] = &["reweighted", "exempted", "superseded", "archived", "deleted", "refused"];

impl MemoryWriter<'_> {
    /// Returns `true` if an earlier call already settled the memory for this retrospective. Its weight and
    /// status then reflect the batch, and settling it again would count the same runs twice.
    fn was_settled_before(&self, id: MemoryId) -> bool {
        self.was_made_before(id, &self.retrospective_cause(), SETTLING)
    }

    pub(super) fn apply_contradiction(
        &mut self,
        row: usize,
        id: MemoryId,
        run: &RunId,
        step: &Step,
        subject: &str,
        reason: &str,
    ) {
        if self.was_settled_before(id)
            || self.was_made_before(id, &self.run_cause(run), &["deleted", "refused"])
        {
            self.explain_outcome(row, format!("this has happened before: run {run} has contradicted it"));
            return;
        }
        let refusal = match self.memories.get(&id) {
            None => Some("no such memory in this workflow".to_owned()),
            Some(memory) if memory.scope.step() != Some(step) || memory.lesson.subject != subject => {
                Some(format!("it is about another step or subject: {}", memory.lesson.subject))
            }
            Some(memory) if !matches!(memory.status, MemoryStatus::Tentative | MemoryStatus::Active) => {
                Some(format!("it is {}: there is nothing to take back", memory.status))
            }
            Some(_) => None,
        };
        if let Some(reason) = refusal {
            self.make_change(
                row,
                id,
                self.run_cause(run),
                ChangeEffect::Refused { requested: "contradict".to_owned() },
                reason,
            );
        } else if self.memories[&id].status == MemoryStatus::Tentative {
            let reason = format!("contradicted while tentative by run {run}: {reason}");
            self.delete_with_tombstone(row, id, self.run_cause(run), reason);
        } else {
            let entry = RunVerdict {
                verdict: MemoryVerdict::Harmed,
                contradicted: true,
                read: false,
                reason: reason.to_owned(),
            };
            self.accounts.entry(id).or_default().record_verdict(row, run, entry);
        }
    }

    pub(super) fn apply_credit(
        &mut self,
        row: usize,
        id: MemoryId,
        run: &RunId,
        verdict: MemoryVerdict,
        read: bool,
        reason: &str,
    ) {
        let entry = RunVerdict { verdict, contradicted: false, read, reason: reason.to_owned() };
        self.accounts.entry(id).or_default().record_verdict(row, run, entry);
    }

    /// Updates the weights of the memories with verdicts, then of all other active memories of the workflow,
    /// and archives those whose weight is too low. Also deletes contradicted memories and supersedes
    /// outweighed warnings.
    pub(super) fn sweep_memories(&mut self, row: usize) {
        let accounts = std::mem::take(&mut self.accounts);
        let mut heavier = Vec::new();
        for (id, account) in &accounts {
            if self.was_settled_before(*id) {
                self.explain_outcome(account.rows[0], "this has happened before: its weight is settled");
            } else if !self.delete_contradicted(*id, account)
                && self.update_weight(account.rows[0], *id, account)
            {
                heavier.push(*id);
            }
            self.copy_outcome(&account.rows);
        }
        let active = |writer: &Self| -> Vec<MemoryId> {
            writer.memories.values().filter(|m| m.status == MemoryStatus::Active).map(|m| m.id).collect()
        };
        for id in active(self) {
            if !accounts.contains_key(&id) {
                self.update_weight(row, id, &MemoryAccount::default());
            }
        }
        // Superseding comes after all weights have moved, so it compares final weights.
        for id in heavier {
            self.supersede_warnings(row, id);
        }
        // Computed again, because deleted and superseded memories are no longer active.
        for id in active(self) {
            self.archive_if_faded(row, id);
        }
        self.explain_outcome(row, "every active memory of the workflow was looked at for limbo and archive");
    }

    /// Supersedes memories of lower weight that only warn about an error for which the memory `by` has a
    /// remedy.
    fn supersede_warnings(&mut self, row: usize, by: MemoryId) {
        let stronger = &self.memories[&by];
        let outweighed = self.memories.values().filter(|memory| {
            matches!(memory.status, MemoryStatus::Tentative | MemoryStatus::Active)
                && memory.weight < stronger.weight
                && memory.scope == stronger.scope
                && stronger.lesson.cue.adds_remedy_to(&memory.lesson.cue)
        });
        for id in outweighed.map(|memory| memory.id).collect::<Vec<_>>() {
            let reason = format!("memory {by} knows a way out of the same error and weighs more");
            self.make_change(row, id, self.retrospective_cause(), ChangeEffect::Superseded { by }, reason);
        }
    }

    /// Deletes a memory if enough distinct runs contradicted it in this retrospective and the previous
    /// successful one together. Returns `true` if there were enough.
    fn delete_contradicted(&mut self, id: MemoryId, account: &MemoryAccount) -> bool {
        let Some(memory) = self.memories.get(&id).filter(|memory| memory.status == MemoryStatus::Active)
        else {
            return false;
        };
        let mut runs = account.contradicting_runs();
        if runs.is_empty() {
            return false;
        }
        let previous =
            memory.contradicted_by.iter().filter(|(epoch, _)| Some(*epoch) == self.facts.previous_epoch);
        runs.extend(previous.map(|(_, run)| run.clone()));
        if runs.len() < self.facts.policy.contradiction_runs as usize {
            return false;
        }
        let runs: Vec<_> = runs.iter().map(RunId::as_str).collect();
        let reason = format!("contradicted by separate runs: {}", runs.join(", "));
        self.delete_with_tombstone(account.rows[0], id, self.retrospective_cause(), reason);
        true
    }

    /// Updates the weight of a memory. Returns `true` if the weight increased.
    fn update_weight(&mut self, row: usize, id: MemoryId, account: &MemoryAccount) -> bool {
        let cause = self.retrospective_cause();
        let Some(memory) = self.memories.get(&id) else {
            let effect = ChangeEffect::Refused { requested: "credit".to_owned() };
            self.make_change(row, id, cause, effect, "no such memory in this workflow".to_owned());
            return false;
        };
        let before = memory.weight;
        if memory.status != MemoryStatus::Active {
            let reason = format!("it is {}: it has no weight to move", memory.status);
            self.make_change(
                row,
                id,
                cause,
                ChangeEffect::Refused { requested: "credit".to_owned() },
                reason,
            );
            return false;
        }
        let (effect, reason) =
            match decide_weight(memory, account, self.observed.contains(&id), &self.facts.policy) {
                WeightDecision::Unchanged => return false,
                WeightDecision::Exempted { cue_not_met } => (
                    ChangeEffect::Exempted { cue_not_met },
                    format!(
                        "presented, and its cue never came up ({cue_not_met} in a row): exempt from ignored"
                    ),
                ),
                WeightDecision::Moved { parts, cue_not_met } => {
                    let delta = parts.iter().map(|part| part.delta).sum();
                    // Only the sum is clamped, or the result would depend on the order of the parts.
                    let after = before.adjusted_by(delta);
                    let reason = describe_parts(&parts);
                    let contradicted_by = account.contradicting_runs().into_iter().collect();
                    (
                        ChangeEffect::Reweighted {
                            before,
                            delta,
                            after,
                            parts,
                            cue_not_met,
                            contradicted_by,
                        },
                        reason,
                    )
                }
            };
        self.make_change(row, id, cause, effect, reason) && self.memories[&id].weight > before
    }

    fn archive_if_faded(&mut self, row: usize, id: MemoryId) {
        let weight = self.memories[&id].weight;
        let limit = self.facts.policy.archive_weight;
        if weight.get() < limit {
            let reason =
                format!("its weight {weight} is below {}", crate::weight::Weight::from_thousandths(limit));
            self.make_change(row, id, self.retrospective_cause(), ChangeEffect::Archived, reason);
        }
    }
}

/// Effect of a retrospective on the weight of an active memory.
enum WeightDecision {
    Unchanged,
    Exempted { cue_not_met: u32 },
    Moved { parts: Vec<WeightPart>, cue_not_met: u32 },
}

/// Decides how a retrospective changes the weight of a memory. A memory in limbo that an agent nevertheless
/// used loses no weight for being in limbo.
fn decide_weight(
    memory: &Memory,
    account: &MemoryAccount,
    observed: bool,
    policy: &Policy,
) -> WeightDecision {
    let mut parts: Vec<_> =
        account.runs.iter().filter_map(|(run, entry)| verdict_part(run, entry, policy)).collect();
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
    // In limbo, the weight is too low for the memory to be presented and too high for it to be archived.
    let in_limbo = (policy.archive_weight..policy.inject_weight_min).contains(&memory.weight.get());
    if in_limbo && observed {
        let reason = "in limbo, and observed again".to_owned();
        parts.push(policy_part(policy.limbo_observed_delta, WeightReason::Observed, reason));
    } else if in_limbo && parts.is_empty() {
        let reason = "in limbo: too light to be presented, so nobody could read it".to_owned();
        parts.push(policy_part(policy.ignored_delta, WeightReason::Limbo, reason));
    }
    if !parts.is_empty() {
        WeightDecision::Moved { parts, cue_not_met }
    } else if exempt {
        WeightDecision::Exempted { cue_not_met }
    } else {
        WeightDecision::Unchanged
    }
}

/// Returns the weight change for one run's verdict, which may be zero. Returns `None` if the memory was not
/// read and either ignored or its cue not met, because these verdicts are evaluated over all runs together.
fn verdict_part(run: &RunId, entry: &RunVerdict, policy: &Policy) -> Option<WeightPart> {
    let (delta, kind) = match entry.verdict {
        MemoryVerdict::Harmed if entry.contradicted => (policy.harmed_delta, WeightReason::Contradicted),
        MemoryVerdict::Harmed => (policy.harmed_delta, WeightReason::Harmed),
        MemoryVerdict::Helped => (policy.helped_delta, WeightReason::Helped),
        MemoryVerdict::Applied => (0, WeightReason::Applied),
        MemoryVerdict::Ignored | MemoryVerdict::CueNotMet if entry.read => (0, WeightReason::Read),
        MemoryVerdict::Ignored | MemoryVerdict::CueNotMet => return None,
    };
    Some(WeightPart { delta: WeightDelta(delta), kind, run: Some(run.clone()), reason: entry.reason.clone() })
}

const fn policy_part(delta: i32, kind: WeightReason, reason: String) -> WeightPart {
    WeightPart { delta: WeightDelta(delta), kind, run: None, reason }
}

fn describe_parts(parts: &[WeightPart]) -> String {
    let one = |part: &WeightPart| {
        let run = part.run.as_ref().map(|run| format!(" in run {run}")).unwrap_or_default();
        format!("{} {}{run}: {}", part.delta, part.kind.as_str(), part.reason)
    };
    parts.iter().map(one).collect::<Vec<_>>().join("; ")
}
