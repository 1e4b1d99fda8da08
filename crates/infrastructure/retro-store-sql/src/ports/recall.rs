//! Loads memories for agents, and records presentations and reads.

use async_trait::async_trait;
use retro_core::audience::RunRepository;
use retro_core::id::{MemoryId, MemoryRef, Repository, RunId, Step, Tenant, WorkflowKey};
use retro_core::memory::{Memory, MemoryScope};
use retro_core::recall::{Assignment, RecallCandidate};
use retro_fault::Label;
use retro_store::{CANDIDATES_MAX, MemoryRefStore, RecallStore, Result};

use super::dialect::{
    Connection, OnTable, Store, any_of, bind_rows, by_bytes, list_parameter, now_ms, rows_table,
};
use super::open::commit;
use super::repositories::complete_visibility;
use crate::rows::memory::parse_memory;
use crate::{at, to_i64};

#[async_trait]
impl RecallStore for Store {
    async fn load_candidates(
        &self,
        key: &WorkflowKey,
        step: &Step,
        repository: Option<&RunRepository>,
        weight_min: u16,
    ) -> Result<Vec<RecallCandidate>> {
        // A scope is stored as its key, so the keys that the run may be handed are all that is needed.
        const LOAD: &str = concat!(
            "SELECT memories.id, memories.memory, coalesce(counts.presentations, 0) FROM memories
             LEFT JOIN memory_presentation_counts AS counts
                ON counts.tenant = memories.tenant AND counts.memory = memories.id
             WHERE memories.tenant = $1 AND memories.workflow = $2 AND memories.step = $3
                AND memories.status = 'active' AND memories.weight >= $4 AND memories.scope_key ",
            any_of!("$5"),
            " ORDER BY memories.weight DESC, memories.id"
        );
        let repository = match repository {
            Some(repository) => {
                let mut connection = self.reader().acquire().await.on_table("repository_visibility")?;
                Some(complete_visibility(&mut connection, &key.tenant, repository).await?)
            }
            None => None,
        };
        let scopes = MemoryScope::all_of_run(&key.workflow, step, repository.as_ref());
        let scopes: Vec<String> = scopes.iter().map(MemoryScope::storage_key).collect();
        let rows: Vec<(String, String, i64)> = sqlx::query_as(LOAD)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(step.as_str())
            .bind(i64::from(weight_min))
            .bind(list_parameter(&scopes))
            .fetch_all(self.reader())
            .await
            .on_table("memories")?;
        let candidate = |(id, memory, count): &(String, String, i64)| {
            let presentations = at("memory_presentation_counts.presentations", id).parse_unsigned(*count)?;
            Ok(RecallCandidate { memory: parse_memory(id, memory)?, presentations })
        };
        rows.iter().map(candidate).collect()
    }

    async fn load_rule_candidates(
        &self,
        tenant: &Tenant,
        repo: &Repository,
        weight_min: u16,
    ) -> Result<Vec<RecallCandidate>> {
        const LOAD: &str = "
            SELECT memories.id, memories.memory, coalesce(counts.presentations, 0) FROM memories
            LEFT JOIN memory_presentation_counts AS counts
                ON counts.tenant = memories.tenant AND counts.memory = memories.id
            WHERE memories.tenant = $1 AND memories.workflow = $2 AND memories.scope_kind = 'repository'
                AND memories.status = 'active' AND memories.weight >= $3
            ORDER BY memories.weight DESC, memories.id";
        let rows: Vec<(String, String, i64)> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(repo.rule_scope(tenant).workflow.as_str())
            .bind(i64::from(weight_min))
            .fetch_all(self.reader())
            .await
            .on_table("memories")?;
        let candidate = |(id, memory, count): &(String, String, i64)| {
            let presentations = at("memory_presentation_counts.presentations", id).parse_unsigned(*count)?;
            Ok(RecallCandidate { memory: parse_memory(id, memory)?, presentations })
        };
        rows.iter().map(candidate).collect()
    }

    async fn record_presented(
        &self,
        key: &WorkflowKey,
        run: &RunId,
        memories: &[MemoryId],
        assignments: &[Assignment],
    ) -> Result<()> {
        if memories.is_empty() && assignments.is_empty() {
            return Ok(());
        }
        let mut transaction = self.begin_write().await?;
        // Presenting a memory to the same run again must not count twice.
        let first_time = record_presentations(&mut transaction, key, run, memories).await?;
        count_presentations(&mut transaction, key, &first_time).await?;
        record_assignments(&mut transaction, key, run, assignments).await?;
        commit(transaction, Label::PresentedCommit).await
    }

    async fn record_read(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<()> {
        const READ: &str = concat!(
            "INSERT INTO presentations (tenant, workflow, run_id, memory, read_ms)
             SELECT tenant, $2, $3, id, ",
            now_ms!(),
            " FROM memories WHERE tenant = $1 AND (workflow = $2 OR scope_kind = 'repository') AND id = $4
             ON CONFLICT (tenant, workflow, run_id, memory) DO UPDATE SET read_ms = excluded.read_ms
             WHERE presentations.read_ms IS NULL"
        );
        let mut transaction = self.begin_write().await?;
        sqlx::query(READ)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(run.as_str())
            .bind(memory.to_string())
            .execute(&mut *transaction)
            .await
            .on_table("presentations")?;
        commit(transaction, Label::ReadCommit).await
    }

    async fn was_presented(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<bool> {
        const PRESENTED: &str = "
            SELECT 1 FROM presentations
            WHERE tenant = $1 AND workflow = $2 AND run_id = $3 AND memory = $4 AND presented_ms IS NOT NULL";
        let row: Option<i32> = sqlx::query_scalar(PRESENTED)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(run.as_str())
            .bind(memory.to_string())
            .fetch_optional(self.reader())
            .await
            .on_table("presentations")?;
        Ok(row.is_some())
    }

    async fn find_memory(&self, tenant: &Tenant, id: MemoryId) -> Result<Option<Memory>> {
        const LOAD: &str = "SELECT memory FROM memories WHERE tenant = $1 AND id = $2";
        let row: Option<String> = sqlx::query_scalar(LOAD)
            .bind(tenant.as_str())
            .bind(id.to_string())
            .fetch_optional(self.reader())
            .await
            .on_table("memories")?;
        row.map(|memory| parse_memory(&id.to_string(), &memory)).transpose()
    }
}

#[async_trait]
impl MemoryRefStore for Store {
    async fn find_memory_ids(&self, tenant: &Tenant, name: MemoryRef) -> Result<Vec<MemoryId>> {
        // Scans a range of the primary key: ids are stored in lower case, so they sort like their digits.
        const NAMED: &str =
            "SELECT id FROM memories WHERE tenant = $1 AND id BETWEEN $2 AND $3 ORDER BY id LIMIT $4";
        let (first, last) = name.id_range();
        let rows: Vec<String> = sqlx::query_scalar(NAMED)
            .bind(tenant.as_str())
            .bind(first.to_string())
            .bind(last.to_string())
            .bind(to_i64(CANDIDATES_MAX as u64 + 1))
            .fetch_all(self.reader())
            .await
            .on_table("memories")?;
        rows.iter().map(|id| at("memories.id", id).parse(id)).collect()
    }
}

/// Records decisions by chance, in id order like the presentations. A decision that the run already has stays,
/// even if the policy has changed since.
async fn record_assignments(
    connection: &mut Connection,
    key: &WorkflowKey,
    run: &RunId,
    assignments: &[Assignment],
) -> Result<()> {
    if assignments.is_empty() {
        return Ok(());
    }
    const ASSIGN: &str = concat!(
        "INSERT INTO memory_assignments (tenant, workflow, run_id, memory, withheld, permille, assigned_ms)
         SELECT memories.tenant, $2, $3, memories.id, decided.withheld, decided.permille, ",
        now_ms!(),
        " FROM ",
        rows_table!("decided", "$4" "memory", "$5" "withheld", "$6" "permille"),
        " JOIN memories ON memories.tenant = $1 AND memories.workflow = $2 AND memories.id = decided.memory
         ORDER BY memories.id
         ON CONFLICT (tenant, workflow, run_id, memory) DO NOTHING"
    );
    let query = sqlx::query(ASSIGN).bind(key.tenant.as_str()).bind(key.workflow.as_str()).bind(run.as_str());
    let query =
        bind_rows!(query, assignments, |one| [one.memory.to_string(), one.withheld, i64::from(one.permille)]);
    query.execute(connection).await.on_table("memory_assignments")?;
    Ok(())
}

/// Records presentations and returns the ids of the memories presented to the run for the first time. Skips
/// ids that are neither memories of the workflow nor repository rules.
///
/// Writes rows in id order, here and in [`count_presentations`], so concurrent calls cannot deadlock.
async fn record_presentations(
    connection: &mut Connection,
    key: &WorkflowKey,
    run: &RunId,
    memories: &[MemoryId],
) -> Result<Vec<String>> {
    const PRESENT: &str = concat!(
        "INSERT INTO presentations (tenant, workflow, run_id, memory, presented_ms)
         SELECT tenant, $2, $3, id, ",
        now_ms!(),
        " FROM memories
         WHERE tenant = $1 AND (workflow = $2 OR scope_kind = 'repository') AND id",
        any_of!("$4"),
        " ORDER BY id
         ON CONFLICT (tenant, workflow, run_id, memory) DO UPDATE SET presented_ms = excluded.presented_ms
         WHERE presentations.presented_ms IS NULL
         RETURNING memory"
    );
    sqlx::query_scalar(PRESENT)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(run.as_str())
        .bind(list_parameter(memories))
        .fetch_all(connection)
        .await
        .on_table("presentations")
}

async fn count_presentations(
    connection: &mut Connection,
    key: &WorkflowKey,
    memories: &[String],
) -> Result<()> {
    const COUNT: &str = concat!(
        "INSERT INTO memory_presentation_counts (tenant, memory, presentations)
         SELECT $1, memory, 1 FROM ",
        rows_table!("new", "$2" "memory"),
        " ORDER BY memory",
        by_bytes!(),
        " ON CONFLICT (tenant, memory)
          DO UPDATE SET presentations = memory_presentation_counts.presentations + 1"
    );
    let query = sqlx::query(COUNT).bind(key.tenant.as_str());
    let query = bind_rows!(query, memories, |memory| [memory.as_str()]);
    let done = query.execute(connection).await.on_table("memory_presentation_counts")?;
    at("memory_presentation_counts", key).check_rows_affected(done.rows_affected(), memories.len())
}
