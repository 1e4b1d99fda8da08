//! Builds the batch of remarks that a decision is based on, from the stored remarks of a pull request.

use std::collections::{BTreeMap, BTreeSet};

use retro_core::id::{RemarkKind, ReviewBatchId, ReviewKey, ReviewedPullRequest, Tenant};
use retro_core::remark::{Remark, ReviewState};
use retro_core::review::{
    OtherRequest, ReadRemark, RemarkReading, RemarkSupport, ReviewBatch, Screening, is_acknowledgement,
};
use retro_store::PullRequestReviews;

/// Remarks of a pull request that have text, completed by what other remarks and events say, with the evidence for each.
pub(crate) struct CompletedRemarks {
    /// The remarks, in the order of their keys.
    pub(crate) remarks: Vec<Remark>,
    support: Vec<RemarkSupport>,
    rounds: u64,
    other_requests: Vec<OtherRequest>,
}

impl CompletedRemarks {
    pub(crate) fn from_collected(collected: PullRequestReviews) -> Self {
        let known = ReviewContext::from_collected(&collected);
        let (rounds, other_requests) = (collected.rounds, collected.other_requests);
        let (mut remarks, mut support) = (Vec::new(), Vec::new());
        for (mut remark, thumbs_up) in collected.remarks {
            known.complete_remark(&mut remark);
            // A review without a text only determines the state of its comments.
            if remark.body.trim().is_empty() && !remark.deleted {
                continue;
            }
            support.push(known.support_for(&remark, thumbs_up));
            remarks.push(remark);
        }
        Self { remarks, support, rounds, other_requests }
    }

    /// Screens every remark, and builds the batch that a decision is based on. There is one reading for each remark.
    pub(crate) fn into_review_batch(
        self,
        tenant: &Tenant,
        pull_request: &ReviewedPullRequest,
        readings: Vec<RemarkReading>,
    ) -> ReviewBatch {
        let review = ReviewKey { pull_request: pull_request.clone(), review: None };
        let id = ReviewBatchId::of_review(tenant, &review, self.rounds + 1);
        let read = self.remarks.into_iter().zip(self.support).zip(readings);
        let screened = read.map(|((remark, support), reading)| {
            let screening = screen_remark(&remark, reading.rule.as_ref().map(|rule| rule.title.as_str()));
            ReadRemark { remark, reading, support, screening }
        });
        let remarks = screened.collect();
        ReviewBatch { id, tenant: tenant.clone(), review, remarks, others: self.other_requests }
    }
}

/// Screens the text of a remark, the title that the reader derived from it, and the path of its file. The path is
/// screened because it is shown with the rule, and the author of a pull request chooses the names of the files.
fn screen_remark(remark: &Remark, title: Option<&str>) -> Screening {
    let written = [Some(remark.body.as_str()), title, remark.path.as_deref()];
    let mut hostile: Vec<String> = written.into_iter().flatten().flat_map(screening_reasons).collect();
    hostile.dedup();
    let not_a_rule = title.and_then(|title| retro_gate::validate_rule_title(title).err());
    Screening { hostile, not_a_rule: not_a_rule.map(|problem| problem.to_string()) }
}

fn screening_reasons(text: &str) -> Vec<String> {
    match retro_gate::screen_text(text) {
        retro_gate::Screening::Clean => Vec::new(),
        retro_gate::Screening::Hostile { reasons } => {
            reasons.iter().map(|reason| reason.description().to_owned()).collect()
        }
    }
}

/// Facts about the remarks of a pull request that come from other remarks and events.
struct ReviewContext {
    author: Option<String>,
    review_states: BTreeMap<u64, ReviewState>,
    resolved: BTreeSet<u64>,
    /// Ids of the line comments that the author of the pull request answered with "done" or a similar phrase. A
    /// thread has the id of its first comment.
    acknowledged: BTreeSet<u64>,
}

impl ReviewContext {
    fn from_collected(collected: &PullRequestReviews) -> Self {
        let verdicts = collected.remarks.iter().filter_map(|(one, _)| {
            (one.key.kind == RemarkKind::ReviewBody).then_some((one.key.id, one.review_state?))
        });
        let done = |one: &&(Remark, u64)| {
            let by_author = collected.author.as_ref().is_some_and(|author| *author == one.0.by);
            by_author && !one.0.deleted && is_acknowledgement(&one.0.body)
        };
        let acknowledged = collected.remarks.iter().filter(done).filter_map(|(one, _)| one.reply_to);
        Self {
            author: collected.author.clone(),
            review_states: verdicts.collect(),
            resolved: collected.resolved_threads.iter().copied().collect(),
            acknowledged: acknowledged.collect(),
        }
    }

    /// Completes a remark with facts that its own event did not contain: whether its author opened the pull
    /// request, and the state of its review.
    fn complete_remark(&self, remark: &mut Remark) {
        remark.by_author = self.author.as_ref().is_some_and(|author| *author == remark.by);
        if remark.review_state.is_none() {
            remark.review_state = remark.review.and_then(|review| self.review_states.get(&review).copied());
        }
    }

    fn support_for(&self, remark: &Remark, thumbs_up: u64) -> RemarkSupport {
        // Acknowledgements and resolutions apply to the first comment of a thread.
        let first = remark.key.kind == RemarkKind::LineComment && remark.reply_to.is_none();
        RemarkSupport {
            resolved: first && self.resolved.contains(&remark.key.id),
            acknowledged: first && self.acknowledged.contains(&remark.key.id),
            thumbs_up,
        }
    }
}
