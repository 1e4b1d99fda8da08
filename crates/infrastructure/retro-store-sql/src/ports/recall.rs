//! Loads memories for agents, and records presentations and reads.

use async_trait::async_trait;
use retro_core::audience::RunRepository;
use retro_core::id::{MemoryId, MemoryRef, Repository, RunId, Step, Tenant, WorkflowKey};
use retro_core::memory::{Memory, MemoryScope};
use retro_core::recall::RecallCandidate;
use retro_fault::Label;
use retro_store::{AppliedPresentations, CANDIDATES_MAX, MemoryRefStore, Presentation, RecallStore, Result};

use super::dialect::{OnTable, Store, any_of, list_parameter, now_ms};
use super::open::commit;
use super::pending_presentations;
use super::repositories::complete_visibility;
use crate::rows::memory::{CANDIDATE_SEPARATOR, parse_candidates, parse_memory};
use crate::{at, to_i64};

/// Selects the active memories of the tenant `$1` that meet a condition, with the number of their presentations, as the one
/// text that [`parse_candidates`] reads.
///
/// One row for all of them, because SQLite's driver hands over each row from one thread to another.
macro_rules! candidates {
    (separated by $separator:literal, $($condition:expr),+) => {
        concat!(
            "SELECT string_agg(
                memories.id || ' ' || coalesce(counts.presentations, 0) || ' ' || memories.memory, ", $separator, ")
             FROM memories
             LEFT JOIN memory_presentation_counts AS counts
                ON counts.tenant = memories.tenant AND counts.memory = memories.id
             WHERE memories.tenant = $1 AND memories.status = 'active' AND ",
            $($condition),+
        )
    };
}

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
        const LOAD: &str = candidates!(
            separated by "$6",
            "memories.workflow = $2 AND memories.step = $3 AND memories.weight >= $4 AND memories.scope_key ",
            any_of!("$5")
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
        let rows: Option<String> = sqlx::query_scalar(LOAD)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(step.as_str())
            .bind(i64::from(weight_min))
            .bind(list_parameter(&scopes))
            .bind(CANDIDATE_SEPARATOR.to_string())
            .fetch_one(self.reader())
            .await
            .on_table("memories")?;
        parse_candidates(rows.as_deref())
    }

    async fn load_rule_candidates(
        &self,
        tenant: &Tenant,
        repo: &Repository,
        weight_min: u16,
    ) -> Result<Vec<RecallCandidate>> {
        const LOAD: &str = candidates!(
            separated by "$4",
            "memories.workflow = $2 AND memories.scope_kind = 'repository' AND memories.weight >= $3"
        );
        let rows: Option<String> = sqlx::query_scalar(LOAD)
            .bind(tenant.as_str())
            .bind(repo.rule_scope(tenant).workflow.as_str())
            .bind(i64::from(weight_min))
            .bind(CANDIDATE_SEPARATOR.to_string())
            .fetch_one(self.reader())
            .await
            .on_table("memories")?;
        parse_candidates(rows.as_deref())
    }

    async fn read_ahead(&self) {
        Store::read_ahead(self).await;
    }

    async fn record_presentations(&self, presentations: &[Presentation]) -> Result<()> {
        let mut transaction = self.begin_write().await?;
        pending_presentations::append(&mut transaction, presentations).await?;
        commit(transaction, Label::PresentedCommit).await
    }

    async fn apply_presentations(&self, limit: u32) -> Result<AppliedPresentations> {
        let waiting = pending_presentations::count_at_most(&mut *self.begin_snapshot().await?).await?;
        if waiting == 0 {
            return Ok(AppliedPresentations::default());
        }
        let applied = pending_presentations::apply(self, limit).await?;
        Ok(AppliedPresentations { applied, waiting_max: waiting.saturating_sub(applied) })
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
        self.is_of_run(PRESENTED, key, run, memory).await
    }

    async fn was_handed(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<bool> {
        const HANDED: &str = "
            SELECT 1 FROM presentations
            WHERE tenant = $1 AND workflow = $2 AND run_id = $3 AND memory = $4";
        self.is_of_run(HANDED, key, run, memory).await
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

impl Store {
    /// Returns `true` if a statement finds a row of a run and a memory, or if the memory was presented to the run and that
    /// is not applied yet.
    async fn is_of_run(
        &self,
        find: &'static str,
        key: &WorkflowKey,
        run: &RunId,
        memory: MemoryId,
    ) -> Result<bool> {
        // Of one snapshot, or a row that is applied meanwhile would be in neither.
        let mut snapshot = self.begin_snapshot().await?;
        let row: Option<i32> = sqlx::query_scalar(find)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(run.as_str())
            .bind(memory.to_string())
            .fetch_optional(&mut *snapshot)
            .await
            .on_table("presentations")?;
        Ok(row.is_some() || pending_presentations::was_presented(&mut snapshot, key, run, memory).await?)
    }
}
