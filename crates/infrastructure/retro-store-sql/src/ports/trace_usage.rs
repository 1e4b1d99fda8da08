//! Counts what the collected traces of each tenant take up, and locks it.

use retro_core::id::Tenant;
use retro_store::Result;

use super::dialect::{Connection, OnTable};
use crate::at;

/// Locks the row of a tenant, and returns the number and the size of its traces.
pub(crate) async fn lock_usage(connection: &mut Connection, tenant: &Tenant) -> Result<(u64, u64)> {
    const LOCK: &str = "INSERT INTO trace_usage (tenant, traces, bytes) VALUES ($1, 0, 0)
         ON CONFLICT (tenant) DO UPDATE SET traces = trace_usage.traces RETURNING traces, bytes";
    let (traces, bytes): (i64, i64) =
        sqlx::query_as(LOCK).bind(tenant.as_str()).fetch_one(connection).await.on_table("trace_usage")?;
    let place = at("trace_usage", tenant);
    Ok((place.parse_unsigned(traces)?, place.parse_unsigned(bytes)?))
}

/// Changes what the traces of a tenant take up by this number of traces and bytes.
pub(crate) async fn change_usage(
    connection: &mut Connection,
    tenant: &Tenant,
    traces: i64,
    bytes: i64,
) -> Result<()> {
    const CHANGE: &str = "UPDATE trace_usage /* reads all: one row a tenant */
         SET traces = traces + $2, bytes = bytes + $3 WHERE tenant = $1";
    let changed = sqlx::query(CHANGE)
        .bind(tenant.as_str())
        .bind(traces)
        .bind(bytes)
        .execute(connection)
        .await
        .on_table("trace_usage")?;
    at("trace_usage", tenant).check_rows_affected(changed.rows_affected(), 1)
}
