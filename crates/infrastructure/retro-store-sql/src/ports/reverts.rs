//! Stores reverts and applies them to the facts of pull requests, whichever of the two becomes known first.

use std::collections::BTreeSet;

use jiff::Timestamp;
use retro_core::id::Tenant;
use retro_core::pull_request::{PullRequestFacts, PullRequestRef};
use retro_store::Result;
use retro_store::track::{Revert, RevertedChange};

use super::dialect::{Connection, OnTable, any_of, list_parameter};
use super::pull_request_facts::merge_facts;
use crate::rows::track::pull_request_from_row;
use crate::{at, to_i64};

/// Stores the reverts of one event and applies them to the pull requests that they are known to belong to. Returns
/// those whose outcome changed.
pub(crate) async fn record_reverts(
    connection: &mut Connection,
    tenant: &Tenant,
    reverts: &[Revert],
) -> Result<BTreeSet<PullRequestRef>> {
    let mut changed = BTreeSet::new();
    for revert in reverts {
        // The time of a reverted commit is stored in milliseconds: the facts must not depend on which road it took.
        let reverted_at =
            Timestamp::from_millisecond(revert.at.as_millisecond()).expect("it came from a time");
        let reverted = match &revert.change {
            RevertedChange::PullRequest(number) => vec![PullRequestRef::new(&revert.repo, *number)],
            RevertedChange::Commit(commit) => {
                store_reverted_commit(connection, tenant, revert, commit).await?;
                list_pull_requests_of_commit(connection, tenant, &revert.repo, commit).await?
            }
        };
        for pull_request in reverted {
            let facts = PullRequestFacts { reverted_at: Some(reverted_at), ..PullRequestFacts::default() };
            if merge_facts(connection, tenant, &pull_request, &facts).await? {
                changed.insert(pull_request);
            }
        }
    }
    Ok(changed)
}

/// Applies the known reverts of commits to the pull request that has these commits. Returns `true` if its outcome
/// changed.
pub(crate) async fn apply_reverts_of_commits(
    connection: &mut Connection,
    tenant: &Tenant,
    pull_request: &PullRequestRef,
    commits: &[String],
) -> Result<bool> {
    const FIRST: &str = concat!(
        "SELECT min(reverted_ms) FROM reverted_commits WHERE tenant = $1 AND repo = $2 AND commit_id",
        any_of!("$3")
    );
    let commits: Vec<&str> = commits.iter().map(String::as_str).collect();
    let first: Option<i64> = sqlx::query_scalar(FIRST)
        .bind(tenant.as_str())
        .bind(&pull_request.repo)
        .bind(list_parameter(&commits))
        .fetch_one(&mut *connection)
        .await
        .on_table("reverted_commits")?;
    let Some(first) = first else { return Ok(false) };
    let reverted_at = at("reverted_commits.reverted_ms", pull_request).parse_millis(first)?;
    let facts = PullRequestFacts { reverted_at: Some(reverted_at), ..PullRequestFacts::default() };
    merge_facts(connection, tenant, pull_request, &facts).await
}

async fn store_reverted_commit(
    connection: &mut Connection,
    tenant: &Tenant,
    revert: &Revert,
    commit: &str,
) -> Result<()> {
    const STORE: &str = "
        INSERT INTO reverted_commits (tenant, repo, commit_id, reverted_ms) VALUES ($1, $2, $3, $4)
        ON CONFLICT (tenant, repo, commit_id) DO UPDATE SET reverted_ms = excluded.reverted_ms
        WHERE excluded.reverted_ms < reverted_commits.reverted_ms";
    sqlx::query(STORE)
        .bind(tenant.as_str())
        .bind(&revert.repo)
        .bind(commit)
        .bind(Timestamp::as_millisecond(revert.at))
        .execute(connection)
        .await
        .on_table("reverted_commits")
        .map(|_| ())
}

/// Maximum number of pull requests that one reverted commit is looked up for: a commit may be the head of several, but
/// only one of them brought it to the default branch.
const PULL_REQUESTS_MAX: usize = 32;

async fn list_pull_requests_of_commit(
    connection: &mut Connection,
    tenant: &Tenant,
    repo: &str,
    commit: &str,
) -> Result<Vec<PullRequestRef>> {
    const OF: &str = "
        SELECT repo, number FROM pull_request_commits
        WHERE tenant = $1 AND commit_id = $2 AND repo = $3 ORDER BY number LIMIT $4";
    let rows: Vec<(String, i64)> = sqlx::query_as(OF)
        .bind(tenant.as_str())
        .bind(commit)
        .bind(repo)
        .bind(to_i64(PULL_REQUESTS_MAX as u64))
        .fetch_all(connection)
        .await
        .on_table("pull_request_commits")?;
    rows.into_iter().map(|(repo, number)| pull_request_from_row(repo, number)).collect()
}
