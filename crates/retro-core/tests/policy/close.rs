//! How a retrospective ends, and what that does to its workflow.

use jiff::Timestamp;
use retro_core::dead_letter::Code;
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

use crate::world::{World, against, dawn, finding, key, look, run};

fn failed(number: u32) -> Investigation {
    let result = Some(InvestigationResult::Failed { reason: "no answer".into() });
    Investigation { result, ..look(&format!("r{number}")).ended(number) }
}

/// Everything about the first retrospective, over runs 1 to 10, when `counted` runs are counted.
fn facts(world: &World, counted: u64, investigations: Vec<Investigation>) -> ClosingFacts {
    let id = RetrospectiveId::of_epoch(&key(), 1);
    let retrospective = Retrospective {
        id,
        key: key(),
        epoch: 1,
        first: 1,
        last: 10,
        as_of: dawn(),
        policy: world.policy.clone(),
        state: RetrospectiveState::Settling,
        asked: None,
    };
    let window_run = |ordinal| WindowRun {
        ordinal,
        run: run(&format!("r{ordinal}")),
        outcome: RunOutcome::Failure,
        pull_requests: Vec::new(),
    };
    let batch = settle_investigations(id, &investigations);
    ClosingFacts {
        history: Default::default(),
        sample: draw_sample(id, (1..=10).collect(), &world.policy),
        window: (1..=10).map(window_run).collect(),
        timings: Vec::new(),
        writer: world.facts(id, &batch),
        batch,
        investigations,
        state: WorkflowState { counted, claimed: 10, epoch: 1, open: true, ..WorkflowState::default() },
        retrospective,
    }
}

fn closed(facts: ClosingFacts, now: Timestamp) -> ClosedRetrospective {
    close_retrospective(facts, &NgramEmbedder, &Policy::default(), now)
}

#[test]
fn one_success_suffices_and_frees_the_workflow() {
    let world = World::new();
    let looked = look("r2").finds(finding("A")).ended(2);
    let mut given = facts(&world, 12, vec![failed(1), looked]);
    given.state.failures = 3;
    let closing = closed(given, dawn());
    assert_eq!((closing.retrospective_state, closing.failure), (RetrospectiveState::Closed, None));
    assert_eq!(closing.report.changes.len(), 1);
    let state = closing.workflow_state;
    assert_eq!((state.open, state.claimed, state.failures, state.paused_until), (false, 10, 0, None));
    assert!(closing.opened.is_none(), "two runs wait");
}

#[test]
fn the_next_one_opens_at_closing_when_the_window_is_full_again() {
    let looked = vec![look("r1").ended(1)];
    let now = add_seconds(dawn(), 60);
    let closing = closed(facts(&World::new(), 20, looked), now);
    let next = closing.opened.unwrap().retrospective;
    assert_eq!((next.epoch, next.first, next.last, next.as_of), (2, 11, 20, now));
    assert_eq!((closing.workflow_state.open, closing.workflow_state.claimed), (true, 20));
}

#[test]
fn a_failed_retrospective_applies_nothing_releases_its_runs_and_pauses() {
    let mut world = World::new();
    world.active("A", 0);
    world.active("B", 60);
    let closing = closed(facts(&world, 20, vec![failed(1), failed(2)]), dawn());
    assert_eq!(closing.retrospective_state, RetrospectiveState::Failed);
    assert!(closing.applied.changes.is_empty() && closing.applied.memories.is_empty(), "no sweep either");
    assert_eq!(closing.applied.outcomes[0].why, "the retrospective failed: nothing is applied");
    assert_eq!(closing.report.before, closing.report.after);
    let state = closing.workflow_state;
    assert_eq!(
        (state.counted, state.claimed, state.epoch, state.open),
        (20, 0, 1, false),
        "the epoch is spent"
    );
    assert_eq!(state.paused_until, Some(add_seconds(dawn(), 3600)));
    assert!(closing.opened.is_none(), "paused, although the window is full");
    let failure = closing.failure.unwrap();
    assert_eq!(failure.code, Code::RetrospectiveFailed);
    assert!(failure.detail.contains("run r1: no answer; run r2: no answer"), "{}", failure.detail);
}

#[test]
fn the_released_runs_are_in_the_next_window() {
    let closing = closed(facts(&World::new(), 13, vec![failed(1)]), dawn());
    let mut state = closing.workflow_state;
    let opens = |state: &mut WorkflowState, at| state.open_if_due(&key(), &Policy::default(), at);
    assert!(opens(&mut state, add_seconds(dawn(), 3599)).is_none());
    let next = opens(&mut state, add_seconds(dawn(), 3600)).unwrap().retrospective;
    assert_eq!((next.epoch, next.first, next.last), (2, 1, 13));
    assert_ne!(next.id, RetrospectiveId::of_epoch(&key(), 1), "and so another seed");
    state.release_window(&next);
    assert_eq!(
        state.paused_until,
        Some(add_seconds(next.as_of, 2 * 3600)),
        "the second pause is twice as long"
    );
}

#[test]
fn pauses_double_from_an_hour_to_a_day() {
    let policy = Policy::default();
    let hours: Vec<_> = (0..7).map(|failures| failure_pause_s(&policy, failures) / 3600).collect();
    assert_eq!(hours, [1, 2, 4, 8, 16, 24, 24]);
    assert_eq!(failure_pause_s(&policy, u32::MAX), 24 * 3600);
}

#[test]
fn every_change_to_a_memory_is_announced_and_so_is_the_report() {
    let mut world = World::new();
    world.archived("A");
    let looks = look("r1").finds(finding("B")).finds(against(world.id("A")));
    let closing = closed(facts(&world, 10, vec![looks.ended(1)]), dawn());
    let kinds: Vec<_> = closing.messages.iter().map(|message| message.notice.kind()).collect();
    assert_eq!(kinds, ["memory.changed", "memory.changed", "report.ready"], "what was refused is not");
    assert_eq!(closing.report.changes.len(), 3, "but stands in the report");
    let Notice::ReportReady { epoch, .. } = closing.messages[2].notice else { panic!() };
    assert_eq!(epoch, 1);
}

#[test]
fn the_report_counts_among_the_memories_before_only_those_that_lived() {
    let mut world = World::new();
    world.retro(&[look("r0").finds(finding("A"))]);
    let id = world.id("A");
    world.retro(&[look("r00").finds(against(id))]);
    assert_eq!(world.stands("A"), "deleted 0.000");
    // The batch names the deleted one, so the writer has it before its eyes.
    let closing = closed(facts(&world, 10, vec![look("r1").shown(id).ended(1)]), dawn());
    assert_eq!(closing.report.before.by_status, [(MemoryStatus::Tentative, 1)].into());
}

#[test]
fn the_report_tells_runs_results_and_memories_before_and_after() {
    let mut world = World::new();
    world.retro(&[look("r0").finds(finding("A"))]);
    let id = world.id("A");
    let looked = look("r3").finds(against(id)).ended(2);
    let mut given = facts(&world, 10, vec![failed(7), Investigation { ordinal: 3, ..looked }]);
    given.investigations[0].ordinal = 7;
    let report = closed(given, dawn()).report;
    assert_eq!(report.sampled.iter().map(|run| run.ordinal).collect::<Vec<_>>(), [7, 3]);
    assert_eq!(report.unsampled.iter().map(|run| run.ordinal).collect::<Vec<_>>(), [1, 2, 4, 5, 6, 8, 9, 10]);
    let results: Vec<_> = report.investigations.iter().map(|one| one.result.as_str()).collect();
    assert_eq!(results, ["failed", "found"]);
    assert_eq!(report.before.by_status, [(MemoryStatus::Tentative, 1)].into());
    assert_eq!(report.after.by_status, [(MemoryStatus::Tentative, 1), (MemoryStatus::Deleted, 1)].into());
    assert_eq!(report.policy_hash, world.policy.content_hash());
    let asked: Vec<_> = report.mutations.iter().map(|one| one.asked.kind.as_str()).collect();
    assert_eq!(asked, ["observe", "contradict", "sweep"]);
    assert!(report.mutations.iter().all(|one| !one.why.is_empty()), "{:?}", report.mutations);
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<retro_core::report::Report>(&json).unwrap(), report);
}
