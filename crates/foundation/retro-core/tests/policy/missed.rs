//! Says of recurring failures why agents are not told about them.

use retro_core::calls::{CallCounts, MissedReason, ReactionCounts, RecurringFailure, SummaryCoverage};
use retro_core::id::Step;
use retro_core::learn::{MutationKind, NoLessonReason};
use retro_core::retrospective::Investigation;

use crate::close::{close, closing_facts};
use crate::world::{World, finding, investigate, run, start_time};

/// Returns a failure about which [`finding`] of the same name is a lesson.
fn failure(name: &str, investigated: u32, recovered: u32) -> RecurringFailure {
    RecurringFailure {
        step: Step::main(),
        tool: "sh".into(),
        error: name.into(),
        runs: 4,
        witnesses: 4,
        recovered,
        failed_runs: 2,
        investigated,
        last_run: run("r9"),
    }
}

/// Closes a retrospective in which this failure recurred, and returns why it was missed.
fn why(world: &World, failure: RecurringFailure, investigations: Vec<Investigation>) -> Option<MissedReason> {
    let mut facts = closing_facts(world, 10, investigations);
    let coverage = SummaryCoverage { runs: 10, counted: 10, ..SummaryCoverage::default() };
    facts.calls = Some(CallCounts { coverage, operations: Vec::new(), failures: vec![failure] });
    let calls = close(facts, start_time()).report.calls.unwrap();
    assert_eq!(calls.coverage, coverage);
    calls.missed.into_iter().next().map(|missed| missed.reason)
}

fn silent() -> Vec<Investigation> {
    vec![investigate("r1").to_investigation(1)]
}

#[test]
fn a_failure_with_a_memory_that_agents_get_is_not_missed() {
    let mut world = World::new();
    world.add_active("A", 300);
    assert_eq!(why(&world, failure("A", 2, 2), silent()), None);
    assert_eq!(why(&world, failure("B", 2, 2), silent()), Some(MissedReason::NoRemedyFound));
}

#[test]
fn without_a_memory_the_runs_say_what_was_missing() {
    let world = World::new();
    assert_eq!(why(&world, failure("A", 0, 4), silent()), Some(MissedReason::NotSampled));
    assert_eq!(why(&world, failure("A", 2, 0), silent()), Some(MissedReason::NotRecovered));
    assert_eq!(why(&world, failure("A", 2, 4), silent()), Some(MissedReason::NoRemedyFound));
}

#[test]
fn a_memory_that_agents_do_not_get_is_named_with_the_reason() {
    let mut world = World::new();
    let archived = world.add_archived("A");
    assert_eq!(why(&world, failure("A", 2, 2), silent()), Some(MissedReason::Archived { memory: archived }));

    // The memory that this very retrospective creates counts.
    let found = vec![investigate("r1").with_finding(finding("B")).to_investigation(1)];
    assert!(matches!(why(&world, failure("B", 1, 2), found), Some(MissedReason::Unconfirmed { .. })));
}

#[test]
fn a_deleted_memory_suppresses_its_failure_until_its_tombstone_expires() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    world.delete(id);
    assert_eq!(why(&world, failure("A", 2, 2), silent()), Some(MissedReason::Suppressed { memory: id }));
    for tombstone in world.tombstones.values_mut() {
        tombstone.until = start_time();
    }
    assert_eq!(why(&world, failure("A", 2, 2), silent()), Some(MissedReason::NoRemedyFound));
}

#[test]
fn an_error_that_passes_by_itself_is_called_transient() {
    let world = World::new();
    let found = vec![
        investigate("r1").with_finding(finding("A")).to_investigation(1),
        investigate("r2").with_passed_error(&finding("A"), []).to_investigation(2),
    ];
    assert_eq!(why(&world, failure("A", 2, 2), found), Some(MissedReason::Transient));
}

#[test]
fn a_refuted_remedy_is_reported_with_its_numbers() {
    let found = vec![
        investigate("r1").with_finding(finding("A")).to_investigation(1),
        investigate("r2").with_passed_error(&finding("A"), []).to_investigation(2),
    ];
    let mut facts = closing_facts(&World::new(), 10, found);
    let counts = ReactionCounts { repeated: 9, changed: 1, ..ReactionCounts::default() };
    for mutation in &mut facts.batch {
        if let MutationKind::Observe { no_lesson, .. } = &mut mutation.request {
            *no_lesson = Some(NoLessonReason::PassesByItself { counts });
        }
    }
    let coverage = SummaryCoverage { runs: 10, counted: 10, ..SummaryCoverage::default() };
    facts.calls = Some(CallCounts { coverage, operations: Vec::new(), failures: vec![failure("A", 2, 2)] });
    let missed = close(facts, start_time()).report.calls.unwrap().missed;
    assert_eq!(missed[0].reason, MissedReason::Refuted { repeated: 9, changed: 1 });
}

#[test]
fn a_failed_retrospective_reports_no_counts() {
    let world = World::new();
    let mut facts = closing_facts(&world, 10, silent());
    facts.investigations[0].result = None;
    facts.calls = Some(CallCounts {
        coverage: SummaryCoverage::default(),
        operations: Vec::new(),
        failures: Vec::new(),
    });
    assert!(close(facts, start_time()).report.calls.is_none());
}
