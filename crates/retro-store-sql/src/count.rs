//! Counting: what is known before a batch, and which rows it writes.

use std::collections::{BTreeMap, HashMap};

use retro_core::count::{Arrival, Counted, Disposition, Effects, Facts, KnownRun};
use retro_core::id::{EventKey, Ordinal, RunId, WorkflowKey};
use retro_core::keep::Seen;
use retro_core::retrospective::WorkflowState;
use retro_fault::{Guard, broken};
use retro_store::{IncomingRun, Result};

use crate::body::Packed;
use crate::{at, workflow_key};

/// The counter's name in the inbox.
pub const CONSUMER: &str = "counter";

/// What is known before a batch, with what only the store needs to know.
#[derive(Debug, Default)]
pub struct Known {
    /// What the decision is told.
    pub facts: Facts,
    /// The place of arrival of every known run of the batch.
    pub numbers: HashMap<(WorkflowKey, RunId), u64>,
    /// The last place given in each known workflow.
    pub recorded: BTreeMap<WorkflowKey, u64>,
}

impl Known {
    /// Adds an event that was seen before: its place in the batch, and what is remembered of its content.
    pub fn event(&mut self, arrivals: &[Arrival], index: i64, seen: Seen) -> Result<()> {
        let event: EventKey = arrival(arrivals, "inbox", index)?.event.clone();
        self.facts.events.insert(event, seen);
        Ok(())
    }

    /// Adds a row of `runs`: the run's place in the batch, its place of arrival, ordinal and attempt.
    pub fn run(&mut self, arrivals: &[Arrival], row: (i64, i64, Option<i64>, i64)) -> Result<()> {
        let (index, number, ordinal, attempt) = row;
        let arrival = arrival(arrivals, "runs", index)?;
        let place = at("runs", format!("{}/{}", arrival.key, arrival.run.run_id));
        let ordinal = ordinal.map(|ordinal| place.unsigned(ordinal)).transpose()?;
        let run = KnownRun { attempt: place.unsigned(attempt)?, ordinal };
        if broken(Guard::Inbox) {
            return Ok(());
        }
        let key = (arrival.key.clone(), arrival.run.run_id.clone());
        self.numbers.insert(key.clone(), place.unsigned(number)?);
        self.facts.runs.insert(key, run);
        Ok(())
    }

    /// Adds a row of `workflows`.
    pub fn workflow(&mut self, row: WorkflowRecord) -> Result<()> {
        let (key, state, recorded) = row.read()?;
        self.facts.workflows.insert(key.clone(), state);
        self.recorded.insert(key, recorded);
        Ok(())
    }
}

/// What is remembered of so many events that were asked for: places and what stands there, as one entry each. What was
/// found twice, whole and purged at this moment, is the same event.
pub fn in_order(asked: usize, found: Vec<(i64, Seen)>) -> Result<Vec<Option<Seen>>> {
    let mut seen = vec![None; asked];
    for (index, one) in found {
        let place = at("inbox", index);
        let slot = seen.get_mut(place.unsigned::<usize>(index)?);
        *slot.ok_or_else(|| place.damaged("nobody asked for it"))? = Some(one);
    }
    Ok(seen)
}

fn arrival<'a>(arrivals: &'a [Arrival], table: &'static str, index: i64) -> Result<&'a Arrival> {
    let place = at(table, index);
    arrivals.get(place.unsigned::<usize>(index)?).ok_or_else(|| place.damaged("nobody asked for it"))
}

/// What a batch writes.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The events that were not seen before.
    pub events: Vec<&'a Arrival>,
    /// How many of them each workflow had.
    pub events_of: BTreeMap<WorkflowKey, u64>,
    /// One entry a run.
    pub runs: Vec<RunWrite<'a>>,
    /// One entry a workflow that changes.
    pub states: BTreeMap<WorkflowKey, WorkflowState>,
    /// The last place given in each workflow.
    pub recorded: BTreeMap<WorkflowKey, u64>,
}

/// A run to be written, new or known.
#[derive(Debug)]
pub struct RunWrite<'a> {
    /// As it came.
    pub incoming: &'a IncomingRun,
    /// Its place of arrival: the key of its details.
    pub number: u64,
    /// Whether it was stored before this batch.
    pub known: bool,
    /// Its place among the counted ones.
    pub ordinal: Option<Ordinal>,
    /// Offset and length of its compressed body among those of the batch.
    pub body: Option<(usize, usize)>,
}

impl RunWrite<'_> {
    /// Its tenant.
    pub fn tenant(&self) -> &str {
        self.incoming.arrival.key.tenant.as_str()
    }

    /// What counting it continues, as it is kept.
    pub fn trace(&self) -> Option<String> {
        self.incoming.trace.as_ref().map(ToString::to_string)
    }

    /// Its workflow.
    pub fn workflow(&self) -> &str {
        self.incoming.arrival.key.workflow.as_str()
    }
}

/// Gives new runs their places. Of several events of one run in a batch the last one that writes stays. Panics
/// unless the decision has one entry an arrival.
pub fn plan<'a>(batch: &'a [IncomingRun], bodies: &Packed, known: Known, effects: &Effects) -> Plan<'a> {
    assert_eq!(effects.counted.len(), batch.len(), "a decision has one entry an arrival");
    let Known { facts, numbers, recorded } = known;
    let events = new_events(batch, &effects.counted);
    let mut events_of = BTreeMap::new();
    for arrival in &events {
        *events_of.entry(arrival.key.clone()).or_default() += 1;
    }
    // The state of a workflow may be as it was: then only what is counted beside it changed.
    let mut states = effects.workflows.clone();
    for key in events_of.keys() {
        let state = || facts.workflows.get(key).cloned().unwrap_or_default();
        states.entry(key.clone()).or_insert_with(state);
    }
    let mut plan = Plan { events, events_of, runs: Vec::new(), states, recorded };
    let mut planned: HashMap<(WorkflowKey, RunId), usize> = HashMap::new();
    for ((incoming, counted), body) in batch.iter().zip(&effects.counted).zip(&bodies.spans) {
        if !writes_run(&counted.disposition) {
            continue;
        }
        let key = &incoming.arrival.key;
        let run = (key.clone(), incoming.arrival.run.run_id.clone());
        let write =
            |number, known| RunWrite { incoming, number, known, ordinal: counted.ordinal, body: *body };
        if let Some(earlier) = planned.get(&run) {
            let earlier = &mut plan.runs[*earlier];
            *earlier = write(earlier.number, earlier.known);
            continue;
        }
        let number = numbers.get(&run).copied();
        planned.insert(run, plan.runs.len());
        plan.runs
            .push(write(number.unwrap_or_else(|| next_place(&mut plan.recorded, key)), number.is_some()));
    }
    plan
}

fn new_events<'a>(batch: &'a [IncomingRun], counted: &[Counted]) -> Vec<&'a Arrival> {
    if broken(Guard::Inbox) {
        return Vec::new();
    }
    let seen =
        |counted: &Counted| matches!(counted.disposition, Disposition::Duplicate | Disposition::Conflict(_));
    let new = batch.iter().zip(counted).filter(|(_, counted)| !seen(counted));
    new.map(|(incoming, _)| &incoming.arrival).collect()
}

const fn writes_run(disposition: &Disposition) -> bool {
    matches!(disposition, Disposition::Counted(_) | Disposition::Updated | Disposition::Recorded)
}

fn next_place(recorded: &mut BTreeMap<WorkflowKey, u64>, key: &WorkflowKey) -> u64 {
    let last = recorded.entry(key.clone()).or_default();
    *last += 1;
    *last
}

/// A row of `workflows`.
#[derive(Debug, sqlx::FromRow)]
pub struct WorkflowRecord {
    tenant: String,
    workflow: String,
    recorded: i64,
    counted: i64,
    claimed: i64,
    epoch: i64,
    open: bool,
    failures: i64,
    paused_until: Option<String>,
}

impl WorkflowRecord {
    /// The workflow, its state, and how many runs are recorded.
    pub fn read(self) -> Result<(WorkflowKey, WorkflowState, u64)> {
        let key = workflow_key(&self.tenant, &self.workflow)?;
        let place = at("workflows", &key);
        let paused_until = self.paused_until.as_deref().map(|moment| place.parse(moment)).transpose()?;
        let state = WorkflowState {
            counted: place.unsigned(self.counted)?,
            claimed: place.unsigned(self.claimed)?,
            epoch: place.unsigned(self.epoch)?,
            open: self.open,
            failures: place.unsigned(self.failures)?,
            paused_until,
        };
        let recorded = place.unsigned(self.recorded)?;
        Ok((key, state, recorded))
    }
}
