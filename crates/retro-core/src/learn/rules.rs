//! Rules: what the writer does with what a review, a run or the clock asks of a repository's memories.
//!
//! A rule is a memory like any other: its changes are appended, each with an effect key, and the memory is their fold.
//! What differs is who may be believed. Everywhere else a *separate run* confirms; here it is a separate pull request, and
//! before that the standing of whoever asks:
//!
//! | standing | a new rule begins | an earlier one, asked for again |
//! |---|---|---|
//! | insider | active | tentative or archived: active |
//! | contributor | tentative | tentative: active, on another pull request; archived: tentative |
//! | outsider, or hostile text | in quarantine | nothing, and no word of it goes to the rule that is there |
//! | bot | not at all | active: evidence |
//!
//! **Contradiction** is the opposite advice about one subject, in one scope (rules for different paths both stay). What
//! ranks higher stays: by authority (the greatest standing that ever spoke for it, a person's promotion counting as an
//! insider's), then by being active. The newer one wins a tie, and the older is *superseded*, with the link. A newer one
//! that ranks lower is kept as tentative and cannot become active while the other lives.
//!
//! **What a stranger wrote** never becomes part of what is trusted: a rule in quarantine is not confirmed by others. Who
//! asks for the same in words of their own makes a rule of their own, which supersedes it.
//!
//! **Expiry.** A rule that was presented again and again and used in no run is archived. What counts is runs that somebody
//! looked into, and of those the ones in which its situation came up and nothing shows that the agent minded it: the runs that
//! no retrospective sampled, those of which the investigator could not tell, and those that had nothing to do with it say
//! nothing against a rule. One whose weight falls below what is injected is archived too: nobody could ever use it again.

mod close;
mod observe;
mod person;
mod used;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use jiff::Timestamp;

use super::alike::Alike;
use super::apply::{Applied, Asked, Did, MutationOutcome};
use crate::finding::Verdict;
use crate::id::{ChangeId, MemoryId, RunId, Workflow, WorkflowKey};
use crate::memory::{
    Cause, Change, Effect, Memory, Scope, Status, Tombstone, WeightPart, WeightReason, change_id, fold,
};
use crate::policy::Policy;
use crate::review::{Repository, RuleAsk, RuleMutation};
use crate::similar::{Embedder, Vectors};
use crate::weight::Delta;

pub use close::{ReviewClosing, ReviewFacts, close_review};
pub use person::{PromoteFacts, Promotion, Unpromoted, promote_rule};
pub use used::{RulesUsed, rules_used};

/// What the writer knows of a repository's rules, read under the lock of their keeper.
#[derive(Debug, Clone)]
pub struct RuleFacts {
    /// The repository.
    pub repo: Repository,
    /// Who keeps its rules: [`Repository::keeper`].
    pub keeper: WorkflowKey,
    /// The policy moment.
    pub as_of: Timestamp,
    /// The keeper's policy.
    pub policy: Policy,
    /// Every living memory of the repository's scopes, and every other one that the batch names or that a change of
    /// `applied` is about.
    pub memories: Vec<Memory>,
    /// Tombstones of the keeper, expired ones included.
    pub tombstones: Vec<Tombstone>,
    /// Changes of the keeper whose cause is one of the batch's remarks (any edition) or runs: they never happen again.
    pub applied: HashSet<ChangeId>,
    /// How the rules that the batch gives credit were used, its own runs included; needed for [`RuleAsk::Expire`] alone.
    pub uses: BTreeMap<MemoryId, RuleUse>,
}

/// How a rule was used in the runs that it was presented to and that were looked into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleUse {
    /// All of them.
    pub presented: u64,
    /// Those in which it was ignored, since it last changed (`Memory::changed_at`): was asked for, promoted, or used in a run.
    pub unused: u64,
}

/// Decides what a batch does to a repository's rules. Pure: the same facts and batch give the same changes, byte for byte.
pub fn apply_rules(facts: RuleFacts, batch: &[RuleMutation], embedder: &dyn Embedder) -> Applied {
    let mut writer = RuleWriter::new(facts, batch, embedder);
    for (row, mutation) in batch.iter().enumerate() {
        match &mutation.ask {
            RuleAsk::Observe { memory, edition, path, lesson, evidence, quarantine } => {
                writer.observe(
                    row,
                    &observe::Observation {
                        candidate: *memory,
                        edition,
                        scope: writer.scope(path.clone()),
                        lesson,
                        evidence,
                        quarantine: quarantine.as_deref(),
                    },
                );
            }
            RuleAsk::Withdraw { remark, edition, reason } => writer.withdraw(row, remark, edition, reason),
            RuleAsk::Credit { memory, workflow, run, verdict, reason } => {
                writer.credit(row, *memory, workflow, run, *verdict, reason);
            }
            RuleAsk::Expire => writer.expire(row),
        }
    }
    writer.finish()
}

/// The state of one call of [`apply_rules`]. Observing is in `observe.rs`.
struct RuleWriter<'e> {
    facts: RuleFacts,
    vectors: Vectors<'e>,
    memories: BTreeMap<MemoryId, Memory>,
    live_tombstones: Vec<Tombstone>,
    made: HashSet<ChangeId>,
    touched: BTreeSet<MemoryId>,
    changes: Vec<Change>,
    outcomes: Vec<MutationOutcome>,
}

impl<'e> RuleWriter<'e> {
    fn new(facts: RuleFacts, batch: &[RuleMutation], embedder: &'e dyn Embedder) -> Self {
        let ours = |memory: &&Memory| kept_in(&memory.scope, &facts.repo);
        let memories = facts.memories.iter().filter(ours).map(|memory| (memory.id, memory.clone())).collect();
        let live = facts.tombstones.iter().filter(|stone| stone.until > facts.as_of).cloned().collect();
        let outcome = |mutation: &RuleMutation| MutationOutcome {
            mutation: mutation.id,
            asked: asked(&mutation.ask),
            did: Vec::new(),
            why: String::new(),
        };
        Self {
            vectors: Vectors::new(embedder),
            memories,
            live_tombstones: live,
            made: HashSet::new(),
            touched: BTreeSet::new(),
            changes: Vec::new(),
            outcomes: batch.iter().map(outcome).collect(),
            facts,
        }
    }

    fn scope(&self, path: Option<String>) -> Scope {
        Scope::Repository { repo: self.facts.repo.to_string(), path }
    }

    const fn alike(&self) -> Alike<'_, '_> {
        Alike { vectors: &self.vectors, policy: &self.facts.policy }
    }

    /// A run used a rule: its weight moves. What is then too light to be presented is archived: nobody could use it again.
    fn credit(
        &mut self,
        row: usize,
        id: MemoryId,
        workflow: &Workflow,
        run: &RunId,
        verdict: Verdict,
        reason: &str,
    ) {
        let cause = Cause::Run { workflow: workflow.clone(), run: run.clone() };
        let policy = &self.facts.policy;
        let (delta, why) = match verdict {
            Verdict::Harmed => (policy.harmed_delta, WeightReason::Harmed),
            Verdict::Helped => (policy.helped_delta, WeightReason::Helped),
            Verdict::Applied => (0, WeightReason::Applied),
            Verdict::Ignored | Verdict::CueNotMet => {
                return self.explain(row, format!("{}: a rule loses nothing by that", verdict.as_str()));
            }
        };
        let inject_weight_min = policy.inject_weight_min;
        let Some(memory) = self.memories.get(&id).filter(|memory| memory.status == Status::Active) else {
            return self.explain(row, "no active rule of this repository has that id");
        };
        let (before, delta) = (memory.weight, Delta(delta));
        let after = before.moved(delta);
        let part = WeightPart { delta, why, run: Some(run.clone()), reason: reason.to_owned() };
        let told = format!("{delta} {} in run {run}: {reason}", why.as_str());
        let contradicted_by = Vec::new();
        let effect =
            Effect::Reweighted { before, delta, after, parts: vec![part], cue_not_met: 0, contradicted_by };
        if self.make(row, id, cause.clone(), effect, told) && after.get() < inject_weight_min {
            let reason = format!("its weight {after} is below what is presented: nobody could use it again");
            self.make(row, id, cause, Effect::Archived, reason);
        }
    }

    fn expire(&mut self, row: usize) {
        let most = u64::from(self.facts.policy.rule_presentations_max);
        // What this batch has touched was used just now: its count begins anew.
        let idle = |memory: &&Memory| memory.status == Status::Active && !self.touched.contains(&memory.id);
        let idle = self.memories.values().filter(idle);
        let used = |memory: &Memory| self.facts.uses.get(&memory.id).copied().unwrap_or_default();
        let unused: Vec<_> =
            idle.map(|memory| (memory.id, used(memory))).filter(|(_, used)| used.unused >= most).collect();
        for (id, RuleUse { presented, unused }) in unused {
            let reason = format!(
                "ignored in {unused} investigated runs that it was presented to since it last changed, and used in none"
            );
            self.make(row, id, Cause::Expiry { presentations: presented }, Effect::Archived, reason);
        }
        if self.outcomes[row].did.is_empty() {
            self.explain(row, format!("none of these rules was ignored in {most} investigated runs"));
        }
    }

    /// Makes a change, unless one with its effect key has happened, and tells the mutation of `row`. Returns
    /// whether it was made.
    fn make(&mut self, row: usize, memory: MemoryId, cause: Cause, effect: Effect, reason: String) -> bool {
        let id = change_id(&self.facts.keeper, memory, &cause, effect.kind());
        if self.facts.applied.contains(&id) || self.made.contains(&id) {
            self.explain(row, format!("this has happened before: {reason}"));
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
        match fold(self.memories.get(&memory).cloned(), &change) {
            Ok(after) => {
                if !change.effect.leaves_memory() {
                    self.touched.insert(memory);
                }
                self.memories.extend(after.map(|after| (memory, after)));
            }
            Err(error) => {
                self.explain(row, error.to_string());
                return false;
            }
        }
        self.made.insert(id);
        self.outcomes[row].did.push(Did { change: id, kind: change.effect.kind().to_owned(), memory });
        self.explain(row, reason);
        self.changes.push(change);
        true
    }

    /// Whether a change of this kind about this memory, by this cause, was made by this call or an earlier one.
    fn happened(&self, memory: MemoryId, cause: &Cause, kind: &str) -> bool {
        let id = change_id(&self.facts.keeper, memory, cause, kind);
        self.facts.applied.contains(&id) || self.made.contains(&id)
    }

    fn explain(&mut self, row: usize, why: impl Into<String>) {
        let (outcome, why) = (&mut self.outcomes[row], why.into());
        if outcome.did.len() > 1 {
            outcome.why.push_str("; ");
            outcome.why.push_str(&why);
        } else {
            outcome.why = why;
        }
    }

    fn finish(self) -> Applied {
        let expired = self.facts.tombstones.iter().filter(|stone| stone.until <= self.facts.as_of);
        Applied {
            expired: expired.map(|stone| stone.memory).collect(),
            memories: self.touched.iter().map(|id| self.memories[id].clone()).collect(),
            changes: self.changes,
            tombstones: Vec::new(),
            outcomes: self.outcomes,
        }
    }
}

/// Whether a scope is of this repository.
fn kept_in(scope: &Scope, repo: &Repository) -> bool {
    matches!(scope, Scope::Repository { repo: of, .. } if of == repo.as_str())
}

fn asked(ask: &RuleAsk) -> Asked {
    let (run, about) = match ask {
        RuleAsk::Observe { lesson, evidence, .. } => (Some(evidence.run.clone()), lesson.title.clone()),
        RuleAsk::Withdraw { remark, .. } => (None, remark.to_string()),
        RuleAsk::Credit { memory, run, verdict, .. } => {
            (Some(run.clone()), format!("{memory}: {}", verdict.as_str()))
        }
        RuleAsk::Expire => (None, "the rules that these runs were presented with".to_owned()),
    };
    Asked { kind: ask.kind().to_owned(), run, about }
}
