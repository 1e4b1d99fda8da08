//! What runs made of rules: the verdicts of a closed retrospective on rules that stood before its runs, as batches for the
//! writer.
//!
//! A run belongs to a workflow and a rule to a repository, so they are two locks and two transactions: the one that closes the
//! retrospective leaves a batch for each repository, and the writer applies it like one of a review.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::finding::MemoryVerdict;
use crate::id::{MutationId, ReviewBatchId, WorkflowKey};
use crate::policy::{Policies, Policy};
use crate::retrospective::{Investigation, Retrospective};
use crate::review::{Repository, RuleAsk, RuleMutation};

/// What the verdicts of a retrospective ask of a repository's rules.
#[derive(Debug, Clone, PartialEq)]
pub struct RulesUsed {
    /// The batch's id.
    pub id: ReviewBatchId,
    /// The repository.
    pub repo: Repository,
    /// Whose lock it is applied under.
    pub keeper: WorkflowKey,
    /// The policy moment: the retrospective's.
    pub as_of: Timestamp,
    /// The keeper's policy.
    pub policy: Policy,
    /// A credit for each verdict that stands, by investigation and rule, and then the look at what nobody uses. Bounded by the
    /// runs of a sample with their replacements, and by the verdicts of each.
    pub mutations: Vec<RuleMutation>,
}

/// Turns verdicts on rules into batches, by repository. A rule on which no verdict stands was not judged: nothing is asked for it,
/// and nothing counts against it. A manual retrospective asks for nothing.
pub fn rules_used(
    retrospective: &Retrospective,
    investigations: &[Investigation],
    policies: &dyn Policies,
) -> Vec<RulesUsed> {
    if retrospective.asked.is_some() {
        return Vec::new();
    }
    let mut asks: BTreeMap<&Repository, Vec<RuleAsk>> = BTreeMap::new();
    let looked = investigations.iter().filter_map(|one| Some((one, one.result.as_ref()?.looked()?)));
    for (one, (checked, presented)) in looked {
        for shown in presented {
            let Some(repo) = &shown.repo else { continue };
            let stands = checked.verdicts.iter().find(|verdict| verdict.memory == shown.memory);
            let Some(MemoryVerdict { memory, verdict, reason, .. }) = stands else { continue };
            let workflow = retrospective.key.workflow.clone();
            let (run, verdict, reason) = (one.run.clone(), *verdict, reason.clone());
            let ask = RuleAsk::Credit { memory: *memory, workflow, run, verdict, reason };
            asks.entry(repo).or_default().push(ask);
        }
    }
    let batch = |(repo, asks): (&Repository, Vec<RuleAsk>)| {
        let keeper = repo.keeper(&retrospective.key.tenant);
        let id = ReviewBatchId::of_uses(&keeper, retrospective.id);
        let all = asks.into_iter().chain([RuleAsk::Expire]).enumerate();
        let mutations = all.map(|(index, ask)| RuleMutation { id: MutationId::of_review(id, index), ask });
        RulesUsed {
            id,
            repo: repo.clone(),
            as_of: retrospective.as_of,
            policy: policies.of(&keeper),
            mutations: mutations.collect(),
            keeper,
        }
    };
    asks.into_iter().map(batch).collect()
}
