//! Finds the retrospectives of one run.
//!
//! A window has no index by ordinal. But the windows of a workflow begin at ordinals that never fall from one epoch to
//! the next: a window begins behind the last one that was kept, or where a released one began. So the last epoch that
//! begins at or before the run is found by bisection over the key (tenant, workflow, epoch), and only it and a few
//! epochs before it can contain the run: released windows begin at the same ordinal.

use retro_core::id::{Ordinal, RunId, WorkflowKey};
use retro_core::retrospective::RetrospectiveState;
use retro_store::{Result, RunRetrospective};

use super::dialect::{Connection, OnTable};
use super::investigations;
use crate::rows::retrospective::RetrospectiveRecord;
use crate::to_i64;

/// Number of epochs, up to the last that begins at or before a run, among which its windows are searched. A window
/// is released again only by failures and cancellations, each followed by a longer pause.
const EPOCHS_SEARCHED: i64 = 20;
/// Number of the newest manual retrospectives of a workflow that are searched for a run. People trigger them one by one.
const MANUAL_SEARCHED: i64 = 50;

/// Lists the retrospectives that claimed a run, investigated it or were asked about it, newest first. A released
/// retrospective is listed only if it has investigated the run, because the ordinals of its window were assigned anew.
pub(crate) async fn list_of_run(
    connection: &mut Connection,
    key: &WorkflowKey,
    run: &RunId,
    ordinal: Option<Ordinal>,
) -> Result<Vec<RunRetrospective>> {
    let Some(ordinal) = ordinal else { return Ok(Vec::new()) };
    let last = find_last_epoch(connection, key, ordinal).await?;
    let mut records = list_epochs(connection, key, last).await?;
    records.extend(list_manual(connection, key).await?);
    let mut all = Vec::new();
    for record in records {
        let (retrospective, sample) = record.to_retrospective()?;
        let names_run = match &retrospective.manual_request {
            Some(request) => request.runs.contains(run),
            None => (retrospective.first..=retrospective.last).contains(&ordinal),
        };
        if !names_run {
            continue;
        }
        let of = investigations::list_investigations(connection, &key.tenant, retrospective.id).await?;
        let investigation = of.into_iter().map(|(one, _)| one).find(|one| one.run == *run);
        let released =
            matches!(retrospective.state, RetrospectiveState::Failed | RetrospectiveState::Cancelled);
        if investigation.is_some() || !released {
            all.push(RunRetrospective { retrospective, sample, investigation });
        }
    }
    all.sort_by_key(|one| std::cmp::Reverse((one.retrospective.as_of, one.retrospective.id)));
    Ok(all)
}

/// Returns the last epoch of a workflow whose window begins at or before an ordinal; 0 if there is none.
async fn find_last_epoch(connection: &mut Connection, key: &WorkflowKey, ordinal: Ordinal) -> Result<i64> {
    const NEWEST: &str = "SELECT epoch FROM workflows WHERE tenant = $1 AND workflow = $2";
    const FIRST: &str =
        "SELECT first_ordinal FROM retrospectives WHERE tenant = $1 AND workflow = $2 AND epoch = $3";
    let newest: Option<i64> = sqlx::query_scalar(NEWEST)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .fetch_optional(&mut *connection)
        .await
        .on_table("workflows")?;
    let (mut low, mut high) = (0, newest.unwrap_or_default());
    while low < high {
        let middle = low + (high - low + 1) / 2;
        let first: Option<i64> = sqlx::query_scalar(FIRST)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(middle)
            .fetch_optional(&mut *connection)
            .await
            .on_table("retrospectives")?;
        if first.is_some_and(|first| first <= to_i64(ordinal)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    Ok(low)
}

async fn list_epochs(
    connection: &mut Connection,
    key: &WorkflowKey,
    last: i64,
) -> Result<Vec<RetrospectiveRecord>> {
    const LOAD: &str = "
        SELECT tenant, id, workflow, epoch, first_ordinal, last_ordinal, as_of, policy, pipeline, prompts, state, sample, request
        FROM retrospectives
        WHERE tenant = $1 AND workflow = $2 AND epoch > 0 AND epoch > $3 AND epoch <= $4 ORDER BY epoch DESC";
    sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(last - EPOCHS_SEARCHED)
        .bind(last)
        .fetch_all(connection)
        .await
        .on_table("retrospectives")
}

async fn list_manual(connection: &mut Connection, key: &WorkflowKey) -> Result<Vec<RetrospectiveRecord>> {
    // The numbers of manual retrospectives count down from -1.
    const LOAD: &str = "
        SELECT tenant, id, workflow, epoch, first_ordinal, last_ordinal, as_of, policy, pipeline, prompts, state, sample, request
        FROM retrospectives WHERE tenant = $1 AND workflow = $2 AND epoch < 0 ORDER BY epoch LIMIT $3";
    sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(MANUAL_SEARCHED)
        .fetch_all(connection)
        .await
        .on_table("retrospectives")
}
