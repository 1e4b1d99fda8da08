//! What people say about pull requests, as rows.

use retro_core::keep::Seen;
use retro_core::review::{OtherRequest, PullRequestRef, Remark, Repository};
use retro_store::Result;
use retro_store::review::{Collected, Heard, PullRequestKey, Taken};

use crate::at;

/// The reviewer's name in the inbox.
pub const CONSUMER: &str = "reviewer";

/// What an event is that was taken before, by what is remembered of it.
pub fn known(heard: &Heard, seen: Seen) -> Taken {
    if seen.is(&heard.content_hash) { Taken::Known } else { Taken::Conflict(seen) }
}

/// Reads a key of `reviews`.
pub fn pull_request_key((tenant, repo, number): &(String, String, i64)) -> Result<PullRequestKey> {
    let place = at("reviews", format!("{tenant}/{repo}#{number}"));
    let pull_request = PullRequestRef {
        repo: Repository::new(repo).map_err(|error| place.damaged(error))?,
        number: place.unsigned(*number)?,
    };
    Ok(PullRequestKey { tenant: place.parse(tenant)?, pull_request })
}

/// Puts together what is known: the row of `reviews` (revision, rounds, author), the remarks, the resolved threads.
pub fn collected(
    key: &PullRequestKey,
    (revision, rounds, author): (i64, i64, Option<String>),
    remarks: &[(String, i64)],
    resolved: &[String],
    others: &[(String, String)],
) -> Result<Collected> {
    let place = || at("reviews", format!("{}/{}", key.tenant, key.pull_request));
    let remark = |(remark, thumbs_up): &(String, i64)| {
        Ok((place().json::<Remark>(remark)?, place().unsigned(*thumbs_up)?))
    };
    let remarks = remarks.iter().map(remark).collect::<Result<Vec<_>>>()?;
    let resolved = resolved.iter().map(|id| place().parse(id)).collect::<Result<Vec<u64>>>()?;
    let other = |(remark, title): &(String, String)| {
        let remark: Remark = place().json(remark)?;
        Ok(OtherRequest { standing: remark.standing(), remark: remark.key, title: title.clone() })
    };
    let others = others.iter().map(other).collect::<Result<Vec<_>>>()?;
    Ok(Collected {
        revision: place().unsigned(revision)?,
        rounds: place().unsigned(rounds)?,
        author,
        remarks,
        resolved,
        others,
    })
}
