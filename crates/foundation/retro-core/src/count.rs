//! Counts finished runs, and opens a retrospective when a workflow's window reaches the threshold.
//!
//! Each event takes effect once, because its identity is stored permanently. Each run is counted at most
//! once; until a retrospective claims the run, an event with the same or a higher attempt replaces its facts.
//! When a window reaches the threshold, a retrospective opens in the same transaction, over the window or over the
//! first part of a backlog, unless the workflow is paused or already has an open retrospective.
//!
//! With several counters, one may count what comes later in the intake stream before another counts what comes first.
//! A retrospective opens only over runs that nothing uncounted precedes, so that its window is the same whichever
//! counter was quicker. Until then it is put off.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use strum::IntoStaticStr;

use crate::dead_letter::{DeadLetterCode, Rejection};
use crate::id::{EventKey, Ordinal, RunId, WorkflowKey};
use crate::policy::{Policies, Policy};
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
    /// Sequence number of the event in the intake stream.
    pub position: u64,
    /// Facts of the run, with secrets redacted.
    pub run: RunFacts,
}

/// How far all counters together have handled the intake stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntakeProgress {
    /// Everything that precedes each event of the batch.
    BeforeEachEvent,
    /// Everything up to this position, and perhaps not everything between it and the batch.
    UpTo(u64),
    /// Unknown, and not waited for: retrospectives open over whatever is counted.
    NotAwaited,
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
    /// Number of waiting runs at or before the position of [`IntakeProgress::UpTo`], of those other workflows to check
    /// that are not in order.
    pub waiting_in_order: BTreeMap<WorkflowKey, u64>,
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
    /// Workflows whose retrospective is due, but put off until what precedes their runs in the intake stream is handled.
    pub put_off: Vec<WorkflowKey>,
}

/// Counts a batch of events and decides what to store. Also checks workflows in `facts.workflows` that have
/// no event in the batch, so a retrospective can open once a pause has ended or once the runs are in order.
pub fn count_arrivals(
    mut facts: CountingFacts,
    arrivals: &[Arrival],
    progress: IntakeProgress,
    policies: &dyn Policies,
    as_of: Timestamp,
) -> CountingEffects {
    let before = facts.workflows.clone();
    let mut opened = Vec::new();
    let mut counted = Vec::with_capacity(arrivals.len());
    for arrival in arrivals {
        let was_in_order = facts.workflows.get(&arrival.key).is_none_or(WorkflowState::is_in_order);
        let decision = count_arrival(&mut facts, arrival);
        // Checked after each arrival instead of once per batch, so windows do not depend on how arrivals are
        // batched.
        if let Some(state) = facts.workflows.get_mut(&arrival.key) {
            if !matches!(decision.disposition, Disposition::Duplicate | Disposition::Conflict(_)) {
                state.handled_up_to = state.handled_up_to.max(match progress {
                    IntakeProgress::BeforeEachEvent => arrival.position,
                    IntakeProgress::UpTo(position) => position,
                    IntakeProgress::NotAwaited => state.counted_up_to,
                });
            }
            let policy = policies.policy_for(&arrival.key);
            opened.extend(open_counted(state, &arrival.key, &policy, as_of, was_in_order));
        }
        counted.push(decision);
    }
    let mut put_off = Vec::new();
    // Workflows without an arrival: their pause may have ended since their window filled up.
    for (key, state) in &mut facts.workflows {
        let policy = policies.policy_for(key);
        if !state.is_due(&policy, as_of) {
            continue;
        }
        let waiting = facts.waiting_in_order.get(key).copied().unwrap_or_default();
        match open_checked(state, key, progress, &policy, as_of, waiting) {
            Some(opening) => opened.push(opening),
            None => put_off.push(key.clone()),
        }
    }
    let mut workflows = facts.workflows;
    workflows.retain(|key, state| before.get(key) != Some(state));
    CountingEffects { decisions: counted, workflows, opened, put_off }
}

/// Opens the retrospective of a workflow if one is due after an arrival and its runs are in order.
fn open_counted(
    state: &mut WorkflowState,
    key: &WorkflowKey,
    policy: &Policy,
    as_of: Timestamp,
    was_in_order: bool,
) -> Option<OpenedRetrospective> {
    if !was_in_order && state.is_in_order() && state.is_due(policy, as_of) {
        return Some(open_put_off(state, key, policy, as_of));
    }
    state.open_if_due(key, policy, as_of, 0)
}

/// Opens the due retrospective of a workflow that is checked without an arrival, if enough of its runs are in order.
/// `waiting_in_order` is their number.
fn open_checked(
    state: &mut WorkflowState,
    key: &WorkflowKey,
    progress: IntakeProgress,
    policy: &Policy,
    as_of: Timestamp,
    waiting_in_order: u64,
) -> Option<OpenedRetrospective> {
    if state.is_in_order() {
        return state.open_if_due(key, policy, as_of, 0);
    }
    match progress {
        IntakeProgress::NotAwaited => Some(state.open_over_waiting(key, policy, as_of)),
        IntakeProgress::UpTo(position)
            if state.counted_up_to <= position || waiting_in_order >= policy.threshold_runs.into() =>
        {
            Some(open_put_off(state, key, policy, as_of))
        }
        IntakeProgress::UpTo(_) | IntakeProgress::BeforeEachEvent => None,
    }
}

/// Opens a retrospective that was put off when the window reached the threshold. It claims what it would have claimed
/// then.
fn open_put_off(
    state: &mut WorkflowState,
    key: &WorkflowKey,
    policy: &Policy,
    as_of: Timestamp,
) -> OpenedRetrospective {
    state.open_now(key, policy, as_of, policy.threshold_runs.into())
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
            state.counted_up_to = state.counted_up_to.max(arrival.position);
            (Disposition::Counted(state.counted), Some(state.counted))
        }
        None => (Disposition::Recorded, None),
    };
    // Later arrivals of this batch must see the run, or a second event for it would count it again.
    facts.runs.insert(run_key, KnownRun { attempt: arrival.run.attempt, ordinal });
    ArrivalDecision { disposition, ordinal }
}
