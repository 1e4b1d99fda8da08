//! Reads and writes memories, changes and tombstones.

use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_store::Result;
use retro_store_sql::memory::{cause_columns, changes_to_append, parse_memory, parse_tombstone};
use retro_store_sql::{at, format_policy_time, to_json};
use sqlx::PgConnection;

use crate::convert::{OnTable, storable_text};
use crate::count::map_column;

/// Lists the living memories of a workflow, and its memories in `named` in any status, sorted by id.
pub(crate) async fn list_living_and_named(
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
        .bind(map_column(named, MemoryId::to_string))
        .fetch_all(connection)
        .await
        .on_table("memories")?;
    rows.iter().map(|(id, memory)| parse_memory(id, memory)).collect()
}

/// Lists the repository rules among `named`, in any status, sorted by id.
pub(crate) async fn list_named_rules(
    connection: &mut PgConnection,
    tenant: &Tenant,
    named: &[MemoryId],
) -> Result<Vec<Memory>> {
    const LOAD: &str = "
        SELECT id, memory FROM memories
        WHERE tenant = $1 AND id = ANY($2::text[]) AND scope_kind = 'repository' ORDER BY id";
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(map_column(named, MemoryId::to_string))
        .fetch_all(connection)
        .await
        .on_table("memories")?;
    rows.iter().map(|(id, memory)| parse_memory(id, memory)).collect()
}

/// Appends changes to the change log in order. Fails on a duplicate id, because the change would apply to its
/// memory twice.
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
    let changes = &*changes_to_append(changes);
    if changes.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(APPEND)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(map_column(changes, |change| change.id.to_string()))
        .bind(map_column(changes, |change| change.memory.to_string()))
        .bind(map_column(changes, |change| change.effect.kind()))
        .bind(map_column(changes, |change| cause_columns(&change.cause).0))
        .bind(map_column(changes, |change| storable_text(&cause_columns(&change.cause).1).into_owned()))
        .bind(map_column(changes, |change| change.retrospective.map(|id| id.to_string())))
        .bind(map_column(changes, to_json))
        .execute(connection)
        .await
        .on_table("changes")?;
    at("changes", key).check_rows_affected(done.rows_affected(), changes.len())
}

/// Inserts or updates memories. Fails if a memory with the same id belongs to another workflow.
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
        .bind(map_column(memories, |memory| memory.id.to_string()))
        .bind(map_column(memories, |memory| memory.scope.kind()))
        .bind(map_column(memories, |memory| memory.scope.storage_key()))
        .bind(map_column(memories, |memory| memory.scope.step().map(|step| step.as_str())))
        .bind(map_column(memories, |memory| memory.status.as_str()))
        .bind(map_column(memories, |memory| i64::from(memory.weight.get())))
        .bind(map_column(memories, to_json))
        .bind(map_column(memories, |memory| format_policy_time(memory.changed_at)))
        .execute(connection)
        .await
        .on_table("memories")?;
    // The upsert skips a memory of another workflow. Without this check its changes would be lost silently.
    at("memories", key).check_rows_affected(done.rows_affected(), memories.len())
}

/// Inserts tombstones. Fails if a memory already has one.
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
        .bind(map_column(tombstones, |stone| stone.memory.to_string()))
        .bind(map_column(tombstones, |stone| format_policy_time(stone.until)))
        .bind(map_column(tombstones, to_json))
        .execute(connection)
        .await
        .on_table("tombstones")?;
    at("tombstones", key).check_rows_affected(done.rows_affected(), tombstones.len())
}

/// Deletes the tombstones of expired memories.
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
        .bind(map_column(expired, MemoryId::to_string))
        .execute(connection)
        .await
        .on_table("tombstones")?;
    at("tombstones", key).check_rows_affected(done.rows_affected(), expired.len())
}

/// Lists the tombstones of a workflow, including expired ones, sorted by memory id.
pub(crate) async fn list_tombstones(
    connection: &mut PgConnection,
    key: &WorkflowKey,
) -> Result<Vec<Tombstone>> {
    const LOAD: &str =
        "SELECT memory, tombstone FROM tombstones WHERE tenant = $1 AND workflow = $2 ORDER BY memory";
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .fetch_all(connection)
        .await
        .on_table("tombstones")?;
    rows.iter().map(|(memory, tombstone)| parse_tombstone(memory, tombstone)).collect()
}
