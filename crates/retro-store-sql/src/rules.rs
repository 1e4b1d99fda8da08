//! Batches that ask something of a repository's rules, as rows.

use jiff::Timestamp;
use retro_core::id::{MemoryId, ReviewBatchId, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::learn::RuleUse;
use retro_core::memory::Cause;
use retro_core::policy::Policy;
use retro_core::review::{Repository, RuleAsk, RuleMutation};
use retro_store::Result;
use retro_store::review::DecidedReview;

use crate::memory::cause;
use crate::{at, workflow_key};

/// A row of `rule_batches`.
#[derive(Debug, sqlx::FromRow)]
pub struct BatchRecord {
    workflow: String,
    repo: String,
    as_of: String,
    policy: String,
    review: Option<String>,
    mutations: String,
    state: String,
}

/// A batch that waits, or waited, for the writer.
#[derive(Debug)]
pub struct Batch {
    /// Its repository.
    pub repo: Repository,
    /// Whose lock it is applied under.
    pub keeper: WorkflowKey,
    /// The policy moment.
    pub as_of: Timestamp,
    /// The policy.
    pub policy: Policy,
    /// What was decided, of reviews.
    pub review: Option<DecidedReview>,
    /// What is asked.
    pub mutations: Vec<RuleMutation>,
    /// Whether the writer has still to apply it.
    pub waits: bool,
}

/// A row of `rule_looks`: a rule that stood before a run that was looked into.
#[derive(Debug)]
pub struct RuleLook {
    /// The rule.
    pub memory: MemoryId,
    /// The run's workflow.
    pub workflow: Workflow,
    /// The run.
    pub run: RunId,
    /// What it did there.
    pub verdict: &'static str,
}

impl BatchRecord {
    /// Reads it.
    pub fn read(&self, tenant: &Tenant, id: ReviewBatchId) -> Result<Batch> {
        let review = self.review.as_ref().map(|review| at("rule_batches.review", id).json(review));
        let repo = Repository::new(&self.repo).map_err(|error| at("rule_batches.repo", id).damaged(error))?;
        Ok(Batch {
            repo,
            keeper: workflow_key(tenant.as_str(), &self.workflow)?,
            as_of: at("rule_batches.as_of", id).parse(&self.as_of)?,
            policy: at("rule_batches.policy", id).json(&self.policy)?,
            review: review.transpose()?,
            mutations: at("rule_batches.mutations", id).json(&self.mutations)?,
            waits: self.state == "settling",
        })
    }
}

impl Batch {
    /// The columns `cause` and `cause_id` of everything that it may have caused already.
    pub fn causes(&self) -> Vec<(&'static str, String)> {
        let mut causes: Vec<_> = self.mutations.iter().filter_map(cause_of).collect();
        causes.sort();
        causes.dedup();
        causes
    }

    /// Which rules stood before which runs, and what came of it.
    pub fn looks(&self) -> Vec<RuleLook> {
        let looks = self.mutations.iter().filter_map(|mutation| match &mutation.ask {
            RuleAsk::Credit { memory, workflow, run, verdict, .. } => Some(RuleLook {
                memory: *memory,
                workflow: workflow.clone(),
                run: run.clone(),
                verdict: verdict.key(),
            }),
            _ => None,
        });
        looks.collect()
    }

    /// The memories that it names.
    pub fn named(&self) -> Vec<MemoryId> {
        let named = self.mutations.iter().filter_map(|mutation| match &mutation.ask {
            RuleAsk::Credit { memory, .. } => Some(*memory),
            _ => None,
        });
        named.collect()
    }

    /// Whether it asks which rules nobody uses.
    pub fn asks_for_uses(&self) -> bool {
        self.mutations.iter().any(|mutation| matches!(mutation.ask, RuleAsk::Expire))
    }
}

/// Reads how often a rule was looked for, and ignored since it last changed.
pub fn read_use(memory: &str, presented: i64, unused: i64) -> Result<(MemoryId, RuleUse)> {
    let place = at("rule_looks", memory);
    let (presented, unused) = (place.unsigned(presented)?, place.unsigned(unused)?);
    Ok((place.parse(memory)?, RuleUse { presented, unused }))
}

fn cause_of(mutation: &RuleMutation) -> Option<(&'static str, String)> {
    let remark = |remark| Cause::Review { remark, edition: String::new() };
    let of = match &mutation.ask {
        RuleAsk::Observe { evidence, .. } => remark(evidence.remark.as_ref()?.remark.clone()),
        RuleAsk::Withdraw { remark: of, .. } => remark(of.clone()),
        RuleAsk::Credit { workflow, run, .. } => Cause::Run { workflow: workflow.clone(), run: run.clone() },
        RuleAsk::Expire => return None,
    };
    Some(cause(&of))
}
