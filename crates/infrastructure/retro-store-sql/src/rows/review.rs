//! Converts rows of review events and remarks.

use retro_core::id::{Repository, ReviewedPullRequest};
use retro_core::remark::Remark;
use retro_core::retention::SeenContent;
use retro_core::review::OtherRequest;
use retro_store::Result;
use retro_store::review::{PullRequestKey, PullRequestReviews, ReviewEvent, ReviewEventResult};

use crate::at;

/// Consumer name of the reviewer in the inbox.
pub(crate) const CONSUMER: &str = "reviewer";

/// Classifies an event whose identity was seen before: the same content is a duplicate, different content a
/// conflict.
pub(crate) fn classify_repeated_event(review_event: &ReviewEvent, seen: SeenContent) -> ReviewEventResult {
    if seen.matches_hash(&review_event.content_hash) {
        ReviewEventResult::Duplicate
    } else {
        ReviewEventResult::Conflict(seen)
    }
}

/// Converts a row of `reviews` to the key of the pull request.
pub(crate) fn pull_request_key_from_row(
    (tenant, repo, number): &(String, String, i64),
) -> Result<PullRequestKey> {
    let place = at("reviews", format!("{tenant}/{repo}#{number}"));
    let pull_request = ReviewedPullRequest {
        repo: Repository::new(repo).map_err(|error| place.damaged_error(error))?,
        number: place.parse_unsigned(*number)?,
    };
    Ok(PullRequestKey { tenant: place.parse(tenant)?, pull_request })
}

/// Builds the reviews of a pull request from its row of `reviews` (revision, rounds, author), its remarks,
/// its resolved threads, and the requests on other pull requests.
pub(crate) fn collected_from_rows(
    key: &PullRequestKey,
    (revision, rounds, author): (i64, i64, Option<String>),
    remarks: &[(String, i64)],
    resolved: &[String],
    others: &[(String, String)],
) -> Result<PullRequestReviews> {
    let place = || at("reviews", format!("{}/{}", key.tenant, key.pull_request));
    let remark = |(remark, thumbs_up): &(String, i64)| {
        Ok((place().parse_json::<Remark>(remark)?, place().parse_unsigned(*thumbs_up)?))
    };
    let remarks = remarks.iter().map(remark).collect::<Result<Vec<_>>>()?;
    let resolved = resolved.iter().map(|id| place().parse(id)).collect::<Result<Vec<u64>>>()?;
    let other = |(remark, title): &(String, String)| {
        let remark: Remark = place().parse_json(remark)?;
        let standing = remark.standing();
        Ok(OtherRequest { standing, remark: remark.key, title: title.clone(), added_rule: None })
    };
    let others = others.iter().map(other).collect::<Result<Vec<_>>>()?;
    Ok(PullRequestReviews {
        revision: place().parse_unsigned(revision)?,
        rounds: place().parse_unsigned(rounds)?,
        author,
        remarks,
        resolved_threads: resolved,
        other_requests: others,
    })
}
