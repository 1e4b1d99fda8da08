//! From what lies in the database to what a decision is taken upon.

use std::collections::{BTreeMap, BTreeSet};

use retro_core::id::{ReviewBatchId, Tenant};
use retro_core::review::{
    PullRequestRef, ReadRemark, Remark, RemarkKind, ReviewBatch, ReviewKey, ReviewState, Screening, Support,
    is_acknowledgement,
};
use retro_store::Collected;

use crate::Reader;

/// Reads and screens every remark that says something, with what speaks for it.
pub(crate) async fn gather(
    tenant: &Tenant,
    pull_request: &PullRequestRef,
    collected: Collected,
    reader: &dyn Reader,
) -> ReviewBatch {
    let known = Known::of(&collected);
    let review = ReviewKey { pull_request: pull_request.clone(), review: None };
    let id = ReviewBatchId::of(tenant, &review, collected.rounds + 1);
    let mut remarks = Vec::with_capacity(collected.remarks.len());
    for (mut remark, thumbs_up) in collected.remarks {
        known.complete(&mut remark);
        // A review without words only says how its comments are meant.
        if remark.body.trim().is_empty() && !remark.deleted {
            continue;
        }
        let reading = reader.read(&remark).await;
        let screening = screened(&remark, reading.rule.as_ref().map(|rule| rule.title.as_str()));
        let support = known.support(&remark, thumbs_up);
        remarks.push(ReadRemark { remark, reading, support, screening });
    }
    ReviewBatch { id, tenant: tenant.clone(), review, remarks, others: collected.others }
}

/// What screening says of a remark's text, of the sentence that its reader made of it, and of the file that it stands at: whoever
/// opens a pull request names its files, and the name stands behind the rule.
fn screened(remark: &Remark, title: Option<&str>) -> Screening {
    let written = [Some(remark.body.as_str()), title, remark.path.as_deref()];
    let mut hostile: Vec<String> = written.into_iter().flatten().flat_map(reasons).collect();
    hostile.dedup();
    let not_a_rule = title.and_then(|title| retro_screen::instruction_about_code(title).err());
    Screening { hostile, not_a_rule: not_a_rule.map(|problem| problem.to_string()) }
}

fn reasons(text: &str) -> Vec<String> {
    match retro_screen::screen(text) {
        retro_screen::Screening::Clean => Vec::new(),
        retro_screen::Screening::Hostile { reasons } => {
            reasons.iter().map(|reason| reason.says().to_owned()).collect()
        }
    }
}

/// What remarks say about each other.
struct Known {
    author: Option<String>,
    verdicts: BTreeMap<u64, ReviewState>,
    resolved: BTreeSet<u64>,
    /// Comments on lines that the author of the pull request answered with "done", by the first one of their thread.
    acknowledged: BTreeSet<u64>,
}

impl Known {
    fn of(collected: &Collected) -> Self {
        let verdicts = collected.remarks.iter().filter_map(|(one, _)| {
            (one.key.kind == RemarkKind::ReviewBody).then_some((one.key.id, one.verdict?))
        });
        let done = |one: &&(Remark, u64)| {
            let by_author = collected.author.as_ref().is_some_and(|author| *author == one.0.by);
            by_author && !one.0.deleted && is_acknowledgement(&one.0.body)
        };
        let acknowledged = collected.remarks.iter().filter(done).filter_map(|(one, _)| one.reply_to);
        Self {
            author: collected.author.clone(),
            verdicts: verdicts.collect(),
            resolved: collected.resolved.iter().copied().collect(),
            acknowledged: acknowledged.collect(),
        }
    }

    /// Fills in what its own event did not tell.
    fn complete(&self, remark: &mut Remark) {
        remark.by_author = self.author.as_ref().is_some_and(|author| *author == remark.by);
        if remark.verdict.is_none() {
            remark.verdict = remark.review.and_then(|review| self.verdicts.get(&review).copied());
        }
    }

    fn support(&self, remark: &Remark, thumbs_up: u64) -> Support {
        // Answers and resolving concern the comment that began the thread.
        let first = remark.key.kind == RemarkKind::LineComment && remark.reply_to.is_none();
        Support {
            resolved: first && self.resolved.contains(&remark.key.id),
            acknowledged: first && self.acknowledged.contains(&remark.key.id),
            thumbs_up,
        }
    }
}
