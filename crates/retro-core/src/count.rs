//! Counting: what a batch of finished runs does to the windows of their workflows.
//!
//! An event is counted once for ever: its identity is remembered. A run is counted once: another event or a higher
//! attempt of it updates its facts until a retrospective claims it, never the count. When a window is full and no
//! retrospective of the workflow is open, one opens over all of it, in the same transaction.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use crate::dead_letter::{Code, Rejection};
use crate::id::{EventKey, Ordinal, RunId, WorkflowKey};
use crate::keep::Seen;
use crate::policy::Policies;
use crate::retrospective::{Opening, WorkflowState};
use crate::run::RunFacts;

/// A `run.completed` event that could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// The event's identity.
    pub event: EventKey,
    /// The workflow of the run.
    pub key: WorkflowKey,
    /// SHA-256 of the event's `data` in canonical JSON.
    pub content_hash: String,
    /// What it says, redacted.
    pub run: RunFacts,
}

/// What is already stored about the events, runs and workflows of a batch.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// What is remembered of every event of the batch that was seen before.
    pub events: HashMap<EventKey, Seen>,
    /// Every run of the batch that is known.
    pub runs: HashMap<(WorkflowKey, RunId), KnownRun>,
    /// Every workflow of the batch; one that is not there has never been seen.
    pub workflows: BTreeMap<WorkflowKey, WorkflowState>,
}

/// A run that is already stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownRun {
    /// The highest attempt seen.
    pub attempt: u32,
    /// Its ordinal; `None` when it was recorded and not counted.
    pub ordinal: Option<Ordinal>,
}

/// What became of one event.
#[derive(Debug, Clone, PartialEq)]
pub enum Disposition {
    /// Its run is counted under this ordinal.
    Counted(Ordinal),
    /// Its run was known; its facts are the event's now.
    Updated,
    /// Its run is kept and not counted: internal, cancelled or skipped.
    Recorded,
    /// Its run was known and keeps its facts: a lower attempt, or a retrospective has claimed it.
    Superseded,
    /// The event itself was seen before. Changes nothing.
    Duplicate,
    /// The same id with other content: a dead letter.
    Conflict(Rejection),
}

impl Disposition {
    /// The word as shown.
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

/// What to store for one event, in the order of the batch.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// What became of it. All but `Duplicate` and `Conflict` leave an inbox row; `Counted`, `Updated` and
    /// `Recorded` write the run with its body.
    pub disposition: Disposition,
    /// The run's ordinal after it, for what writes the run.
    pub ordinal: Option<Ordinal>,
}

/// Everything a batch does.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Effects {
    /// One entry an arrival, in their order.
    pub counted: Vec<Counted>,
    /// Every workflow whose state changed.
    pub workflows: BTreeMap<WorkflowKey, WorkflowState>,
    /// Retrospectives to open, each with its message.
    pub opened: Vec<Opening>,
}

/// Decides what a batch does. `facts.workflows` may hold workflows that no arrival names: their windows are looked
/// at too, which is how one opens after a pause.
pub fn decide(mut facts: Facts, arrivals: &[Arrival], policies: &dyn Policies, as_of: Timestamp) -> Effects {
    let before = facts.workflows.clone();
    let mut opened = Vec::new();
    let mut counted = Vec::with_capacity(arrivals.len());
    for arrival in arrivals {
        counted.push(count_one(&mut facts, arrival));
        if let Some(state) = facts.workflows.get_mut(&arrival.key) {
            opened.extend(state.open_if_due(&arrival.key, &policies.of(&arrival.key), as_of));
        }
    }
    for (key, state) in &mut facts.workflows {
        opened.extend(state.open_if_due(key, &policies.of(key), as_of));
    }
    let mut workflows = facts.workflows;
    workflows.retain(|key, state| before.get(key) != Some(state));
    Effects { counted, workflows, opened }
}

fn count_one(facts: &mut Facts, arrival: &Arrival) -> Counted {
    if let Some(seen) = facts.events.get(&arrival.event) {
        let disposition = if seen.is(&arrival.content_hash) {
            Disposition::Duplicate
        } else {
            Disposition::Conflict(Rejection::at(
                Code::IdentityConflict,
                "id",
                format!(
                    "event {} of source {} was seen before with other content ({seen}, now {}); \
                     give the changed event an id of its own",
                    arrival.event.id, arrival.event.source, arrival.content_hash
                ),
            ))
        };
        return Counted { disposition, ordinal: None };
    }
    facts.events.insert(arrival.event.clone(), Seen::Whole(arrival.content_hash.clone()));
    let state = facts.workflows.entry(arrival.key.clone()).or_default();
    let run_key = (arrival.key.clone(), arrival.run.run_id.clone());
    let known = facts.runs.get(&run_key).copied();
    if let Some(known) = known {
        let claimed = known.ordinal.is_some_and(|ordinal| ordinal <= state.claimed);
        if claimed || arrival.run.attempt < known.attempt {
            return Counted { disposition: Disposition::Superseded, ordinal: None };
        }
    }
    let had = known.and_then(|known| known.ordinal);
    let (disposition, ordinal) = match had {
        Some(ordinal) => (Disposition::Updated, Some(ordinal)),
        None if arrival.run.countable() => {
            state.counted += 1;
            (Disposition::Counted(state.counted), Some(state.counted))
        }
        None => (Disposition::Recorded, None),
    };
    facts.runs.insert(run_key, KnownRun { attempt: arrival.run.attempt, ordinal });
    Counted { disposition, ordinal }
}
