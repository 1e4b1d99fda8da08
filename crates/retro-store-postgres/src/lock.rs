//! THE lock: the row of a workflow.
//!
//! **The need.** Counters, samplers, investigators, writers and people work on one workflow from several processes, and
//! two of them leave what one after the other would have left.
//!
//! **The design.** Whoever decides anything about a workflow locks its row in `workflows` before reading what the
//! decision rests on. READ COMMITTED gives every later statement a snapshot of its own, so what is read after the lock
//! is what the one before committed. A batch over several workflows locks them in the order of their keys. Below that
//! row the order is always the same, too: retrospective, then investigation, then the rest; so no two transactions wait
//! for each other. Heartbeats, journal rows and the giving back of a claim touch one investigation, guarded by its token,
//! and need no other lock.
//!
//! **A workflow that nobody has seen** has no row to lock. It gets one first (`ON CONFLICT DO NOTHING` waits for
//! another who is about to insert it), in the order of keys as well. If the batch then stores no run of it, the row stays
//! with `recorded = 0`: it is a lock and nothing else, and no question shows it.
//!
//! **What the lock does not cover**: an event's id is unique over all workflows of its tenant. The inbox answers for
//! that by its own key, and [`crate::count`] takes the transaction back when it does.
//!
//! **The idea that failed**: advisory locks would need no row; but they live in shared memory, where a few thousand of
//! them are "out of shared memory" for the whole server, and a batch may name hundreds of workflows.

use retro_core::id::WorkflowKey;
use retro_store::Result;
use sqlx::PgConnection;

use crate::answer::OnTable;

/// Locks the rows of these workflows until the transaction ends, in the order of their keys; those in `make` get a row
/// when they have none.
pub(crate) async fn workflows(
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
        let (tenants, workflows) = columns(make.iter().copied());
        let made = sqlx::query(MAKE).bind(tenants).bind(workflows).execute(&mut *connection).await;
        made.on("workflows")?;
    }
    let (tenants, workflows) = columns(make.iter().chain(others).copied());
    if tenants.is_empty() {
        return Ok(());
    }
    sqlx::query(LOCK).bind(tenants).bind(workflows).execute(connection).await.on("workflows")?;
    Ok(())
}

/// Locks the row of one workflow.
pub(crate) async fn workflow(connection: &mut PgConnection, key: &WorkflowKey) -> Result<()> {
    workflows(connection, &[], &[key]).await
}

fn columns<'a>(keys: impl Iterator<Item = &'a WorkflowKey>) -> (Vec<&'a str>, Vec<&'a str>) {
    keys.map(|key| (key.tenant.as_str(), key.workflow.as_str())).unzip()
}
