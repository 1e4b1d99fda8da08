//! What went before in a workflow: what its runs took, and what earlier retrospectives saw.

use retro_core::report::{HISTORY_RUNS_MAX, History, SIGHTINGS_MAX};
use retro_core::retrospective::Retrospective;
use retro_store::Result;
use retro_store_sql::integer;
use retro_store_sql::run::{sighting, spent};

use crate::dialect::{Connection, OnTable};

/// Everything about the workflow of a retrospective up to its window's end; nothing for a manual one, which was not drawn. Facts
/// and findings that were purged are not in it.
pub(crate) async fn history(connection: &mut Connection, of: &Retrospective) -> Result<History> {
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
            AND whole.asked IS NULL AND one.result IS NOT NULL
        ORDER BY whole.epoch DESC, one.number DESC LIMIT $4";
    if of.asked.is_some() {
        return Ok(History::default());
    }
    let (tenant, workflow) = (of.key.tenant.as_str(), of.key.workflow.as_str());
    let runs: Vec<(i64, String)> = sqlx::query_as(SPENT)
        .bind(tenant)
        .bind(workflow)
        .bind(integer(of.last))
        .bind(i64::from(HISTORY_RUNS_MAX))
        .fetch_all(&mut *connection)
        .await
        .on("run_facts")?;
    let seen: Vec<(i64, i64, String, bool, String, String)> = sqlx::query_as(SEEN)
        .bind(tenant)
        .bind(workflow)
        .bind(integer(of.epoch))
        .bind(i64::from(SIGHTINGS_MAX))
        .fetch_all(&mut *connection)
        .await
        .on("investigations")?;
    let sightings = seen.iter().filter_map(|row| sighting(&of.key, row).transpose());
    Ok(History {
        spent: runs.iter().map(|row| spent(&of.key, row)).collect::<Result<_>>()?,
        sightings: sightings.collect::<Result<_>>()?,
    })
}
