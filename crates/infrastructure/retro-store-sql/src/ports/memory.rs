//! Reads and writes memories, changes and tombstones.

use std::collections::HashSet;

use retro_core::id::{ChangeId, MemoryId, Tenant, WorkflowKey};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_core::pipeline::PipelineHash;
use retro_store::Result;

use super::dialect::{
    Connection, OnTable, any_of, bind_rows, by_index, list_parameter, rows_table, storable_text,
};
use crate::rows::memory::{cause_columns, changes_to_append, parse_change, parse_memory, parse_tombstone};
use crate::{at, format_policy_time, to_json};

/// SQL condition for the memories that are held until a person decides, exactly as in the index `memories_held`.
///
/// The field is matched as text, because Postgres cannot take apart JSON that contains an escaped NUL, not even
/// for an index. The pattern relies on compact JSON, and cannot match inside a JSON string, where quotes are
/// escaped.
macro_rules! is_held {
    () => {
        "status IN ('tentative', 'active', 'archived') AND memory LIKE '%\"quarantine\":\"%'"
    };
}

pub(crate) use is_held;

/// Lists the living memories of a workflow, and its memories in `named` in any status, sorted by id.
pub(crate) async fn list_living_and_named(
    connection: &mut Connection,
    key: &WorkflowKey,
    named: &[MemoryId],
) -> Result<Vec<Memory>> {
    const LOAD: &str = concat!(
        "SELECT id, memory FROM memories",
        by_index!("memories_by_workflow"),
        " WHERE tenant = $1 AND workflow = $2 AND status IN ('tentative', 'active', 'archived')
          UNION ALL
          SELECT id, memory FROM memories
          WHERE tenant = $1 AND workflow = $2 AND id",
        any_of!("$3"),
        " AND status NOT IN ('tentative', 'active', 'archived') ORDER BY id"
    );
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(list_parameter(named))
        .fetch_all(connection)
        .await
        .on_table("memories")?;
    rows.iter().map(|(id, memory)| parse_memory(id, memory)).collect()
}

/// Lists the repository rules among `named`, in any status, sorted by id.
pub(crate) async fn list_named_rules(
    connection: &mut Connection,
    tenant: &Tenant,
    named: &[MemoryId],
) -> Result<Vec<Memory>> {
    const LOAD: &str = concat!(
        "SELECT id, memory FROM memories WHERE tenant = $1 AND id",
        any_of!("$2"),
        " AND scope_kind = 'repository' ORDER BY id"
    );
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(list_parameter(named))
        .fetch_all(connection)
        .await
        .on_table("memories")?;
    rows.iter().map(|(id, memory)| parse_memory(id, memory)).collect()
}

/// Returns the ids of a workflow's changes with one of the given causes, and the memories that they changed.
pub(crate) async fn find_changes_caused_by(
    connection: &mut Connection,
    key: &WorkflowKey,
    causes: &[(&'static str, String)],
) -> Result<(HashSet<ChangeId>, Vec<MemoryId>)> {
    const CAUSED: &str = concat!(
        "SELECT id, memory FROM changes WHERE tenant = $1 AND workflow = $2
             AND (cause, cause_id) IN (SELECT cause, cause_id FROM ",
        rows_table!("possible", "$3" "cause", "$4" "cause_id"),
        ")"
    );
    let query = sqlx::query_as(CAUSED).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = bind_rows!(query, causes, |cause| [cause.0, cause.1.as_str()]);
    let rows: Vec<(String, String)> = query.fetch_all(connection).await.on_table("changes")?;
    let ids = rows.iter().map(|(id, _)| at("changes.id", key).parse(id)).collect::<Result<_>>()?;
    let memories =
        rows.iter().map(|(_, memory)| at("changes.memory", key).parse(memory)).collect::<Result<_>>()?;
    Ok((ids, memories))
}

/// Lists the changes of a memory, oldest first.
pub(crate) async fn list_changes(
    connection: &mut Connection,
    tenant: &Tenant,
    memory: MemoryId,
) -> Result<Vec<Change>> {
    const LOAD: &str = "SELECT id, change FROM changes WHERE tenant = $1 AND memory = $2 ORDER BY sequence";
    let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(memory.to_string())
        .fetch_all(connection)
        .await
        .on_table("changes")?;
    rows.iter().map(|(id, change)| parse_change(id, change)).collect()
}

/// Appends changes to the change log in order. Fails on a duplicate id, because the change would apply to its
/// memory twice.
pub(crate) async fn append_changes(
    connection: &mut Connection,
    key: &WorkflowKey,
    changes: &[Change],
) -> Result<()> {
    const APPEND: &str = concat!(
        "INSERT INTO changes (tenant, id, workflow, memory, kind, cause, cause_id, retrospective, review_pipeline,
             change)
         SELECT $1, id, $2, memory, kind, cause, cause_id, retrospective, review_pipeline, change FROM ",
        rows_table!(
            "new", "$3" "id", "$4" "memory", "$5" "kind", "$6" "cause", "$7" "cause_id",
            "$8" "retrospective", "$9" "review_pipeline", "$10" "change"
        ),
        " ORDER BY place"
    );
    let changes = &*changes_to_append(changes);
    if changes.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(APPEND).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = bind_rows!(query, changes, |change| [
        change.id.to_string(),
        change.memory.to_string(),
        change.effect.kind(),
        cause_columns(&change.cause).0,
        storable_text(&cause_columns(&change.cause).1).to_string(),
        change.retrospective.map(|id| id.to_string()),
        // Versions of the other pipeline are found by their retrospectives.
        change.pipeline.as_ref().filter(|_| change.retrospective.is_none()).map(PipelineHash::to_string),
        to_json(change),
    ]);
    let done = query.execute(connection).await.on_table("changes")?;
    at("changes", key).check_rows_affected(done.rows_affected(), changes.len())
}

/// Inserts or updates memories. Fails if a memory with the same id belongs to another workflow.
pub(crate) async fn store_memories(
    connection: &mut Connection,
    key: &WorkflowKey,
    memories: &[Memory],
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO memories
             (tenant, id, workflow, scope_kind, scope_key, step, status, weight, memory, changed_at)
         SELECT $1, id, $2, scope_kind, scope_key, step, status, weight, memory, changed_at FROM ",
        rows_table!(
            "new", "$3" "id", "$4" "scope_kind", "$5" "scope_key", "$6" "step", "$7" "status",
            "$8" "weight", "$9" "memory", "$10" "changed_at"
        ),
        " WHERE true ON CONFLICT (tenant, id) DO UPDATE SET scope_kind = excluded.scope_kind,
              scope_key = excluded.scope_key, step = excluded.step, status = excluded.status,
              weight = excluded.weight, memory = excluded.memory, changed_at = excluded.changed_at
          WHERE memories.workflow = excluded.workflow"
    );
    if memories.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(STORE).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = bind_rows!(query, memories, |memory| [
        memory.id.to_string(),
        memory.scope.kind(),
        memory.scope.storage_key(),
        memory.scope.step().map(|step| step.as_str()),
        memory.status.as_str(),
        i64::from(memory.weight.get()),
        to_json(memory),
        format_policy_time(memory.changed_at),
    ]);
    let done = query.execute(connection).await.on_table("memories")?;
    // The upsert skips a memory of another workflow. Without this check its changes would be lost silently.
    at("memories", key).check_rows_affected(done.rows_affected(), memories.len())
}

/// Inserts tombstones. Fails if a memory already has one.
pub(crate) async fn store_tombstones(
    connection: &mut Connection,
    key: &WorkflowKey,
    tombstones: &[Tombstone],
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO tombstones (tenant, memory, workflow, until, tombstone)
         SELECT $1, memory, $2, until, tombstone FROM ",
        rows_table!("new", "$3" "memory", "$4" "until", "$5" "tombstone")
    );
    if tombstones.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(STORE).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = bind_rows!(query, tombstones, |stone| [
        stone.memory.to_string(),
        format_policy_time(stone.until),
        to_json(stone),
    ]);
    let done = query.execute(connection).await.on_table("tombstones")?;
    at("tombstones", key).check_rows_affected(done.rows_affected(), tombstones.len())
}

/// Deletes tombstones: expired ones, or one that a person lifts. Fails if one of them is missing.
pub(crate) async fn delete_tombstones(
    connection: &mut Connection,
    key: &WorkflowKey,
    ended: &[MemoryId],
) -> Result<()> {
    const PURGE: &str =
        concat!("DELETE FROM tombstones WHERE tenant = $1 AND workflow = $2 AND memory", any_of!("$3"));
    if ended.is_empty() {
        return Ok(());
    }
    let done = sqlx::query(PURGE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(list_parameter(ended))
        .execute(connection)
        .await
        .on_table("tombstones")?;
    at("tombstones", key).check_rows_affected(done.rows_affected(), ended.len())
}

/// Lists the tombstones of a workflow, including expired ones, sorted by memory id.
pub(crate) async fn list_tombstones(
    connection: &mut Connection,
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
