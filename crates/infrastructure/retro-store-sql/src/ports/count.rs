//! Counts batches of runs, each in about a dozen statements regardless of its size.

use std::collections::HashSet;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::count::{Arrival, ArrivalDecision, CountingFacts};
use retro_core::id::{EventKey, Ordinal, WorkflowKey};
use retro_core::retention::SeenContent;
use retro_core::retrospective::WorkflowState;
use retro_fault::{Guard, Label, is_broken};
use retro_store::count::DecideCount;
use retro_store::{CounterStore, IncomingRun, Result, StoreError, WindowsToCheck};

use super::dialect::{
    Connection, OnTable, ROW_LOCKS, Store, bind_rows, by_bytes, exact_text, for_update, lookup_join, now_ms,
    rows_table,
};
use super::open::commit;
use super::run::store_runs;
use super::{lock, outbox, retention, retrospective};
use crate::rows::count::{
    CONSUMER, CountSnapshot, WorkflowRecord, WritePlan, plan_writes, seen_in_request_order,
};
use crate::{at, format_policy_time, parse_workflow_key, to_i64};

/// Way of counting a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CountPath {
    /// Expects what nearly every batch is: new events of known workflows. The workflows are locked and read by one
    /// statement, and the events are stored without a lookup before.
    AllNew,
    /// Makes rows for unknown workflows, and looks up each event.
    Any,
}

/// Maximum number of attempts to count a batch if concurrent batches of other workflows store its events
/// first. Such a batch has committed by then and is visible to the next attempt, so a further attempt fails
/// only if yet another batch has events with the same ids.
const BEGUN_MAX: u32 = 4;

#[async_trait]
impl CounterStore for Store {
    async fn count_runs(
        &self,
        batch: &[IncomingRun],
        windows: WindowsToCheck<'_>,
        decide: DecideCount<'_>,
    ) -> Result<Vec<ArrivalDecision>> {
        let arrivals: Vec<Arrival> = batch.iter().map(|run| run.arrival.clone()).collect();
        // Without events, or if each event looks new (fault injection), there is nothing to expect.
        if !batch.is_empty()
            && !is_broken(Guard::Inbox)
            && let Some(counted) =
                self.count_once(CountPath::AllNew, batch, &arrivals, windows, decide).await?
        {
            return Ok(counted);
        }
        for _ in 0..BEGUN_MAX {
            if let Some(counted) = self.count_once(CountPath::Any, batch, &arrivals, windows, decide).await? {
                return Ok(counted);
            }
        }
        Err(StoreError::Unavailable(format!("inbox: others stored events of this batch {BEGUN_MAX} times")))
    }

    async fn find_seen_events(&self, events: &[EventKey]) -> Result<Vec<Option<SeenContent>>> {
        let requested: Vec<&EventKey> = events.iter().collect();
        let mut connection = self.reader().acquire().await.on_table("inbox")?;
        seen_in_request_order(events.len(), seen_events(&mut connection, CONSUMER, &requested).await?)
    }

    async fn load_counting_facts(&self, arrivals: &[Arrival]) -> Result<CountingFacts> {
        let keys: Vec<&WorkflowKey> = arrivals.iter().map(|arrival| &arrival.key).collect();
        Ok(add_known(&mut *self.begin_snapshot().await?, arrivals, &keys).await?.facts)
    }

    async fn list_waiting_windows(&self, now: Timestamp, limit: u32) -> Result<Vec<WorkflowKey>> {
        // The fullest window comes first: a window below its threshold may wait forever and must not starve
        // the others at the limit.
        const WAITING: &str = "
            SELECT /* reads all: nearly every workflow has a window, and the fullest comes first */ tenant, workflow
            FROM workflows WHERE NOT open AND counted > claimed AND (paused_until IS NULL OR paused_until <= $1)
            ORDER BY counted - claimed DESC, tenant, workflow LIMIT $2";
        let rows: Vec<(String, String)> = sqlx::query_as(WAITING)
            .bind(format_policy_time(now))
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("workflows")?;
        rows.iter().map(|(tenant, workflow)| parse_workflow_key(tenant, workflow)).collect()
    }
}

impl Store {
    /// Counts a batch in one transaction. Returns `None` and stores nothing if the batch is not what the path expects,
    /// or if another batch stored one of the events after this transaction looked them up.
    async fn count_once(
        &self,
        path: CountPath,
        batch: &[IncomingRun],
        arrivals: &[Arrival],
        windows: WindowsToCheck<'_>,
        decide: DecideCount<'_>,
    ) -> Result<Option<Vec<ArrivalDecision>>> {
        let mut transaction = self.begin_write().await?;
        // Dropping the transaction rolls back.
        let known = match path {
            CountPath::AllNew => match store_new_events(&mut transaction, arrivals, windows).await? {
                Some(known) => known,
                None => return Ok(None),
            },
            CountPath::Any => load_snapshot(&mut transaction, arrivals, windows).await?,
        };
        let effects = decide(known.facts.clone(), arrivals);
        let plan = plan_writes(batch, known, &effects);
        // If this stores fewer, the decision was made without the other batch's events.
        if path == CountPath::Any && !store_events(&mut transaction, &plan.events).await? {
            return Ok(None);
        }
        store_plan(&mut transaction, &plan).await?;
        let opened: Vec<_> = effects.opened.iter().map(|opening| &opening.retrospective).collect();
        retrospective::insert_opened(&mut transaction, &opened).await?;
        outbox::enqueue_messages(&mut transaction, effects.opened.iter().map(|opening| &opening.message))
            .await?;
        commit(transaction, Label::CountCommit).await?;
        Ok(Some(effects.decisions))
    }
}

/// Locks the workflows of a batch, stores its events, and loads the rest of what the decision needs. Returns `None` if a
/// workflow has no row to lock, or if an event was handled before.
async fn store_new_events(
    connection: &mut Connection,
    arrivals: &[Arrival],
    windows: WindowsToCheck<'_>,
) -> Result<Option<CountSnapshot>> {
    let mut keys: Vec<&WorkflowKey> =
        arrivals.iter().map(|arrival| &arrival.key).chain(windows.keys).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut known = CountSnapshot::default();
    let locked = lock_and_load_workflows(connection, &keys, &mut known).await?;
    if ROW_LOCKS && locked < keys.len() {
        return Ok(None);
    }
    // Of an event that is there twice, the first is new.
    let mut seen = HashSet::with_capacity(arrivals.len());
    let events: Vec<&Arrival> = arrivals.iter().filter(|arrival| seen.insert(&arrival.event)).collect();
    if insert_events(connection, &events).await? < events.len() as u64 {
        return Ok(None);
    }
    // After the insertion: an event that is being purged is found in at least one of the two tables.
    let requested: Vec<&EventKey> = events.iter().map(|arrival| &arrival.event).collect();
    if !retention::purged_events(connection, CONSUMER, &requested).await?.is_empty() {
        return Ok(None);
    }
    known_runs(connection, arrivals, &mut known).await?;
    add_waiting_in_order(connection, windows, &mut known).await?;
    Ok(Some(known))
}

/// Locks the rows of workflows in key order until the transaction ends, and adds their states to the snapshot. Returns
/// the number of locked rows. A row that only serves as a lock (see [`lock`]) is not a known workflow.
async fn lock_and_load_workflows(
    connection: &mut Connection,
    keys: &[&WorkflowKey],
    known: &mut CountSnapshot,
) -> Result<usize> {
    const LOCK: &str = concat!(
        "SELECT tenant, workflow, recorded, counted, claimed, epoch, open, failures, paused_until,
             counted_up_to, handled_up_to FROM workflows
         WHERE (tenant, workflow) IN (SELECT tenant, workflow FROM ",
        rows_table!("requested", "$1" "tenant", "$2" "workflow"),
        ") ORDER BY tenant, workflow",
        for_update!()
    );
    let query = bind_rows!(sqlx::query_as(LOCK), keys, |key| [key.tenant.as_str(), key.workflow.as_str()]);
    let rows: Vec<WorkflowRecord> = query.fetch_all(connection).await.on_table("workflows")?;
    let locked = rows.len();
    rows.into_iter()
        .filter(WorkflowRecord::has_runs)
        .try_for_each(|row| known.add_workflow(row))
        .map(|()| locked)
}

/// Locks the workflows of a batch, then loads the stored state of these workflows and of the batch's runs and
/// events.
async fn load_snapshot(
    connection: &mut Connection,
    arrivals: &[Arrival],
    windows: WindowsToCheck<'_>,
) -> Result<CountSnapshot> {
    let mut of_batch: Vec<&WorkflowKey> = arrivals.iter().map(|arrival| &arrival.key).collect();
    of_batch.sort_unstable();
    of_batch.dedup();
    let others: Vec<&WorkflowKey> =
        windows.keys.iter().filter(|key| of_batch.binary_search(key).is_err()).collect();
    lock::lock_workflows(connection, &of_batch, &others).await?;
    of_batch.extend(others);
    let mut known = add_known(connection, arrivals, &of_batch).await?;
    add_waiting_in_order(connection, windows, &mut known).await?;
    Ok(known)
}

async fn add_known(
    connection: &mut Connection,
    arrivals: &[Arrival],
    keys: &[&WorkflowKey],
) -> Result<CountSnapshot> {
    let mut known = CountSnapshot::default();
    known_events(connection, arrivals, &mut known).await?;
    known_runs(connection, arrivals, &mut known).await?;
    known_workflows(connection, keys, &mut known).await?;
    Ok(known)
}

async fn known_events(
    connection: &mut Connection,
    arrivals: &[Arrival],
    known: &mut CountSnapshot,
) -> Result<()> {
    let events: Vec<&EventKey> = arrivals.iter().map(|arrival| &arrival.event).collect();
    let seen = seen_events(connection, CONSUMER, &events).await?;
    seen.into_iter().try_for_each(|(index, seen)| known.add_event(arrivals, index, seen))
}

/// Returns the stored content of the events that a consumer has handled, each with its index in `events`.
pub(crate) async fn seen_events(
    connection: &mut Connection,
    consumer: &str,
    events: &[&EventKey],
) -> Result<Vec<(i64, SeenContent)>> {
    const SEEN: &str = concat!(
        "SELECT requested.place - 1, inbox.content_hash FROM ",
        rows_table!("requested", "$2" "tenant", "$3" "source", "$4" "id"),
        lookup_join!(
            "inbox",
            "content_hash",
            "inbox.consumer = $1 AND inbox.tenant = requested.tenant AND inbox.source = requested.source
                AND inbox.event_id = requested.id"
        )
    );
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let query = sqlx::query_as(SEEN).bind(consumer);
    let query = bind_rows!(query, events, |event| [
        event.tenant.as_str(),
        exact_text(&event.source),
        exact_text(&event.id),
    ]);
    let rows: Vec<(i64, String)> = query.fetch_all(&mut *connection).await.on_table("inbox")?;
    let whole = rows.into_iter().map(|(index, hash)| (index, SeenContent::Full(hash)));
    // Keep this order: an event that is purged between the two queries is still found by the second one.
    let purged = retention::purged_events(connection, consumer, events).await?;
    Ok(whole
        .chain(purged.into_iter().map(|(index, content)| (index, SeenContent::Purged(content))))
        .collect())
}

async fn known_runs(
    connection: &mut Connection,
    arrivals: &[Arrival],
    known: &mut CountSnapshot,
) -> Result<()> {
    const KNOWN: &str = concat!(
        "SELECT requested.place - 1, runs.number, runs.ordinal, runs.attempt FROM ",
        rows_table!("requested", "$1" "tenant", "$2" "workflow", "$3" "run"),
        lookup_join!(
            "runs",
            "number, ordinal, attempt",
            "runs.tenant = requested.tenant AND runs.workflow = requested.workflow AND runs.run_id = requested.run"
        )
    );
    if arrivals.is_empty() {
        return Ok(());
    }
    let query = bind_rows!(sqlx::query_as(KNOWN), arrivals, |arrival| [
        arrival.key.tenant.as_str(),
        arrival.key.workflow.as_str(),
        arrival.run.run_id.as_str(),
    ]);
    let rows: Vec<(i64, i64, Option<i64>, i64)> = query.fetch_all(connection).await.on_table("runs")?;
    rows.into_iter().try_for_each(|row| known.add_run(arrivals, row))
}

/// Adds the known workflows of the batch to the snapshot. A row that only serves as a lock (see [`lock`]) is
/// not a known workflow.
async fn known_workflows(
    connection: &mut Connection,
    keys: &[&WorkflowKey],
    known: &mut CountSnapshot,
) -> Result<()> {
    const KNOWN: &str = concat!(
        "SELECT tenant, workflow, recorded, counted, claimed, epoch, open, failures, paused_until,
             counted_up_to, handled_up_to FROM workflows
         WHERE recorded > 0 AND (tenant, workflow) IN (SELECT tenant, workflow FROM ",
        rows_table!("requested", "$1" "tenant", "$2" "workflow"),
        ")"
    );
    let query = bind_rows!(sqlx::query_as(KNOWN), keys, |key| [key.tenant.as_str(), key.workflow.as_str()]);
    let rows: Vec<WorkflowRecord> = query.fetch_all(connection).await.on_table("workflows")?;
    rows.into_iter().try_for_each(|row| known.add_workflow(row))
}

/// Adds the number of waiting runs that are in order, of those workflows to check of which not all are.
async fn add_waiting_in_order(
    connection: &mut Connection,
    windows: WindowsToCheck<'_>,
    known: &mut CountSnapshot,
) -> Result<()> {
    for key in windows.keys {
        let state = known.facts.workflows.get(key).filter(|state| !state.open && !state.is_in_order());
        if let Some(claimed) = state.map(|state| state.claimed) {
            let waiting = count_waiting_up_to(connection, key, claimed, windows.handled_up_to).await?;
            known.facts.waiting_in_order.insert(key.clone(), waiting);
        }
    }
    Ok(())
}

/// Counts the runs of a workflow that were counted after the ordinal `claimed` and have at most this position in the
/// intake stream.
pub(crate) async fn count_waiting_up_to(
    connection: &mut Connection,
    key: &WorkflowKey,
    claimed: Ordinal,
    position: u64,
) -> Result<u64> {
    const COUNT: &str = "
        SELECT count(*) FROM runs WHERE tenant = $1 AND workflow = $2 AND ordinal > $3 AND intake_sequence <= $4";
    let waiting: i64 = sqlx::query_scalar(COUNT)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(to_i64(claimed))
        .bind(to_i64(position))
        .fetch_one(connection)
        .await
        .on_table("runs")?;
    at("runs.ordinal", key).parse_unsigned(waiting)
}

/// Stores events in key order, so concurrent batches cannot deadlock. Returns `false` if another batch has
/// stored one of the events in the meantime. Fails if write transactions exclude each other and an event is
/// stored all the same: the lookup was part of this transaction, so that is a bug.
async fn store_events(connection: &mut Connection, events: &[&Arrival]) -> Result<bool> {
    let stored = insert_events(connection, events).await?;
    if !ROW_LOCKS {
        at("inbox", "a batch").check_rows_affected(stored, events.len())?;
    }
    Ok(stored == events.len() as u64)
}

/// Inserts those events that are not stored yet, in key order. Returns their number.
async fn insert_events(connection: &mut Connection, events: &[&Arrival]) -> Result<u64> {
    const STORE: &str = concat!(
        "INSERT INTO inbox (consumer, tenant, source, event_id, content_hash, received_ms)
         SELECT $1, tenant, source, id, hash, ",
        now_ms!(),
        " FROM ",
        rows_table!("new", "$2" "tenant", "$3" "source", "$4" "id", "$5" "hash"),
        " ORDER BY tenant",
        by_bytes!(),
        ", source, id ON CONFLICT (consumer, tenant, source, event_id) DO NOTHING"
    );
    if events.is_empty() {
        return Ok(0);
    }
    let query = bind_rows!(sqlx::query(STORE).bind(CONSUMER), events, |arrival| [
        arrival.event.tenant.as_str(),
        exact_text(&arrival.event.source),
        exact_text(&arrival.event.id),
        arrival.content_hash.as_str(),
    ]);
    Ok(query.execute(connection).await.on_table("inbox")?.rows_affected())
}

async fn store_plan(connection: &mut Connection, plan: &WritePlan<'_>) -> Result<()> {
    store_workflows(connection, plan).await?;
    store_runs(connection, &plan.runs).await
}

/// Stores the states of workflows with their highest arrival numbers, and adds their new events to the event
/// counts.
async fn store_workflows(connection: &mut Connection, plan: &WritePlan<'_>) -> Result<()> {
    // In Postgres the rows exist and are locked, or two batches would overwrite each other's counts.
    let WritePlan { states, recorded, events_of, .. } = plan;
    const STORE: &str = concat!(
        "INSERT INTO workflows
             (tenant, workflow, recorded, counted, claimed, epoch, open, failures, paused_until, events,
              counted_up_to, handled_up_to)
         SELECT tenant, workflow, recorded, counted, claimed, epoch, open, failures, paused_until, events,
             counted_up_to, handled_up_to FROM ",
        rows_table!(
            "new", "$1" "tenant", "$2" "workflow", "$3" "recorded", "$4" "counted", "$5" "claimed", "$6" "epoch",
            "$7" "open", "$8" "failures", "$9" "paused_until", "$10" "events",
            "$11" "counted_up_to", "$12" "handled_up_to"
        ),
        " WHERE true ON CONFLICT (tenant, workflow) DO UPDATE SET recorded = excluded.recorded,
             counted = excluded.counted, claimed = excluded.claimed, epoch = excluded.epoch, open = excluded.open,
             failures = excluded.failures, paused_until = excluded.paused_until,
             events = workflows.events + excluded.events, counted_up_to = excluded.counted_up_to,
             handled_up_to = excluded.handled_up_to"
    );
    if states.is_empty() {
        return Ok(());
    }
    let rows: Vec<(&WorkflowKey, &WorkflowState)> = states.iter().collect();
    let query = bind_rows!(sqlx::query(STORE), rows, |(key, state)| [
        key.tenant.as_str(),
        key.workflow.as_str(),
        to_i64(recorded.get(key).copied().unwrap_or_default()),
        to_i64(state.counted),
        to_i64(state.claimed),
        to_i64(state.epoch),
        state.open,
        i64::from(state.failures),
        state.paused_until.map(format_policy_time),
        to_i64(events_of.get(key).copied().unwrap_or_default()),
        to_i64(state.counted_up_to),
        to_i64(state.handled_up_to),
    ]);
    let done = query.execute(connection).await.on_table("workflows")?;
    at("workflows", "a batch").check_rows_affected(done.rows_affected(), states.len())
}

/// Finds the state of a workflow. Returns `None` if the workflow is unknown.
pub(crate) async fn find_workflow_state(
    connection: &mut Connection,
    key: &WorkflowKey,
) -> Result<Option<WorkflowState>> {
    let mut known = CountSnapshot::default();
    known_workflows(connection, &[key], &mut known).await?;
    Ok(known.facts.workflows.remove(key))
}

/// Updates the state of an existing workflow without changing the number of its recorded runs.
pub(crate) async fn set_workflow_state(
    connection: &mut Connection,
    key: &WorkflowKey,
    state: &WorkflowState,
) -> Result<()> {
    const STORE: &str = "
        UPDATE workflows SET counted = $3, claimed = $4, epoch = $5, open = $6, failures = $7, paused_until = $8,
            counted_up_to = $9, handled_up_to = $10
        WHERE tenant = $1 AND workflow = $2";
    let done = sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(to_i64(state.counted))
        .bind(to_i64(state.claimed))
        .bind(to_i64(state.epoch))
        .bind(state.open)
        .bind(i64::from(state.failures))
        .bind(state.paused_until.map(format_policy_time))
        .bind(to_i64(state.counted_up_to))
        .bind(to_i64(state.handled_up_to))
        .execute(connection)
        .await
        .on_table("workflows")?;
    at("workflows", key).check_rows_affected(done.rows_affected(), 1)
}
