//! Turns the verdicts of a closed retrospective on presented rules into batches of mutations for the writer.
//!
//! A run belongs to a workflow and a rule belongs to a repository. Each has its own lock, so two transactions are
//! needed. The transaction that closes the retrospective stores one batch for each repository, and the writer later
//! applies it like the batch of a review.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::finding::VerdictRecord;
use crate::id::{MutationId, ReviewBatchId, WorkflowKey};
use crate::policy::{Policies, Policy};
use crate::retrospective::{Investigation, Retrospective};
use crate::review::{Repository, RuleMutation, RuleMutationKind};

/// Mutations of one repository's rules that follow from the verdicts of a retrospective.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleUseBatch {
    /// Id of the batch.
    pub id: ReviewBatchId,
    /// Repository that the rules belong to.
    pub repo: Repository,
    /// Rule scope under whose lock the batch is applied.
    pub rule_scope: WorkflowKey,
    /// Policy moment of the retrospective.
    pub as_of: Timestamp,
    /// Policy of the rule scope.
    pub policy: Policy,
    /// One credit for each valid verdict, in the order of investigations and presented rules, followed by one mutation
    /// that archives unused rules. Their number is bounded by the number of sampled runs with their replacements, and
    /// by the number of verdicts on each run.
    pub mutations: Vec<RuleMutation>,
}

/// Turns verdicts on rules into one batch for each repository. A rule without a valid verdict was not judged, so no
/// mutation is requested for it and nothing counts against it. Returns no batches for a manual retrospective.
pub fn build_rule_use_batches(
    retrospective: &Retrospective,
    investigations: &[Investigation],
    policies: &dyn Policies,
) -> Vec<RuleUseBatch> {
    if retrospective.asked.is_some() {
        return Vec::new();
    }
    let mut asks: BTreeMap<&Repository, Vec<RuleMutationKind>> = BTreeMap::new();
    let answered =
        investigations.iter().filter_map(|one| Some((one, one.result.as_ref()?.checked_answer()?)));
    for (one, (checked, presented)) in answered {
        for memory_shown in presented {
            let Some(repo) = &memory_shown.repo else { continue };
            let valid = checked.verdicts.iter().find(|verdict| verdict.memory == memory_shown.memory);
            let Some(VerdictRecord { memory, verdict, reason, .. }) = valid else { continue };
            let workflow = retrospective.key.workflow.clone();
            let (run, verdict, reason) = (one.run.clone(), *verdict, reason.clone());
            let ask = RuleMutationKind::Credit { memory: *memory, workflow, run, verdict, reason };
            asks.entry(repo).or_default().push(ask);
        }
    }
    let batch = |(repo, asks): (&Repository, Vec<RuleMutationKind>)| {
        let keeper = repo.rule_scope(&retrospective.key.tenant);
        let id = ReviewBatchId::of_rule_uses(&keeper, retrospective.id);
        let all = asks.into_iter().chain([RuleMutationKind::Expire]).enumerate();
        let mutations = all.map(|(index, ask)| RuleMutation { id: MutationId::of_review(id, index), ask });
        RuleUseBatch {
            id,
            repo: repo.clone(),
            as_of: retrospective.as_of,
            policy: policies.policy_for(&keeper),
            mutations: mutations.collect(),
            rule_scope: keeper,
        }
    };
    asks.into_iter().map(batch).collect()
}
