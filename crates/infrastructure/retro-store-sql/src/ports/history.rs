//! Loads the history of a workflow: the spending of its runs, and the investigated runs of earlier
//! retrospectives.

use retro_core::report::{HISTORY_RUNS_MAX, INVESTIGATED_RUNS_MAX, WorkflowHistory};
use retro_core::retrospective::Retrospective;
use retro_store::Result;

use super::dialect::{Connection, OnTable};
use crate::rows::run::{investigated_run_from_row, spending_from_row};
use crate::to_i64;

/// Loads the history of a retrospective's workflow up to the end of its window, without runs whose facts are
/// purged. Returns an empty history for a manual retrospective, because its runs are not a random sample.
pub(crate) async fn load_history(connection: &mut Connection, of: &Retrospective) -> Result<WorkflowHistory> {
    const SPENT: &str = "
        SELECT runs.ordinal, run_facts.facts FROM runs
        JOIN run_facts USING (tenant, workflow, number)
        WHERE runs.tenant = $1 AND runs.workflow = $2 AND runs.ordinal IS NOT NULL AND runs.ordinal <= $3
        ORDER BY runs.ordinal DESC LIMIT $4";
    const SEEN: &str = "
        SELECT one.number, one.ordinal, one.run_id, one.replacement, one.result, run_facts.facts
        FROM retrospectives AS whole
        JOIN investigations AS one ON one.tenant = whole.tenant AND one.retrospective = whole.id
        JOIN runs ON runs.tenant = whole.tenant AND runs.workflow = whole.workflow AND runs.ordinal = one.ordinal
        JOIN run_facts ON run_facts.tenant = runs.tenant AND run_facts.workflow = runs.workflow
            AND run_facts.number = runs.number
        WHERE whole.tenant = $1 AND whole.workflow = $2 AND whole.epoch < $3 AND whole.state = 'closed'
            AND whole.request IS NULL AND one.result IS NOT NULL
        ORDER BY whole.epoch DESC, one.number DESC LIMIT $4";
    if of.manual_request.is_some() {
        return Ok(WorkflowHistory::default());
    }
    let (tenant, workflow) = (of.key.tenant.as_str(), of.key.workflow.as_str());
    let runs: Vec<(i64, String)> = sqlx::query_as(SPENT)
        .bind(tenant)
        .bind(workflow)
        .bind(to_i64(of.last))
        .bind(i64::from(HISTORY_RUNS_MAX))
        .fetch_all(&mut *connection)
        .await
        .on_table("run_facts")?;
    let seen: Vec<(i64, i64, String, bool, String, String)> = sqlx::query_as(SEEN)
        .bind(tenant)
        .bind(workflow)
        .bind(to_i64(of.epoch))
        .bind(i64::from(INVESTIGATED_RUNS_MAX))
        .fetch_all(&mut *connection)
        .await
        .on_table("investigations")?;
    let sightings = seen.iter().filter_map(|row| investigated_run_from_row(&of.key, row).transpose());
    Ok(WorkflowHistory {
        spending: runs.iter().map(|row| spending_from_row(&of.key, row)).collect::<Result<_>>()?,
        investigated_runs: sightings.collect::<Result<_>>()?,
    })
}
