//! Looks at one run in full, and counts the runs that met a memory.

use async_trait::async_trait;
use retro_core::id::{MemoryId, RunId, Tenant, Workflow, WorkflowKey};
use retro_store::{
    InspectStore, MemoryUsage, RUN_MEMORIES_MAX, RUN_WORKFLOWS_MAX, Result, RunDetail, RunMemory,
};

use super::dialect::{Connection, OnTable, Store, any_of, list_parameter, lookup_join, of_workflow};
use super::{checks, inspect_retrospectives, outcome, pending_presentations};
use crate::rows::inspect::{
    RunDetailRecord, RunMemoryRows, attach_memories, collect_run_memories, usage_in_order,
};
use crate::{at, to_i64};

#[async_trait]
impl InspectStore for Store {
    async fn find_run_workflows(
        &self,
        tenant: &Tenant,
        run: &RunId,
        workflow: Option<&Workflow>,
    ) -> Result<Vec<Workflow>> {
        // The key of `runs` begins with the workflow, so the run is looked up in each workflow of the tenant.
        const FIND: &str = concat!(
            "SELECT workflows.workflow FROM workflows",
            lookup_join!(
                "runs",
                "number",
                "runs.tenant = workflows.tenant AND runs.workflow = workflows.workflow AND runs.run_id = $2"
            ),
            " WHERE workflows.tenant = $1 AND ",
            of_workflow!("workflows.workflow", "$3"),
            " ORDER BY workflows.workflow LIMIT $4"
        );
        let rows: Vec<String> = sqlx::query_scalar(FIND)
            .bind(tenant.as_str())
            .bind(run.as_str())
            .bind(workflow.map(Workflow::as_str))
            .bind(i64::from(RUN_WORKFLOWS_MAX))
            .fetch_all(self.reader())
            .await
            .on_table("runs")?;
        rows.iter().map(|workflow| at("runs.workflow", workflow).parse(workflow)).collect()
    }

    async fn load_run_detail(&self, key: &WorkflowKey, run: &RunId) -> Result<Option<RunDetail>> {
        const LOAD: &str = "
            SELECT runs.ordinal, runs.attempt, runs.received_ms, run_facts.facts, run_facts.body,
                run_bodies.trajectory
            FROM runs LEFT JOIN run_facts USING (tenant, workflow, number)
            LEFT JOIN run_bodies USING (tenant, workflow, number)
            WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.run_id = $3";
        let mut snapshot = self.begin_snapshot().await?;
        let row: Option<RunDetailRecord> = sqlx::query_as(LOAD)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(run.as_str())
            .fetch_optional(&mut *snapshot)
            .await
            .on_table("runs")?;
        let Some(row) = row else { return Ok(None) };
        let mut detail = row.into_run_detail(key, run)?;
        detail.memories = load_run_memories(&mut snapshot, &detail).await?;
        detail.retrospectives =
            inspect_retrospectives::list_of_run(&mut snapshot, key, run, detail.ordinal).await?;
        detail.pull_requests = outcome::list_outcomes_of(&mut snapshot, key, run.as_str()).await?;
        let versions = outcome::list_commit_prompt_versions(&mut snapshot, key, &[run.as_str()]).await?;
        detail.commit_prompt_versions = versions.into_iter().map(|(_, version)| version).collect();
        let named = (run.as_str(), detail.pull_requests.as_slice());
        let mut checks = checks::list_checks_of(&mut snapshot, key, [named]).await?;
        detail.checks = checks.remove(run.as_str()).unwrap_or_default();
        Ok(Some(detail))
    }

    async fn count_memory_usage(&self, tenant: &Tenant, memories: &[MemoryId]) -> Result<Vec<MemoryUsage>> {
        const PRESENTED: &str = concat!(
            "SELECT memory, presentations FROM memory_presentation_counts WHERE tenant = $1 AND memory",
            any_of!("$2")
        );
        const READ: &str = concat!(
            "SELECT memory, count(*) FROM presentations
             WHERE tenant = $1 AND read_ms IS NOT NULL AND memory",
            any_of!("$2"),
            " GROUP BY memory"
        );
        const APPLIED: &str = concat!(
            "SELECT memory, count(*) FROM run_memory_applications WHERE tenant = $1 AND memory",
            any_of!("$2"),
            " GROUP BY memory"
        );
        if memories.is_empty() {
            return Ok(Vec::new());
        }
        let mut snapshot = self.begin_snapshot().await?;
        let mut counts = Vec::with_capacity(3);
        for (sql, table) in [
            (PRESENTED, "memory_presentation_counts"),
            (READ, "presentations"),
            (APPLIED, "run_memory_applications"),
        ] {
            let rows: Vec<(String, i64)> = sqlx::query_as(sql)
                .bind(tenant.as_str())
                .bind(list_parameter(memories))
                .fetch_all(&mut *snapshot)
                .await
                .on_table(table)?;
            counts.push(rows);
        }
        usage_in_order(memories, &counts[0], &counts[1], &counts[2])
    }
}

async fn load_run_memories(connection: &mut Connection, detail: &RunDetail) -> Result<Vec<RunMemory>> {
    const PRESENTATIONS: &str = "
        SELECT memory, presented_ms, read_ms FROM presentations
        WHERE tenant = $1 AND workflow = $2 AND run_id = $3 ORDER BY memory LIMIT $4";
    const ASSIGNMENTS: &str = "
        SELECT memory, withheld FROM memory_assignments
        WHERE tenant = $1 AND workflow = $2 AND run_id = $3 ORDER BY memory LIMIT $4";
    const APPLICATIONS: &str = "
        SELECT memory, retrospective FROM run_memory_applications
        WHERE tenant = $1 AND workflow = $2 AND run_id = $3 ORDER BY memory LIMIT $4";
    const MEMORIES: &str = concat!("SELECT id, memory FROM memories WHERE tenant = $1 AND id", any_of!("$2"));
    let (tenant, workflow) = (detail.key.tenant.as_str(), detail.key.workflow.as_str());
    let limit = to_i64(RUN_MEMORIES_MAX as u64);
    macro_rules! rows_of_run {
        ($sql:expr, $table:literal) => {
            sqlx::query_as($sql)
                .bind(tenant)
                .bind(workflow)
                .bind(detail.run.as_str())
                .bind(limit)
                .fetch_all(&mut *connection)
                .await
                .on_table($table)?
        };
    }
    let rows = RunMemoryRows {
        presentations: rows_of_run!(PRESENTATIONS, "presentations"),
        pending: pending_presentations::list_of_run(&mut *connection, &detail.key, &detail.run).await?,
        assignments: rows_of_run!(ASSIGNMENTS, "memory_assignments"),
        applications: rows_of_run!(APPLICATIONS, "run_memory_applications"),
    };
    let name = format!("{}/{}", detail.key, detail.run);
    let mut all = collect_run_memories(&name, &rows, detail.facts.as_ref().map(|(facts, _)| facts))?;
    let ids: Vec<MemoryId> = all.iter().map(|one| one.id).collect();
    let known: Vec<(String, String)> = sqlx::query_as(MEMORIES)
        .bind(tenant)
        .bind(list_parameter(&ids))
        .fetch_all(&mut *connection)
        .await
        .on_table("memories")?;
    attach_memories(&mut all, &known)?;
    Ok(all)
}
