//! Counts finished runs, and opens a retrospective when a workflow's window reaches the threshold.
//!
//! Each event takes effect once, because its identity is stored permanently. Each run is counted at most
//! once; until a retrospective claims the run, an event with the same or a higher attempt replaces its facts.
//! When a window reaches the threshold, a retrospective opens in the same transaction, over the window or over the
//! first part of a backlog, unless the workflow is paused or already has an open retrospective.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use strum::IntoStaticStr;

use crate::dead_letter::{DeadLetterCode, Rejection};
use crate::id::{EventKey, Ordinal, RunId, WorkflowKey};
use crate::policy::Policies;
use crate::retention::SeenContent;
use crate::retrospective::{OpenedRetrospective, WorkflowState};
use crate::run::RunFacts;

/// A parsed `run.completed` event.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// Identity of the event, by which duplicates are detected.
    pub event: EventKey,
    /// Workflow that the run belongs to.
    pub key: WorkflowKey,
    /// SHA-256 of the event's `data` as canonical JSON, in hex.
    pub content_hash: String,
    /// Facts of the run, with secrets redacted.
    pub run: RunFacts,
}

/// Stored state needed to count a batch of events.
#[derive(Debug, Clone, Default)]
pub struct CountingFacts {
    /// Events of the batch that arrived before, with the hash of their content.
    pub events: HashMap<EventKey, SeenContent>,
    /// Runs of the batch that are already stored.
    pub runs: HashMap<(WorkflowKey, RunId), KnownRun>,
    /// State of each workflow of the batch, and of any other workflow to check. A workflow that is missing
    /// here is new.
    pub workflows: BTreeMap<WorkflowKey, WorkflowState>,
}

/// Attempt and ordinal of a stored run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownRun {
    /// Attempt that the stored facts come from. A lower attempt does not replace them.
    pub attempt: u32,
    /// Ordinal of the run; `None` if the run is stored but not counted.
    pub ordinal: Option<Ordinal>,
}

/// Outcome of counting one event.
#[derive(Debug, Clone, PartialEq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Disposition {
    /// The run was counted and received this ordinal.
    Counted(Ordinal),
    /// The run had been counted before; the event replaces its facts.
    Updated,
    /// The run is stored but not counted, for its [`NotCountedReason`](crate::run::NotCountedReason).
    Recorded,
    /// The run keeps its stored facts, because the event has a lower attempt or a retrospective has claimed
    /// the run.
    Superseded,
    /// The event arrived before, so it changes nothing.
    Duplicate,
    /// An event with the same identity arrived before with different content. The new event becomes a dead
    /// letter.
    Conflict(Rejection),
}

impl Disposition {
    /// Returns the disposition as a metric label value, such as `counted`.
    pub fn as_str(&self) -> &'static str {
        self.into()
    }
}

/// Decision about one event of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalDecision {
    /// Outcome of counting the event. An inbox row is stored for every outcome except `Duplicate` and
    /// `Conflict`; the run and its body are stored for `Counted`, `Updated` and `Recorded`.
    pub disposition: Disposition,
    /// Ordinal of the stored run; `None` if the event stores no run or the run is not counted.
    pub ordinal: Option<Ordinal>,
}

/// Effects of counting a batch, to be stored in one transaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CountingEffects {
    /// One decision per event, in order of arrival.
    pub decisions: Vec<ArrivalDecision>,
    /// New state of every workflow whose state changed.
    pub workflows: BTreeMap<WorkflowKey, WorkflowState>,
    /// Retrospectives to open, each with the message that announces it.
    pub opened: Vec<OpenedRetrospective>,
}

/// Counts a batch of events and decides what to store. Also checks workflows in `facts.workflows` that have
/// no event in the batch, so a retrospective can open once a pause has ended.
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
        // Checked after each arrival instead of once per batch, so windows do not depend on how arrivals are
        // batched.
        if let Some(state) = facts.workflows.get_mut(&arrival.key) {
            opened.extend(state.open_if_due(&arrival.key, &policies.policy_for(&arrival.key), as_of));
        }
    }
    // Workflows without an arrival: their pause may have ended since their window filled up.
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
                DeadLetterCode::IdentityConflict,
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
    // Later arrivals of this batch must see the event, or a duplicate within the batch would take effect
    // twice.
    facts.events.insert(arrival.event.clone(), SeenContent::Full(arrival.content_hash.clone()));
    let state = facts.workflows.entry(arrival.key.clone()).or_default();
    let run_key = (arrival.key.clone(), arrival.run.run_id.clone());
    let known = facts.runs.get(&run_key).copied();
    if let Some(known) = known {
        // A claimed run keeps its facts, so its retrospective investigates the facts that it sampled.
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
    // Later arrivals of this batch must see the run, or a second event for it would count it again.
    facts.runs.insert(run_key, KnownRun { attempt: arrival.run.attempt, ordinal });
    ArrivalDecision { disposition, ordinal }
}
