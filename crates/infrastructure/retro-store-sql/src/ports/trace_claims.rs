//! Ends claims of collected traces.

use retro_store::{Result, TraceClaim};

use super::dialect::{Connection, OnTable, for_update, now_ms};
use super::trace_usage::change_usage;
use crate::{at, to_i64};

/// Returns the number and the size of the spans of a trace; `None` if the claim was lost.
pub(crate) async fn find_claimed(
    connection: &mut Connection,
    claim: &TraceClaim,
) -> Result<Option<(i64, i64)>> {
    // Locked, because a claim locks no row of `trace_usage`.
    const FIND: &str = concat!(
        "SELECT spans, bytes FROM collected_traces
         WHERE tenant = $1 AND trace_id = $2 AND attempt = $3 AND closed_ms IS NULL",
        for_update!()
    );
    sqlx::query_as(FIND)
        .bind(claim.tenant.as_str())
        .bind(&claim.trace_id)
        .bind(i64::from(claim.attempt))
        .fetch_optional(connection)
        .await
        .on_table("collected_traces")
}

/// Runs a statement on a claimed trace. Its parameters are the tenant, the trace, the attempt and a number.
async fn write_claimed(
    connection: &mut Connection,
    statement: &'static str,
    claim: &TraceClaim,
    number: u64,
) -> Result<()> {
    let written = sqlx::query(statement)
        .bind(claim.tenant.as_str())
        .bind(&claim.trace_id)
        .bind(i64::from(claim.attempt))
        .bind(to_i64(number))
        .execute(connection)
        .await
        .on_table("collected_traces")?;
    at("collected_traces", &claim.trace_id).check_rows_affected(written.rows_affected(), 1)
}

/// Ends a claim: the trace is decided about again in this many milliseconds.
pub(crate) async fn retry_later(
    connection: &mut Connection,
    claim: &TraceClaim,
    after_ms: u64,
) -> Result<()> {
    const RETRY: &str = concat!(
        "UPDATE collected_traces SET lease_ms = NULL, due_ms = ",
        now_ms!(),
        " + $4 WHERE tenant = $1 AND trace_id = $2 AND attempt = $3"
    );
    write_claimed(connection, RETRY, claim, after_ms).await
}

/// Ends a claim: the trace is decided about again when no span has come for this many milliseconds.
pub(crate) async fn wait_for_quiet(
    connection: &mut Connection,
    claim: &TraceClaim,
    quiet_ms: u64,
) -> Result<()> {
    const WAIT: &str = "UPDATE collected_traces SET lease_ms = NULL, due_ms = last_ms + $4
         WHERE tenant = $1 AND trace_id = $2 AND attempt = $3";
    write_claimed(connection, WAIT, claim, quiet_ms).await
}

/// Ends a claim without a decision: whoever added spans has said when the trace is due.
pub(crate) async fn release(connection: &mut Connection, claim: &TraceClaim) -> Result<()> {
    const RELEASE: &str = "UPDATE collected_traces SET lease_ms = NULL
         WHERE tenant = $1 AND trace_id = $2 AND attempt = $3 AND spans <> $4";
    write_claimed(connection, RELEASE, claim, claim.spans).await
}

/// Deletes the spans of a trace, of this size, and keeps its id.
pub(crate) async fn close(connection: &mut Connection, claim: &TraceClaim, bytes: i64) -> Result<()> {
    const CLOSE: &str = concat!(
        "UPDATE collected_traces SET bytes = 0, lease_ms = NULL, due_ms = NULL, closed_ms = ",
        now_ms!(),
        " WHERE tenant = $1 AND trace_id = $2 AND attempt = $3 AND spans = $4"
    );
    write_claimed(connection, CLOSE, claim, claim.spans).await?;
    delete_spans(connection, claim).await?;
    change_usage(connection, &claim.tenant, -1, -bytes).await
}

/// Deletes a trace whose spans have this size.
pub(crate) async fn delete(connection: &mut Connection, claim: &TraceClaim, bytes: i64) -> Result<()> {
    const DELETE: &str =
        "DELETE FROM collected_traces WHERE tenant = $1 AND trace_id = $2 AND attempt = $3 AND spans = $4";
    write_claimed(connection, DELETE, claim, claim.spans).await?;
    delete_spans(connection, claim).await?;
    change_usage(connection, &claim.tenant, -1, -bytes).await
}

async fn delete_spans(connection: &mut Connection, claim: &TraceClaim) -> Result<()> {
    const DELETE: &str = "DELETE FROM trace_spans WHERE tenant = $1 AND trace_id = $2";
    sqlx::query(DELETE)
        .bind(claim.tenant.as_str())
        .bind(&claim.trace_id)
        .execute(connection)
        .await
        .on_table("trace_spans")?;
    Ok(())
}
