//! Lists the investigations of a retrospective.

use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::report::InvestigationTiming;
use retro_core::retrospective::Investigation;
use retro_store::{InvestigationAttempts, Result};

use super::dialect::{Connection, OnTable};
use crate::rows::investigate::{AttemptsRow, InvestigationRecord, attempts_from_row};

/// Lists the investigations of a retrospective, ended or not, in order, each with its timing so far.
pub(crate) async fn list_investigations(
    connection: &mut Connection,
    tenant: &Tenant,
    id: RetrospectiveId,
) -> Result<Vec<(Investigation, InvestigationTiming)>> {
    const LOAD: &str = "
        SELECT one.retrospective, one.number, ordinal, run_id, replacement, result, attempts, claimed_ms, ended_ms,
            cost_usd, coalesce(paid.calls, 0) AS model_calls, coalesce(paid.unpriced, 0) AS unpriced_calls,
            coalesce(paid.input, 0) AS input_tokens, coalesce(paid.cached, 0) AS cached_tokens,
            coalesce(paid.output, 0) AS output_tokens
        FROM investigations AS one
        LEFT JOIN (
            SELECT number, count(*) AS calls, count(*) - count(cost_micro_usd) AS unpriced,
                CAST(sum(input_tokens) AS BIGINT) AS input, CAST(sum(cached_tokens) AS BIGINT) AS cached,
                CAST(sum(output_tokens) AS BIGINT) AS output
            FROM model_calls WHERE tenant = $1 AND retrospective = $2 GROUP BY number
        ) AS paid ON paid.number = one.number
        WHERE one.tenant = $1 AND one.retrospective = $2 ORDER BY one.number";
    let rows: Vec<InvestigationRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_all(connection)
        .await
        .on_table("investigations")?;
    rows.iter().map(InvestigationRecord::to_investigation).collect()
}

/// Lists the attempts at the investigations of a retrospective, in the order of the investigations.
pub(crate) async fn list_attempts(
    connection: &mut Connection,
    tenant: &Tenant,
    id: RetrospectiveId,
) -> Result<Vec<InvestigationAttempts>> {
    const LOAD: &str = "
        SELECT number, attempts, worker, lease_ms, last_error FROM investigations
        WHERE tenant = $1 AND retrospective = $2 ORDER BY number";
    let rows: Vec<AttemptsRow> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_all(connection)
        .await
        .on_table("investigations")?;
    rows.into_iter().map(|row| attempts_from_row(id, row)).collect()
}

/// Lists the ended investigations of a retrospective in order.
pub(crate) async fn list_ended(
    connection: &mut Connection,
    tenant: &Tenant,
    id: RetrospectiveId,
) -> Result<Vec<(Investigation, InvestigationTiming)>> {
    let mut all = list_investigations(connection, tenant, id).await?;
    all.retain(|(one, _)| one.result.is_some());
    Ok(all)
}
