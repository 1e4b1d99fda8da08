//! Credits memories: each run gives one verdict per memory, and the weight changes of a retrospective are
//! summed and clamped once.

use retro_core::finding::MemoryVerdict::{self, Applied, CueNotMet, Harmed, Helped, Ignored};
use retro_core::policy::Policy;

use crate::world::{World, finding, investigate};

/// Credits a memory with these verdicts, one run each, in one retrospective, and checks the resulting change.
#[track_caller]
fn check_weight(weight: u16, verdicts: &[MemoryVerdict], line: &str) {
    let mut world = World::new();
    let id = world.add_active("A", weight);
    let investigated: Vec<_> = (0..)
        .zip(verdicts)
        .map(|(nth, verdict)| investigate(&format!("r{nth}")).with_verdict(id, *verdict))
        .collect();
    assert_eq!(world.retro(&investigated), [line], "{weight} {verdicts:?}");
}

#[test]
fn every_verdict_moves_the_weight_as_the_policy_says() {
    check_weight(300, &[Helped], "retro reweighted (helped +0.100) A: active 0.400");
    check_weight(300, &[Harmed], "retro reweighted (harmed -0.150) A: active 0.150");
    check_weight(300, &[Applied], "retro reweighted (applied +0.000) A: active 0.300");
    check_weight(300, &[Ignored], "retro reweighted (ignored -0.020) A: active 0.280");
    check_weight(300, &[CueNotMet], "retro exempted (1 in a row) A: active 0.300");
}

#[test]
fn ignored_counts_once_per_retrospective_and_only_if_no_run_used_it() {
    check_weight(300, &[Ignored, Ignored, Ignored], "retro reweighted (ignored -0.020) A: active 0.280");
    check_weight(300, &[Ignored, CueNotMet], "retro reweighted (ignored -0.020) A: active 0.280");
    check_weight(300, &[Ignored, Applied], "retro reweighted (applied +0.000) A: active 0.300");
    check_weight(300, &[Ignored, Helped, Ignored], "retro reweighted (helped +0.100) A: active 0.400");
}

#[test]
fn weight_changes_of_a_retrospective_are_summed_and_clamped_once() {
    check_weight(
        300,
        &[Helped, Helped, Harmed],
        "retro reweighted (helped +0.100, helped +0.100, harmed -0.150) A: active 0.350",
    );
    check_weight(
        950,
        &[Helped, Helped, Harmed],
        "retro reweighted (helped +0.100, helped +0.100, harmed -0.150) A: active 1.000",
    );
    check_weight(
        200,
        &[Harmed, Harmed, Helped, Helped],
        "retro reweighted (harmed -0.150, harmed -0.150, helped +0.100, helped +0.100) A: active 0.100",
    );
}

#[test]
fn the_strongest_verdict_of_a_run_counts() {
    for (verdicts, line) in [
        ([Helped, Harmed], "retro reweighted (harmed -0.150) A: active 0.150"),
        ([Harmed, Helped], "retro reweighted (harmed -0.150) A: active 0.150"),
        ([Applied, Helped], "retro reweighted (helped +0.100) A: active 0.400"),
        ([Ignored, Applied], "retro reweighted (applied +0.000) A: active 0.300"),
        ([CueNotMet, Ignored], "retro reweighted (ignored -0.020) A: active 0.280"),
    ] {
        let mut world = World::new();
        let id = world.add_active("A", 300);
        let investigated = verdicts.map(|verdict| investigate("r1").with_verdict(id, verdict));
        assert_eq!(world.retro(&investigated), [line], "{verdicts:?}");
    }
}

#[test]
fn a_memory_presented_without_a_verdict_was_ignored() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    let (lines, applied) = world.retrospective(&[investigate("r1").with_presented(id)]);
    assert_eq!(lines, ["retro reweighted (ignored -0.020) A: active 0.280"]);
    assert_eq!(applied.outcomes[0].reason, "-0.020 ignored: presented, and read or applied in no run");
}

#[test]
fn reading_counts_as_use() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    let lines = world.retro(&[investigate("r1").with_read_memory(id), investigate("r2").with_presented(id)]);
    assert_eq!(lines, ["retro reweighted (read +0.000) A: active 0.300"]);
}

#[test]
fn an_unmet_cue_exempts_for_at_most_five_retrospectives_in_a_row() {
    let mut world = World::new();
    let id = world.add_active("A", 300);
    let retro = |world: &mut World, nth: u32| {
        world.retro(&[investigate(&format!("r{nth}")).with_verdict(id, CueNotMet)]).remove(0)
    };
    for nth in 1..=5 {
        assert_eq!(retro(&mut world, nth), format!("retro exempted ({nth} in a row) A: active 0.300"));
    }
    assert_eq!(retro(&mut world, 6), "retro reweighted (ignored -0.020) A: active 0.280");
    assert_eq!(retro(&mut world, 7), "retro reweighted (ignored -0.020) A: active 0.260");
}

#[test]
fn use_or_a_met_cue_resets_the_exemption_count() {
    let mut world = World::new();
    let id = world.add_active("A", 500);
    for (nth, ending) in [
        investigate("a").with_verdict(id, Helped),
        investigate("b").with_verdict(id, Ignored),
        investigate("c").with_verdict(id, Applied),
        investigate("d").with_read_memory(id),
    ]
    .into_iter()
    .enumerate()
    {
        for row in 1..=2 {
            let line =
                world.retro(&[investigate(&format!("r{nth}.{row}")).with_verdict(id, CueNotMet)]).remove(0);
            assert!(line.contains(&format!("exempted ({row} in a row)")), "{line}");
        }
        world.retro(&[investigate(&format!("r{nth}.3"))]);
        assert_eq!(world.named("A").cue_not_met, 2, "a run without the memory does not change the count");
        world.retro(&[ending]);
        assert_eq!(world.named("A").cue_not_met, 0);
    }
}

#[test]
fn the_policy_can_disable_the_exemption() {
    let mut world = World::with(Policy { cue_not_met_max: 0, ..Policy::default() });
    let id = world.add_active("A", 300);
    let lines = world.retro(&[investigate("r1").with_verdict(id, CueNotMet)]);
    assert_eq!(lines, ["retro reweighted (ignored -0.020) A: active 0.280"]);
}

#[test]
fn credit_on_a_memory_without_weight_is_refused_with_the_reason() {
    let mut world = World::new();
    world.retro(&[investigate("r1").with_finding(finding("A"))]);
    let id = world.id("A");
    let (lines, applied) = world.retrospective(&[
        investigate("r2").with_verdict(id, Helped),
        investigate("r3").with_verdict(id, Helped),
    ]);
    assert_eq!(lines, ["retro refused (credit) A: tentative 0.000"]);
    for outcome in &applied.outcomes[..2] {
        assert_eq!(outcome.reason, "it is tentative: it has no weight to move");
    }
    let mut world = World::new();
    let id = world.add_archived("A");
    assert_eq!(
        world.retro(&[investigate("r1").with_verdict(id, Harmed)]),
        ["retro refused (credit) A: archived 0.000"]
    );
}

#[test]
fn a_memory_is_credited_in_the_retrospective_that_confirms_it() {
    let mut world = World::new();
    world.retro(&[investigate("r1").with_finding(finding("A"))]);
    let id = world.id("A");
    let lines = world.retro(&[investigate("r2").with_finding(finding("A")).with_verdict(id, Helped)]);
    assert_eq!(lines, ["r2 promoted A: active 0.300", "retro reweighted (helped +0.100) A: active 0.400"]);
}
