//! Counting: the effects of a batch of finished runs on the windows of their workflows.
//!
//! An event is counted once, because its identity is stored permanently. A run is counted once: another event or a
//! higher attempt of it replaces its facts until a retrospective claims it, and never changes the count. When a
//! window is full and no retrospective of the workflow is open, one opens over the whole window in the same
//! transaction.

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
    /// Redacted facts of the run.
    pub run: RunFacts,
}

/// Stored state of the events, runs and workflows of a batch.
#[derive(Debug, Clone, Default)]
pub struct CountingFacts {
    /// Stored content of every event of the batch that arrived before.
    pub events: HashMap<EventKey, SeenContent>,
    /// Every run of the batch that is already stored.
    pub runs: HashMap<(WorkflowKey, RunId), KnownRun>,
    /// State of every workflow of the batch; a missing workflow is new.
    pub workflows: BTreeMap<WorkflowKey, WorkflowState>,
}

/// A run that is already stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownRun {
    /// Highest attempt seen.
    pub attempt: u32,
    /// Ordinal of the run; `None` when it was recorded and not counted.
    pub ordinal: Option<Ordinal>,
}

/// Result of handling one event.
#[derive(Debug, Clone, PartialEq)]
pub enum Disposition {
    /// The run is counted under this ordinal.
    Counted(Ordinal),
    /// The run was known; its facts are replaced by those of the event.
    Updated,
    /// The run is stored and not counted, because it is internal, cancelled or skipped.
    Recorded,
    /// The run was known and keeps its facts, because the event has a lower attempt or a retrospective has claimed
    /// the run.
    Superseded,
    /// The event arrived before and changes nothing.
    Duplicate,
    /// The event id arrived before with other content; the event becomes a dead letter.
    Conflict(Rejection),
}

impl Disposition {
    /// Returns the word as shown.
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

/// Decision on one event: what to store for it. Decisions have the order of the batch.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalDecision {
    /// Result of handling the event. All but `Duplicate` and `Conflict` leave an inbox row; `Counted`, `Updated` and
    /// `Recorded` write the run with its body.
    pub disposition: Disposition,
    /// Ordinal of the run afterwards, for the dispositions that write the run.
    pub ordinal: Option<Ordinal>,
}

/// All effects of a batch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountingEffects {
    /// One decision per arrival, in order of arrival.
    pub decisions: Vec<ArrivalDecision>,
    /// Every workflow whose state changed.
    pub workflows: BTreeMap<WorkflowKey, WorkflowState>,
    /// Retrospectives to open, each with its message.
    pub opened: Vec<OpenedRetrospective>,
}

/// Decides the effects of a batch. Also checks workflows in `facts.workflows` that no arrival names, so that
/// a retrospective can open after a pause ends.
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
