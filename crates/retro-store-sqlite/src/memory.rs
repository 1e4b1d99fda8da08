//! Reads and writes memories, changes and tombstones.

use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_store::Result;
use retro_store_sql::memory::{cause_columns, changes_to_append, parse_memory, parse_tombstone};
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::convert::{self, OnTable, at, format_policy_time};

/// Lists the living memories of a workflow, and its memories in `named` in any status, sorted by id.
pub(crate) async fn list_living_and_named(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    named: &[MemoryId],
) -> Result<Vec<Memory>> {
    // Force the index: without statistics the planner would scan all memories of the tenant by id instead.
    const LOAD: &str = "
        SELECT id, memory FROM memories INDEXED BY memories_by_workflow
        WHERE tenant = ?1 AND workflow = ?2 AND status IN ('tentative', 'active', 'archived')
        UNION ALL
        SELECT id, memory FROM memories
        WHERE tenant = ?1 AND workflow = ?2 AND id IN (SELECT value FROM json_each(?3))
            AND status NOT IN ('tentative', 'active', 'archived')
        ORDER BY id";
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(convert::to_json(&named))
        .fetch_all(connection)
        .await
        .on_table("memories")?;
    rows.iter().map(|(id, memory)| parse_memory(id, memory)).collect()
}

/// Lists the repository rules among `named`, in any status, sorted by id.
pub(crate) async fn list_named_rules(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    named: &[MemoryId],
) -> Result<Vec<Memory>> {
    const LOAD: &str = "
        SELECT id, memory FROM memories
        WHERE tenant = ?1 AND id IN (SELECT value FROM json_each(?2)) AND scope_kind = 'repository' ORDER BY id";
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(convert::to_json(&named))
        .fetch_all(connection)
        .await
        .on_table("memories")?;
    rows.iter().map(|(id, memory)| parse_memory(id, memory)).collect()
}

/// Appends changes to the change log in order. Fails on a duplicate id, because the change would apply to its
/// memory twice.
pub(crate) async fn append_changes(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    changes: &[Change],
) -> Result<()> {
    const APPEND: &str = "
        INSERT INTO changes (tenant, id, workflow, memory, kind, cause, cause_id, retrospective, change)
        SELECT ?1, value ->> 0, ?2, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6
        FROM json_each(?3) WHERE true ORDER BY key";
    let changes = &*changes_to_append(changes);
    if changes.is_empty() {
        return Ok(());
    }
    let row = |change: &Change| {
        let (cause, cause_id) = cause_columns(&change.cause);
        let (kind, text) = (change.effect.kind(), convert::to_json(change));
        json!([change.id, change.memory, kind, cause, cause_id, change.retrospective, text])
    };
    let rows: Value = changes.iter().map(row).collect();
    let done = sqlx::query(APPEND)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(rows.to_string())
        .execute(connection)
        .await
        .on_table("changes")?;
    at("changes", key).check_rows_affected(done.rows_affected(), changes.len())
}

/// Inserts or updates memories. Fails if a memory with the same id belongs to another workflow.
pub(crate) async fn store_memories(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    memories: &[Memory],
) -> Result<()> {
    const STORE: &str = "
        INSERT INTO memories (tenant, id, workflow, scope_kind, scope_key, step, status, weight, memory,
            changed_at)
        SELECT ?1, value ->> 0, ?2, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
            value ->> 7
        FROM json_each(?3) WHERE true
        ON CONFLICT (tenant, id) DO UPDATE SET scope_kind = excluded.scope_kind,
            scope_key = excluded.scope_key, step = excluded.step, status = excluded.status,
            weight = excluded.weight, memory = excluded.memory,
            changed_at = excluded.changed_at
        WHERE memories.workflow = excluded.workflow";
    if memories.is_empty() {
        return Ok(());
    }
    let row = |memory: &Memory| {
        let scope = &memory.scope;
        let (status, weight, text) = (memory.status.as_str(), memory.weight.get(), convert::to_json(memory));
        let changed = format_policy_time(memory.changed_at);
        json!([memory.id, scope.kind(), scope.storage_key(), scope.step(), status, weight, text, changed])
    };
    let rows: Value = memories.iter().map(row).collect();
    let done = sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(rows.to_string())
        .execute(connection)
        .await
        .on_table("memories")?;
    // The upsert skips a memory of another workflow. Without this check its changes would be lost silently.
    at("memories", key).check_rows_affected(done.rows_affected(), memories.len())
}

/// Inserts tombstones. Fails if a memory already has one.
pub(crate) async fn store_tombstones(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    tombstones: &[Tombstone],
) -> Result<()> {
    const STORE: &str = "
        INSERT INTO tombstones (tenant, memory, workflow, until, tombstone)
        SELECT ?1, value ->> 0, ?2, value ->> 1, value ->> 2 FROM json_each(?3)";
    if tombstones.is_empty() {
        return Ok(());
    }
    let row =
        |stone: &Tombstone| json!([stone.memory, format_policy_time(stone.until), convert::to_json(stone)]);
    let rows: Value = tombstones.iter().map(row).collect();
    let done = sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(rows.to_string())
        .execute(connection)
        .await
        .on_table("tombstones")?;
    at("tombstones", key).check_rows_affected(done.rows_affected(), tombstones.len())
}

/// Deletes the tombstones of expired memories.
pub(crate) async fn purge_tombstones(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    expired: &[MemoryId],
) -> Result<()> {
    const PURGE: &str = "
        DELETE FROM tombstones
        WHERE tenant = ?1 AND workflow = ?2 AND memory IN (SELECT value FROM json_each(?3))";
    if expired.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(PURGE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(convert::to_json(&expired))
        .execute(connection)
        .await
        .on_table("tombstones")?;
    at("tombstones", key).check_rows_affected(done.rows_affected(), expired.len())
}

/// Lists the tombstones of a workflow, including expired ones, sorted by memory id.
pub(crate) async fn list_tombstones(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
) -> Result<Vec<Tombstone>> {
    const LOAD: &str =
        "SELECT memory, tombstone FROM tombstones WHERE tenant = ?1 AND workflow = ?2 ORDER BY memory";
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .fetch_all(connection)
        .await
        .on_table("tombstones")?;
    rows.iter().map(|(memory, tombstone)| parse_tombstone(memory, tombstone)).collect()
}
