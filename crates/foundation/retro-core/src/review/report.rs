//! The report of a review: its remarks, with the decision on each and the reasons. Other crates render it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::settle::{DecidedRemark, ReadRemark, ReviewBatch};
use super::{ModelReading, ReadingFeature, ReadingKind, RemarkSupport, ReviewReading, Screening};
use crate::id::{RemarkKey, ReviewBatchId, ReviewKey, ReviewedPullRequest, Tenant, Workflow, WorkflowKey};
use crate::memory::{
    AppliedBatch, Change, ChangeSummary, Memory, MemoryListing, MutationOutcome, list_memories,
};
use crate::pipeline::PipelineHashes;
use crate::policy::Policy;
use crate::remark::{AuthorStanding, Remark};

/// Maximum length of the excerpt of a remark in a report, in characters: enough to recognise the remark.
const EXCERPT_CHARS_MAX: usize = 200;

/// Report of a review: its remarks, decisions and changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewReport {
    /// Id of the decision and of its report.
    pub id: ReviewBatchId,
    /// Tenant of the repository.
    pub tenant: Tenant,
    /// Name of the repository's rule scope, under which it is stored among the workflows.
    pub workflow: Workflow,
    /// Key of the review.
    pub review: ReviewKey,
    /// Time that counted as the present in the decision.
    pub as_of: Timestamp,
    /// All remarks of the review, sorted by key.
    pub remarks: Vec<ReportedRemark>,
    /// All mutations, each with its outcome and reason.
    pub mutations: Vec<MutationOutcome>,
    /// All changes, in the order in which they were made.
    pub changes: Vec<Change>,
    /// Living rules of the repository before the changes.
    pub before: MemoryListing,
    /// Rules of the repository after the changes, including those that this review deleted or superseded.
    pub after: MemoryListing,
    /// Policy under which the review was decided.
    #[serde(serialize_with = "crate::policy::serialize_stored")]
    pub policy: Policy,
    /// SHA-256 of the policy.
    pub policy_hash: String,
    /// Version of the review pipeline under which the remarks were read, and of its prompts; `None` if a program that stored
    /// none decided the review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineHashes>,
    /// How the remarks were read; `None` if a program that stored nothing about it decided the review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<ReviewReading>,
    /// Name of the embedder that measured similarity.
    pub embedder: String,
    /// Time when the review was closed, by the writer's clock.
    pub closed_at: Timestamp,
}

/// A remark, as shown in the report of a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedRemark {
    /// Key of the remark.
    pub remark: RemarkKey,
    /// Name of the author.
    pub by: String,
    /// Standing of the author.
    pub standing: AuthorStanding,
    /// Beginning of the text, at most 200 characters. The author of the text may be hostile.
    pub excerpt: String,
    /// URL of the remark's web page; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Classification of the remark by the reader.
    pub kind: ReadingKind,
    /// Features of the text that are evidence for or against the remark stating a rule.
    pub features: Vec<ReadingFeature>,
    /// Evidence for a rule, apart from the words of the remark.
    pub support: RemarkSupport,
    /// Other pull requests on which a person made the same request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requested_on: Vec<ReviewedPullRequest>,
    /// Result of screening the text.
    pub screening: Screening,
    /// Certainty that the remark states a rule, including `support`, in thousandths.
    pub certainty: u16,
    /// Rule as phrased by the reader; `None` if the reader phrased none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What a language model read in the remark; `None` if none read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelReading>,
    /// Changes made because of the remark; empty for most remarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeSummary>,
    /// Reason for the result, in one sentence. Given by the writer, or by the decision if no mutation was
    /// requested.
    pub reason: String,
}

/// Arguments of [`ReviewReport::build_report`].
pub(crate) struct ReviewReportInputs<'a> {
    pub(crate) rule_scope: &'a WorkflowKey,
    pub(crate) batch: &'a ReviewBatch,
    pub(crate) decided: &'a [DecidedRemark],
    pub(crate) applied: &'a AppliedBatch,
    pub(crate) before: &'a [Memory],
    pub(crate) after: &'a [Memory],
    pub(crate) policy: Policy,
    pub(crate) pipeline: Option<PipelineHashes>,
    pub(crate) reading: Option<ReviewReading>,
    pub(crate) as_of: Timestamp,
    pub(crate) embedder: &'a str,
    pub(crate) closed_at: Timestamp,
}

impl ReviewReport {
    pub(crate) fn build_report(inputs: ReviewReportInputs<'_>) -> Self {
        let reported = |decided: &DecidedRemark| {
            let read = inputs.batch.remarks.iter().find(|read| read.remark.key == decided.remark)?;
            Some(report_remark(read, decided, inputs.applied))
        };
        Self {
            id: inputs.batch.id,
            tenant: inputs.rule_scope.tenant.clone(),
            workflow: inputs.rule_scope.workflow.clone(),
            review: inputs.batch.review.clone(),
            as_of: inputs.as_of,
            remarks: inputs.decided.iter().filter_map(reported).collect(),
            mutations: inputs.applied.outcomes.clone(),
            changes: inputs.applied.changes.clone(),
            before: list_memories(inputs.before),
            after: list_memories(inputs.after),
            policy_hash: inputs.policy.content_hash(),
            policy: inputs.policy,
            pipeline: inputs.pipeline,
            reading: inputs.reading,
            embedder: inputs.embedder.to_owned(),
            closed_at: inputs.closed_at,
        }
    }
}

fn report_remark(read: &ReadRemark, decided: &DecidedRemark, applied: &AppliedBatch) -> ReportedRemark {
    let ReadRemark { remark, reading, support, screening } = read;
    let belongs = |outcome: &&MutationOutcome| Some(outcome.mutation) == decided.mutation;
    let outcome = applied.outcomes.iter().find(belongs);
    let reason = outcome.map_or(&decided.reason, |outcome| &outcome.reason);
    ReportedRemark {
        remark: remark.key.clone(),
        by: remark.by.clone(),
        standing: remark.standing(),
        excerpt: build_excerpt(remark),
        url: remark.url.clone(),
        kind: reading.kind,
        features: reading.features.clone(),
        support: *support,
        requested_on: decided.requested_on.clone(),
        screening: screening.clone(),
        certainty: decided.certainty,
        title: reading.rule.as_ref().map(|rule| rule.title.clone()),
        model: reading.model.clone(),
        changes: outcome.map(|outcome| outcome.changes.clone()).unwrap_or_default(),
        reason: match remark.truncated {
            true => format!("{reason}; only the beginning of this long remark was read"),
            false => reason.clone(),
        },
    }
}

fn build_excerpt(remark: &Remark) -> String {
    let line = remark.body.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT_CHARS_MAX) {
        None => line,
        Some(_) => line.chars().take(EXCERPT_CHARS_MAX - 1).chain(['…']).collect(),
    }
}
