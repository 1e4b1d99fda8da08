//! Stores the facts about pull requests, which only grow.

use retro_core::id::Tenant;
use retro_core::pull_request::{PullRequestFacts, PullRequestRef};
use retro_store::Result;

use super::dialect::{Connection, OnTable};
use crate::rows::track::parse_pull_request_facts;
use crate::{to_i64, to_json};

/// Merges new facts into the stored facts of a pull request. Returns `true` if its outcomes
/// changed.
pub(crate) async fn merge_facts(
    connection: &mut Connection,
    tenant: &Tenant,
    pull_request: &PullRequestRef,
    new_facts: &PullRequestFacts,
) -> Result<bool> {
    const STORE: &str = "
        INSERT INTO pull_requests (tenant, repo, number, ended, facts) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (tenant, repo, number) DO UPDATE SET ended = excluded.ended, facts = excluded.facts";
    let known = find_pull_request_facts(connection, tenant, pull_request).await?.unwrap_or_default();
    let before = known.outcomes();
    let known = known.merge_facts(new_facts);
    sqlx::query(STORE)
        .bind(tenant.as_str())
        .bind(&pull_request.repo)
        .bind(to_i64(pull_request.number))
        .bind(!known.outcomes().is_empty())
        .bind(to_json(&known))
        .execute(connection)
        .await
        .on_table("pull_requests")?;
    Ok(known.outcomes() != before)
}

/// Finds the facts of a pull request. Returns `None` if no event about it has arrived.
pub(crate) async fn find_pull_request_facts(
    connection: &mut Connection,
    tenant: &Tenant,
    pull_request: &PullRequestRef,
) -> Result<Option<PullRequestFacts>> {
    const LOAD: &str = "SELECT facts FROM pull_requests WHERE tenant = $1 AND repo = $2 AND number = $3";
    let stored: Option<String> = sqlx::query_scalar(LOAD)
        .bind(tenant.as_str())
        .bind(&pull_request.repo)
        .bind(to_i64(pull_request.number))
        .fetch_optional(connection)
        .await
        .on_table("pull_requests")?;
    stored.map(|stored| parse_pull_request_facts(pull_request, &stored)).transpose()
}
