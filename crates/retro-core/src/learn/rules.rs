//! Decides how reviews, and the verdicts of retrospectives, change the rules of a repository.
//!
//! A rule is a memory like any other: its changes are appended, each with an effect key, and the memory is
//! computed by folding them. Only the evidence differs: other memories are confirmed by a *separate run*, a
//! rule by a separate pull request. The standing of the person who asks for the rule decides first:
//!
//! | standing | a new rule | an earlier rule, asked for again |
//! |---|---|---|
//! | insider | is active | tentative or archived: becomes active |
//! | contributor | is tentative | tentative: becomes active, on another pull request; archived: becomes tentative |
//! | outsider, or hostile text | is quarantined | no change, and none of the text is added to the existing rule |
//! | bot | is not created | active: gets evidence |
//!
//! **Contradiction.** Two rules contradict each other if they give opposite advice about one subject in one
//! scope. (Rules for different paths both stay.) The rule with the higher rank stays. Rank is determined
//! first by authority, which is the highest standing of all who asked for the rule (promotion by an operator
//! counts as a request of an insider), and then by whether the rule is active. On a tie, the newer rule stays
//! and *supersedes* the older one. A newer rule of lower rank stays tentative, and cannot become active while
//! the older one is tentative or active.
//!
//! **Text of strangers** never becomes part of a trusted rule, because requests of other people do not
//! confirm a quarantined rule. A trusted person who asks for the same thing in their own words creates
//! another rule, which supersedes the quarantined one.
//!
//! **Expiry.** A rule that many runs have ignored since it was last asked for, promoted or used is archived.
//! Only investigated runs count, and of those only the ones in which the rule's situation came up and the
//! agent did not follow the rule. Runs that were not sampled, runs for which the investigator could not tell,
//! and runs without that situation do not count against a rule. A rule whose weight falls below the injection
//! minimum is archived as well, because it could never be presented again.

mod close;
mod observe;
mod promote;
mod uses;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;

use super::apply::{AppliedBatch, ChangeSummary, MutationOutcome, MutationSummary};
use super::matching::LessonMatcher;
use crate::finding::MemoryVerdict;
use crate::id::{ChangeId, MemoryId, RunId, Workflow, WorkflowKey};
use crate::memory::{
    Change, ChangeCause, ChangeEffect, Memory, MemoryScope, MemoryStatus, Tombstone, WeightPart,
    WeightReason, change_id, fold_change,
};
use crate::policy::Policy;
use crate::review::{Repository, RuleMutation, RuleMutationKind};
use crate::similarity::{Embedder, VectorCache};
use crate::weight::WeightDelta;

pub use close::{ClosedReview, ReviewClosingFacts, close_review};
pub use promote::{PromoteError, PromoteFacts, Promotion, promote_rule};
pub use uses::{RuleUseBatch, build_rule_use_batches};

/// Stored facts that the writer needs to decide about a repository's rules, read under the lock of the rule
/// scope.
#[derive(Debug, Clone)]
pub struct RuleFacts {
    /// Repository that the rules belong to.
    pub repo: Repository,
    /// Rule scope of the repository, as returned by [`Repository::rule_scope`].
    pub rule_scope: WorkflowKey,
    /// Policy time of the decision.
    pub as_of: Timestamp,
    /// Policy of the rule scope.
    pub policy: Policy,
    /// All living memories of the repository, and all others that the batch names or that a change in
    /// `applied` refers to.
    pub memories: Vec<Memory>,
    /// Tombstones of the rule scope, including expired ones.
    pub tombstones: Vec<Tombstone>,
    /// Ids of the rule scope's stored changes that were caused by a remark (in any edition) or a run of the
    /// batch. These changes are not made again.
    pub applied: HashSet<ChangeId>,
    /// Use counts of the rules that the batch credits, including the runs of the batch. Needed only for
    /// [`RuleMutationKind::Expire`].
    pub uses: BTreeMap<MemoryId, RuleUse>,
}

/// Counts of the investigated runs to which a rule was presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleUse {
    /// Number of investigated runs to which the rule was presented.
    pub presented: u64,
    /// Number of investigated runs that ignored the rule since it last changed (`Memory::changed_at`), that
    /// is, since it was last asked for, promoted or used in a run.
    pub unused: u64,
}

/// Decides how a batch of mutations changes a repository's rules. This is a pure function: the same facts and
/// batch give the same changes, byte for byte.
pub fn apply_rules(facts: RuleFacts, batch: &[RuleMutation], embedder: &dyn Embedder) -> AppliedBatch {
    let mut writer = RuleWriter::new(facts, batch, embedder);
    for (row, mutation) in batch.iter().enumerate() {
        match &mutation.request {
            RuleMutationKind::Observe { memory, edition, path, lesson, evidence, quarantine } => {
                writer.apply_observation(
                    row,
                    &observe::RuleObservation {
                        candidate: *memory,
                        edition,
                        scope: writer.repository_scope(path.clone()),
                        lesson,
                        evidence,
                        quarantine: quarantine.as_deref(),
                    },
                );
            }
            RuleMutationKind::Withdraw { remark, edition, reason } => {
                writer.apply_withdrawal(row, remark, edition, reason)
            }
            RuleMutationKind::Credit { memory, workflow, run, verdict, reason } => {
                writer.apply_credit(row, *memory, workflow, run, *verdict, reason);
            }
            RuleMutationKind::Expire => writer.archive_unused(row),
        }
    }
    writer.into_applied()
}

/// State of one [`apply_rules`] call. The methods for observations are in `observe.rs`.
struct RuleWriter<'e> {
    facts: RuleFacts,
    vectors: VectorCache<'e>,
    memories: BTreeMap<MemoryId, Memory>,
    live_tombstones: Vec<Tombstone>,
    made: HashSet<ChangeId>,
    touched: BTreeSet<MemoryId>,
    changes: Vec<Change>,
    outcomes: Vec<MutationOutcome>,
}

impl<'e> RuleWriter<'e> {
    fn new(facts: RuleFacts, batch: &[RuleMutation], embedder: &'e dyn Embedder) -> Self {
        // A memory outside the repository must not change here: the lock of its scope is not held.
        let of_repository = |memory: &&Memory| is_in_repository(&memory.scope, &facts.repo);
        let memories =
            facts.memories.iter().filter(of_repository).map(|memory| (memory.id, memory.clone())).collect();
        let live = facts.tombstones.iter().filter(|stone| stone.until > facts.as_of).cloned().collect();
        let outcome = |mutation: &RuleMutation| MutationOutcome {
            mutation: mutation.id,
            request: summarize_mutation(&mutation.request),
            changes: Vec::new(),
            reason: String::new(),
        };
        Self {
            vectors: VectorCache::new(embedder),
            memories,
            live_tombstones: live,
            made: HashSet::new(),
            touched: BTreeSet::new(),
            changes: Vec::new(),
            outcomes: batch.iter().map(outcome).collect(),
            facts,
        }
    }

    fn repository_scope(&self, path: Option<String>) -> MemoryScope {
        MemoryScope::Repository { repo: self.facts.repo.to_string(), path }
    }

    const fn lesson_matcher(&self) -> LessonMatcher<'_, '_> {
        LessonMatcher { vectors: &self.vectors, policy: &self.facts.policy }
    }

    /// Adjusts the weight of a rule by the verdict of a run. A rule whose weight falls below the injection
    /// minimum is archived, because it could never be presented again.
    fn apply_credit(
        &mut self,
        row: usize,
        id: MemoryId,
        workflow: &Workflow,
        run: &RunId,
        verdict: MemoryVerdict,
        reason: &str,
    ) {
        let cause = ChangeCause::Run { workflow: workflow.clone(), run: run.clone() };
        let policy = &self.facts.policy;
        let (delta, kind) = match verdict {
            MemoryVerdict::Harmed => (policy.harmed_delta, WeightReason::Harmed),
            MemoryVerdict::Helped => (policy.helped_delta, WeightReason::Helped),
            MemoryVerdict::Applied => (0, WeightReason::Applied),
            MemoryVerdict::Ignored | MemoryVerdict::CueNotMet => {
                return self
                    .explain_outcome(row, format!("{}: a rule loses nothing by that", verdict.as_str()));
            }
        };
        let inject_weight_min = policy.inject_weight_min;
        let Some(memory) = self.memories.get(&id).filter(|memory| memory.status == MemoryStatus::Active)
        else {
            return self.explain_outcome(row, "no active rule of this repository has that id");
        };
        let (before, delta) = (memory.weight, WeightDelta(delta));
        let after = before.adjusted_by(delta);
        let part = WeightPart { delta, kind, run: Some(run.clone()), reason: reason.to_owned() };
        let reason_text = format!("{delta} {} in run {run}: {reason}", kind.as_str());
        let contradicted_by = Vec::new();
        let effect = ChangeEffect::Reweighted {
            before,
            delta,
            after,
            parts: vec![part],
            cue_not_met: 0,
            contradicted_by,
        };
        if self.make_change(row, id, cause.clone(), effect, reason_text) && after.get() < inject_weight_min {
            let reason = format!("its weight {after} is below what is presented: nobody could use it again");
            self.make_change(row, id, cause, ChangeEffect::Archived, reason);
        }
    }

    fn archive_unused(&mut self, row: usize) {
        let most = u64::from(self.facts.policy.rule_presentations_max);
        // A rule that this batch changed was just used: its count of unused runs starts again.
        let idle =
            |memory: &&Memory| memory.status == MemoryStatus::Active && !self.touched.contains(&memory.id);
        let idle = self.memories.values().filter(idle);
        let used = |memory: &Memory| self.facts.uses.get(&memory.id).copied().unwrap_or_default();
        let unused: Vec<_> =
            idle.map(|memory| (memory.id, used(memory))).filter(|(_, used)| used.unused >= most).collect();
        for (id, RuleUse { presented, unused }) in unused {
            let reason = format!(
                "ignored in {unused} investigated runs that it was presented to since it last changed, and used in none"
            );
            self.make_change(
                row,
                id,
                ChangeCause::Expiry { presentations: presented },
                ChangeEffect::Archived,
                reason,
            );
        }
        if self.outcomes[row].changes.is_empty() {
            self.explain_outcome(row, format!("none of these rules was ignored in {most} investigated runs"));
        }
    }

    /// Makes a change and adds it to the outcome of the mutation at index `row`. Returns `true` if the change
    /// was made. If its effect key was used before or it is illegal for the rule, only explains that in the
    /// outcome.
    fn make_change(
        &mut self,
        row: usize,
        memory: MemoryId,
        cause: ChangeCause,
        effect: ChangeEffect,
        reason: String,
    ) -> bool {
        let id = change_id(&self.facts.rule_scope, memory, &cause, effect.kind());
        if self.facts.applied.contains(&id) || self.made.contains(&id) {
            self.explain_outcome(row, format!("this has happened before: {reason}"));
            return false;
        }
        let change = Change {
            id,
            memory,
            cause,
            effect,
            mutation: Some(self.outcomes[row].mutation),
            retrospective: None,
            epoch: None,
            at: self.facts.as_of,
            reason: reason.clone(),
        };
        // Folded before it is recorded, so an illegal change reaches neither the log nor the memory.
        match fold_change(self.memories.get(&memory).cloned(), &change) {
            Ok(after) => {
                if !change.effect.leaves_memory_unchanged() {
                    self.touched.insert(memory);
                }
                self.memories.extend(after.map(|after| (memory, after)));
            }
            Err(error) => {
                self.explain_outcome(row, error.to_string());
                return false;
            }
        }
        self.made.insert(id);
        self.outcomes[row].changes.push(ChangeSummary {
            change: id,
            kind: change.effect.kind().to_owned(),
            memory,
        });
        self.explain_outcome(row, reason);
        self.changes.push(change);
        true
    }

    /// Returns `true` if this call or an earlier one made a change of this kind to the memory for this cause.
    fn was_made(&self, memory: MemoryId, cause: &ChangeCause, kind: &str) -> bool {
        let id = change_id(&self.facts.rule_scope, memory, cause, kind);
        self.facts.applied.contains(&id) || self.made.contains(&id)
    }

    fn explain_outcome(&mut self, row: usize, reason: impl Into<String>) {
        let (outcome, reason) = (&mut self.outcomes[row], reason.into());
        // One mutation made several changes: the reason for the last one must not replace the others.
        if outcome.changes.len() > 1 {
            outcome.reason.push_str("; ");
            outcome.reason.push_str(&reason);
        } else {
            outcome.reason = reason;
        }
    }

    fn into_applied(self) -> AppliedBatch {
        let expired = self.facts.tombstones.iter().filter(|stone| stone.until <= self.facts.as_of);
        AppliedBatch {
            expired: expired.map(|stone| stone.memory).collect(),
            memories: self.touched.iter().map(|id| self.memories[id].clone()).collect(),
            changes: self.changes,
            tombstones: Vec::new(),
            outcomes: self.outcomes,
        }
    }
}

fn is_in_repository(scope: &MemoryScope, repo: &Repository) -> bool {
    matches!(scope, MemoryScope::Repository { repo: of, .. } if of == repo.as_str())
}

fn summarize_mutation(request: &RuleMutationKind) -> MutationSummary {
    let (run, about) = match request {
        RuleMutationKind::Observe { lesson, evidence, .. } => {
            (Some(evidence.run.clone()), lesson.title.clone())
        }
        RuleMutationKind::Withdraw { remark, .. } => (None, remark.to_string()),
        RuleMutationKind::Credit { memory, run, verdict, .. } => {
            (Some(run.clone()), format!("{memory}: {}", verdict.as_str()))
        }
        RuleMutationKind::Expire => (None, "the rules that these runs were presented with".to_owned()),
    };
    MutationSummary { kind: request.as_str().to_owned(), run, about }
}
