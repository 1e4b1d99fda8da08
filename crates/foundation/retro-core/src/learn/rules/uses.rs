//! Turns a retrospective's verdicts on presented rules into batches of mutations, one per repository.
//!
//! A run belongs to a workflow, and a rule to a repository. Each has its own lock, so two transactions are
//! needed: the one that closes the retrospective stores the batches, and the writer later applies each of
//! them like the batch of a review.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::finding::VerdictRecord;
use crate::id::{MutationId, Repository, ReviewBatchId, WorkflowKey};
use crate::policy::{Policies, Policy};
use crate::retrospective::{Investigation, Retrospective};
use crate::review::{RuleMutation, RuleMutationKind};

/// Mutations of one repository's rules that follow from the verdicts of a retrospective.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleUseBatch {
    /// Id of the batch.
    pub id: ReviewBatchId,
    /// Repository that the rules belong to.
    pub repo: Repository,
    /// Rule scope under whose lock the batch is applied.
    pub rule_scope: WorkflowKey,
    /// Policy time of the retrospective.
    pub as_of: Timestamp,
    /// Policy of the rule scope.
    pub policy: Policy,
    /// One credit per valid verdict, in the order of investigations and presented rules, followed by one
    /// mutation that archives unused rules. The length is bounded by the number of investigated runs and of
    /// rules presented to each.
    pub mutations: Vec<RuleMutation>,
}

/// Turns the verdicts of a retrospective into one batch per repository. A rule without a valid verdict was
/// not judged, so nothing counts for or against it. Returns no batches for a manual retrospective.
pub fn build_rule_use_batches(
    retrospective: &Retrospective,
    investigations: &[Investigation],
    policies: &dyn Policies,
) -> Vec<RuleUseBatch> {
    if retrospective.manual_request.is_some() {
        return Vec::new();
    }
    // A sorted map, so the batches are in the same order in every process.
    let mut requests: BTreeMap<&Repository, Vec<RuleMutationKind>> = BTreeMap::new();
    let answered =
        investigations.iter().filter_map(|one| Some((one, one.result.as_ref()?.checked_answer()?)));
    for (one, (checked, presented)) in answered {
        for memory_shown in presented {
            // Memories of the run's own workflow are credited by `settle_investigations`.
            let Some(repo) = &memory_shown.repo else { continue };
            let valid = checked.verdicts.iter().find(|verdict| verdict.memory == memory_shown.memory);
            let Some(VerdictRecord { memory, verdict, reason, .. }) = valid else { continue };
            let workflow = retrospective.key.workflow.clone();
            let (run, verdict, reason) = (one.run.clone(), *verdict, reason.clone());
            let request = RuleMutationKind::Credit { memory: *memory, workflow, run, verdict, reason };
            requests.entry(repo).or_default().push(request);
        }
    }
    let batch = |(repo, requests): (&Repository, Vec<RuleMutationKind>)| {
        let rule_scope = repo.rule_scope(&retrospective.key.tenant);
        let id = ReviewBatchId::of_rule_uses(&rule_scope, retrospective.id);
        let all = requests.into_iter().chain([RuleMutationKind::Expire]).enumerate();
        let mutations =
            all.map(|(index, request)| RuleMutation { id: MutationId::of_review(id, index), request });
        RuleUseBatch {
            id,
            repo: repo.clone(),
            as_of: retrospective.as_of,
            policy: policies.policy_for(&rule_scope),
            mutations: mutations.collect(),
            rule_scope,
        }
    };
    requests.into_iter().map(batch).collect()
}
