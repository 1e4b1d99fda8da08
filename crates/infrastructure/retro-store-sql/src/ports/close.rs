//! Loads the facts for closing a retrospective, and stores the effects.

use std::collections::HashSet;

use jiff::Timestamp;
use retro_core::calls::CallCounts;
use retro_core::id::{ChangeId, Epoch, MemoryId};
use retro_core::learn::{ClosedRetrospective, ClosingFacts, Mutation, WriterFacts};
use retro_core::retrospective::{Investigation, Retrospective};
use retro_core::sample::Sample;
use retro_store::Result;

use super::dialect::{Connection, OnTable, now_ms};
use super::history::load_history;
use super::memory::{
    append_changes, delete_tombstones, find_changes_caused_by, list_living_and_named, list_tombstones,
    store_memories, store_tombstones,
};
use super::{
    checks, count, credit, delivery, feedback, investigations, manual, outbox, outcome, retrospective, rules,
    run, summaries,
};
use crate::rows::close::{failure_dead_letter, named_memories, possible_causes};
use crate::rows::retrospective::require_sample;
use crate::{at, to_i64, to_json};

/// Loads the facts for closing a settling retrospective. Closing it requires the lock of its workflow; collecting
/// the texts that will be compared does not.
pub(crate) async fn load_closing_facts(
    connection: &mut Connection,
    retrospective: Retrospective,
    sample: Option<Sample>,
) -> Result<ClosingFacts> {
    let sample = require_sample(&retrospective, sample)?;
    let (key, id) = (&retrospective.key, retrospective.id);
    let ended = investigations::list_ended(connection, &key.tenant, id).await?;
    let (investigations, timings): (Vec<Investigation>, Vec<_>) = ended.into_iter().unzip();
    let (batch, calls) = load_batch(connection, &retrospective).await?;
    let state = count::find_workflow_state(connection, key).await?;
    let state =
        state.ok_or_else(|| at("workflows", key).damaged_error("it has a retrospective but no row"))?;
    let waiting_in_order = if state.is_in_order() {
        state.window_size()
    } else {
        count::count_waiting_up_to(connection, key, state.claimed, state.handled_up_to).await?
    };
    let mut window = run::list_window_runs(connection, &retrospective, &sample).await?;
    outcome::attach_window_outcomes(connection, key, &mut window).await?;
    checks::attach_window_checks(connection, key, &mut window).await?;
    Ok(ClosingFacts {
        history: load_history(connection, &retrospective).await?,
        window,
        writer: load_writer_facts(connection, &retrospective, &batch, &investigations).await?,
        state,
        waiting_in_order,
        sample,
        investigations,
        timings,
        batch,
        calls,
        retrospective,
    })
}

async fn load_writer_facts(
    connection: &mut Connection,
    retrospective: &Retrospective,
    batch: &[Mutation],
    investigations: &[Investigation],
) -> Result<WriterFacts> {
    let key = &retrospective.key;
    let (applied, changed) = find_applied_changes(connection, retrospective, investigations).await?;
    let feedback = feedback::list_waiting(connection, key).await?;
    let of_feedback = feedback.iter().map(|one| one.feedback.memory);
    let named: Vec<_> = named_memories(batch).into_iter().chain(changed).chain(of_feedback).collect();
    Ok(WriterFacts {
        key: key.clone(),
        retrospective: retrospective.id,
        epoch: retrospective.epoch,
        previous_epoch: find_previous_epoch(connection, retrospective).await?,
        as_of: retrospective.as_of,
        policy: retrospective.policy.clone(),
        pipeline: retrospective.pipeline.as_ref().map(|version| version.pipeline.clone()),
        memories: list_living_and_named(connection, key, &named).await?,
        tombstones: list_tombstones(connection, key).await?,
        applied,
        feedback,
    })
}

/// Loads the batch with which a retrospective settled: its mutations, and what the runs of its window called.
async fn load_batch(
    connection: &mut Connection,
    retrospective: &Retrospective,
) -> Result<(Vec<Mutation>, Option<CallCounts>)> {
    const LOAD: &str =
        "SELECT mutations, calls FROM mutation_batches WHERE tenant = $1 AND retrospective = $2";
    let place = at("mutation_batches.mutations", retrospective.id);
    let stored: Option<(String, Option<String>)> = sqlx::query_as(LOAD)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.id.to_string())
        .fetch_optional(connection)
        .await
        .on_table("mutation_batches")?;
    let (mutations, calls) = stored.ok_or_else(|| place.damaged_error("it is settling but has no batch"))?;
    let calls = calls.map(|calls| at("mutation_batches.calls", retrospective.id).parse_json(&calls));
    Ok((place.parse_json(&mutations)?, calls.transpose()?))
}

/// Finds the epoch of the last closed automatic retrospective before this one; `None` if there is none.
async fn find_previous_epoch(
    connection: &mut Connection,
    retrospective: &Retrospective,
) -> Result<Option<Epoch>> {
    const LAST: &str = "
        SELECT max(epoch) FROM retrospectives
        WHERE tenant = $1 AND workflow = $2 AND epoch < $3 AND state = 'closed' AND request IS NULL";
    let epoch: Option<i64> = sqlx::query_scalar(LAST)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.key.workflow.as_str())
        .bind(to_i64(retrospective.epoch))
        .fetch_one(connection)
        .await
        .on_table("retrospectives")?;
    epoch.map(|epoch| at("retrospectives.epoch", &retrospective.key).parse_unsigned(epoch)).transpose()
}

/// Returns the changes that this retrospective or its runs have already caused, which must not be made again,
/// and the memories that they changed.
async fn find_applied_changes(
    connection: &mut Connection,
    retrospective: &Retrospective,
    investigations: &[Investigation],
) -> Result<(HashSet<ChangeId>, Vec<MemoryId>)> {
    find_changes_caused_by(connection, &retrospective.key, &possible_causes(retrospective, investigations))
        .await
}

/// Stores the effects of closing a retrospective.
pub(crate) async fn store_closing(
    connection: &mut Connection,
    retrospective: &Retrospective,
    closing: &ClosedRetrospective,
    now: Timestamp,
) -> Result<()> {
    let (key, applied) = (&retrospective.key, &closing.applied);
    append_changes(connection, key, &applied.changes).await?;
    store_memories(connection, key, &applied.memories).await?;
    delete_tombstones(connection, key, &applied.expired).await?;
    store_tombstones(connection, key, &applied.tombstones).await?;
    store_report(connection, retrospective, closing).await?;
    credit::record_applied(connection, key, &closing.report).await?;
    manual::store_proposals(connection, key, &closing.proposals).await?;
    rules::insert_batches(connection, &closing.rules).await?;
    feedback::store_changes(connection, &key.tenant, retrospective.id.0, &closing.feedback).await?;
    summaries::delete_old(connection, retrospective).await?;
    // Before opening the next one, because the database allows one open retrospective per workflow.
    retrospective::set_state(connection, retrospective, closing.retrospective_state).await?;
    count::set_workflow_state(connection, key, &closing.workflow_state).await?;
    let opened: Vec<_> = closing.opened.iter().map(|opening| &opening.retrospective).collect();
    retrospective::insert_opened(connection, &opened).await?;
    let next = closing.opened.iter().map(|opening| &opening.message);
    outbox::enqueue_messages(connection, closing.messages.iter().chain(next)).await?;
    match &closing.failure {
        Some(rejection) => {
            let dead_letter =
                failure_dead_letter(retrospective, rejection, closing.report.total.attempts, now);
            delivery::store_dead_letter(connection, &dead_letter).await.map(|_| ())
        }
        None => Ok(()),
    }
}

async fn store_report(
    connection: &mut Connection,
    retrospective: &Retrospective,
    closing: &ClosedRetrospective,
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO reports (tenant, retrospective, report, written_ms) VALUES ($1, $2, $3, ",
        now_ms!(),
        ")"
    );
    let done = sqlx::query(STORE)
        .bind(retrospective.key.tenant.as_str())
        .bind(retrospective.id.to_string())
        .bind(to_json(&closing.report))
        .execute(connection)
        .await
        .on_table("reports")?;
    at("reports", retrospective.id).check_rows_affected(done.rows_affected(), 1)
}
