//! Closes retrospectives, and checks the effect on their workflow.

use jiff::Timestamp;
use retro_core::calls::Contrast;
use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::RetrospectiveId;
use retro_core::learn::{ClosedRetrospective, ClosingFacts, close_retrospective, settle_investigations};
use retro_core::memory::MemoryStatus;
use retro_core::message::Notice;
use retro_core::policy::Policy;
use retro_core::report::WindowRun;
use retro_core::retrospective::{
    Investigation, InvestigationResult, Retrospective, RetrospectiveState, WorkflowState, failure_pause_s,
};
use retro_core::run::RunOutcome;
use retro_core::sample::draw_sample;
use retro_core::similarity::NgramEmbedder;
use retro_core::time::add_seconds;

use crate::world::{World, against, finding, investigate, key, run, start_time};

fn failed_investigation(number: u32) -> Investigation {
    let result = Some(InvestigationResult::Failed { reason: "no answer".into() });
    Investigation { result, ..investigate(&format!("r{number}")).to_investigation(number) }
}

/// Builds the facts for closing the first retrospective, over runs 1 to 10, when `counted` runs were counted.
pub(crate) fn closing_facts(world: &World, counted: u64, investigations: Vec<Investigation>) -> ClosingFacts {
    let id = RetrospectiveId::of_epoch(&key(), 1);
    let retrospective = Retrospective {
        id,
        key: key(),
        epoch: 1,
        first: 1,
        last: 10,
        as_of: start_time(),
        policy: world.policy.clone(),
        pipeline: None,
        state: RetrospectiveState::Settling,
        manual_request: None,
    };
    let window_run = |ordinal| WindowRun {
        ordinal,
        run: run(&format!("r{ordinal}")),
        outcome: RunOutcome::Failure,
        pull_requests: Vec::new(),
        checks: Vec::new(),
    };
    let batch = settle_investigations(id, &investigations, &Contrast::default());
    ClosingFacts {
        history: Default::default(),
        sample: draw_sample(id, (1..=10).collect(), &world.policy),
        window: (1..=10).map(window_run).collect(),
        timings: Vec::new(),
        calls: None,
        writer: world.facts(id, &batch),
        batch,
        investigations,
        state: WorkflowState { counted, claimed: 10, epoch: 1, open: true, ..WorkflowState::default() },
        waiting_in_order: 0,
        retrospective,
    }
}

pub(crate) fn close(facts: ClosingFacts, now: Timestamp) -> ClosedRetrospective {
    close_retrospective(facts, &NgramEmbedder, &Policy::default(), now)
}

#[test]
fn one_successful_investigation_suffices_and_frees_the_workflow() {
    let world = World::new();
    let ended = investigate("r2").with_finding(finding("A")).to_investigation(2);
    let mut given = closing_facts(&world, 12, vec![failed_investigation(1), ended]);
    given.state.failures = 3;
    let closing = close(given, start_time());
    assert_eq!((closing.retrospective_state, closing.failure), (RetrospectiveState::Closed, None));
    assert_eq!(closing.report.changes.len(), 1);
    let state = closing.workflow_state;
    assert_eq!((state.open, state.claimed, state.failures, state.paused_until), (false, 10, 0, None));
    assert!(closing.opened.is_none(), "the window has only two runs");
}

#[test]
fn closing_opens_the_next_retrospective_if_the_window_is_full() {
    let ended = vec![investigate("r1").to_investigation(1)];
    let now = add_seconds(start_time(), 60);
    let closing = close(closing_facts(&World::new(), 20, ended), now);
    let next = closing.opened.unwrap().retrospective;
    assert_eq!((next.epoch, next.first, next.last, next.as_of), (2, 11, 20, now));
    assert_eq!((closing.workflow_state.open, closing.workflow_state.claimed), (true, 20));
}

#[test]
fn a_failed_retrospective_applies_nothing_releases_its_runs_and_pauses() {
    let mut world = World::new();
    world.add_active("A", 0);
    world.add_active("B", 60);
    let closing = close(
        closing_facts(&world, 20, vec![failed_investigation(1), failed_investigation(2)]),
        start_time(),
    );
    assert_eq!(closing.retrospective_state, RetrospectiveState::Failed);
    assert!(closing.applied.changes.is_empty() && closing.applied.memories.is_empty(), "no sweep either");
    assert_eq!(closing.applied.outcomes[0].reason, "the retrospective failed: nothing is applied");
    assert_eq!(closing.report.before, closing.report.after);
    let state = closing.workflow_state;
    assert_eq!(
        (state.counted, state.claimed, state.epoch, state.open),
        (20, 0, 1, false),
        "the epoch is spent"
    );
    assert_eq!(state.paused_until, Some(add_seconds(start_time(), 3600)));
    assert!(closing.opened.is_none(), "paused, although the window is full");
    let failure = closing.failure.unwrap();
    assert_eq!(failure.code, DeadLetterCode::RetrospectiveFailed);
    assert!(failure.detail.contains("run r1: no answer; run r2: no answer"), "{}", failure.detail);
}

#[test]
fn the_released_runs_are_in_the_next_window() {
    let closing = close(closing_facts(&World::new(), 13, vec![failed_investigation(1)]), start_time());
    let mut state = closing.workflow_state;
    let opens = |state: &mut WorkflowState, at| state.open_if_due(&key(), &Policy::default(), at, 0);
    assert!(opens(&mut state, add_seconds(start_time(), 3599)).is_none());
    let next = opens(&mut state, add_seconds(start_time(), 3600)).unwrap().retrospective;
    assert_eq!((next.epoch, next.first, next.last), (2, 1, 13));
    assert_ne!(next.id, RetrospectiveId::of_epoch(&key(), 1), "another id gives another seed");
    state.release_window(&next);
    assert_eq!(
        state.paused_until,
        Some(add_seconds(next.as_of, 2 * 3600)),
        "the second pause is twice as long"
    );
}

#[test]
fn of_a_backlog_a_part_is_claimed() {
    let policy = Policy::default();
    let claims = |counted: u64, policy: &Policy| {
        let mut state = WorkflowState { counted, ..WorkflowState::default() };
        let opened = state.open_if_due(&key(), policy, start_time(), 0).map(|opened| opened.retrospective);
        opened.map(|one| (one.first, one.last, state.claimed))
    };
    assert_eq!(claims(9, &policy), None);
    for (waiting, claimed) in [(10, 10), (50, 50), (51, 50), (500, 50), (600, 60), (50_000, 5_000)] {
        assert_eq!(claims(waiting, &policy), Some((1, claimed, claimed)), "{waiting} wait");
    }
    let rare = Policy { threshold_runs: 200, ..Policy::default() };
    assert_eq!(claims(300, &rare), Some((1, 200, 200)), "a window has as many as the threshold");
    let all = Policy { window_backlog_permille: 1000, ..Policy::default() };
    assert_eq!(claims(50_000, &all), Some((1, 50_000, 50_000)));
    // What a backlog costs grows much slower than the backlog.
    let mut state = WorkflowState { counted: 50_000, ..WorkflowState::default() };
    while state.open_if_due(&key(), &policy, start_time(), 0).is_some() {
        state.close_retrospective();
    }
    assert_eq!((state.epoch, state.claimed), (54, 50_000));
}

#[test]
fn pauses_double_from_an_hour_to_a_day() {
    let policy = Policy::default();
    let hours: Vec<_> = (0..7).map(|failures| failure_pause_s(&policy, failures) / 3600).collect();
    assert_eq!(hours, [1, 2, 4, 8, 16, 24, 24]);
    assert_eq!(failure_pause_s(&policy, u32::MAX), 24 * 3600);
}

#[test]
fn memory_changes_and_the_report_are_announced() {
    let mut world = World::new();
    world.add_archived("A");
    let investigated = investigate("r1").with_finding(finding("B")).with_finding(against(world.id("A")));
    let closing = close(closing_facts(&world, 10, vec![investigated.to_investigation(1)]), start_time());
    let kinds: Vec<_> = closing.messages.iter().map(|message| message.notice.kind()).collect();
    assert_eq!(
        kinds,
        ["memory.changed", "memory.changed", "report.ready"],
        "a refused change is not announced"
    );
    assert_eq!(closing.report.changes.len(), 3, "the report contains the refused change");
    let Notice::ReportReady { epoch, .. } = closing.messages[2].notice else { panic!() };
    assert_eq!(epoch, 1);
}

#[test]
fn the_report_counts_only_living_memories_before() {
    let mut world = World::new();
    world.retro(&[investigate("r0").with_finding(finding("A"))]);
    let id = world.id("A");
    world.retro(&[investigate("r00").with_finding(against(id))]);
    assert_eq!(world.status_and_weight("A"), "deleted 0.000");
    // The batch names the deleted memory, so the writer loads it.
    let closing = close(
        closing_facts(&world, 10, vec![investigate("r1").with_presented(id).to_investigation(1)]),
        start_time(),
    );
    assert_eq!(closing.report.before.by_status, [(MemoryStatus::Tentative, 1)].into());
}

#[test]
fn the_report_lists_runs_results_and_memories_before_and_after() {
    let mut world = World::new();
    world.retro(&[investigate("r0").with_finding(finding("A"))]);
    let id = world.id("A");
    let ended = investigate("r3").with_finding(against(id)).to_investigation(2);
    let mut given =
        closing_facts(&world, 10, vec![failed_investigation(7), Investigation { ordinal: 3, ..ended }]);
    given.investigations[0].ordinal = 7;
    let report = close(given, start_time()).report;
    assert_eq!(report.sampled.iter().map(|run| run.ordinal).collect::<Vec<_>>(), [7, 3]);
    assert_eq!(report.unsampled.iter().map(|run| run.ordinal).collect::<Vec<_>>(), [1, 2, 4, 5, 6, 8, 9, 10]);
    let results: Vec<_> = report.investigations.iter().map(|one| one.result.as_str()).collect();
    assert_eq!(results, ["failed", "found"]);
    assert_eq!(report.before.by_status, [(MemoryStatus::Tentative, 1)].into());
    assert_eq!(report.after.by_status, [(MemoryStatus::Tentative, 1), (MemoryStatus::Deleted, 1)].into());
    assert_eq!(report.policy_hash, world.policy.content_hash());
    let requested: Vec<_> = report.mutations.iter().map(|one| one.request.kind.as_str()).collect();
    assert_eq!(requested, ["observe", "contradict", "sweep"]);
    assert!(report.mutations.iter().all(|one| !one.reason.is_empty()), "{:?}", report.mutations);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<retro_core::report::Report>(&json).unwrap(), report);
}

#[test]
fn the_next_window_has_only_runs_that_nothing_uncounted_precedes() {
    let next = |waiting_in_order| {
        let mut facts = closing_facts(&World::new(), 200, vec![investigate("r1").to_investigation(1)]);
        (facts.state.counted_up_to, facts.state.handled_up_to) = (900, 500);
        facts.waiting_in_order = waiting_in_order;
        close(facts, start_time())
            .opened
            .map(|opened| (opened.retrospective.first, opened.retrospective.last))
    };
    assert_eq!(next(9), None, "the counter opens it later");
    assert_eq!(next(12), Some((11, 22)));
    assert_eq!(next(150), Some((11, 60)), "a part of the backlog");
}
