//! Limbo and archive look at every active memory of the workflow, those of unsampled steps included.

use retro_core::finding::MemoryVerdict;
use retro_core::memory::{ChangeCause, change_id};
use retro_core::policy::Policy;

use crate::world::{World, decide, finding, key, look};

/// What an empty retrospective does to a memory of this weight.
#[track_caller]
fn check(weight: u16, lines: &[&str]) {
    let mut world = World::new();
    world.active("A", weight);
    assert_eq!(world.retro(&[look("r1")]), lines, "{weight}");
    assert_eq!(world.folded(), world.memories, "{weight}");
}

#[test]
fn in_limbo_a_memory_loses_the_ignored_amount_each_retrospective_until_it_is_archived() {
    check(100, &[]);
    check(99, &["retro reweighted (limbo -0.020) A: active 0.079"]);
    check(70, &["retro reweighted (limbo -0.020) A: active 0.050"]);
    check(69, &["retro reweighted (limbo -0.020) A: active 0.049", "retro archived A: archived 0.049"]);
    check(50, &["retro reweighted (limbo -0.020) A: active 0.030", "retro archived A: archived 0.030"]);
    check(49, &["retro archived A: archived 0.049"]);
    check(0, &["retro archived A: archived 0.000"]);
}

#[test]
fn in_limbo_and_observed_a_memory_gains_instead() {
    let mut world = World::new();
    world.active("A", 60);
    let looks = ["r1", "r2"].map(|name| look(name).finds(finding("A")));
    assert_eq!(
        world.retro(&looks),
        [
            "r1 observed A: active 0.060",
            "r2 observed A: active 0.060",
            "retro reweighted (observed +0.100) A: active 0.160"
        ],
        "once a retrospective, not once a run"
    );
}

#[test]
fn in_limbo_and_used_after_all_a_memory_is_not_decayed_besides() {
    let mut world = World::new();
    let id = world.active("A", 60);
    let lines = world.retro(&[look("r1").judged(id, MemoryVerdict::Helped)]);
    assert_eq!(lines, ["retro reweighted (helped +0.100) A: active 0.160"]);
    let id = world.active("B", 60);
    assert_eq!(world.retro(&[look("r2").read(id)]), ["retro reweighted (read +0.000) B: active 0.060"]);
}

#[test]
fn in_limbo_and_ignored_a_memory_loses_the_amount_once() {
    let mut world = World::new();
    let id = world.active("A", 90);
    let lines = world.retro(&[look("r1").judged(id, MemoryVerdict::Ignored)]);
    assert_eq!(lines, ["retro reweighted (ignored -0.020) A: active 0.070"]);
    let lines = world.retro(&[look("r2").judged(id, MemoryVerdict::CueNotMet)]);
    assert_eq!(lines, ["retro reweighted (limbo -0.020) A: active 0.050"], "an exemption is from ignored");
}

#[test]
fn steps_that_no_sampled_run_went_through_are_swept_too() {
    let mut world = World::new();
    world.active("A", 60);
    world.active("B", 300);
    let id = world.id("B");
    let lines = world.retro(&[look("r1").judged(id, MemoryVerdict::Applied)]);
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
    world.retro(&[look("r1").finds(finding("A"))]);
    assert_eq!(world.retro(&[look("r2")]), [""; 0]);
    assert_eq!(world.stands("A"), "tentative 0.000");
}

#[test]
fn what_falls_below_the_archive_weight_is_archived_in_the_same_retrospective() {
    let mut world = World::new();
    let id = world.active("A", 190);
    let lines = world.retro(&[look("r1").judged(id, MemoryVerdict::Harmed)]);
    assert_eq!(
        lines,
        ["retro reweighted (harmed -0.150) A: active 0.040", "retro archived A: archived 0.040"]
    );
}

#[test]
fn a_policy_whose_confirmed_memories_would_begin_in_limbo_is_refused() {
    let policy = Policy { confirmed_weight: 99, ..Policy::default() };
    assert_eq!(policy.validate().unwrap_err()[0].key, "confirmed_weight");
}

#[test]
fn an_effect_that_stands_in_the_log_never_happens_again_however_the_memory_stands() {
    let mut world = World::new();
    let id = world.active("A", 30);
    let mut asked = world.ask(&[]);
    let cause = ChangeCause::Retrospective { id: asked.facts.retrospective };
    asked.facts.applied.insert(change_id(&key(), id, &cause, "archived"));
    assert_eq!(decide(&asked).changes, []);
}
