//! The report of a review: what was read, what became of each remark, and why. Rendered elsewhere.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Decided, Feature, ReadRemark, ReadingKind, Remark, RemarkKey, ReviewBatch, ReviewKey, Screening,
    Standing, Support,
};
use crate::id::{ReviewBatchId, Tenant, Workflow, WorkflowKey};
use crate::learn::{Applied, Did, MutationOutcome};
use crate::memory::{Change, Memory};
use crate::policy::Policy;
use crate::report::{Memories, memories};

/// The longest excerpt of a remark in a report, in characters: enough to know it again.
const EXCERPT_CHARS_MAX: usize = 200;

/// What a review said, what was made of it, and what that changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewReport {
    /// The decision, and the report's own id.
    pub id: ReviewBatchId,
    /// The tenant.
    pub tenant: Tenant,
    /// The keeper of the repository's rules, by its name among the workflows.
    pub workflow: Workflow,
    /// The review.
    pub review: ReviewKey,
    /// The policy moment.
    pub as_of: Timestamp,
    /// Every remark, by key.
    pub remarks: Vec<ReportedRemark>,
    /// Every mutation, what the writer did with it, and why.
    pub mutations: Vec<MutationOutcome>,
    /// Every change, in order.
    pub changes: Vec<Change>,
    /// The living rules of the repository before.
    pub before: Memories,
    /// The rules afterwards, what this review deleted or superseded included.
    pub after: Memories,
    /// The policy it was made under.
    #[serde(serialize_with = "crate::policy::serialize_stored")]
    pub policy: Policy,
    /// Its hash.
    pub policy_hash: String,
    /// The embedder that judged similarity.
    pub embedder: String,
    /// When it closed, by the writer's clock.
    pub closed_at: Timestamp,
}

/// A remark as reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedRemark {
    /// Which.
    pub remark: RemarkKey,
    /// Who wrote it.
    pub by: String,
    /// What their word counts for.
    pub standing: Standing,
    /// Its beginning, at most 200 characters. Whoever wrote it may be hostile.
    pub excerpt: String,
    /// The page for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What the reader took it for.
    pub kind: ReadingKind,
    /// What spoke for and against its being a rule.
    pub features: Vec<Feature>,
    /// What speaks for it besides its words.
    pub support: Support,
    /// Other pull requests on which a person asked for the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked_on: Vec<super::PullRequestRef>,
    /// What screening said.
    pub screening: Screening,
    /// How sure it is that it is a rule, support included, thousandths.
    pub certainty: u16,
    /// The rule as the reader phrased it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What was done for it; nothing for most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub did: Vec<Did>,
    /// Why, in one sentence: the writer's, or the decision's where nothing was asked.
    pub why: String,
}

/// What a report is made from.
pub(crate) struct Inputs<'a> {
    pub(crate) keeper: &'a WorkflowKey,
    pub(crate) batch: &'a ReviewBatch,
    pub(crate) decided: &'a [Decided],
    pub(crate) applied: &'a Applied,
    pub(crate) before: &'a [Memory],
    pub(crate) after: &'a [Memory],
    pub(crate) policy: Policy,
    pub(crate) as_of: Timestamp,
    pub(crate) embedder: &'a str,
    pub(crate) closed_at: Timestamp,
}

impl ReviewReport {
    pub(crate) fn write(inputs: Inputs<'_>) -> Self {
        let reported = |decided: &Decided| {
            let read = inputs.batch.remarks.iter().find(|read| read.remark.key == decided.remark)?;
            Some(reported(read, decided, inputs.applied))
        };
        Self {
            id: inputs.batch.id,
            tenant: inputs.keeper.tenant.clone(),
            workflow: inputs.keeper.workflow.clone(),
            review: inputs.batch.review.clone(),
            as_of: inputs.as_of,
            remarks: inputs.decided.iter().filter_map(reported).collect(),
            mutations: inputs.applied.outcomes.clone(),
            changes: inputs.applied.changes.clone(),
            before: memories(inputs.before),
            after: memories(inputs.after),
            policy_hash: inputs.policy.hash(),
            policy: inputs.policy,
            embedder: inputs.embedder.to_owned(),
            closed_at: inputs.closed_at,
        }
    }
}

fn reported(read: &ReadRemark, decided: &Decided, applied: &Applied) -> ReportedRemark {
    let ReadRemark { remark, reading, support, screening } = read;
    let asked = |outcome: &&MutationOutcome| Some(outcome.mutation) == decided.mutation;
    let outcome = applied.outcomes.iter().find(asked);
    ReportedRemark {
        remark: remark.key.clone(),
        by: remark.by.clone(),
        standing: remark.standing(),
        excerpt: excerpt(remark),
        url: remark.url.clone(),
        kind: reading.kind,
        features: reading.features.clone(),
        support: *support,
        asked_on: decided.asked_on.clone(),
        screening: screening.clone(),
        certainty: decided.certainty,
        title: reading.rule.as_ref().map(|rule| rule.title.clone()),
        did: outcome.map(|outcome| outcome.did.clone()).unwrap_or_default(),
        why: outcome.map_or_else(|| decided.why.clone(), |outcome| outcome.why.clone()),
    }
}

fn excerpt(remark: &Remark) -> String {
    let line = remark.body.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT_CHARS_MAX) {
        None => line,
        Some(_) => line.chars().take(EXCERPT_CHARS_MAX - 1).chain(['…']).collect(),
    }
}
