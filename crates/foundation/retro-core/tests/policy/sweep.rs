//! Limbo and archiving apply to every active memory of the workflow, including those of steps without sampled
//! runs.

use retro_core::finding::MemoryVerdict;
use retro_core::memory::{ChangeCause, change_id};
use retro_core::policy::Policy;

use crate::world::{World, decide, finding, investigate, key};

/// Checks the changes that an empty retrospective makes to a memory of this weight.
#[track_caller]
fn check_sweep(weight: u16, lines: &[&str]) {
    let mut world = World::new();
    world.add_active("A", weight);
    assert_eq!(world.retro(&[investigate("r1")]), lines, "{weight}");
    assert_eq!(world.fold_log(), world.memories, "{weight}");
}

#[test]
fn a_memory_in_limbo_decays_each_retrospective_until_it_is_archived() {
    check_sweep(100, &[]);
    check_sweep(99, &["retro reweighted (limbo -0.020) A: active 0.079"]);
    check_sweep(70, &["retro reweighted (limbo -0.020) A: active 0.050"]);
    check_sweep(69, &["retro reweighted (limbo -0.020) A: active 0.049", "retro archived A: archived 0.049"]);
    check_sweep(50, &["retro reweighted (limbo -0.020) A: active 0.030", "retro archived A: archived 0.030"]);
    check_sweep(49, &["retro archived A: archived 0.049"]);
    check_sweep(0, &["retro archived A: archived 0.000"]);
}

#[test]
fn an_observed_memory_in_limbo_gains_weight_instead() {
    let mut world = World::new();
    world.add_active("A", 60);
    let investigated = ["r1", "r2"].map(|name| investigate(name).with_finding(finding("A")));
    assert_eq!(
        world.retro(&investigated),
        [
            "r1 observed A: active 0.060",
            "r2 observed A: active 0.060",
            "retro reweighted (observed +0.100) A: active 0.160"
        ],
        "once a retrospective, not once a run"
    );
}

#[test]
fn a_used_memory_in_limbo_does_not_decay() {
    let mut world = World::new();
    let id = world.add_active("A", 60);
    let lines = world.retro(&[investigate("r1").with_verdict(id, MemoryVerdict::Helped)]);
    assert_eq!(lines, ["retro reweighted (helped +0.100) A: active 0.160"]);
    let id = world.add_active("B", 60);
    assert_eq!(
        world.retro(&[investigate("r2").with_read_memory(id)]),
        ["retro reweighted (read +0.000) B: active 0.060"]
    );
}

#[test]
fn an_ignored_memory_in_limbo_loses_the_amount_once() {
    let mut world = World::new();
    let id = world.add_active("A", 90);
    let lines = world.retro(&[investigate("r1").with_verdict(id, MemoryVerdict::Ignored)]);
    assert_eq!(lines, ["retro reweighted (ignored -0.020) A: active 0.070"]);
    let lines = world.retro(&[investigate("r2").with_verdict(id, MemoryVerdict::CueNotMet)]);
    assert_eq!(lines, ["retro reweighted (limbo -0.020) A: active 0.050"], "an exemption is from ignored");
}

#[test]
fn steps_without_sampled_runs_are_swept_too() {
    let mut world = World::new();
    world.add_active("A", 60);
    world.add_active("B", 300);
    let id = world.id("B");
    let lines = world.retro(&[investigate("r1").with_verdict(id, MemoryVerdict::Applied)]);
    assert_eq!(
        lines,
        [
            "retro reweighted (applied +0.000) B: active 0.300",
            "retro reweighted (limbo -0.020) A: active 0.040",
            "retro archived A: archived 0.040"
        ]
    );
}

#[test]
fn a_tentative_memory_is_never_archived_for_its_weight() {
    let mut world = World::new();
    world.retro(&[investigate("r1").with_finding(finding("A"))]);
    assert_eq!(world.retro(&[investigate("r2")]), [""; 0]);
    assert_eq!(world.status_and_weight("A"), "tentative 0.000");
}

#[test]
fn a_memory_that_falls_below_the_archive_weight_is_archived_in_the_same_retrospective() {
    let mut world = World::new();
    let id = world.add_active("A", 190);
    let lines = world.retro(&[investigate("r1").with_verdict(id, MemoryVerdict::Harmed)]);
    assert_eq!(
        lines,
        ["retro reweighted (harmed -0.150) A: active 0.040", "retro archived A: archived 0.040"]
    );
}

#[test]
fn a_policy_whose_confirmed_memories_would_begin_in_limbo_is_refused() {
    let policy = Policy { confirmed_weight: 99, ..Policy::default() };
    assert_eq!(policy.validate().unwrap_err()[0].key(), "confirmed_weight");
}

#[test]
fn an_effect_already_in_the_log_never_happens_again() {
    let mut world = World::new();
    let id = world.add_active("A", 30);
    let mut input = world.prepare_batch(&[]);
    let cause = ChangeCause::Retrospective { id: input.facts.retrospective };
    input.facts.applied.insert(change_id(&key(), id, &cause, "archived"));
    assert_eq!(decide(&input).changes, []);
}
