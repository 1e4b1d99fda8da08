//! Applies verdicts, contradictions and disuse to memories: changes their weights, and archives, deletes or
//! supersedes them.
//!
//! The weight changes of one retrospective are summed, and only the result is clamped. `account.rs` decides
//! them.

use std::collections::BTreeMap;

use super::account::{ContradictionSource, MemoryAccount, RunVerdict, WeightDecision, decide_weight};
use super::writer::MemoryWriter;
use crate::calls::UnneededMemory;
use crate::feedback::{Feedback, FeedbackAuthor, FeedbackVerdict};
use crate::finding::MemoryVerdict;
use crate::id::{MemoryId, RunId, Step};
use crate::memory::{ChangeEffect, Memory, MemoryStatus, WeightPart};
use crate::weight::Weight;

/// Kinds of change that settle a memory for a retrospective, including a refusal.
const SETTLING: &[&str] = &["reweighted", "exempted", "superseded", "archived", "deleted", "refused"];

impl MemoryWriter<'_> {
    /// Returns `true` if an earlier call already settled the memory for this retrospective. Its weight and
    /// status then reflect the batch, and settling it again would count the same runs twice.
    fn was_settled_before(&self, id: MemoryId) -> bool {
        self.ledger.was_made_before(id, &self.retrospective_cause(), SETTLING)
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
        let id = self.successors.get(&id).copied().unwrap_or(id);
        if self.was_settled_before(id)
            || self.ledger.was_made_before(id, &self.run_cause(run), &["deleted", "refused"])
        {
            self.ledger
                .explain_outcome(row, format!("this has happened before: run {run} has contradicted it"));
            return;
        }
        let refusal = match self.ledger.memories().get(&id) {
            None => Some("no such memory in this workflow".to_owned()),
            Some(memory) if memory.scope.step() != Some(step) || memory.lesson.subject != subject => {
                Some(format!("it is about another step or subject: {}", memory.lesson.subject))
            }
            Some(memory) if !matches!(memory.status, MemoryStatus::Tentative | MemoryStatus::Active) => {
                Some(format!("it is {}: there is nothing to take back", memory.status))
            }
            Some(Memory { disabled_by: Some(by), .. }) => Some(describe_disabled(by)),
            Some(_) => None,
        };
        if let Some(reason) = refusal {
            self.ledger.make_change(
                row,
                id,
                self.run_cause(run),
                ChangeEffect::Refused { requested: "contradict".to_owned() },
                reason,
            );
        } else if self.ledger.memories()[&id].status == MemoryStatus::Tentative {
            let reason = format!("contradicted while tentative by run {run}: {reason}");
            self.delete_with_tombstone(row, id, self.run_cause(run), reason);
        } else {
            let entry = RunVerdict {
                verdict: MemoryVerdict::Harmed,
                contradicted: Some(ContradictionSource::Trace),
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
        let id = self.successors.get(&id).copied().unwrap_or(id);
        let entry = RunVerdict { verdict, contradicted: None, read, reason: reason.to_owned() };
        self.accounts.entry(id).or_default().record_verdict(row, run, entry);
    }

    /// Adds what somebody says of a memory to its account. A memory that has no weight to move stays as it is.
    pub(super) fn apply_feedback(&mut self, row: usize, feedback: &Feedback) {
        let id = self.successors.get(&feedback.memory).copied().unwrap_or(feedback.memory);
        let unweighed = match self.ledger.memories().get(&id) {
            _ if self.was_settled_before(id) => Some("its weight is settled".to_owned()),
            None => Some("no such memory in this workflow".to_owned()),
            Some(Memory { disabled_by: Some(by), .. }) => Some(describe_disabled(by)),
            Some(Memory { status: MemoryStatus::Active, .. }) => None,
            Some(memory) => Some(format!("it is {}: it has no weight to move", memory.status)),
        };
        if let Some(why) = unweighed {
            return self.ledger.explain_outcome(row, format!("not weighed: {why}"));
        }
        let entry = |contradicted: Option<ContradictionSource>| RunVerdict {
            verdict: feedback.verdict.memory_verdict(),
            contradicted,
            read: false,
            reason: feedback.describe(),
        };
        let account = self.accounts.entry(id).or_default();
        match &feedback.author {
            FeedbackAuthor::Agent { run, .. } | FeedbackAuthor::Evaluation { run, .. } => {
                let is_contradiction = feedback.verdict == FeedbackVerdict::Wrong;
                account.record_verdict(
                    row,
                    run,
                    entry(is_contradiction.then_some(ContradictionSource::Feedback)),
                );
            }
            // A person who knows that a memory is wrong retires it; until then one voice is one harm.
            FeedbackAuthor::Person { by } => account.record_person(row, by, entry(None)),
        }
    }

    /// Updates the weights of the memories with verdicts, then of all other active memories of the workflow,
    /// and archives those whose weight is too low. Also deletes contradicted memories and supersedes
    /// outweighed warnings.
    pub(super) fn sweep_memories(&mut self, row: usize, unneeded: &[UnneededMemory]) {
        let mut accounts = std::mem::take(&mut self.accounts);
        let enough = |one: &&UnneededMemory| one.calls >= self.policy.unneeded_calls_min;
        let unneeded: BTreeMap<MemoryId, UnneededMemory> =
            unneeded.iter().filter(enough).map(|one| (one.memory, *one)).collect();
        for (id, account) in &mut accounts {
            account.unneeded = unneeded.get(id).copied();
        }
        let mut heavier = Vec::new();
        for (id, account) in &accounts {
            if self.was_settled_before(*id) {
                self.ledger
                    .explain_outcome(account.rows[0], "this has happened before: its weight is settled");
            } else if !self.delete_contradicted(*id, account)
                && self.update_weight(account.rows[0], *id, account)
            {
                heavier.push(*id);
            }
            self.ledger.copy_outcome(&account.rows);
        }
        let active = |writer: &Self| -> Vec<MemoryId> {
            writer
                .ledger
                .memories()
                .values()
                .filter(|m| m.status == MemoryStatus::Active)
                .map(|m| m.id)
                .collect()
        };
        for id in active(self) {
            if !accounts.contains_key(&id) {
                let account = MemoryAccount::of_sweep(unneeded.get(&id).copied());
                self.update_weight(row, id, &account);
            }
        }
        // Held before superseding: a memory that is shown to nobody must not take the place of one that is.
        let cause = self.retrospective_cause();
        self.ledger.hold_endangering(row, &cause, &self.policy.held_dangers);
        // Superseding comes after all weights have moved, so it compares final weights.
        for id in heavier {
            self.supersede_warnings(row, id);
        }
        // Computed again, because deleted and superseded memories are no longer active.
        for id in active(self) {
            self.archive_if_faded(row, id);
        }
        self.ledger
            .explain_outcome(row, "every active memory of the workflow was looked at for limbo and archive");
    }

    /// Supersedes memories of lower weight that only warn about an error for which the memory `by` has a
    /// remedy.
    fn supersede_warnings(&mut self, row: usize, by: MemoryId) {
        let stronger = &self.ledger.memories()[&by];
        // A memory that is shown to nobody must not take the place of one that is.
        if stronger.quarantine.is_some() || stronger.disabled_by.is_some() {
            return;
        }
        let outweighed = self.ledger.memories().values().filter(|memory| {
            matches!(memory.status, MemoryStatus::Tentative | MemoryStatus::Active)
                && memory.weight < stronger.weight
                && memory.disabled_by.is_none()
                && memory.pinned_by.is_none()
                && memory.scope == stronger.scope
                && stronger.lesson.cue.adds_remedy_to(&memory.lesson.cue)
        });
        for id in outweighed.map(|memory| memory.id).collect::<Vec<_>>() {
            let reason = format!("memory {by} knows a way out of the same error and weighs more");
            self.ledger.make_change(
                row,
                id,
                self.retrospective_cause(),
                ChangeEffect::Superseded { by },
                reason,
            );
        }
    }

    /// Deletes a memory if enough distinct runs contradicted it in this retrospective and the previous
    /// successful one together, unless that is only said and the memory helped in more runs. Returns `true` if it was
    /// deleted.
    fn delete_contradicted(&mut self, id: MemoryId, account: &MemoryAccount) -> bool {
        let Some(memory) =
            self.ledger.memories().get(&id).filter(|memory| memory.status == MemoryStatus::Active)
        else {
            return false;
        };
        let mut runs = account.contradicting_runs();
        if runs.is_empty() || account.is_contradiction_outvoted() {
            return false;
        }
        let previous = memory.contradicted_by.iter().filter(|(epoch, _)| Some(*epoch) == self.previous_epoch);
        runs.extend(previous.map(|(_, run)| run.clone()));
        if runs.len() < self.policy.contradiction_runs as usize {
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
        let Some(memory) = self.ledger.memories().get(&id) else {
            let effect = ChangeEffect::Refused { requested: "credit".to_owned() };
            self.ledger.make_change(row, id, cause, effect, "no such memory in this workflow".to_owned());
            return false;
        };
        let before = memory.weight;
        if let Some(by) = &memory.disabled_by {
            // Nothing is refused if nothing was asked for.
            if !account.rows.is_empty() {
                let (effect, reason) =
                    (ChangeEffect::Refused { requested: "credit".to_owned() }, describe_disabled(by));
                self.ledger.make_change(row, id, cause, effect, reason);
            }
            return false;
        }
        if memory.status != MemoryStatus::Active {
            let reason = format!("it is {}: it has no weight to move", memory.status);
            self.ledger.make_change(
                row,
                id,
                cause,
                ChangeEffect::Refused { requested: "credit".to_owned() },
                reason,
            );
            return false;
        }
        let (effect, reason) = match decide_weight(memory, account, self.observed.contains(&id), &self.policy)
        {
            WeightDecision::Unchanged => return false,
            WeightDecision::Exempted { cue_not_met } => (
                ChangeEffect::Exempted { cue_not_met },
                format!("presented, and its cue never came up ({cue_not_met} in a row): exempt from ignored"),
            ),
            WeightDecision::Moved { parts, cue_not_met } => {
                let delta = parts.iter().map(|part| part.delta).sum();
                // Only the sum is clamped, or the result would depend on the order of the parts.
                let after = before.adjusted_by(delta);
                let reason = describe_parts(&parts);
                let contradicted_by = account.contradicting_runs().into_iter().collect();
                (
                    ChangeEffect::Reweighted { before, delta, after, parts, cue_not_met, contradicted_by },
                    reason,
                )
            }
        };
        self.ledger.make_change(row, id, cause, effect, reason) && self.ledger.memories()[&id].weight > before
    }

    fn archive_if_faded(&mut self, row: usize, id: MemoryId) {
        let memory = &self.ledger.memories()[&id];
        let (weight, limit) = (memory.weight, self.policy.archive_weight);
        // Only harm makes a pinned memory this light.
        if weight.get() < limit && memory.disabled_by.is_none() {
            let reason = format!("its weight {weight} is below {}", Weight::from_thousandths(limit));
            self.ledger.make_change(row, id, self.retrospective_cause(), ChangeEffect::Archived, reason);
        }
    }
}

fn describe_disabled(by: &str) -> String {
    format!("{by} has disabled it: it stays as it is until a person enables it")
}

fn describe_parts(parts: &[WeightPart]) -> String {
    let one = |part: &WeightPart| {
        let run = part.run.as_ref().map(|run| format!(" in run {run}")).unwrap_or_default();
        format!("{} {}{run}: {}", part.delta, part.kind.as_str(), part.reason)
    };
    parts.iter().map(one).collect::<Vec<_>>().join("; ")
}
