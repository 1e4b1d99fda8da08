//! An in-memory store of the counter's state: inbox, runs, workflow states and retrospectives.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use retro_core::count::{
    Arrival, CountingEffects, CountingFacts, Disposition, IntakeProgress, KnownRun, count_arrivals,
};
use retro_core::id::{EventKey, Ordinal, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::retention::{ContentDigest, SeenContent};
use retro_core::retrospective::{Retrospective, RetrospectiveState, WorkflowState};
use retro_core::run::{RunFacts, RunKind, RunMemories, RunOutcome};
use retro_core::time::add_seconds;

use crate::world::{run, start_time};

/// Threshold of all workflows, small enough that random timelines open several windows.
pub(crate) const THRESHOLD: u32 = 4;

pub(crate) fn policy() -> Policy {
    Policy { threshold_runs: THRESHOLD, ..Policy::default() }
}

/// All state that the counter stores.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Ledger {
    pub(crate) events: BTreeMap<EventKey, String>,
    pub(crate) runs: BTreeMap<(WorkflowKey, RunId), (u32, Option<Ordinal>)>,
    pub(crate) workflows: BTreeMap<WorkflowKey, WorkflowState>,
    pub(crate) retrospectives: BTreeMap<(WorkflowKey, u64), Retrospective>,
}

/// Returns the stored content of an event. The details of every other event are purged, so its digest must
/// suffice.
fn seen_content(event: &EventKey, hash: &str) -> SeenContent {
    let purged = event.id.bytes().fold(0u8, u8::wrapping_add).is_multiple_of(2);
    if purged {
        SeenContent::Purged(ContentDigest::of_hash(hash))
    } else {
        SeenContent::Full(hash.to_owned())
    }
}

impl Ledger {
    /// Loads the facts about a batch and about every workflow.
    pub(crate) fn load(&self, batch: &[Arrival]) -> CountingFacts {
        let mut facts = CountingFacts { workflows: self.workflows.clone(), ..CountingFacts::default() };
        for arrival in batch {
            if let Some(hash) = self.events.get(&arrival.event) {
                facts.events.insert(arrival.event.clone(), seen_content(&arrival.event, hash));
            }
            let at = (arrival.key.clone(), arrival.run.run_id.clone());
            if let Some((attempt, ordinal)) = self.runs.get(&at) {
                facts.runs.insert(at, KnownRun { attempt: *attempt, ordinal: *ordinal });
            }
        }
        facts
    }

    /// Stores the effects, keyed by identity like in a database.
    pub(crate) fn store(&mut self, batch: &[Arrival], effects: &CountingEffects) {
        for (arrival, counted) in batch.iter().zip(&effects.decisions) {
            let identity = || (arrival.event.clone(), arrival.content_hash.clone());
            match &counted.disposition {
                Disposition::Duplicate | Disposition::Conflict(_) => {}
                Disposition::Superseded => self.events.extend([identity()]),
                Disposition::Counted(_) | Disposition::Updated | Disposition::Recorded => {
                    self.events.extend([identity()]);
                    let at = (arrival.key.clone(), arrival.run.run_id.clone());
                    self.runs.insert(at, (arrival.run.attempt, counted.ordinal));
                }
            }
        }
        self.workflows.extend(effects.workflows.clone());
        for opening in &effects.opened {
            let retrospective = opening.retrospective.clone();
            self.retrospectives.insert((retrospective.key.clone(), retrospective.epoch), retrospective);
        }
    }

    pub(crate) fn count(&mut self, batch: &[Arrival], as_of: Timestamp) -> CountingEffects {
        let effects = count_arrivals(self.load(batch), batch, IntakeProgress::NotAwaited, &policy(), as_of);
        self.store(batch, &effects);
        effects
    }

    /// Ends the open retrospective of a workflow, if any, and opens the next one if its window is full.
    pub(crate) fn end_retrospective(&mut self, key: &WorkflowKey, success: bool, now: Timestamp) {
        let Some(state) = self.workflows.get_mut(key).filter(|state| state.open) else { return };
        let retrospective = self.retrospectives.get_mut(&(key.clone(), state.epoch)).unwrap();
        if success {
            state.close_retrospective();
            retrospective.state = RetrospectiveState::Closed;
        } else {
            state.release_window(retrospective);
            retrospective.state = RetrospectiveState::Failed;
        }
        if let Some(next) = state.open_if_due(key, &policy(), now, 0) {
            self.retrospectives.insert((key.clone(), next.retrospective.epoch), next.retrospective);
        }
    }

    /// Returns the assigned ordinals of a workflow in ascending order.
    pub(crate) fn ordinals(&self, key: &WorkflowKey) -> Vec<Ordinal> {
        let of_key = self.runs.iter().filter(|((its_key, _), _)| its_key == key);
        let mut ordinals: Vec<_> = of_key.filter_map(|(_, (_, ordinal))| *ordinal).collect();
        ordinals.sort_unstable();
        ordinals
    }
}

/// One action on the counter.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// A batch arrives and is counted and acknowledged. The numbers are positions in the list of all events.
    Batch(Vec<usize>),
    /// A batch arrives, but the process dies before its transaction commits. The batch is redelivered later.
    LostBeforeCommit(Vec<usize>),
    /// A batch is counted, but the process dies before acknowledging it. The batch is redelivered at once.
    LostBeforeAck(Vec<usize>),
    /// The open retrospective of a workflow ends.
    End { workflow: usize, success: bool },
    /// This number of seconds passes.
    Pause(u64),
}

/// All events of a test case, with the actions on them.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    pub(crate) events: Vec<Arrival>,
    pub(crate) actions: Vec<Action>,
}

impl Timeline {
    fn batch(&self, positions: &[usize]) -> Vec<Arrival> {
        positions.iter().map(|at| self.events[at % self.events.len()].clone()).collect()
    }

    /// Plays the timeline, and calls `watch` with the ledger after each action. Every event has arrived at
    /// the end.
    pub(crate) fn play(&self, mut watch: impl FnMut(&Ledger)) -> Ledger {
        let mut ledger = Ledger::default();
        let mut now = start_time();
        for action in &self.actions {
            match action {
                Action::Batch(positions) => drop(ledger.count(&self.batch(positions), now)),
                Action::LostBeforeCommit(positions) => {
                    let batch = self.batch(positions);
                    drop(count_arrivals(
                        ledger.load(&batch),
                        &batch,
                        IntakeProgress::NotAwaited,
                        &policy(),
                        now,
                    ));
                }
                Action::LostBeforeAck(positions) => {
                    ledger.count(&self.batch(positions), now);
                    ledger.count(&self.batch(positions), now);
                }
                Action::End { workflow, success } => {
                    ledger.end_retrospective(&workflows()[*workflow], *success, now)
                }
                Action::Pause(seconds) => now = add_seconds(now, *seconds),
            }
            watch(&ledger);
        }
        ledger.count(&self.events, now);
        watch(&ledger);
        ledger
    }
}

/// Returns three workflows: one name under two tenants, and another name.
pub(crate) fn workflows() -> Vec<WorkflowKey> {
    [("one", "fix"), ("two", "fix"), ("one", "triage")]
        .map(|(tenant, workflow)| WorkflowKey {
            tenant: Tenant::new(tenant).unwrap(),
            workflow: Workflow::new(workflow).unwrap(),
        })
        .into()
}

pub(crate) fn arrival(id: &str, workflow: usize, name: &str, attempt: u32, outcome: RunOutcome) -> Arrival {
    let key = workflows()[workflow].clone();
    Arrival {
        event: EventKey { tenant: key.tenant.clone(), source: key.workflow.to_string(), id: id.into() },
        key,
        content_hash: format!("{name} {attempt} {outcome:?}"),
        position: 0,
        run: RunFacts {
            run_id: run(name),
            attempt,
            kind: RunKind::Normal,
            outcome,
            outcome_only: false,
            started_at: None,
            finished_at: None,
            repo: None,
            repo_visibility: None,
            pull_request: None,
            commit: None,
            user: None,
            agent: None,
            prompt_version: None,
            task: None,
            usage: None,
            memories: RunMemories::default(),
            self_feedback: Vec::new(),
        },
    }
}

/// Generates up to 40 events of up to 20 runs per workflow. Some runs have several events and attempts, and
/// some are cancelled or known by their outcome only.
pub(crate) fn events() -> impl Strategy<Value = Vec<Arrival>> {
    let outcome = prop_oneof![
        6 => Just(RunOutcome::Success),
        3 => Just(RunOutcome::Failure),
        1 => Just(RunOutcome::Cancellation),
    ];
    let one = (0..3usize, 0..20u32, 1..3u32, outcome, prop::bool::weighted(0.1));
    prop::collection::vec(one, 1..40).prop_map(|all| {
        let event = |(nth, (workflow, name, attempt, outcome, outcome_only))| {
            let mut one = arrival(&format!("e{nth}"), workflow, &format!("r{name}"), attempt, outcome);
            one.run.outcome_only = outcome_only;
            one
        };
        all.into_iter().enumerate().map(event).collect()
    })
}

pub(crate) fn timelines() -> impl Strategy<Value = Timeline> {
    let batch = || prop::collection::vec(0..40usize, 1..12);
    let action = prop_oneof![
        6 => batch().prop_map(Action::Batch),
        1 => batch().prop_map(Action::LostBeforeCommit),
        2 => batch().prop_map(Action::LostBeforeAck),
        4 => (0..3usize, prop::bool::weighted(0.6))
            .prop_map(|(workflow, success)| Action::End { workflow, success }),
        2 => (0..40_000u64).prop_map(Action::Pause),
    ];
    (events(), prop::collection::vec(action, 1..20))
        .prop_map(|(events, actions)| Timeline { events, actions })
}
