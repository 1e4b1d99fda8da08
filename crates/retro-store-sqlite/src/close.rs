//! Closing a retrospective: everything that is known, in; everything that follows, out; one transaction.

use std::collections::HashSet;

use jiff::Timestamp;
use retro_core::id::{ChangeId, Epoch, MemoryId, WorkflowKey};
use retro_core::learn::{Closing, ClosingFacts, Mutation, WriterFacts};
use retro_core::retrospective::{Investigation, Retrospective};
use retro_core::sample::Sample;
use retro_store::Result;
use retro_store_sql::close::{causes, failure_letter, named};
use retro_store_sql::retrospective::drawn;
use sqlx::SqliteConnection;

use crate::damage::{self, OnTable, at, integer};
use crate::history::history;
use crate::memory::{
    append_changes, living_and_named, purge_tombstones, store_memories, store_tombstones, tombstones,
};
use crate::{
    count, credit, delivery, investigate, manual, now_ms, outbox, outcome, retrospective, rules, run,
};

/// Loads everything about a settling retrospective.
pub(crate) async fn load(
    connection: &mut SqliteConnection,
    retrospective: Retrospective,
    sample: Option<Sample>,
) -> Result<ClosingFacts> {
    let sample = drawn(&retrospective, sample)?;
    let (key, id) = (&retrospective.key, retrospective.id);
    let ended = investigate::ended(connection, &key.tenant, id).await?;
    let (investigations, timings): (Vec<Investigation>, Vec<_>) = ended.into_iter().unzip();
    let batch = batch(connection, &retrospective).await?;
    let state = count::workflow_state(connection, key).await?;
    let mut window = run::window_runs(connection, &retrospective, &sample).await?;
    outcome::note_outcomes(connection, key, &mut window).await?;
    Ok(ClosingFacts {
        history: history(connection, &retrospective).await?,
        window,
        writer: writer_facts(connection, &retrospective, &batch, &investigations).await?,
        state: state.ok_or_else(|| at("workflows", key).damaged("it has a retrospective and no row"))?,
        sample,
        investigations,
        timings,
        batch,
        retrospective,
    })
}

async fn writer_facts(
    connection: &mut SqliteConnection,
    retrospective: &Retrospective,
    batch: &[Mutation],
    investigations: &[Investigation],
) -> Result<WriterFacts> {
    let key = &retrospective.key;
    let (applied, changed) = applied(connection, retrospective, investigations).await?;
    let named: Vec<_> = named(batch).into_iter().chain(changed).collect();
    Ok(WriterFacts {
        key: key.clone(),
        retrospective: retrospective.id,
        epoch: retrospective.epoch,
        previous_epoch: previous_epoch(connection, retrospective).await?,
        as_of: retrospective.as_of,
        policy: retrospective.policy.clone(),
        memories: living_and_named(connection, key, &named).await?,
        tombstones: tombstones(connection, key).await?,
        applied,
    })
}

async fn batch(connection: &mut SqliteConnection, retrospective: &Retrospective) -> Result<Vec<Mutation>> {
    const LOAD: &str = "SELECT mutations FROM mutation_batches WHERE tenant = ?1 AND retrospective = ?2";
    let place = at("mutation_batches.mutations", retrospective.id);
    let stored: Option<String> = sqlx::query_scalar(LOAD)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.id.to_string())
        .fetch_optional(connection)
        .await
        .on("mutation_batches")?;
    place.json(&stored.ok_or_else(|| place.damaged("it is settling and has no batch"))?)
}

/// The last retrospective before this one that ended in a success.
async fn previous_epoch(
    connection: &mut SqliteConnection,
    retrospective: &Retrospective,
) -> Result<Option<Epoch>> {
    const LAST: &str = "
        SELECT max(epoch) FROM retrospectives
        WHERE tenant = ?1 AND workflow = ?2 AND epoch < ?3 AND state = 'closed' AND asked IS NULL";
    let epoch: Option<i64> = sqlx::query_scalar(LAST)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.key.workflow.as_str())
        .bind(integer(retrospective.epoch))
        .fetch_one(connection)
        .await
        .on("retrospectives")?;
    epoch.map(|epoch| at("retrospectives.epoch", &retrospective.key).unsigned(epoch)).transpose()
}

/// What this retrospective or one of its runs has caused already: it never happens again. With the memories that it
/// was about.
async fn applied(
    connection: &mut SqliteConnection,
    retrospective: &Retrospective,
    investigations: &[Investigation],
) -> Result<(HashSet<ChangeId>, Vec<MemoryId>)> {
    caused(connection, &retrospective.key, &causes(retrospective, investigations)).await
}

/// The changes of a workflow that have one of these causes, and the memories that they are about.
pub(crate) async fn caused(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    causes: &[(&'static str, String)],
) -> Result<(HashSet<ChangeId>, Vec<MemoryId>)> {
    const CAUSED: &str = "
        SELECT id, memory FROM changes WHERE tenant = ?1 AND workflow = ?2
            AND (cause, cause_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?3))";
    let rows: Vec<(String, String)> = sqlx::query_as(CAUSED)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(damage::json(&causes))
        .fetch_all(connection)
        .await
        .on("changes")?;
    let ids = rows.iter().map(|(id, _)| at("changes.id", key).parse(id)).collect::<Result<_>>()?;
    let memories =
        rows.iter().map(|(_, memory)| at("changes.memory", key).parse(memory)).collect::<Result<_>>()?;
    Ok((ids, memories))
}

/// Stores everything that closing a retrospective does.
pub(crate) async fn store(
    connection: &mut SqliteConnection,
    retrospective: &Retrospective,
    closing: &Closing,
    now: Timestamp,
) -> Result<()> {
    let (key, applied) = (&retrospective.key, &closing.applied);
    append_changes(connection, key, &applied.changes).await?;
    store_memories(connection, key, &applied.memories).await?;
    purge_tombstones(connection, key, &applied.expired).await?;
    store_tombstones(connection, key, &applied.tombstones).await?;
    store_report(connection, retrospective, closing).await?;
    credit::remember(connection, key, &closing.report).await?;
    manual::store_proposals(connection, key, &closing.proposals).await?;
    rules::put(connection, &closing.rules).await?;
    retrospective::move_on(connection, retrospective, closing.retrospective).await?;
    count::set_workflow_state(connection, key, &closing.state).await?;
    let opened: Vec<_> = closing.opened.iter().map(|opening| &opening.retrospective).collect();
    retrospective::open(connection, &opened).await?;
    let next = closing.opened.iter().map(|opening| &opening.message);
    outbox::put(connection, closing.messages.iter().chain(next)).await?;
    match &closing.failure {
        Some(rejection) => {
            let letter = failure_letter(retrospective, rejection, closing.report.total.attempts, now);
            delivery::bury(connection, &letter).await.map(|_| ())
        }
        None => Ok(()),
    }
}

async fn store_report(
    connection: &mut SqliteConnection,
    retrospective: &Retrospective,
    closing: &Closing,
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO reports (tenant, retrospective, report, written_ms) VALUES (?1, ?2, ?3, ",
        now_ms!(),
        ")"
    );
    let done = sqlx::query(STORE)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.id.to_string())
        .bind(damage::json(&closing.report))
        .execute(connection)
        .await
        .on("reports")?;
    at("reports", retrospective.id).touched(done.rows_affected(), 1)
}
