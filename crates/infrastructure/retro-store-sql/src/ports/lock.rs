//! Locks workflows by locking their rows, where write transactions run concurrently
//! ([`ROW_LOCKS`](super::dialect::ROW_LOCKS)). Where each excludes all others from its start, does nothing.
//!
//! **The need.** Counters, samplers, investigators, writers and operators work on one workflow from several
//! processes. Concurrent operations must be serialisable.
//!
//! **The design.** A transaction that makes a decision about a workflow locks its row in `workflows` before
//! it reads the facts for the decision. Under READ COMMITTED every later statement has its own snapshot, so
//! it sees what the previous holder of the lock committed. A batch over several workflows locks them in key
//! order. After the workflow, other rows are always locked in the same order (retrospective, investigation,
//! the rest), so transactions cannot deadlock. Heartbeats, journal entries and released claims update one
//! investigation, guarded by its token, and need no other lock.
//!
//! **A workflow without a row** cannot be locked. The transaction inserts a row first, also in key order (`ON
//! CONFLICT DO NOTHING` waits for a concurrent insert). If the batch then stores no run, the row remains with
//! `recorded = 0`: it only serves as a lock, and no query returns it.
//!
//! **What the lock does not cover.** An event id is unique across all workflows of its tenant, so two
//! workflows' batches may store the same event. The primary key of the inbox prevents that, and
//! [`super::count`] rolls back and retries the losing batch.
//!
//! **Rejected: advisory locks.** They need no row, but occupy shared memory: a few thousand of them exhaust
//! it for the whole server ("out of shared memory"), and a batch may contain hundreds of workflows.

use retro_core::id::WorkflowKey;
use retro_store::Result;

use super::dialect::{Connection, OnTable, ROW_LOCKS, bind_rows, by_bytes, for_update, rows_table};

/// Locks the rows of workflows in key order until the transaction ends. First inserts missing rows for the
/// workflows in `make`; workflows in `others` without a row are not locked.
pub(crate) async fn lock_workflows(
    connection: &mut Connection,
    make: &[&WorkflowKey],
    others: &[&WorkflowKey],
) -> Result<()> {
    const MAKE: &str = concat!(
        "INSERT INTO workflows (tenant, workflow, recorded, counted, claimed, epoch, open, failures)
         SELECT tenant, workflow, 0, 0, 0, 0, FALSE, 0
         FROM (SELECT DISTINCT tenant, workflow FROM ",
        rows_table!("requested", "$1" "tenant", "$2" "workflow"),
        ") AS requested
         WHERE NOT EXISTS (SELECT 1 FROM workflows AS known
             WHERE known.tenant = requested.tenant AND known.workflow = requested.workflow)
         ORDER BY tenant",
        by_bytes!(),
        ", workflow",
        by_bytes!(),
        " ON CONFLICT (tenant, workflow) DO NOTHING"
    );
    const LOCK: &str = concat!(
        "SELECT 1 FROM workflows WHERE (tenant, workflow) IN (SELECT tenant, workflow FROM ",
        rows_table!("requested", "$1" "tenant", "$2" "workflow"),
        ") ORDER BY tenant, workflow",
        for_update!()
    );
    if !ROW_LOCKS {
        return Ok(());
    }
    if !make.is_empty() {
        let made = bind_rows!(sqlx::query(MAKE), make, |key| [key.tenant.as_str(), key.workflow.as_str()]);
        made.execute(&mut *connection).await.on_table("workflows")?;
    }
    let all: Vec<&WorkflowKey> = make.iter().chain(others).copied().collect();
    if all.is_empty() {
        return Ok(());
    }
    let locked = bind_rows!(sqlx::query(LOCK), all, |key| [key.tenant.as_str(), key.workflow.as_str()]);
    locked.execute(connection).await.on_table("workflows").map(|_| ())
}

/// Locks the row of one workflow.
pub(crate) async fn lock_workflow(connection: &mut Connection, key: &WorkflowKey) -> Result<()> {
    lock_workflows(connection, &[], &[key]).await
}
