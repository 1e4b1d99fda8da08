//! Plans the rows to write for a counted batch, from the state stored before it.

use std::collections::{BTreeMap, HashMap};

use retro_core::count::{Arrival, ArrivalDecision, CountingEffects, CountingFacts, Disposition, KnownRun};
use retro_core::id::{EventKey, Ordinal, RunId, WorkflowKey};
use retro_core::retention::SeenContent;
use retro_core::retrospective::WorkflowState;
use retro_fault::{Guard, is_broken};
use retro_store::{IncomingBody, IncomingRun, Result};

use crate::{at, parse_workflow_key};

/// Consumer name of the counter in the inbox.
pub(crate) const CONSUMER: &str = "counter";

/// Stored state before a batch is counted: the facts for the decision, and the arrival numbers, which only
/// the store uses.
#[derive(Debug, Default)]
pub(crate) struct CountSnapshot {
    /// Facts for the counting decision.
    pub(crate) facts: CountingFacts,
    /// Arrival numbers of the already stored runs of the batch.
    pub(crate) numbers: HashMap<(WorkflowKey, RunId), u64>,
    /// Highest assigned arrival number of each known workflow.
    pub(crate) recorded: BTreeMap<WorkflowKey, u64>,
}

impl CountSnapshot {
    /// Adds the stored content of the event at `index` in the batch. Fails if `index` is out of range.
    pub(crate) fn add_event(&mut self, arrivals: &[Arrival], index: i64, seen: SeenContent) -> Result<()> {
        let event: EventKey = find_arrival(arrivals, "inbox", index)?.event.clone();
        self.facts.events.insert(event, seen);
        Ok(())
    }

    /// Adds a row of `runs`: the run's index in the batch, arrival number, ordinal and attempt.
    pub(crate) fn add_run(&mut self, arrivals: &[Arrival], row: (i64, i64, Option<i64>, i64)) -> Result<()> {
        let (index, number, ordinal, attempt) = row;
        let arrival = find_arrival(arrivals, "runs", index)?;
        let place = at("runs", format!("{}/{}", arrival.key, arrival.run.run_id));
        let ordinal = ordinal.map(|ordinal| place.parse_unsigned(ordinal)).transpose()?;
        let run = KnownRun { attempt: place.parse_unsigned(attempt)?, ordinal };
        let key = (arrival.key.clone(), arrival.run.run_id.clone());
        self.numbers.insert(key.clone(), place.parse_unsigned(number)?);
        // Fault injection: without this guard every run is counted again, and the tests of law 1 must fail.
        if !is_broken(Guard::Inbox) {
            self.facts.runs.insert(key, run);
        }
        Ok(())
    }

    /// Adds a row of `workflows`.
    pub(crate) fn add_workflow(&mut self, row: WorkflowRecord) -> Result<()> {
        let (key, state, recorded) = row.into_workflow_state()?;
        self.facts.workflows.insert(key.clone(), state);
        self.recorded.insert(key, recorded);
        Ok(())
    }
}

/// Arranges the found event contents in request order, with `None` for events that were not found. An event
/// that is being purged may be found twice; both rows describe the same event. Fails if an index is out of
/// range.
pub(crate) fn seen_in_request_order(
    requested: usize,
    found: Vec<(i64, SeenContent)>,
) -> Result<Vec<Option<SeenContent>>> {
    let mut seen = vec![None; requested];
    for (index, one) in found {
        let place = at("inbox", index);
        let slot = seen.get_mut(place.parse_unsigned::<usize>(index)?);
        *slot.ok_or_else(|| place.damaged_error("it was not requested"))? = Some(one);
    }
    Ok(seen)
}

fn find_arrival<'a>(arrivals: &'a [Arrival], table: &'static str, index: i64) -> Result<&'a Arrival> {
    let place = at(table, index);
    arrivals
        .get(place.parse_unsigned::<usize>(index)?)
        .ok_or_else(|| place.damaged_error("it was not requested"))
}

/// Rows to write for a counted batch.
#[derive(Debug)]
pub(crate) struct WritePlan<'a> {
    /// New events of the batch, in order.
    pub(crate) events: Vec<&'a Arrival>,
    /// Number of new events per workflow.
    pub(crate) events_of: BTreeMap<WorkflowKey, u64>,
    /// Runs to write, at most one entry per run.
    pub(crate) runs: Vec<RunWrite<'a>>,
    /// New states of the workflows changed by the batch.
    pub(crate) states: BTreeMap<WorkflowKey, WorkflowState>,
    /// Highest assigned arrival number of each workflow after the batch.
    pub(crate) recorded: BTreeMap<WorkflowKey, u64>,
}

/// New or already stored run to write.
#[derive(Debug)]
pub(crate) struct RunWrite<'a> {
    /// Run as received.
    pub(crate) incoming: &'a IncomingRun,
    /// Arrival number of the run, under which its facts and body are stored.
    pub(crate) number: u64,
    /// `true` if the run was stored before this batch.
    pub(crate) known: bool,
    /// Ordinal of the run; `None` if it is not counted.
    pub(crate) ordinal: Option<Ordinal>,
}

impl RunWrite<'_> {
    /// Returns the tenant of the run.
    pub(crate) fn tenant(&self) -> &str {
        self.incoming.arrival.key.tenant.as_str()
    }

    /// Formats the trace context of the run for a text column; `None` if the run was not traced.
    pub(crate) fn trace_text(&self) -> Option<String> {
        self.incoming.trace.as_ref().map(ToString::to_string)
    }

    /// Returns the compressed body of the run; `None` if it has no inline body.
    pub(crate) fn inline_body(&self) -> Option<&[u8]> {
        match &self.incoming.body {
            IncomingBody::Inline(body) => Some(body.as_bytes()),
            _ => None,
        }
    }

    /// Returns the workflow of the run.
    pub(crate) fn workflow(&self) -> &str {
        self.incoming.arrival.key.workflow.as_str()
    }
}

/// Plans the writes of a batch and assigns arrival numbers to new runs. If a batch contains several events of
/// one run, only the last one that changes the stored run is written.
///
/// # Panics
///
/// Panics unless `effects` has one decision per run.
pub(crate) fn plan_writes<'a>(
    batch: &'a [IncomingRun],
    known: CountSnapshot,
    effects: &CountingEffects,
) -> WritePlan<'a> {
    assert_eq!(effects.decisions.len(), batch.len(), "the decision has one entry per run");
    let CountSnapshot { facts, numbers, recorded } = known;
    let events = new_events(batch, &effects.decisions);
    let mut events_of = BTreeMap::new();
    for arrival in &events {
        *events_of.entry(arrival.key.clone()).or_default() += 1;
    }
    // A workflow whose state is unchanged is written too, because its event count may have grown.
    let mut states = effects.workflows.clone();
    for key in events_of.keys() {
        let state = || facts.workflows.get(key).cloned().unwrap_or_default();
        states.entry(key.clone()).or_insert_with(state);
    }
    let mut plan = WritePlan { events, events_of, runs: Vec::new(), states, recorded };
    let mut planned: HashMap<(WorkflowKey, RunId), usize> = HashMap::new();
    for (incoming, counted) in batch.iter().zip(&effects.decisions) {
        if !writes_run(&counted.disposition) {
            continue;
        }
        let key = &incoming.arrival.key;
        let run = (key.clone(), incoming.arrival.run.run_id.clone());
        let write = |number, known| RunWrite { incoming, number, known, ordinal: counted.ordinal };
        // Replace the planned write of an earlier event: Postgres rejects an upsert that affects one row
        // twice.
        if let Some(earlier) = planned.get(&run) {
            let earlier = &mut plan.runs[*earlier];
            *earlier = write(earlier.number, earlier.known);
            continue;
        }
        let known = numbers.get(&run).copied();
        // Fault injection: a run that is counted again is also recorded again.
        let number = known.filter(|_| !is_broken(Guard::Inbox));
        let number = number.unwrap_or_else(|| next_number(&mut plan.recorded, key));
        planned.insert(run, plan.runs.len());
        plan.runs.push(write(number, known.is_some()));
    }
    plan
}

fn new_events<'a>(batch: &'a [IncomingRun], counted: &[ArrivalDecision]) -> Vec<&'a Arrival> {
    if is_broken(Guard::Inbox) {
        return Vec::new();
    }
    let seen = |counted: &ArrivalDecision| {
        matches!(counted.disposition, Disposition::Duplicate | Disposition::Conflict(_))
    };
    let new = batch.iter().zip(counted).filter(|(_, counted)| !seen(counted));
    new.map(|(incoming, _)| &incoming.arrival).collect()
}

const fn writes_run(disposition: &Disposition) -> bool {
    matches!(disposition, Disposition::Counted(_) | Disposition::Updated | Disposition::Recorded)
}

fn next_number(recorded: &mut BTreeMap<WorkflowKey, u64>, key: &WorkflowKey) -> u64 {
    // Numbers start at 1, because tracking uses 0 for "nothing tracked yet".
    let last = recorded.entry(key.clone()).or_default();
    *last += 1;
    *last
}

/// Row of `workflows`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct WorkflowRecord {
    tenant: String,
    workflow: String,
    recorded: i64,
    counted: i64,
    claimed: i64,
    epoch: i64,
    open: bool,
    failures: i64,
    paused_until: Option<String>,
    counted_up_to: i64,
    handled_up_to: i64,
}

impl WorkflowRecord {
    /// Returns `true` if the workflow has stored runs.
    pub(crate) const fn has_runs(&self) -> bool {
        self.recorded > 0
    }

    /// Converts the row to the workflow's key, its state and the number of its recorded runs. Fails if a
    /// value is damaged.
    pub(crate) fn into_workflow_state(self) -> Result<(WorkflowKey, WorkflowState, u64)> {
        let key = parse_workflow_key(&self.tenant, &self.workflow)?;
        let place = at("workflows", &key);
        let paused_until = self.paused_until.as_deref().map(|moment| place.parse(moment)).transpose()?;
        let state = WorkflowState {
            counted: place.parse_unsigned(self.counted)?,
            claimed: place.parse_unsigned(self.claimed)?,
            epoch: place.parse_unsigned(self.epoch)?,
            open: self.open,
            failures: place.parse_unsigned(self.failures)?,
            paused_until,
            counted_up_to: place.parse_unsigned(self.counted_up_to)?,
            handled_up_to: place.parse_unsigned(self.handled_up_to)?,
        };
        let recorded = place.parse_unsigned(self.recorded)?;
        Ok((key, state, recorded))
    }
}
