//! Converts rows of `rule_batches` and evaluations of rules.

use jiff::Timestamp;
use retro_core::feedback::Feedback;
use retro_core::id::{MemoryId, Repository, ReviewBatchId, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::learn::{RuleUse, WaitingFeedback};
use retro_core::memory::ChangeCause;
use retro_core::policy::Policy;
use retro_core::review::{RuleMutation, RuleMutationKind};
use retro_store::Result;
use retro_store::review::DecidedReview;

use super::memory::cause_columns;
use crate::{at, parse_workflow_key};

/// Row of `rule_batches`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct RuleBatchRecord {
    workflow: String,
    repo: String,
    as_of: String,
    policy: String,
    review: Option<String>,
    mutations: String,
    state: String,
}

/// Pending or applied batch of rule mutations.
#[derive(Debug)]
pub(crate) struct RuleBatch {
    /// Repository of the rules.
    pub(crate) repo: Repository,
    /// Key of the rule scope, whose lock serialises writes to the rules.
    pub(crate) rule_scope: WorkflowKey,
    /// Policy time as of which the mutations are applied.
    pub(crate) as_of: Timestamp,
    /// Policy under which the mutations are applied.
    pub(crate) policy: Policy,
    /// Decided review that caused the batch; `None` for a batch caused by verdicts.
    pub(crate) review: Option<DecidedReview>,
    /// Mutations for the writer to apply.
    pub(crate) mutations: Vec<RuleMutation>,
    /// `true` until the writer has applied the batch.
    pub(crate) pending: bool,
}

/// Row of `rule_evaluations`: the verdict on a rule that was presented to an investigated run.
#[derive(Debug)]
pub(crate) struct RuleEvaluation {
    /// Memory id of the rule.
    pub(crate) memory: MemoryId,
    /// Workflow of the evaluated run.
    pub(crate) workflow: Workflow,
    /// Id of the evaluated run.
    pub(crate) run: RunId,
    /// Name of the verdict on the rule in this run.
    pub(crate) verdict: &'static str,
}

impl RuleBatchRecord {
    /// Converts the row to a [`RuleBatch`]. Fails if a value is damaged.
    pub(crate) fn to_rule_batch(&self, tenant: &Tenant, id: ReviewBatchId) -> Result<RuleBatch> {
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
    /// Returns the `cause` and `cause_id` columns of the changes that this batch, with the feedback that waits, may
    /// already have caused.
    pub(crate) fn possible_causes(&self, feedback: &[WaitingFeedback]) -> Vec<(&'static str, String)> {
        let mut causes: Vec<_> = self.mutations.iter().filter_map(mutation_cause).collect();
        causes.extend(feedback.iter().map(|waiting| feedback_cause(&waiting.feedback)));
        causes.sort();
        causes.dedup();
        causes
    }

    /// Extracts the rule evaluations from the mutations of the batch.
    pub(crate) fn rule_evaluations(&self) -> Vec<RuleEvaluation> {
        let looks = self.mutations.iter().filter_map(|mutation| match &mutation.request {
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

    /// Returns the ids of the rules credited by the batch.
    pub(crate) fn named_memories(&self) -> Vec<MemoryId> {
        let named = self.mutations.iter().filter_map(|mutation| match &mutation.request {
            RuleMutationKind::Credit { memory, .. } => Some(*memory),
            _ => None,
        });
        named.collect()
    }

    /// Returns `true` if the batch expires unused rules, which requires their usage to be loaded.
    pub(crate) fn needs_rule_use(&self) -> bool {
        self.mutations.iter().any(|mutation| matches!(mutation.request, RuleMutationKind::Expire))
    }
}

/// Converts the usage of a rule: the number of all its evaluations, and the number of evaluations since its
/// last change in which the run ignored the rule.
pub(crate) fn rule_use_from_row(memory: &str, presented: i64, unused: i64) -> Result<(MemoryId, RuleUse)> {
    let place = at("rule_evaluations", memory);
    let (presented, unused) = (place.parse_unsigned(presented)?, place.parse_unsigned(unused)?);
    Ok((place.parse(memory)?, RuleUse { presented, unused }))
}

fn feedback_cause(feedback: &Feedback) -> (&'static str, String) {
    let cause = match feedback.author.run() {
        Some((workflow, run)) => ChangeCause::Run { workflow: workflow.clone(), run: run.clone() },
        None => ChangeCause::Feedback { id: feedback.id },
    };
    cause_columns(&cause)
}

fn mutation_cause(mutation: &RuleMutation) -> Option<(&'static str, String)> {
    // `cause_columns` ignores the edition, so an empty one finds the changes of all editions.
    let remark = |remark| ChangeCause::Review { remark, edition: String::new() };
    let of = match &mutation.request {
        RuleMutationKind::Observe { evidence, .. } => remark(evidence.remark.as_ref()?.remark.clone()),
        RuleMutationKind::Withdraw { remark: of, .. } => remark(of.clone()),
        RuleMutationKind::Credit { workflow, run, .. } => {
            ChangeCause::Run { workflow: workflow.clone(), run: run.clone() }
        }
        RuleMutationKind::Feedback { .. } | RuleMutationKind::Expire => return None,
    };
    Some(cause_columns(&of))
}
