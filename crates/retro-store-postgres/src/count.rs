//! Counting a batch: what is known is loaded, the decision is taken, and its effects are stored, by a dozen
//! statements however large the batch is.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::count::{Arrival, Counted, Facts};
use retro_core::id::{EventKey, WorkflowKey};
use retro_core::keep::Seen;
use retro_core::retrospective::WorkflowState;
use retro_fault::Label;
use retro_store::count::Decide;
use retro_store::{CounterStore, IncomingRun, Result, StoreError};
use retro_store_sql::body::{Packed, pack};
use retro_store_sql::count::{CONSUMER, Known, Plan, WorkflowRecord, in_order, plan};
use retro_store_sql::{at, integer, policy_time, workflow_key};
use sqlx::PgConnection;

use crate::answer::OnTable;
use crate::open::commit;
use crate::run::store_runs;
use crate::{PostgresStore, keep, lock, now_ms, outbox, retrospective};

/// How often a batch is begun anew because another one, of other workflows, stored one of its events meanwhile. What
/// it lost to is committed by then and seen the next time, so each time needs yet another batch with the same ids.
const BEGUN_MAX: u32 = 4;

#[async_trait]
impl CounterStore for PostgresStore {
    async fn count(
        &self,
        batch: &[IncomingRun],
        look_at: &[WorkflowKey],
        decide: Decide<'_>,
    ) -> Result<Vec<Counted>> {
        let bodies = pack(batch)?;
        let arrivals: Vec<Arrival> = batch.iter().map(|run| run.arrival.clone()).collect();
        for _ in 0..BEGUN_MAX {
            if let Some(counted) = self.count_once(batch, &bodies, &arrivals, look_at, decide).await? {
                return Ok(counted);
            }
        }
        Err(StoreError::Unavailable(format!("inbox: others stored events of this batch {BEGUN_MAX} times")))
    }

    async fn seen(&self, events: &[EventKey]) -> Result<Vec<Option<Seen>>> {
        let asked: Vec<&EventKey> = events.iter().collect();
        let mut connection = self.reader().acquire().await.on("inbox")?;
        in_order(events.len(), seen_events(&mut connection, CONSUMER, &asked).await?)
    }

    async fn known(&self, arrivals: &[Arrival]) -> Result<Facts> {
        let keys: Vec<&WorkflowKey> = arrivals.iter().map(|arrival| &arrival.key).collect();
        Ok(look_up(&mut *self.snapshot().await?, arrivals, &keys).await?.facts)
    }

    async fn waiting_windows(&self, now: Timestamp, limit: u32) -> Result<Vec<WorkflowKey>> {
        // The fullest first: below its threshold a window may wait for ever and must not stand in another's way.
        const WAITING: &str = "
            SELECT tenant, workflow FROM workflows
            WHERE NOT open AND counted > claimed AND (paused_until IS NULL OR paused_until <= $1)
            ORDER BY counted - claimed DESC, tenant, workflow LIMIT $2";
        let rows: Vec<(String, String)> = sqlx::query_as(WAITING)
            .bind(policy_time(now))
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on("workflows")?;
        rows.iter().map(|(tenant, workflow)| workflow_key(tenant, workflow)).collect()
    }
}

impl PostgresStore {
    /// `None`, and nothing is stored, when another batch stored one of the events since they were looked up.
    async fn count_once(
        &self,
        batch: &[IncomingRun],
        bodies: &Packed,
        arrivals: &[Arrival],
        look_at: &[WorkflowKey],
        decide: Decide<'_>,
    ) -> Result<Option<Vec<Counted>>> {
        let mut transaction = self.write().await?;
        let known = load(&mut transaction, arrivals, look_at).await?;
        let effects = decide(known.facts.clone(), arrivals);
        let plan = plan(batch, bodies, known, &effects);
        if !store_events(&mut transaction, &plan.events).await? {
            return Ok(None);
        }
        store(&mut transaction, &plan, bodies).await?;
        let opened: Vec<_> = effects.opened.iter().map(|opening| &opening.retrospective).collect();
        retrospective::open(&mut transaction, &opened).await?;
        outbox::put(&mut transaction, effects.opened.iter().map(|opening| &opening.message)).await?;
        commit(transaction, Label::CountCommit).await?;
        Ok(Some(effects.counted))
    }
}

/// Locks the workflows, then loads what is known about them, their runs and their events.
async fn load(connection: &mut PgConnection, arrivals: &[Arrival], look_at: &[WorkflowKey]) -> Result<Known> {
    let mut of_batch: Vec<&WorkflowKey> = arrivals.iter().map(|arrival| &arrival.key).collect();
    of_batch.sort_unstable();
    of_batch.dedup();
    let others: Vec<&WorkflowKey> =
        look_at.iter().filter(|key| of_batch.binary_search(key).is_err()).collect();
    lock::workflows(connection, &of_batch, &others).await?;
    of_batch.extend(others);
    look_up(connection, arrivals, &of_batch).await
}

async fn look_up(
    connection: &mut PgConnection,
    arrivals: &[Arrival],
    keys: &[&WorkflowKey],
) -> Result<Known> {
    let mut known = Known::default();
    known_events(connection, arrivals, &mut known).await?;
    known_runs(connection, arrivals, &mut known).await?;
    known_workflows(connection, keys, &mut known).await?;
    Ok(known)
}

async fn known_events(connection: &mut PgConnection, arrivals: &[Arrival], known: &mut Known) -> Result<()> {
    let events: Vec<&EventKey> = arrivals.iter().map(|arrival| &arrival.event).collect();
    let seen = seen_events(connection, CONSUMER, &events).await?;
    seen.into_iter().try_for_each(|(index, seen)| known.event(arrivals, index, seen))
}

/// What a consumer remembers of events: the place of each that was seen among those asked for, and of its content. Looks each up by
/// the inbox's key. `LATERAL … OFFSET 0` leaves no other way: a plain join that was planned while the table was small is
/// kept, and reads the whole inbox for every batch until the server has looked at its size.
pub(crate) async fn seen_events(
    connection: &mut PgConnection,
    consumer: &str,
    events: &[&EventKey],
) -> Result<Vec<(i64, Seen)>> {
    const SEEN: &str = "
        SELECT asked.place - 1, inbox.content_hash
        FROM unnest($2::text[], $3::bytea[], $4::bytea[]) WITH ORDINALITY AS asked (tenant, source, id, place)
        CROSS JOIN LATERAL (SELECT content_hash FROM inbox WHERE consumer = $1 AND tenant = asked.tenant
            AND source = asked.source AND event_id = asked.id OFFSET 0) AS inbox";
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let rows: Vec<(i64, String)> = sqlx::query_as(SEEN)
        .bind(consumer)
        .bind(column(events, |event| event.tenant.as_str()))
        .bind(column(events, |event| event.source.as_bytes()))
        .bind(column(events, |event| event.id.as_bytes()))
        .fetch_all(&mut *connection)
        .await
        .on("inbox")?;
    let whole = rows.into_iter().map(|(index, hash)| (index, Seen::Whole(hash)));
    // In this order: an event that is purged between the two questions is found by the second.
    let purged = keep::purged_events(connection, consumer, events).await?;
    Ok(whole.chain(purged.into_iter().map(|(index, content)| (index, Seen::Purged(content)))).collect())
}

async fn known_runs(connection: &mut PgConnection, arrivals: &[Arrival], known: &mut Known) -> Result<()> {
    const KNOWN: &str = "
        SELECT asked.place - 1, runs.number, runs.ordinal, runs.attempt
        FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS asked (tenant, workflow, run, place)
        CROSS JOIN LATERAL (SELECT number, ordinal, attempt FROM runs WHERE tenant = asked.tenant
            AND workflow = asked.workflow AND run_id = asked.run OFFSET 0) AS runs";
    if arrivals.is_empty() {
        return Ok(());
    }
    let rows: Vec<(i64, i64, Option<i64>, i64)> = sqlx::query_as(KNOWN)
        .bind(column(arrivals, |arrival| arrival.key.tenant.as_str()))
        .bind(column(arrivals, |arrival| arrival.key.workflow.as_str()))
        .bind(column(arrivals, |arrival| arrival.run.run_id.as_str()))
        .fetch_all(connection)
        .await
        .on("runs")?;
    rows.into_iter().try_for_each(|row| known.run(arrivals, row))
}

/// A row that is only a lock (see [`lock`]) is not known.
async fn known_workflows(
    connection: &mut PgConnection,
    keys: &[&WorkflowKey],
    known: &mut Known,
) -> Result<()> {
    const KNOWN: &str = "
        SELECT tenant, workflow, recorded, counted, claimed, epoch, open, failures, paused_until FROM workflows
        WHERE (tenant, workflow) IN (SELECT * FROM unnest($1::text[], $2::text[])) AND recorded > 0";
    let rows: Vec<WorkflowRecord> = sqlx::query_as(KNOWN)
        .bind(column(keys, |key| key.tenant.as_str()))
        .bind(column(keys, |key| key.workflow.as_str()))
        .fetch_all(connection)
        .await
        .on("workflows")?;
    rows.into_iter().try_for_each(|row| known.workflow(row))
}

/// Stores events in the order of their keys, so that two batches wait for each other in one direction only. Returns
/// false when one of them is there by now.
async fn store_events(connection: &mut PgConnection, events: &[&Arrival]) -> Result<bool> {
    const STORE: &str = concat!(
        "INSERT INTO inbox (consumer, tenant, source, event_id, content_hash, received_ms)
         SELECT $1, tenant, source, id, hash, ",
        now_ms!(),
        " FROM unnest($2::text[], $3::bytea[], $4::bytea[], $5::text[]) AS new (tenant, source, id, hash)
         ORDER BY tenant COLLATE \"C\", source, id ON CONFLICT (consumer, tenant, source, event_id) DO NOTHING"
    );
    if events.is_empty() {
        return Ok(true);
    }
    let done = sqlx::query(STORE)
        .bind(CONSUMER)
        .bind(column(events, |arrival| arrival.event.tenant.as_str()))
        .bind(column(events, |arrival| arrival.event.source.as_bytes()))
        .bind(column(events, |arrival| arrival.event.id.as_bytes()))
        .bind(column(events, |arrival| arrival.content_hash.as_str()))
        .execute(connection)
        .await
        .on("inbox")?;
    Ok(done.rows_affected() == events.len() as u64)
}

async fn store(connection: &mut PgConnection, plan: &Plan<'_>, bodies: &Packed) -> Result<()> {
    store_workflows(connection, plan).await?;
    store_runs(connection, &plan.runs, &bodies.bytes).await
}

/// Stores the states of workflows, with the last place of arrival given in each and the events that it had now. Their rows are there and locked.
async fn store_workflows(connection: &mut PgConnection, plan: &Plan<'_>) -> Result<()> {
    let Plan { states, recorded, events_of, .. } = plan;
    const STORE: &str = "
        UPDATE workflows SET recorded = new.recorded, counted = new.counted, claimed = new.claimed,
            epoch = new.epoch, open = new.open, failures = new.failures, paused_until = new.paused_until,
            events = workflows.events + new.events
        FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bool[],
            $8::bigint[], $9::text[], $10::bigint[])
            AS new (tenant, workflow, recorded, counted, claimed, epoch, open, failures, paused_until, events)
        WHERE workflows.tenant = new.tenant AND workflows.workflow = new.workflow";
    if states.is_empty() {
        return Ok(());
    }
    let rows: Vec<(&WorkflowKey, &WorkflowState)> = states.iter().collect();
    let done = sqlx::query(STORE)
        .bind(column(&rows, |(key, _)| key.tenant.as_str()))
        .bind(column(&rows, |(key, _)| key.workflow.as_str()))
        .bind(column(&rows, |(key, _)| integer(recorded.get(key).copied().unwrap_or_default())))
        .bind(column(&rows, |(_, state)| integer(state.counted)))
        .bind(column(&rows, |(_, state)| integer(state.claimed)))
        .bind(column(&rows, |(_, state)| integer(state.epoch)))
        .bind(column(&rows, |(_, state)| state.open))
        .bind(column(&rows, |(_, state)| i64::from(state.failures)))
        .bind(column(&rows, |(_, state)| state.paused_until.map(policy_time)))
        .bind(column(&rows, |(key, _)| integer(events_of.get(key).copied().unwrap_or_default())))
        .execute(connection)
        .await
        .on("workflows")?;
    at("workflows", "a batch").touched(done.rows_affected(), states.len())
}

/// Loads the state of one workflow.
pub(crate) async fn workflow_state(
    connection: &mut PgConnection,
    key: &WorkflowKey,
) -> Result<Option<WorkflowState>> {
    let mut known = Known::default();
    known_workflows(connection, &[key], &mut known).await?;
    Ok(known.facts.workflows.remove(key))
}

/// Stores the state of a workflow that is there; the runs recorded stay.
pub(crate) async fn set_workflow_state(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    state: &WorkflowState,
) -> Result<()> {
    const STORE: &str = "
        UPDATE workflows SET counted = $3, claimed = $4, epoch = $5, open = $6, failures = $7, paused_until = $8
        WHERE tenant = $1 AND workflow = $2";
    let done = sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(integer(state.counted))
        .bind(integer(state.claimed))
        .bind(integer(state.epoch))
        .bind(state.open)
        .bind(i64::from(state.failures))
        .bind(state.paused_until.map(policy_time))
        .execute(connection)
        .await
        .on("workflows")?;
    at("workflows", key).touched(done.rows_affected(), 1)
}

/// One column of rows, as an array to be taken apart by `unnest`.
pub(crate) fn column<'a, T, C>(rows: &'a [T], of: impl Fn(&'a T) -> C) -> Vec<C> {
    rows.iter().map(of).collect()
}
