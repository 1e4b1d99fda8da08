//! A finding creates, confirms or revives a memory, or adds evidence to it.

use retro_core::audience::Audience;
use retro_core::finding::MemoryVerdict;
use retro_core::id::derive_uuid;
use retro_core::memory::{EVIDENCE_KEPT_MAX, MemoryScope};
use retro_core::policy::Policy;

use crate::world::{World, finding, in_step, investigate, remark, run};

#[test]
fn one_run_creates_a_tentative_memory_of_weight_zero() {
    let mut world = World::new();
    assert_eq!(
        world.retro(&[investigate("r1").with_finding(finding("A"))]),
        ["r1 created A: tentative 0.000"]
    );
}

#[test]
fn a_separate_run_confirms_a_memory_across_retrospectives() {
    let mut world = World::new();
    world.retro(&[investigate("r1").with_finding(finding("A"))]);
    assert_eq!(world.retro(&[investigate("r2").with_finding(finding("A"))]), ["r2 promoted A: active 0.300"]);
    let memory = world.named("A");
    assert_eq!((memory.observed_runs, memory.evidence.len()), (2, 2));
    assert_eq!(memory.evidence[0].run, run("r1"));
    assert_eq!(memory.evidence[1].run, run("r2"));
}

#[test]
fn two_runs_of_one_retrospective_activate_a_memory_at_once() {
    let mut world = World::new();
    let lines = world
        .retro(&[investigate("r1").with_finding(finding("A")), investigate("r2").with_finding(finding("A"))]);
    assert_eq!(lines, ["r1 created A: tentative 0.000", "r2 promoted A: active 0.300"]);
}

#[test]
fn the_same_run_never_confirms_its_own_finding() {
    let mut world = World::new();
    let r1 =
        investigate("r1").with_finding(finding("A")).with_finding(finding("A")).with_finding(finding("A"));
    let (lines, applied) = world.retrospective(&[r1]);
    assert_eq!(lines, ["r1 created A: tentative 0.000", "r1 refused (observe) A: tentative 0.000"]);
    let reason = "run r1 has shown it already; only a separate run confirms";
    assert_eq!(applied.outcomes[1].reason, reason);
    assert_eq!(applied.outcomes[2].reason, format!("this has happened before: {reason}"));
    // Even if the store does not list the change as applied, the memory's own evidence keeps the run from
    // counting twice.
    let mut input = world.prepare_batch(&[investigate("r1").with_finding(finding("A"))]);
    input.facts.applied.clear();
    assert!(crate::world::decide(&input).memories.is_empty());
}

#[test]
fn a_run_that_confirms_a_memory_counts_once_in_its_evidence() {
    let mut world = World::new();
    world.retro(&[investigate("r1").with_finding(finding("A"))]);
    let (lines, applied) =
        world.retrospective(&[investigate("r2").with_finding(finding("A")).with_finding(finding("A"))]);
    assert_eq!(lines, ["r2 promoted A: active 0.300"]);
    assert_eq!(applied.outcomes[1].reason, "run r2 has shown it already; a run counts once");
    assert_eq!(world.named("A").observed_runs, 2);
}

#[test]
fn the_same_lesson_in_another_step_confirms_nothing() {
    let mut world = World::new();
    world.retro(&[investigate("r1").with_finding(finding("A"))]);
    let lines = world.retro(&[investigate("r2").with_finding(in_step("review", finding("A")))]);
    assert_eq!(lines, ["r2 created A: tentative 0.000"]);
    assert_eq!(world.memories.len(), 2);
}

#[test]
fn an_active_memory_that_is_seen_again_gains_evidence_and_no_weight() {
    let mut world = World::new();
    world.add_active("A", 450);
    let lines = world
        .retro(&[investigate("r1").with_finding(finding("A")), investigate("r2").with_finding(finding("A"))]);
    assert_eq!(lines, ["r1 observed A: active 0.450", "r2 observed A: active 0.450"]);
    assert_eq!(world.named("A").observed_runs, 3);
}

#[test]
fn an_archived_memory_is_revived_as_tentative_and_a_separate_run_confirms_it() {
    let mut world = World::new();
    world.add_archived("A");
    let r1 = investigate("r1").with_finding(finding("A")).with_finding(finding("A"));
    assert_eq!(
        world.retro(&[r1]),
        ["r1 revived A: tentative 0.000", "r1 refused (observe) A: tentative 0.000"]
    );
    assert_eq!(world.named("A").evidence[0].run, run("given"), "it keeps its evidence");
    assert_eq!(world.retro(&[investigate("r2").with_finding(finding("A"))]), ["r2 promoted A: active 0.300"]);
}

#[test]
fn a_heavier_solution_supersedes_warnings_about_the_same_error() {
    let way_out = || {
        let mut found = finding("A");
        found.title = "Pass a region".to_owned();
        found.cue.prefer = Some("with `region`".to_owned());
        found
    };
    let repeated = || {
        let mut found = finding("A");
        found.title = "Stop".to_owned();
        found.cue.avoid = Some("again".to_owned());
        found
    };
    let mut world = World::new();
    world.add_active("A", 300);
    world.retro(&[investigate("r1")
        .with_finding(finding("B"))
        .with_finding(in_step("review", finding("A")))
        .with_finding(repeated())]);
    assert_eq!(
        world.retro(&[investigate("r2").with_finding(way_out())]),
        ["r2 created Pass a region: tentative 0.000"]
    );
    let lines = world.retro(&[investigate("r3").with_finding(way_out())]);
    assert_eq!(lines, ["r3 promoted Pass a region: active 0.300"], "it is not heavier yet");
    let known = world.id("Pass a region");
    assert_eq!(
        world.retro(&[investigate("r4").with_verdict(known, MemoryVerdict::Helped)]),
        [
            "retro reweighted (helped +0.100) Pass a region: active 0.400",
            "retro superseded A: superseded 0.300"
        ],
        "other errors, other steps and more specific warnings stay"
    );
}

#[test]
fn the_policy_can_require_one_run_or_three() {
    let mut one = World::with(Policy { confirm_runs: 1, ..Policy::default() });
    let twice = investigate("r1").with_finding(finding("A")).with_finding(finding("A"));
    assert_eq!(one.retro(&[twice]), ["r1 created A: active 0.300"]);
    assert_eq!(one.named("A").observed_runs, 1);
    let mut three = World::with(Policy { confirm_runs: 3, ..Policy::default() });
    let lines =
        three.retro(&["r1", "r2", "r2", "r3"].map(|name| investigate(name).with_finding(finding("A"))));
    assert_eq!(
        lines,
        [
            "r1 created A: tentative 0.000",
            "r2 observed A: tentative 0.000",
            "r2 refused (observe) A: tentative 0.000",
            "r3 promoted A: active 0.300"
        ]
    );
}

#[test]
fn without_evidence_a_tentative_memory_stays_unchanged() {
    let mut world = World::new();
    world.retro(&[investigate("r1").with_finding(finding("A"))]);
    let before = world.named("A").clone();
    for name in ["r2", "r3", "r4"] {
        assert_eq!(world.retro(&[investigate(name)]), [""; 0]);
    }
    assert_eq!(*world.named("A"), before);
}

/// Checks that a second run with the lesson `again` confirms the first lesson, or does not.
#[track_caller]
fn check_merge(first: &str, again: &str, confirmed: bool) {
    let mut world = World::new();
    let lines = world.retro(&[
        investigate("r1").with_finding(remark(first)),
        investigate("r2").with_finding(remark(again)),
    ]);
    assert_eq!(lines[1].contains("promoted"), confirmed, "{first} / {again}: {lines:?}");
}

#[test]
fn text_only_lessons_merge_if_similar_and_no_detail_differs() {
    check_merge("List the tables before querying", "Before querying, list the tables", true);
    check_merge("List the tables before querying", "Ask the user for the payment method", false);
    check_merge("Retry the failing call", "Never retry the failing call", false);
    check_merge("Wait 5 seconds after the deploy", "Wait 50 seconds after the deploy", false);
    check_merge("Query the table `orders` by date", "Query the table `order_items` by date", false);
    check_merge("Use rg instead of grep", "Use grep instead of rg", false);
}

#[test]
fn the_most_similar_memory_is_confirmed_and_the_oldest_of_equals() {
    let mut world = World::new();
    let titles =
        ["Read the error message first", "Read the error message and the log first", "Read the log first"];
    world.policy.merge_similarity = 1000;
    for (nth, title) in titles.into_iter().enumerate() {
        world.retro(&[investigate(&format!("r{nth}")).with_finding(remark(title))]);
    }
    world.policy.merge_similarity = 300;
    for (nth, title) in titles.into_iter().enumerate() {
        let lines = world.clone().retro(&[investigate(&format!("s{nth}")).with_finding(remark(title))]);
        assert_eq!(
            lines,
            [format!("s{nth} promoted {title}: active 0.300")],
            "the order of ids does not matter"
        );
    }
    for memory in world.memories.values_mut() {
        memory.lesson.title = titles[0].into();
    }
    let oldest = world.memories.values().min_by_key(|memory| memory.created_at).map(|memory| memory.id);
    world.retro(&[investigate("s").with_finding(remark(titles[0]))]);
    assert_eq!(world.log.last().map(|change| change.memory), oldest);
}

#[test]
fn a_memory_keeps_its_latest_quotes_and_counts_all_its_runs() {
    let mut world = World::new();
    world.add_active("A", 300);
    for number in 0..20 {
        world.retro(&[investigate(&format!("r{number}")).with_finding(finding("A"))]);
    }
    let memory = world.named("A");
    assert_eq!((memory.observed_runs, memory.evidence.len()), (21, EVIDENCE_KEPT_MAX));
    assert_eq!(memory.evidence.last().unwrap().run, run("r19"));
}

#[test]
fn a_memory_of_another_workflow_is_treated_like_a_missing_one() {
    let mut world = World::new();
    let id = world.add_active("A", 60);
    let foreign = MemoryScope::Step {
        workflow: "other".parse().unwrap(),
        step: "main".parse().unwrap(),
        audience: Audience::Everyone,
    };
    world.memories.get_mut(&id).unwrap().scope = foreign;
    let missing = retro_core::id::MemoryId(derive_uuid("memory", &["missing"]));
    let (lines, applied) =
        world.retrospective(&[investigate("r1").with_presented(id).with_presented(missing)]);
    assert!(applied.memories.is_empty(), "{lines:?}");
    assert_eq!(applied.outcomes[0].reason, "no such memory in this workflow");
    assert_eq!(applied.outcomes[0].reason, applied.outcomes[1].reason);
}
