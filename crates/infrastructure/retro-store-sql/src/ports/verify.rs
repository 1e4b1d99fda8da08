//! Reads the whole database page by page for `retro verify`.
//!
//! Each page is one transaction with a consistent snapshot. Pages follow a primary key or an index, so the
//! last page costs no more than the first. The database determines the last key of a page, because its
//! collation may differ from Rust's string order.

use std::collections::HashMap;

use async_trait::async_trait;
use retro_core::id::{MemoryId, RetrospectiveId, RunId, Tenant, WorkflowKey};
use retro_core::memory::Change;
use retro_core::report::Report;
use retro_store::{
    MemoryRecords, OrdinalSummary, ProposalRow, Result, RetrospectiveCursor, RetrospectivePage,
    RetrospectiveRecords, VerifyStore, WindowRow, WorkflowRecords,
};

use super::dialect::{Connection, OnTable, Store, any_of, by_index, list_parameter};
use crate::rows::count::WorkflowRecord;
use crate::rows::feedback::OwnedFeedbackRecord;
use crate::rows::manual::ProposalRecord;
use crate::rows::memory::{parse_change, parse_memory, parse_tombstone};
use crate::rows::retrospective::RetrospectiveRecord;
use crate::{at, parse_workflow_key};

/// Cursor before the first row, because no tenant, workflow or id is empty.
const START: &str = "";

#[async_trait]
impl VerifyStore for Store {
    async fn list_workflow_records(
        &self,
        after: Option<&WorkflowKey>,
        limit: u32,
    ) -> Result<Vec<WorkflowRecords>> {
        const LOAD: &str = "
            SELECT tenant, workflow, recorded, counted, claimed, epoch, open, failures, paused_until,
                counted_up_to, handled_up_to
            FROM workflows WHERE (tenant, workflow) > ($1, $2) ORDER BY tenant, workflow LIMIT $3";
        let (tenant, workflow) =
            after.map_or((START, START), |key| (key.tenant.as_str(), key.workflow.as_str()));
        let mut snapshot = self.begin_snapshot().await?;
        let records: Vec<WorkflowRecord> = sqlx::query_as(LOAD)
            .bind(tenant)
            .bind(workflow)
            .bind(i64::from(limit))
            .fetch_all(&mut *snapshot)
            .await
            .on_table("workflows")?;
        let mut books = Vec::with_capacity(records.len());
        for record in records {
            let (key, state, recorded) = record.into_workflow_state()?;
            let (ordinals, windows) = (OrdinalSummary::default(), Vec::new());
            books.push(WorkflowRecords { key, state, recorded, ordinals, windows });
        }
        let Some(last) = books.last().map(|one| one.key.clone()) else { return Ok(books) };
        let ends = [tenant, workflow, last.tenant.as_str(), last.workflow.as_str()];
        let mut places: HashMap<_, _> = books.iter_mut().map(|one| (one.key.clone(), one)).collect();
        add_ordinals(&mut snapshot, ends, &mut places).await?;
        add_windows(&mut snapshot, ends, &mut places).await?;
        Ok(books)
    }

    async fn list_retrospective_records(
        &self,
        after: Option<&RetrospectiveCursor>,
        limit: u32,
    ) -> Result<RetrospectivePage> {
        const LOAD: &str = "
            SELECT tenant, id, workflow, epoch, first_ordinal, last_ordinal, as_of, policy, pipeline, prompts, state, sample, request,
                (SELECT report FROM reports
                 WHERE reports.tenant = whole.tenant AND reports.retrospective = whole.id) AS report
            FROM retrospectives AS whole WHERE (tenant, workflow, epoch) > ($1, $2, $3)
            ORDER BY tenant, workflow, epoch LIMIT $4";
        let (tenant, workflow, epoch) = after.map_or((START, START, 0), |place| {
            (place.key.tenant.as_str(), place.key.workflow.as_str(), place.epoch)
        });
        let mut snapshot = self.begin_snapshot().await?;
        let records: Vec<ReportedRecord> = sqlx::query_as(LOAD)
            .bind(tenant)
            .bind(workflow)
            .bind(epoch)
            .bind(i64::from(limit))
            .fetch_all(&mut *snapshot)
            .await
            .on_table("retrospectives")?;
        let mut items = Vec::with_capacity(records.len());
        for record in &records {
            items.push(record.to_records()?);
        }
        let full = records.len() as u64 == u64::from(limit);
        let next = records.last().zip(items.last()).filter(|_| full).map(|(record, item)| {
            RetrospectiveCursor { key: item.retrospective.key.clone(), epoch: record.whole.stored_epoch() }
        });
        add_changes(&mut snapshot, &mut items).await?;
        add_proposals(&mut snapshot, &mut items).await?;
        Ok(RetrospectivePage { items, next })
    }

    async fn list_memory_records(
        &self,
        after: Option<(&Tenant, MemoryId)>,
        limit: u32,
    ) -> Result<Vec<MemoryRecords>> {
        // Each table yields its next ids from an index; the smallest of them make up the page.
        const NAMES: &str = "
            SELECT tenant, id FROM (
                SELECT * FROM (SELECT tenant, id FROM memories
                    WHERE (tenant, id) > ($1, $2) ORDER BY tenant, id LIMIT $3) AS stored
                UNION
                SELECT * FROM (SELECT DISTINCT tenant, memory FROM changes
                    WHERE (tenant, memory) > ($1, $2) ORDER BY tenant, memory LIMIT $3) AS changed
                UNION
                SELECT * FROM (SELECT tenant, memory FROM tombstones
                    WHERE (tenant, memory) > ($1, $2) ORDER BY tenant, memory LIMIT $3) AS tombstoned
            ) AS named ORDER BY tenant, id LIMIT $3";
        let (tenant, id) =
            after.map_or((START, String::new()), |(tenant, id)| (tenant.as_str(), id.to_string()));
        let mut snapshot = self.begin_snapshot().await?;
        let names: Vec<(String, String)> = sqlx::query_as(NAMES)
            .bind(tenant)
            .bind(&id)
            .bind(i64::from(limit))
            .fetch_all(&mut *snapshot)
            .await
            .on_table("memories")?;
        let mut books = Vec::with_capacity(names.len());
        for (tenant, id) in &names {
            let place = at("memories", id);
            let (tenant, id) = (place.parse(tenant)?, place.parse(id)?);
            let (changes, feedback) = (Vec::new(), Vec::new());
            books.push(MemoryRecords { tenant, id, stored: None, changes, tombstone: None, feedback });
        }
        let Some((last_tenant, last_id)) = names.last().cloned() else { return Ok(books) };
        let ends = [tenant, &id, &last_tenant, &last_id];
        let mut places = names.into_iter().zip(books.iter_mut()).collect();
        add_stored(&mut snapshot, ends, &mut places).await?;
        add_lives(&mut snapshot, ends, &mut places).await?;
        add_tombstones(&mut snapshot, ends, &mut places).await?;
        add_feedback(&mut snapshot, ends, &mut places).await?;
        Ok(books)
    }

    async fn find_uncounted_runs(&self, key: &WorkflowKey, runs: &[RunId]) -> Result<Vec<RunId>> {
        const LOAD: &str = concat!(
            "SELECT run_id FROM runs
             WHERE tenant = $1 AND workflow = $2 AND ordinal IS NOT NULL AND run_id",
            any_of!("$3")
        );
        let counted: Vec<String> = sqlx::query_scalar(LOAD)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(list_parameter(runs))
            .fetch_all(self.reader())
            .await
            .on_table("runs")?;
        Ok(runs.iter().filter(|run| !counted.iter().any(|one| one == run.as_str())).cloned().collect())
    }
}

/// Row of `retrospectives` with its report.
#[derive(sqlx::FromRow)]
struct ReportedRecord {
    #[sqlx(flatten)]
    whole: RetrospectiveRecord,
    report: Option<String>,
}

impl ReportedRecord {
    fn to_records(&self) -> Result<RetrospectiveRecords> {
        let (retrospective, _) = self.whole.to_retrospective()?;
        let report =
            self.report.as_deref().map(|text| at("reports.report", retrospective.id).parse_json(text));
        let report: Option<Report> = report.transpose()?;
        Ok(RetrospectiveRecords { retrospective, report, changes: Vec::new(), proposals: Vec::new() })
    }
}

/// Tenant, workflow, number of ordinals, and the expected and found ordinal at the first gap.
type OrdinalRow = (String, String, i64, Option<i64>, Option<i64>);

/// Adds the ordinal summary to each workflow of the page, computed in index order.
async fn add_ordinals(
    snapshot: &mut Connection,
    [tenant, workflow, last_tenant, last_workflow]: [&str; 4],
    books: &mut HashMap<WorkflowKey, &mut WorkflowRecords>,
) -> Result<()> {
    // Both minima belong to the first gap, because after it every ordinal is greater than its position.
    const SUM: &str = concat!(
        "SELECT tenant, workflow, count(*), min(CASE WHEN ordinal <> place THEN place END),
             min(CASE WHEN ordinal <> place THEN ordinal END)
         FROM (SELECT tenant, workflow, ordinal,
                   row_number() OVER (PARTITION BY tenant, workflow ORDER BY ordinal) AS place
               FROM runs",
        by_index!("runs_by_ordinal"),
        " WHERE (tenant, workflow) > ($1, $2) AND (tenant, workflow) <= ($3, $4) AND ordinal IS NOT NULL
         ) AS counted
         GROUP BY tenant, workflow"
    );
    let rows: Vec<OrdinalRow> = sqlx::query_as(SUM)
        .bind(tenant)
        .bind(workflow)
        .bind(last_tenant)
        .bind(last_workflow)
        .fetch_all(snapshot)
        .await
        .on_table("runs")?;
    for (tenant, workflow, given, expected, found) in rows {
        let key = parse_workflow_key(&tenant, &workflow)?;
        let place = at("runs.ordinal", &key);
        let first_gap = match expected.zip(found) {
            Some((expected, found)) => Some((place.parse_unsigned(expected)?, place.parse_unsigned(found)?)),
            None => None,
        };
        // The transaction that stores a run also stores its workflow, so a missing workflow is damage.
        let book = books.get_mut(&key).ok_or_else(|| place.damaged_error("there is no such workflow"))?;
        book.ordinals = OrdinalSummary { assigned: place.parse_unsigned(given)?, first_gap };
    }
    Ok(())
}

/// Adds the windows of automatic retrospectives to each workflow of the page.
async fn add_windows(
    snapshot: &mut Connection,
    [tenant, workflow, last_tenant, last_workflow]: [&str; 4],
    books: &mut HashMap<WorkflowKey, &mut WorkflowRecords>,
) -> Result<()> {
    const LOAD: &str = "
        SELECT tenant, workflow, epoch, first_ordinal, last_ordinal, state FROM retrospectives
        WHERE (tenant, workflow) > ($1, $2) AND (tenant, workflow) <= ($3, $4) AND request IS NULL
        ORDER BY tenant, workflow, epoch";
    let rows: Vec<(String, String, i64, i64, i64, String)> = sqlx::query_as(LOAD)
        .bind(tenant)
        .bind(workflow)
        .bind(last_tenant)
        .bind(last_workflow)
        .fetch_all(snapshot)
        .await
        .on_table("retrospectives")?;
    for (tenant, workflow, epoch, first, last, state) in rows {
        let key = parse_workflow_key(&tenant, &workflow)?;
        let place = at("retrospectives", format!("{key}, epoch {epoch}"));
        let row = WindowRow {
            epoch: place.parse_unsigned(epoch)?,
            first: place.parse_unsigned(first)?,
            last: place.parse_unsigned(last)?,
            state: place.parse_enum(&state)?,
        };
        let book = books.get_mut(&key).ok_or_else(|| place.damaged_error("there is no such workflow"))?;
        book.windows.push(row);
    }
    Ok(())
}

/// Indexes the retrospectives of a page by tenant and id.
fn by_id(
    items: &mut [RetrospectiveRecords],
) -> HashMap<(Tenant, RetrospectiveId), &mut RetrospectiveRecords> {
    items.iter_mut().map(|one| ((one.retrospective.key.tenant.clone(), one.retrospective.id), one)).collect()
}

/// Groups the ids of a page's retrospectives by tenant, because each query is scoped to one tenant.
fn by_tenant<'a>(
    items: impl Iterator<Item = &'a RetrospectiveRecords>,
) -> HashMap<Tenant, Vec<RetrospectiveId>> {
    let mut tenants: HashMap<Tenant, Vec<RetrospectiveId>> = HashMap::new();
    for one in items {
        tenants.entry(one.retrospective.key.tenant.clone()).or_default().push(one.retrospective.id);
    }
    tenants
}

async fn add_changes(snapshot: &mut Connection, items: &mut [RetrospectiveRecords]) -> Result<()> {
    const LOAD: &str = concat!(
        "SELECT retrospective, id, change FROM changes",
        by_index!("changes_by_retrospective"),
        " WHERE tenant = $1 AND retrospective IS NOT NULL AND retrospective",
        any_of!("$2"),
        " ORDER BY sequence"
    );
    let tenants = by_tenant(items.iter());
    let mut places = by_id(items);
    for (tenant, ids) in tenants {
        let rows: Vec<(String, String, String)> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(list_parameter(&ids))
            .fetch_all(&mut *snapshot)
            .await
            .on_table("changes")?;
        for (retrospective, id, change) in rows {
            let change: Change = parse_change(&id, &change)?;
            let of = at("changes.retrospective", &id).parse(&retrospective)?;
            if let Some(one) = places.get_mut(&(tenant.clone(), of)) {
                one.changes.push(change);
            }
        }
    }
    Ok(())
}

/// Adds the proposals of manual retrospectives. Automatic ones have none.
async fn add_proposals(snapshot: &mut Connection, items: &mut [RetrospectiveRecords]) -> Result<()> {
    const LOAD: &str = concat!(
        "SELECT id, workflow, proposal, decision FROM proposals WHERE tenant = $1 AND retrospective",
        any_of!("$2"),
        " ORDER BY retrospective, position"
    );
    let tenants = by_tenant(items.iter().filter(|one| one.retrospective.manual_request.is_some()));
    let mut places = by_id(items);
    for (tenant, ids) in tenants {
        let rows: Vec<ProposalRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(list_parameter(&ids))
            .fetch_all(&mut *snapshot)
            .await
            .on_table("proposals")?;
        for record in rows {
            let row: ProposalRow = record.to_proposal_row()?;
            if let Some(one) = places.get_mut(&(tenant.clone(), row.proposal.retrospective)) {
                one.proposals.push(row);
            }
        }
    }
    Ok(())
}

/// Memories of a page, indexed by their stored tenant and id.
type ByName<'a> = HashMap<(String, String), &'a mut MemoryRecords>;

async fn add_stored(snapshot: &mut Connection, ends: [&str; 4], places: &mut ByName<'_>) -> Result<()> {
    const LOAD: &str = "
        SELECT tenant, workflow, id, memory FROM memories
        WHERE (tenant, id) > ($1, $2) AND (tenant, id) <= ($3, $4)";
    let rows: Vec<(String, String, String, String)> = sqlx::query_as(LOAD)
        .bind(ends[0])
        .bind(ends[1])
        .bind(ends[2])
        .bind(ends[3])
        .fetch_all(snapshot)
        .await
        .on_table("memories")?;
    for (tenant, workflow, id, memory) in rows {
        if let Some(one) = places.get_mut(&(tenant.clone(), id.clone())) {
            one.stored = Some((parse_workflow_key(&tenant, &workflow)?, parse_memory(&id, &memory)?));
        }
    }
    Ok(())
}

async fn add_lives(snapshot: &mut Connection, ends: [&str; 4], places: &mut ByName<'_>) -> Result<()> {
    const LOAD: &str = "
        SELECT tenant, workflow, memory, id, change FROM changes
        WHERE (tenant, memory) > ($1, $2) AND (tenant, memory) <= ($3, $4) ORDER BY tenant, memory, sequence";
    let rows: Vec<(String, String, String, String, String)> = sqlx::query_as(LOAD)
        .bind(ends[0])
        .bind(ends[1])
        .bind(ends[2])
        .bind(ends[3])
        .fetch_all(snapshot)
        .await
        .on_table("changes")?;
    for (tenant, workflow, memory, id, change) in rows {
        if let Some(one) = places.get_mut(&(tenant.clone(), memory.clone())) {
            one.changes.push((parse_workflow_key(&tenant, &workflow)?, parse_change(&id, &change)?));
        }
    }
    Ok(())
}

async fn add_feedback(snapshot: &mut Connection, ends: [&str; 4], places: &mut ByName<'_>) -> Result<()> {
    const LOAD: &str = "
        SELECT tenant, memory, id, feedback, settled_by, weighed, reason FROM memory_feedback
        WHERE (tenant, memory) > ($1, $2) AND (tenant, memory) <= ($3, $4) ORDER BY tenant, memory, id";
    let rows: Vec<OwnedFeedbackRecord> = sqlx::query_as(LOAD)
        .bind(ends[0])
        .bind(ends[1])
        .bind(ends[2])
        .bind(ends[3])
        .fetch_all(snapshot)
        .await
        .on_table("memory_feedback")?;
    for OwnedFeedbackRecord { tenant, memory, record } in rows {
        if let Some(one) = places.get_mut(&(tenant, memory)) {
            one.feedback.push(record.into_row()?);
        }
    }
    Ok(())
}

async fn add_tombstones(snapshot: &mut Connection, ends: [&str; 4], places: &mut ByName<'_>) -> Result<()> {
    const LOAD: &str = "
        SELECT tenant, workflow, memory, tombstone FROM tombstones
        WHERE (tenant, memory) > ($1, $2) AND (tenant, memory) <= ($3, $4)";
    let rows: Vec<(String, String, String, String)> = sqlx::query_as(LOAD)
        .bind(ends[0])
        .bind(ends[1])
        .bind(ends[2])
        .bind(ends[3])
        .fetch_all(snapshot)
        .await
        .on_table("tombstones")?;
    for (tenant, workflow, memory, tombstone) in rows {
        if let Some(one) = places.get_mut(&(tenant.clone(), memory.clone())) {
            one.tombstone =
                Some((parse_workflow_key(&tenant, &workflow)?, parse_tombstone(&memory, &tombstone)?));
        }
    }
    Ok(())
}
