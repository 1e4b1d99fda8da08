//! Locks workflows by locking their rows.
//!
//! **The need.** Counters, samplers, investigators, writers and operators work on one workflow from several
//! processes. Two concurrent operations must leave the same state as two consecutive ones.
//!
//! **The design.** A transaction that decides anything about a workflow locks its row in `workflows` before it reads
//! the facts for the decision. Under READ COMMITTED every later statement has its own snapshot, so it sees what the
//! previous holder of the lock committed. A batch over several workflows locks them in the order of their keys. After
//! the workflow, other rows are always locked in the same order (retrospective, investigation, the rest), so
//! transactions cannot deadlock. Heartbeats, journal entries and returned claims touch one investigation, guarded by
//! its token, and need no other lock.
//!
//! **A workflow that has no row** cannot be locked. The transaction inserts a row first, also in key order
//! (`ON CONFLICT DO NOTHING` waits for a concurrent insert). If the batch then stores no run, the row stays with
//! `recorded = 0`: it is only a lock, and no query shows it.
//!
//! **What the lock does not cover**: an event's id is unique across all workflows of its tenant. The inbox's primary
//! key enforces that, and [`crate::count`] rolls the transaction back when it is violated.
//!
//! **Rejected: advisory locks.** They would need no row, but they are kept in shared memory. A few thousand of them
//! cause the error "out of shared memory" for the whole server, and a batch may name hundreds of workflows.

use retro_core::id::WorkflowKey;
use retro_store::Result;
use sqlx::PgConnection;

use crate::convert::OnTable;

/// Locks the rows of these workflows until the transaction ends, in the order of their keys. First inserts the
/// missing rows of the workflows in `make`.
pub(crate) async fn lock_workflows(
    connection: &mut PgConnection,
    make: &[&WorkflowKey],
    others: &[&WorkflowKey],
) -> Result<()> {
    const MAKE: &str = "
        INSERT INTO workflows (tenant, workflow, recorded, counted, claimed, epoch, open, failures)
        SELECT tenant, workflow, 0, 0, 0, 0, FALSE, 0
        FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[]) AS asked (tenant, workflow)) AS asked
        WHERE NOT EXISTS (SELECT FROM workflows AS known
            WHERE known.tenant = asked.tenant AND known.workflow = asked.workflow)
        ORDER BY tenant COLLATE \"C\", workflow COLLATE \"C\" ON CONFLICT (tenant, workflow) DO NOTHING";
    const LOCK: &str = "
        SELECT FROM workflows
        WHERE (tenant, workflow) IN (SELECT * FROM unnest($1::text[], $2::text[]))
        ORDER BY tenant, workflow FOR UPDATE";
    if !make.is_empty() {
        let (tenants, workflows) = key_columns(make.iter().copied());
        let made = sqlx::query(MAKE).bind(tenants).bind(workflows).execute(&mut *connection).await;
        made.on_table("workflows")?;
    }
    let (tenants, workflows) = key_columns(make.iter().chain(others).copied());
    if tenants.is_empty() {
        return Ok(());
    }
    sqlx::query(LOCK).bind(tenants).bind(workflows).execute(connection).await.on_table("workflows")?;
    Ok(())
}

/// Locks the row of one workflow.
pub(crate) async fn lock_workflow(connection: &mut PgConnection, key: &WorkflowKey) -> Result<()> {
    lock_workflows(connection, &[], &[key]).await
}

fn key_columns<'a>(keys: impl Iterator<Item = &'a WorkflowKey>) -> (Vec<&'a str>, Vec<&'a str>) {
    keys.map(|key| (key.tenant.as_str(), key.workflow.as_str())).unzip()
}
