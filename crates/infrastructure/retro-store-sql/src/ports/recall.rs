//! Loads memories for agents, and records presentations and reads.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use retro_core::audience::RunRepository;
use retro_core::id::{MemoryId, MemoryRef, Repository, RunId, Step, Tenant, WorkflowKey};
use retro_core::memory::{Memory, MemoryScope};
use retro_core::recall::RecallCandidate;
use retro_fault::Label;
use retro_store::{CANDIDATES_MAX, MemoryRefStore, Presentation, RecallStore, Result};

use super::dialect::{
    Connection, OnTable, Store, any_of, bind_rows, list_parameter, lookup_join, now_ms, rows_table,
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

    async fn record_presentations(&self, presentations: &[Presentation]) -> Result<()> {
        if presentations.iter().all(|one| one.memories.is_empty() && one.assignments.is_empty()) {
            return Ok(());
        }
        let mut transaction = self.begin_write().await?;
        // Presenting a memory to the same run again must not count twice.
        let first_time = store_presentations(&mut transaction, presentations).await?;
        count_presentations(&mut transaction, &first_time).await?;
        store_assignments(&mut transaction, presentations).await?;
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

    async fn was_handed(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<bool> {
        const HANDED: &str = "
            SELECT 1 FROM presentations
            WHERE tenant = $1 AND workflow = $2 AND run_id = $3 AND memory = $4";
        let row: Option<i32> = sqlx::query_scalar(HANDED)
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

/// Stores presentations and returns how many runs each memory was presented to for the first time, sorted by tenant and
/// memory. Skips ids that are neither memories of the workflow nor repository rules.
///
/// Each statement writes its rows in the order of their key, so concurrent calls cannot deadlock.
async fn store_presentations(
    connection: &mut Connection,
    presentations: &[Presentation],
) -> Result<Vec<((String, String), i64)>> {
    const PRESENT: &str = concat!(
        "INSERT INTO presentations (tenant, workflow, run_id, memory, presented_ms)
         SELECT handed.tenant, handed.workflow, handed.run_id, handed.memory, ",
        now_ms!(),
        " FROM ",
        rows_table!("handed", "$1" "tenant", "$2" "workflow", "$3" "run_id", "$4" "memory"),
        lookup_join!(
            "memories",
            "id",
            "memories.tenant = handed.tenant AND memories.id = handed.memory
                AND (memories.workflow = handed.workflow OR memories.scope_kind = 'repository')"
        ),
        " ORDER BY handed.place
         ON CONFLICT (tenant, workflow, run_id, memory) DO UPDATE SET presented_ms = excluded.presented_ms
         WHERE presentations.presented_ms IS NULL
         RETURNING tenant, memory"
    );
    // A set, because a statement may touch a row once only, and because it is sorted.
    let handed: BTreeSet<(&str, &str, &str, String)> = presentations
        .iter()
        .flat_map(|one| {
            let (tenant, workflow, run) =
                (one.key.tenant.as_str(), one.key.workflow.as_str(), one.run.as_str());
            one.memories.iter().map(move |memory| (tenant, workflow, run, memory.to_string()))
        })
        .collect();
    if handed.is_empty() {
        return Ok(Vec::new());
    }
    let query = bind_rows!(sqlx::query_as(PRESENT), handed, |(tenant, workflow, run, memory)| [
        *tenant,
        *workflow,
        *run,
        memory.as_str(),
    ]);
    let rows: Vec<(String, String)> = query.fetch_all(connection).await.on_table("presentations")?;
    let mut counts: BTreeMap<(String, String), i64> = BTreeMap::new();
    rows.into_iter().for_each(|row| *counts.entry(row).or_default() += 1);
    Ok(counts.into_iter().collect())
}

async fn count_presentations(connection: &mut Connection, counts: &[((String, String), i64)]) -> Result<()> {
    const COUNT: &str = concat!(
        "INSERT INTO memory_presentation_counts (tenant, memory, presentations)
         SELECT tenant, memory, presentations FROM ",
        rows_table!("new", "$1" "tenant", "$2" "memory", "$3" "presentations"),
        " WHERE true ORDER BY place
         ON CONFLICT (tenant, memory)
         DO UPDATE SET presentations = memory_presentation_counts.presentations + excluded.presentations"
    );
    if counts.is_empty() {
        return Ok(());
    }
    let query = bind_rows!(sqlx::query(COUNT), counts, |((tenant, memory), count)| [
        tenant.as_str(),
        memory.as_str(),
        *count,
    ]);
    let done = query.execute(connection).await.on_table("memory_presentation_counts")?;
    at("memory_presentation_counts", "all").check_rows_affected(done.rows_affected(), counts.len())
}

/// Stores decisions by chance, in the order of their key like the presentations. A decision that the run already has
/// stays, even if the policy has changed since.
async fn store_assignments(connection: &mut Connection, presentations: &[Presentation]) -> Result<()> {
    const ASSIGN: &str = concat!(
        "INSERT INTO memory_assignments (tenant, workflow, run_id, memory, withheld, permille, assigned_ms)
         SELECT decided.tenant, decided.workflow, decided.run_id, decided.memory, decided.withheld,
            decided.permille, ",
        now_ms!(),
        " FROM ",
        rows_table!(
            "decided", "$1" "tenant", "$2" "workflow", "$3" "run_id", "$4" "memory", "$5" "withheld",
            "$6" "permille"
        ),
        lookup_join!(
            "memories",
            "id",
            "memories.tenant = decided.tenant AND memories.id = decided.memory
                AND memories.workflow = decided.workflow"
        ),
        " ORDER BY decided.place
         ON CONFLICT (tenant, workflow, run_id, memory) DO NOTHING"
    );
    let decided: BTreeMap<(&str, &str, &str, String), (bool, i64)> = presentations
        .iter()
        .flat_map(|one| {
            let (tenant, workflow, run) =
                (one.key.tenant.as_str(), one.key.workflow.as_str(), one.run.as_str());
            one.assignments.iter().map(move |assigned| {
                let decision = (assigned.withheld, i64::from(assigned.permille));
                ((tenant, workflow, run, assigned.memory.to_string()), decision)
            })
        })
        // The first decision of a run stays.
        .rev()
        .collect();
    if decided.is_empty() {
        return Ok(());
    }
    let query = bind_rows!(sqlx::query(ASSIGN), decided, |(
        (tenant, workflow, run, memory),
        (withheld, permille),
    )| [
        *tenant,
        *workflow,
        *run,
        memory.as_str(),
        *withheld,
        *permille,
    ]);
    query.execute(connection).await.on_table("memory_assignments")?;
    Ok(())
}
