//! Counts finished runs and opens a retrospective when the window of a workflow is full.
//!
//! An event takes effect only once, because its identity is stored permanently. A run is counted at most once. Until a
//! retrospective claims it, another event with the same or a higher attempt replaces its facts. When a window is full
//! and no retrospective of the workflow is open, one opens over the whole window in the same transaction.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use crate::dead_letter::{Code, Rejection};
use crate::id::{EventKey, Ordinal, RunId, WorkflowKey};
use crate::policy::Policies;
use crate::retention::SeenContent;
use crate::retrospective::{OpenedRetrospective, WorkflowState};
use crate::run::RunFacts;

/// A `run.completed` event that was parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// Identity of the event.
    pub event: EventKey,
    /// Workflow of the run.
    pub key: WorkflowKey,
    /// SHA-256 of the event's `data` in canonical JSON.
    pub content_hash: String,
    /// Facts of the run, with secrets redacted.
    pub run: RunFacts,
}

/// Stored state that is needed to count a batch: its events, runs and workflows.
#[derive(Debug, Clone, Default)]
pub struct CountingFacts {
    /// Stored content of the batch's events that arrived before.
    pub events: HashMap<EventKey, SeenContent>,
    /// Stored state of the batch's runs that are already known.
    pub runs: HashMap<(WorkflowKey, RunId), KnownRun>,
    /// State of each workflow of the batch; a workflow that is missing here is new.
    pub workflows: BTreeMap<WorkflowKey, WorkflowState>,
}

/// Stored state of a known run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownRun {
    /// Attempt that the stored facts belong to, the highest seen so far.
    pub attempt: u32,
    /// Ordinal of the run; `None` when the run is stored but not counted.
    pub ordinal: Option<Ordinal>,
}

/// Result of handling one event.
#[derive(Debug, Clone, PartialEq)]
pub enum Disposition {
    /// The run is now counted and has this ordinal.
    Counted(Ordinal),
    /// The run was already counted; its facts are replaced by those of the event.
    Updated,
    /// The run is stored but not counted, because it is internal, cancelled or skipped.
    Recorded,
    /// The run keeps its stored facts, because the event has a lower attempt or a retrospective has claimed the run.
    Superseded,
    /// The event arrived before and changes nothing.
    Duplicate,
    /// The event id arrived before with different content; the event becomes a dead letter.
    Conflict(Rejection),
}

impl Disposition {
    /// Returns the word that is shown for the disposition.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Counted(_) => "counted",
            Self::Updated => "updated",
            Self::Recorded => "recorded",
            Self::Superseded => "superseded",
            Self::Duplicate => "duplicate",
            Self::Conflict(_) => "conflict",
        }
    }
}

/// Decision on what to store for one event. Decisions are in the order of the batch.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalDecision {
    /// Result of handling the event. For all results but `Duplicate` and `Conflict` an inbox row is stored. For
    /// `Counted`, `Updated` and `Recorded` the run is stored with its body.
    pub disposition: Disposition,
    /// Ordinal of the run after the event; `None` when the run is not counted or not stored.
    pub ordinal: Option<Ordinal>,
}

/// All effects of counting a batch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountingEffects {
    /// One decision per event, in order of arrival.
    pub decisions: Vec<ArrivalDecision>,
    /// New state of every workflow whose state changed.
    pub workflows: BTreeMap<WorkflowKey, WorkflowState>,
    /// Retrospectives to open, each with the message that announces it.
    pub opened: Vec<OpenedRetrospective>,
}

/// Decides the effects of a batch of events. Also checks the workflows in `facts.workflows` without an event in the
/// batch, so that a retrospective can open after a pause ends.
pub fn count_arrivals(
    mut facts: CountingFacts,
    arrivals: &[Arrival],
    policies: &dyn Policies,
    as_of: Timestamp,
) -> CountingEffects {
    let before = facts.workflows.clone();
    let mut opened = Vec::new();
    let mut counted = Vec::with_capacity(arrivals.len());
    for arrival in arrivals {
        counted.push(count_arrival(&mut facts, arrival));
        // Checked after each arrival and not once per batch, so that windows do not depend on how arrivals are batched.
        if let Some(state) = facts.workflows.get_mut(&arrival.key) {
            opened.extend(state.open_if_due(&arrival.key, &policies.policy_for(&arrival.key), as_of));
        }
    }
    for (key, state) in &mut facts.workflows {
        opened.extend(state.open_if_due(key, &policies.policy_for(key), as_of));
    }
    let mut workflows = facts.workflows;
    workflows.retain(|key, state| before.get(key) != Some(state));
    CountingEffects { decisions: counted, workflows, opened }
}

fn count_arrival(facts: &mut CountingFacts, arrival: &Arrival) -> ArrivalDecision {
    if let Some(seen) = facts.events.get(&arrival.event) {
        let disposition = if seen.matches_hash(&arrival.content_hash) {
            Disposition::Duplicate
        } else {
            Disposition::Conflict(Rejection::of_field(
                Code::IdentityConflict,
                "id",
                format!(
                    "event {} of source {} was seen before with other content ({seen}, now {}); \
                     give the changed event an id of its own",
                    arrival.event.id, arrival.event.source, arrival.content_hash
                ),
            ))
        };
        return ArrivalDecision { disposition, ordinal: None };
    }
    // Later arrivals of this batch must see the event. Otherwise a duplicate within the batch would be
    // counted twice.
    facts.events.insert(arrival.event.clone(), SeenContent::Full(arrival.content_hash.clone()));
    let state = facts.workflows.entry(arrival.key.clone()).or_default();
    let run_key = (arrival.key.clone(), arrival.run.run_id.clone());
    let known = facts.runs.get(&run_key).copied();
    if let Some(known) = known {
        // A claimed run keeps its facts, so that its retrospective investigates the facts that it sampled.
        let claimed = known.ordinal.is_some_and(|ordinal| ordinal <= state.claimed);
        if claimed || arrival.run.attempt < known.attempt {
            return ArrivalDecision { disposition: Disposition::Superseded, ordinal: None };
        }
    }
    let had = known.and_then(|known| known.ordinal);
    let (disposition, ordinal) = match had {
        Some(ordinal) => (Disposition::Updated, Some(ordinal)),
        None if arrival.run.is_countable() => {
            state.counted += 1;
            (Disposition::Counted(state.counted), Some(state.counted))
        }
        None => (Disposition::Recorded, None),
    };
    facts.runs.insert(run_key, KnownRun { attempt: arrival.run.attempt, ordinal });
    ArrivalDecision { disposition, ordinal }
}
