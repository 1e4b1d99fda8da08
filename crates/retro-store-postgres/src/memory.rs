//! Rows of `memories`, `changes` and `tombstones`.

use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_store::Result;
use retro_store_sql::memory::{cause, once, read_memory, read_tombstone};
use retro_store_sql::{at, json, policy_time};
use sqlx::PgConnection;

use crate::answer::{OnTable, shown};
use crate::count::column;

/// The living memories of a workflow and those of its memories that are named, whatever their status; by id.
pub(crate) async fn living_and_named(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    named: &[MemoryId],
) -> Result<Vec<Memory>> {
    const LOAD: &str = "
        SELECT id, memory FROM memories
        WHERE tenant = $1 AND workflow = $2 AND status IN ('tentative', 'active', 'archived')
        UNION ALL
        SELECT id, memory FROM memories
        WHERE tenant = $1 AND workflow = $2 AND id = ANY($3::text[])
            AND status NOT IN ('tentative', 'active', 'archived')
        ORDER BY id";
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(column(named, MemoryId::to_string))
        .fetch_all(connection)
        .await
        .on("memories")?;
    rows.iter().map(|(id, memory)| read_memory(id, memory)).collect()
}

/// Those of the memories named that are rules of repositories, whatever their status.
pub(crate) async fn rules_named(
    connection: &mut PgConnection,
    tenant: &Tenant,
    named: &[MemoryId],
) -> Result<Vec<Memory>> {
    const LOAD: &str = "
        SELECT id, memory FROM memories
        WHERE tenant = $1 AND id = ANY($2::text[]) AND scope_kind = 'repository' ORDER BY id";
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(column(named, MemoryId::to_string))
        .fetch_all(connection)
        .await
        .on("memories")?;
    rows.iter().map(|(id, memory)| read_memory(id, memory)).collect()
}

/// Appends changes, in their order. Fails on one that has happened before: it would stand twice in its memory.
pub(crate) async fn append_changes(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    changes: &[Change],
) -> Result<()> {
    const APPEND: &str = "
        INSERT INTO changes (tenant, id, workflow, memory, kind, cause, cause_id, retrospective, change)
        SELECT $1, id, $2, memory, kind, cause, cause_id, retrospective, change
        FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])
            WITH ORDINALITY AS new (id, memory, kind, cause, cause_id, retrospective, change, place)
        ORDER BY place";
    let changes = &*once(changes);
    if changes.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(APPEND)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(column(changes, |change| change.id.to_string()))
        .bind(column(changes, |change| change.memory.to_string()))
        .bind(column(changes, |change| change.effect.kind()))
        .bind(column(changes, |change| cause(&change.cause).0))
        .bind(column(changes, |change| shown(&cause(&change.cause).1).into_owned()))
        .bind(column(changes, |change| change.retrospective.map(|id| id.to_string())))
        .bind(column(changes, json))
        .execute(connection)
        .await
        .on("changes")?;
    at("changes", key).touched(done.rows_affected(), changes.len())
}

/// Stores memories as they are now. One of another workflow under the same id is left alone, and an error.
pub(crate) async fn store_memories(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    memories: &[Memory],
) -> Result<()> {
    const STORE: &str = "
        INSERT INTO memories (tenant, id, workflow, scope_kind, scope_key, step, status, weight, memory,
            changed_at)
        SELECT $1, id, $2, kind, key, step, status, weight, memory, changed_at
        FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::text[],
            $10::text[]) AS new (id, kind, key, step, status, weight, memory, changed_at)
        ON CONFLICT (tenant, id) DO UPDATE SET scope_kind = excluded.scope_kind,
            scope_key = excluded.scope_key, step = excluded.step, status = excluded.status,
            weight = excluded.weight, memory = excluded.memory,
            changed_at = excluded.changed_at
        WHERE memories.workflow = excluded.workflow";
    if memories.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(column(memories, |memory| memory.id.to_string()))
        .bind(column(memories, |memory| memory.scope.kind()))
        .bind(column(memories, |memory| memory.scope.key()))
        .bind(column(memories, |memory| memory.scope.step().map(|step| step.as_str())))
        .bind(column(memories, |memory| memory.status.as_str()))
        .bind(column(memories, |memory| i64::from(memory.weight.get())))
        .bind(column(memories, json))
        .bind(column(memories, |memory| policy_time(memory.changed_at)))
        .execute(connection)
        .await
        .on("memories")?;
    at("memories", key).touched(done.rows_affected(), memories.len())
}

/// Stores new tombstones.
pub(crate) async fn store_tombstones(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    tombstones: &[Tombstone],
) -> Result<()> {
    const STORE: &str = "
        INSERT INTO tombstones (tenant, memory, workflow, until, tombstone)
        SELECT $1, memory, $2, until, tombstone
        FROM unnest($3::text[], $4::text[], $5::text[]) AS new (memory, until, tombstone)";
    if tombstones.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(column(tombstones, |stone| stone.memory.to_string()))
        .bind(column(tombstones, |stone| policy_time(stone.until)))
        .bind(column(tombstones, json))
        .execute(connection)
        .await
        .on("tombstones")?;
    at("tombstones", key).touched(done.rows_affected(), tombstones.len())
}

/// Purges the tombstones of these memories.
pub(crate) async fn purge_tombstones(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    expired: &[MemoryId],
) -> Result<()> {
    const PURGE: &str =
        "DELETE FROM tombstones WHERE tenant = $1 AND workflow = $2 AND memory = ANY($3::text[])";
    if expired.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(PURGE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(column(expired, MemoryId::to_string))
        .execute(connection)
        .await
        .on("tombstones")?;
    at("tombstones", key).touched(done.rows_affected(), expired.len())
}

/// The tombstones of a workflow, by memory; expired ones included.
pub(crate) async fn tombstones(connection: &mut PgConnection, key: &WorkflowKey) -> Result<Vec<Tombstone>> {
    const LOAD: &str =
        "SELECT memory, tombstone FROM tombstones WHERE tenant = $1 AND workflow = $2 ORDER BY memory";
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .fetch_all(connection)
        .await
        .on("tombstones")?;
    rows.iter().map(|(memory, tombstone)| read_tombstone(memory, tombstone)).collect()
}
