//! Implements the read-only queries for operators.

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures::TryStreamExt as _;
use retro_core::calls::StoredSummary;
use retro_core::effect::AssignedRun;
use retro_core::id::{
    DeadLetterId, MemoryId, Ordinal, RemarkKey, RetrospectiveId, ReviewBatchId, Tenant, Workflow, WorkflowKey,
};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_core::report::Report;
use retro_core::review::ReviewReport;
use retro_store::{
    AuditRow, DatabaseHealth, DeadLetter, DeadLetterFilter, DeadLetterStatus, MemoryFilter, OperatorStore,
    RUNS_SEARCHED_MAX, Result, RetrospectiveDetail, RetrospectiveRow, RunExposure, RunFilter, RunSearch,
    WorkflowRow,
};
use uuid::Uuid;

use super::dialect::{OnTable, Store, any_of, arrival, by_index, list_parameter, lookup_join, of_workflow};
use super::memory::is_held;
use super::{audit, investigations, memory, retrospective, rule_additions, stored_dead_letters, summaries};
use crate::rows::count::WorkflowRecord;
use crate::rows::dead_letter::DeadLetterRecord;
use crate::rows::memory::{parse_change, parse_memory};
use crate::rows::retrospective::RetrospectiveListRecord;
use crate::rows::run::{RunRecord, assigned_run_from_row, run_exposure_from_row};
use crate::{at, parse_workflow_key, to_i64};

#[async_trait]
impl OperatorStore for Store {
    async fn list_tenants(&self) -> Result<Vec<Tenant>> {
        // A dead letter without a tenant belongs to the default tenant, which may have no other rows.
        const TENANTS: &str = "
            SELECT /* reads all: a person lists the tenants */ tenant FROM workflows WHERE recorded > 0
            UNION SELECT tenant FROM memories
            UNION SELECT tenant FROM review_reports
            UNION SELECT coalesce(tenant, $1) FROM dead_letters
            ORDER BY 1";
        let rows: Vec<String> = sqlx::query_scalar(TENANTS)
            .bind(Tenant::default_tenant().as_str())
            .fetch_all(self.reader())
            .await
            .on_table("workflows")?;
        rows.iter().map(|tenant| at("workflows.tenant", tenant).parse(tenant)).collect()
    }

    async fn list_workflows(&self, tenant: &Tenant) -> Result<Vec<WorkflowRow>> {
        const LOAD: &str = "
            SELECT /* reads all: a person lists the workflows */ tenant, workflow, recorded, counted, claimed, epoch, open,
                failures, paused_until, counted_up_to, handled_up_to FROM workflows WHERE tenant = $1 AND recorded > 0 ORDER BY workflow";
        let rows: Vec<WorkflowRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .fetch_all(self.reader())
            .await
            .on_table("workflows")?;
        let row = |record: WorkflowRecord| {
            let (key, state, recorded) = record.into_workflow_state()?;
            Ok(WorkflowRow { key, state, recorded })
        };
        rows.into_iter().map(row).collect()
    }

    async fn search_runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<RunSearch> {
        const LOAD: &str = concat!(
            "SELECT runs.workflow, runs.run_id, runs.ordinal, runs.received_ms, run_facts.facts, run_facts.body
             FROM runs",
            by_index!("runs_by_arrival"),
            " JOIN run_facts USING (tenant, workflow, number)
             WHERE runs.tenant = $1 AND ($2 IS NULL OR runs.workflow = $2) AND ($3 IS NULL OR runs.run_id = $3)
                 AND runs.received_ms >= $5 AND runs.received_ms < $6
             ORDER BY runs.received_ms DESC, runs.workflow, runs.number DESC LIMIT $4"
        );
        let any = filter.properties.is_any();
        let searched_max = if any { filter.limit } else { RUNS_SEARCHED_MAX };
        let mut rows = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(filter.workflow.as_ref().map(Workflow::as_str))
            .bind(filter.run.as_ref().map(|run| run.as_str()))
            .bind(i64::from(searched_max))
            .bind(filter.since.map_or(i64::MIN, |since| since.as_millisecond()))
            .bind(filter.until.map_or(i64::MAX, |until| until.as_millisecond()))
            .fetch(self.reader());
        // Facts may be large, so only the rows that match stay in memory.
        let mut found = RunSearch::default();
        let (mut searched, mut last) = (0, None);
        while found.runs.len() < filter.limit as usize
            && let Some(row) = rows.try_next().await.on_table("runs")?
        {
            let row = RunRecord::into_run_row(row, tenant)?;
            (searched, last) = (searched + 1, Some(row.received_at));
            if filter.properties.match_facts(&row.facts) {
                found.runs.push(row);
            }
        }
        let is_full = found.runs.len() >= filter.limit as usize;
        found.stopped_at = last.filter(|_| !any && !is_full && searched >= searched_max);
        Ok(found)
    }

    async fn list_ordinals(&self, key: &WorkflowKey) -> Result<Vec<Ordinal>> {
        const LOAD: &str = "
            SELECT ordinal FROM runs
            WHERE tenant = $1 AND workflow = $2 AND ordinal IS NOT NULL ORDER BY ordinal";
        let rows: Vec<i64> = sqlx::query_scalar(LOAD)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .fetch_all(self.reader())
            .await
            .on_table("runs")?;
        rows.into_iter().map(|ordinal| at("runs.ordinal", key).parse_unsigned(ordinal)).collect()
    }

    async fn list_call_summaries(&self, key: &WorkflowKey, limit: u32) -> Result<Vec<StoredSummary>> {
        summaries::list_newest(&mut *self.begin_snapshot().await?, key, limit).await
    }

    async fn list_run_exposures(
        &self,
        key: &WorkflowKey,
        memory: MemoryId,
        after: Option<Ordinal>,
        limit: u32,
    ) -> Result<Vec<RunExposure>> {
        const LOAD: &str = "
            SELECT runs.ordinal, run_facts.facts, runs.received_ms, met.memory IS NOT NULL FROM runs
            JOIN run_facts USING (tenant, workflow, number)
            LEFT JOIN presentations AS met ON met.tenant = runs.tenant AND met.workflow = runs.workflow
                AND met.run_id = runs.run_id AND met.memory = $3
            WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.ordinal IS NOT NULL AND runs.ordinal < $4
            ORDER BY runs.ordinal DESC LIMIT $5";
        let rows: Vec<(i64, String, i64, bool)> = sqlx::query_as(LOAD)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(memory.to_string())
            .bind(after.map_or(i64::MAX, to_i64))
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("runs")?;
        rows.iter().map(|row| run_exposure_from_row(key, memory, row)).collect()
    }

    async fn list_assigned_runs(
        &self,
        key: &WorkflowKey,
        memory: MemoryId,
        limit: u32,
    ) -> Result<Vec<AssignedRun>> {
        const LOAD: &str = concat!(
            "SELECT runs.ordinal, run_facts.facts, decided.withheld, decided.permille
             FROM memory_assignments AS decided",
            lookup_join!(
                "runs",
                "tenant, workflow, number, ordinal",
                "runs.tenant = decided.tenant AND runs.workflow = decided.workflow
                 AND runs.run_id = decided.run_id AND runs.ordinal IS NOT NULL"
            ),
            lookup_join!(
                "run_facts",
                "facts",
                "run_facts.tenant = runs.tenant AND run_facts.workflow = runs.workflow
                 AND run_facts.number = runs.number"
            ),
            " WHERE decided.tenant = $1 AND decided.workflow = $2 AND decided.memory = $3
             ORDER BY decided.assigned_ms, decided.run_id LIMIT $4"
        );
        let mut rows = sqlx::query_as(LOAD)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(memory.to_string())
            .bind(i64::from(limit))
            .fetch(self.reader());
        // Facts may be large, so only one row at a time is in memory.
        let mut runs = Vec::new();
        while let Some(row) = rows.try_next().await.on_table("memory_assignments")? {
            runs.push(assigned_run_from_row(key, &row)?);
        }
        runs.sort_by_key(|run| run.ordinal);
        Ok(runs)
    }

    async fn list_memories(&self, tenant: &Tenant, filter: &MemoryFilter) -> Result<Vec<Memory>> {
        macro_rules! matching_memories {
            ($index:expr, $condition:expr) => {
                concat!(
                    "SELECT id, memory FROM memories",
                    $index,
                    " WHERE tenant = $1 AND ",
                    of_workflow!("workflow", "$2"),
                    " AND ($3 IS NULL OR step = $3)
                        AND ($4 IS NULL OR status = $4) AND (NOT $6 OR scope_kind = 'repository')",
                    $condition,
                    " ORDER BY weight DESC, id LIMIT $5"
                )
            };
        }
        const LOAD: &str = matching_memories!("", "");
        // A statement of its own: a bound parameter would not match the condition of the index.
        const LOAD_HELD: &str = matching_memories!(by_index!("memories_held"), concat!(" AND ", is_held!()));
        let rows: Vec<(String, String)> = sqlx::query_as(if filter.held { LOAD_HELD } else { LOAD })
            .bind(tenant.as_str())
            .bind(filter.workflow.as_ref().map(Workflow::as_str))
            .bind(filter.step.as_ref().map(|step| step.as_str()))
            .bind(filter.status.map(|status| status.as_str()))
            .bind(i64::from(filter.limit))
            .bind(filter.rules_only)
            .fetch_all(self.reader())
            .await
            .on_table("memories")?;
        rows.iter().map(|(id, memory)| parse_memory(id, memory)).collect()
    }

    async fn list_memory_changes(&self, tenant: &Tenant, memory: MemoryId) -> Result<Vec<Change>> {
        memory::list_changes(&mut *self.begin_snapshot().await?, tenant, memory).await
    }

    async fn list_workflow_changes(&self, key: &WorkflowKey) -> Result<Vec<Change>> {
        const LOAD: &str =
            "SELECT id, change FROM changes WHERE tenant = $1 AND workflow = $2 ORDER BY sequence";
        let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .fetch_all(self.reader())
            .await
            .on_table("changes")?;
        rows.iter().map(|(id, change)| parse_change(id, change)).collect()
    }

    async fn list_tombstones(&self, key: &WorkflowKey) -> Result<Vec<Tombstone>> {
        memory::list_tombstones(&mut *self.begin_snapshot().await?, key).await
    }

    async fn list_retrospectives(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        limit: u32,
    ) -> Result<Vec<RetrospectiveRow>> {
        const LOAD: &str = concat!(
            "SELECT tenant, id, workflow, epoch, first_ordinal, last_ordinal, as_of, policy, pipeline, prompts, state, sample,
                request,
                (SELECT count(*) FROM investigations AS one
                 WHERE one.tenant = whole.tenant AND one.retrospective = whole.id AND one.result IS NOT NULL)
                    AS investigated,
                (SELECT count(*) FROM changes
                 WHERE changes.tenant = whole.tenant AND changes.retrospective = whole.id) AS changes
            FROM retrospectives AS whole
            WHERE tenant = $1 AND ",
            of_workflow!("workflow", "$2"),
            " ORDER BY workflow, opened_ms DESC, abs(epoch) DESC LIMIT $3"
        );
        let rows: Vec<RetrospectiveListRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(workflow.map(Workflow::as_str))
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("retrospectives")?;
        rows.iter().map(RetrospectiveListRecord::to_retrospective_row).collect()
    }

    async fn find_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<Option<RetrospectiveDetail>> {
        let mut snapshot = self.begin_snapshot().await?;
        let Some((retrospective, sample)) =
            retrospective::find_retrospective(&mut snapshot, tenant, id).await?
        else {
            return Ok(None);
        };
        let all = investigations::list_investigations(&mut snapshot, tenant, id).await?;
        let investigations = all.into_iter().map(|(one, _)| one).collect();
        let attempts = investigations::list_attempts(&mut snapshot, tenant, id).await?;
        Ok(Some(RetrospectiveDetail { retrospective, sample, investigations, attempts }))
    }

    async fn find_report(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Option<Report>> {
        const LOAD: &str = "SELECT report FROM reports WHERE tenant = $1 AND retrospective = $2";
        let row: Option<String> = sqlx::query_scalar(LOAD)
            .bind(tenant.as_str())
            .bind(id.to_string())
            .fetch_optional(self.reader())
            .await
            .on_table("reports")?;
        row.map(|report| at("reports.report", id).parse_json(&report)).transpose()
    }

    async fn list_dead_letters(&self, tenant: &Tenant, filter: &DeadLetterFilter) -> Result<Vec<DeadLetter>> {
        const LOAD: &str = concat!(
            "SELECT /* reads all: a person lists the dead letters */ id, tenant, workflow, consumer, stream, sequence, subject, headers, payload, payload_sha256,
                 rejection, attempts, stored_at, status, replays, created_ms, program_version
             FROM dead_letters
             WHERE (tenant = $1 OR (tenant IS NULL AND $1 = $2)) AND ($3 IS NULL OR code = $3)
                 AND ($4 IS NULL OR workflow = $4) AND ($5 IS NULL OR consumer = $5)
                 AND ($6 IS NULL OR created_ms >= $6) AND ($7 IS NULL OR created_ms < $7)
                 AND ($8 IS NULL OR status = $8) AND ($9 IS NULL OR id",
            any_of!("$9"),
            ") AND ($10 IS NULL OR (created_ms, ",
            arrival!(),
            ") < (SELECT one.created_ms, one.",
            arrival!(),
            " FROM dead_letters AS one
                 WHERE one.id = $10 AND (one.tenant = $1 OR (one.tenant IS NULL AND $1 = $2))))
             ORDER BY created_ms DESC, ",
            arrival!(),
            " DESC LIMIT $11"
        );
        // An empty list matches any id, so it is bound as NULL: an empty array would match nothing.
        let ids = (!filter.ids.is_empty()).then(|| list_parameter(&filter.ids));
        let rows: Vec<DeadLetterRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(filter.code.map(|code| code.as_str()))
            .bind(filter.workflow.as_ref().map(Workflow::as_str))
            .bind(filter.consumer.as_deref())
            .bind(filter.since.map(|moment| moment.as_millisecond()))
            .bind(filter.until.map(|moment| moment.as_millisecond()))
            .bind(filter.status.map(DeadLetterStatus::as_str))
            .bind(ids)
            .bind(filter.after.map(|id| id.to_string()))
            .bind(i64::from(filter.limit))
            .fetch_all(self.reader())
            .await
            .on_table("dead_letters")?;
        rows.into_iter().map(DeadLetterRecord::into_dead_letter).collect()
    }

    async fn find_dead_letter(&self, tenant: &Tenant, id: DeadLetterId) -> Result<Option<DeadLetter>> {
        stored_dead_letters::find_dead_letter(&mut *self.begin_snapshot().await?, tenant, id).await
    }

    async fn list_audit_rows(&self, tenant: &Tenant, subject: Uuid) -> Result<Vec<AuditRow>> {
        audit::list_actions(&mut *self.begin_snapshot().await?, tenant, subject).await
    }

    async fn find_review_report(&self, tenant: &Tenant, id: ReviewBatchId) -> Result<Option<ReviewReport>> {
        const LOAD: &str = "SELECT report FROM review_reports WHERE tenant = $1 AND batch = $2";
        let report: Option<String> = sqlx::query_scalar(LOAD)
            .bind(tenant.as_str())
            .bind(id.to_string())
            .fetch_optional(self.reader())
            .await
            .on_table("review_reports")?;
        report.map(|report| at("review_reports.report", id).parse_json(&report)).transpose()
    }

    async fn list_review_reports(
        &self,
        tenant: &Tenant,
        rule_scope: Option<&Workflow>,
        limit: u32,
    ) -> Result<Vec<ReviewReport>> {
        const LOAD: &str = concat!(
            "SELECT batch, report FROM review_reports WHERE tenant = $1 AND ",
            of_workflow!("workflow", "$2"),
            " ORDER BY written_ms DESC, batch LIMIT $3"
        );
        let rows: Vec<(String, String)> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(rule_scope.map(Workflow::as_str))
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("review_reports")?;
        rows.iter().map(|(id, report)| at("review_reports.report", id).parse_json(report)).collect()
    }

    async fn select_existing_remarks(
        &self,
        tenant: &Tenant,
        remarks: &[RemarkKey],
    ) -> Result<BTreeSet<RemarkKey>> {
        rule_additions::select_existing_remarks(&mut *self.begin_snapshot().await?, tenant, remarks).await
    }

    async fn list_rule_scopes(&self, tenant: &Tenant) -> Result<Vec<WorkflowKey>> {
        const LOAD: &str = "SELECT DISTINCT workflow FROM rule_batches WHERE tenant = $1 AND state = 'closed' ORDER BY workflow";
        let rows: Vec<String> = sqlx::query_scalar(LOAD)
            .bind(tenant.as_str())
            .fetch_all(self.reader())
            .await
            .on_table("rule_batches")?;
        rows.iter().map(|workflow| parse_workflow_key(tenant.as_str(), workflow)).collect()
    }

    async fn load_health(&self) -> Result<DatabaseHealth> {
        const COUNT: &str = "
            SELECT /* reads all: a sum over the workflows, for a person */ (SELECT count(*) FROM outbox WHERE sent_ms IS NULL),
                (SELECT count(*) FROM dead_letters WHERE status = 'open'),
                (SELECT CAST(coalesce(sum(events), 0) AS BIGINT) FROM workflows),
                (SELECT count(*) FROM _sqlx_migrations WHERE success)";
        let (unsent, open, seen, migrations): (i64, i64, i64, i64) =
            sqlx::query_as(COUNT).fetch_one(self.reader()).await.on_table("outbox")?;
        let place = at("health", "this database");
        Ok(DatabaseHealth {
            outbox_unsent: place.parse_unsigned(unsent)?,
            dead_letters_open: place.parse_unsigned(open)?,
            events_seen: place.parse_unsigned(seen)?,
            migrations: place.parse_unsigned(migrations)?,
        })
    }
}
