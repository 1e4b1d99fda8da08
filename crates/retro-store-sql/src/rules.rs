//! Converts the batches of mutations that change the rules of a repository.

use jiff::Timestamp;
use retro_core::id::{MemoryId, ReviewBatchId, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::learn::RuleUse;
use retro_core::memory::ChangeCause;
use retro_core::policy::Policy;
use retro_core::review::{Repository, RuleMutation, RuleMutationKind};
use retro_store::Result;
use retro_store::review::DecidedReview;

use crate::memory::cause_columns;
use crate::{at, parse_workflow_key};

/// A row of `rule_batches`.
#[derive(Debug, sqlx::FromRow)]
pub struct RuleBatchRecord {
    workflow: String,
    repo: String,
    as_of: String,
    policy: String,
    review: Option<String>,
    mutations: String,
    state: String,
}

/// Batch of rule mutations, either pending or applied.
#[derive(Debug)]
pub struct RuleBatch {
    /// Repository that the rules belong to.
    pub repo: Repository,
    /// Key of the workflow whose lock serialises writes to these rules.
    pub rule_scope: WorkflowKey,
    /// Policy timestamp of the batch: the time as of which its mutations are applied.
    pub as_of: Timestamp,
    /// Policy that applies to the mutations.
    pub policy: Policy,
    /// Decision about a review that the batch results from; `None` for a batch that results from verdicts.
    pub review: Option<DecidedReview>,
    /// Mutations that the writer applies.
    pub mutations: Vec<RuleMutation>,
    /// True while the writer has not applied the batch.
    pub pending: bool,
}

/// A row of `rule_looks`: the evaluation of a rule that was presented to an investigated run.
#[derive(Debug)]
pub struct RuleEvaluation {
    /// Id of the rule.
    pub memory: MemoryId,
    /// Workflow of the run in which the rule was evaluated.
    pub workflow: Workflow,
    /// Id of the run in which the rule was evaluated.
    pub run: RunId,
    /// Verdict on the rule in this run.
    pub verdict: &'static str,
}

impl RuleBatchRecord {
    /// Converts the row. Fails on a damaged value.
    pub fn to_rule_batch(&self, tenant: &Tenant, id: ReviewBatchId) -> Result<RuleBatch> {
        let review = self.review.as_ref().map(|review| at("rule_batches.review", id).parse_json(review));
        let repo =
            Repository::new(&self.repo).map_err(|error| at("rule_batches.repo", id).damaged_error(error))?;
        Ok(RuleBatch {
            repo,
            rule_scope: parse_workflow_key(tenant.as_str(), &self.workflow)?,
            as_of: at("rule_batches.as_of", id).parse(&self.as_of)?,
            policy: at("rule_batches.policy", id).parse_json(&self.policy)?,
            review: review.transpose()?,
            mutations: at("rule_batches.mutations", id).parse_json(&self.mutations)?,
            pending: self.state == "settling",
        })
    }
}

impl RuleBatch {
    /// Returns the columns `cause` and `cause_id` of all changes that this batch may have caused already.
    pub fn possible_causes(&self) -> Vec<(&'static str, String)> {
        let mut causes: Vec<_> = self.mutations.iter().filter_map(mutation_cause).collect();
        causes.sort();
        causes.dedup();
        causes
    }

    /// Returns the rule evaluations that the mutations of this batch contain.
    pub fn rule_evaluations(&self) -> Vec<RuleEvaluation> {
        let looks = self.mutations.iter().filter_map(|mutation| match &mutation.ask {
            RuleMutationKind::Credit { memory, workflow, run, verdict, .. } => Some(RuleEvaluation {
                memory: *memory,
                workflow: workflow.clone(),
                run: run.clone(),
                verdict: verdict.as_key(),
            }),
            _ => None,
        });
        looks.collect()
    }

    /// Returns the rules that the mutations of the batch credit.
    pub fn named_memories(&self) -> Vec<MemoryId> {
        let named = self.mutations.iter().filter_map(|mutation| match &mutation.ask {
            RuleMutationKind::Credit { memory, .. } => Some(*memory),
            _ => None,
        });
        named.collect()
    }

    /// Returns true when the batch expires unused rules, for which the usage of the rules must be loaded.
    pub fn needs_rule_use(&self) -> bool {
        self.mutations.iter().any(|mutation| matches!(mutation.ask, RuleMutationKind::Expire))
    }
}

/// Parses the usage of a rule: the number of all its evaluations, and the number of those since its last change in
/// which the run ignored the rule.
pub fn rule_use_from_row(memory: &str, presented: i64, unused: i64) -> Result<(MemoryId, RuleUse)> {
    let place = at("rule_looks", memory);
    let (presented, unused) = (place.parse_unsigned(presented)?, place.parse_unsigned(unused)?);
    Ok((place.parse(memory)?, RuleUse { presented, unused }))
}

fn mutation_cause(mutation: &RuleMutation) -> Option<(&'static str, String)> {
    let remark = |remark| ChangeCause::Review { remark, edition: String::new() };
    let of = match &mutation.ask {
        RuleMutationKind::Observe { evidence, .. } => remark(evidence.remark.as_ref()?.remark.clone()),
        RuleMutationKind::Withdraw { remark: of, .. } => remark(of.clone()),
        RuleMutationKind::Credit { workflow, run, .. } => {
            ChangeCause::Run { workflow: workflow.clone(), run: run.clone() }
        }
        RuleMutationKind::Expire => return None,
    };
    Some(cause_columns(&of))
}
