//! Counts batches of runs, each in about a dozen statements regardless of its size.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::count::{Arrival, ArrivalDecision, CountingFacts};
use retro_core::id::{EventKey, WorkflowKey};
use retro_core::retention::SeenContent;
use retro_core::retrospective::WorkflowState;
use retro_fault::Label;
use retro_store::count::DecideCount;
use retro_store::{CounterStore, IncomingRun, Result};
use retro_store_sql::body::compress_bodies;
use retro_store_sql::count::{
    CONSUMER, CountSnapshot, WorkflowRecord, WritePlan, plan_writes, seen_in_request_order,
};
use retro_store_sql::parse_workflow_key;
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::convert::{OnTable, at, format_policy_time, to_i64};
use crate::open::commit;
use crate::run::store_runs;
use crate::{SqliteStore, now_ms, outbox, retention, retrospective};

#[async_trait]
impl CounterStore for SqliteStore {
    async fn count_runs(
        &self,
        batch: &[IncomingRun],
        look_at: &[WorkflowKey],
        decide: DecideCount<'_>,
    ) -> Result<Vec<ArrivalDecision>> {
        let bodies = compress_bodies(batch)?;
        let arrivals: Vec<Arrival> = batch.iter().map(|run| run.arrival.clone()).collect();
        let mut transaction = self.begin_write().await?;
        let known = load_snapshot(&mut transaction, &arrivals, look_at).await?;
        let effects = decide(known.facts.clone(), &arrivals);
        let plan = plan_writes(batch, &bodies, known, &effects);
        store_events(&mut transaction, &plan.events).await?;
        store_workflows(&mut transaction, &plan).await?;
        store_runs(&mut transaction, &plan.runs, &bodies.bytes).await?;
        let opened: Vec<_> = effects.opened.iter().map(|opening| &opening.retrospective).collect();
        retrospective::insert_opened(&mut transaction, &opened).await?;
        outbox::enqueue_messages(&mut transaction, effects.opened.iter().map(|opening| &opening.message))
            .await?;
        commit(transaction, Label::CountCommit).await?;
        Ok(effects.decisions)
    }

    async fn find_seen_events(&self, events: &[EventKey]) -> Result<Vec<Option<SeenContent>>> {
        let requested: Vec<&EventKey> = events.iter().collect();
        let mut reader = self.reader().acquire().await.on_table("inbox")?;
        seen_in_request_order(events.len(), seen_events(&mut reader, CONSUMER, &requested).await?)
    }

    async fn load_counting_facts(&self, arrivals: &[Arrival]) -> Result<CountingFacts> {
        Ok(load_snapshot(&mut *self.begin_snapshot().await?, arrivals, &[]).await?.facts)
    }

    async fn list_waiting_windows(&self, now: Timestamp, limit: u32) -> Result<Vec<WorkflowKey>> {
        // The fullest window comes first: a window below its threshold may wait forever and must not starve
        // the others at the limit.
        const WAITING: &str = "
            SELECT tenant, workflow FROM workflows
            WHERE open = 0 AND counted > claimed AND (paused_until IS NULL OR paused_until <= ?1)
            ORDER BY counted - claimed DESC, tenant, workflow LIMIT ?2";
        let rows: Vec<(String, String)> = sqlx::query_as(WAITING)
            .bind(format_policy_time(now))
            .bind(limit)
            .fetch_all(self.reader())
            .await
            .on_table("workflows")?;
        rows.iter().map(|(tenant, workflow)| parse_workflow_key(tenant, workflow)).collect()
    }
}

async fn load_snapshot(
    connection: &mut SqliteConnection,
    arrivals: &[Arrival],
    look_at: &[WorkflowKey],
) -> Result<CountSnapshot> {
    let mut known = CountSnapshot::default();
    known_events(connection, arrivals, &mut known).await?;
    known_runs(connection, arrivals, &mut known).await?;
    let keys = arrivals.iter().map(|arrival| &arrival.key).chain(look_at);
    known_workflows(connection, keys, &mut known).await?;
    Ok(known)
}

async fn known_events(
    connection: &mut SqliteConnection,
    arrivals: &[Arrival],
    known: &mut CountSnapshot,
) -> Result<()> {
    let events: Vec<&EventKey> = arrivals.iter().map(|arrival| &arrival.event).collect();
    let seen = seen_events(connection, CONSUMER, &events).await?;
    seen.into_iter().try_for_each(|(index, seen)| known.add_event(arrivals, index, seen))
}

/// Returns the stored content of the events that a consumer has handled, each with its index in `events`.
pub(crate) async fn seen_events(
    connection: &mut SqliteConnection,
    consumer: &str,
    events: &[&EventKey],
) -> Result<Vec<(i64, SeenContent)>> {
    // CROSS JOIN fixes the join order: one index lookup per event instead of a scan of the inbox.
    const SEEN: &str = "
        SELECT requested.key, inbox.content_hash FROM json_each(?2) AS requested
        CROSS JOIN inbox ON inbox.consumer = ?1 AND inbox.tenant = requested.value ->> 0
            AND inbox.source = requested.value ->> 1 AND inbox.event_id = requested.value ->> 2";
    let requested: Value = events.iter().map(|event| event_row(event)).collect();
    let rows: Vec<(i64, String)> = sqlx::query_as(SEEN)
        .bind(consumer)
        .bind(requested.to_string())
        .fetch_all(&mut *connection)
        .await
        .on_table("inbox")?;
    let whole = rows.into_iter().map(|(index, hash)| (index, SeenContent::Full(hash)));
    let purged = retention::purged_events(connection, consumer, events).await?;
    Ok(whole
        .chain(purged.into_iter().map(|(index, content)| (index, SeenContent::Purged(content))))
        .collect())
}

async fn known_runs(
    connection: &mut SqliteConnection,
    arrivals: &[Arrival],
    known: &mut CountSnapshot,
) -> Result<()> {
    const KNOWN: &str = "
        SELECT requested.key, runs.number, runs.ordinal, runs.attempt FROM json_each(?1) AS requested
        CROSS JOIN runs ON runs.tenant = requested.value ->> 0 AND runs.workflow = requested.value ->> 1
            AND runs.run_id = requested.value ->> 2";
    let row = |arrival: &Arrival| {
        json!([arrival.key.tenant.as_str(), arrival.key.workflow.as_str(), arrival.run.run_id.as_str()])
    };
    let requested: Value = arrivals.iter().map(row).collect();
    let rows: Vec<(i64, i64, Option<i64>, i64)> =
        sqlx::query_as(KNOWN).bind(requested.to_string()).fetch_all(connection).await.on_table("runs")?;
    rows.into_iter().try_for_each(|row| known.add_run(arrivals, row))
}

async fn known_workflows(
    connection: &mut SqliteConnection,
    keys: impl Iterator<Item = &WorkflowKey>,
    known: &mut CountSnapshot,
) -> Result<()> {
    const KNOWN: &str = "
        SELECT tenant, workflow, recorded, counted, claimed, epoch, open, failures, paused_until FROM workflows
        WHERE (tenant, workflow) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))";
    let mut keys: Vec<_> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    let requested: Value =
        keys.into_iter().map(|key| json!([key.tenant.as_str(), key.workflow.as_str()])).collect();
    let rows: Vec<WorkflowRecord> = sqlx::query_as(KNOWN)
        .bind(requested.to_string())
        .fetch_all(connection)
        .await
        .on_table("workflows")?;
    rows.into_iter().try_for_each(|row| known.add_workflow(row))
}

async fn store_events(connection: &mut SqliteConnection, events: &[&Arrival]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO inbox (consumer, tenant, source, event_id, content_hash, received_ms)
         SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, ",
        now_ms!(),
        " FROM json_each(?2)"
    );
    let row = |arrival: &&Arrival| {
        let mut row = event_row(&arrival.event);
        row.as_array_mut().expect("a row is a JSON array").push(arrival.content_hash.as_str().into());
        row
    };
    let rows: Vec<Value> = events.iter().map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    // No `ON CONFLICT`: the lookup was part of this transaction, so a duplicate here is a bug and must fail.
    let expected = rows.len();
    let done = sqlx::query(STORE)
        .bind(CONSUMER)
        .bind(Value::from(rows).to_string())
        .execute(connection)
        .await
        .on_table("inbox")?;
    at("inbox", "a batch").check_rows_affected(done.rows_affected(), expected)
}

/// Stores the states of workflows with their highest arrival numbers, and adds their new events to the event
/// counts.
async fn store_workflows(connection: &mut SqliteConnection, plan: &WritePlan<'_>) -> Result<()> {
    let WritePlan { states, recorded, events_of, .. } = plan;
    const STORE: &str = "
        INSERT INTO workflows
            (tenant, workflow, recorded, counted, claimed, epoch, open, failures, paused_until, events)
        SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
            value ->> 7, value ->> 8, value ->> 9
        FROM json_each(?1) WHERE true
        ON CONFLICT (tenant, workflow) DO UPDATE SET recorded = excluded.recorded, counted = excluded.counted,
            claimed = excluded.claimed, epoch = excluded.epoch, open = excluded.open,
            failures = excluded.failures, paused_until = excluded.paused_until,
            events = workflows.events + excluded.events";
    if states.is_empty() {
        return Ok(());
    }
    let row = |(key, state): (&WorkflowKey, &WorkflowState)| {
        json!([
            key.tenant.as_str(),
            key.workflow.as_str(),
            recorded.get(key).copied().unwrap_or_default(),
            state.counted,
            state.claimed,
            state.epoch,
            u8::from(state.open),
            state.failures,
            state.paused_until.map(format_policy_time),
            events_of.get(key).copied().unwrap_or_default(),
        ])
    };
    let rows: Value = states.iter().map(row).collect();
    let done = sqlx::query(STORE).bind(rows.to_string()).execute(connection).await.on_table("workflows")?;
    at("workflows", "a batch").check_rows_affected(done.rows_affected(), states.len())
}

/// Finds the state of a workflow. Returns `None` if the workflow is unknown.
pub(crate) async fn find_workflow_state(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
) -> Result<Option<WorkflowState>> {
    let mut known = CountSnapshot::default();
    known_workflows(connection, std::iter::once(key), &mut known).await?;
    Ok(known.facts.workflows.remove(key))
}

/// Updates the state of an existing workflow without changing the number of its recorded runs.
pub(crate) async fn set_workflow_state(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    state: &WorkflowState,
) -> Result<()> {
    const STORE: &str = "
        UPDATE workflows SET counted = ?3, claimed = ?4, epoch = ?5, open = ?6, failures = ?7, paused_until = ?8
        WHERE tenant = ?1 AND workflow = ?2";
    let done = sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(to_i64(state.counted))
        .bind(to_i64(state.claimed))
        .bind(to_i64(state.epoch))
        .bind(state.open)
        .bind(state.failures)
        .bind(state.paused_until.map(format_policy_time))
        .execute(connection)
        .await
        .on_table("workflows")?;
    at("workflows", key).check_rows_affected(done.rows_affected(), 1)
}

/// Returns the key of an event as a JSON array of tenant, source and id.
fn event_row(event: &EventKey) -> Value {
    json!([event.tenant.as_str(), event.source, event.id])
}
