//! One verdict a memory and run; a retrospective's movements are summed and clamped once.

use retro_core::finding::MemoryVerdict::{self, Applied, CueNotMet, Harmed, Helped, Ignored};
use retro_core::policy::Policy;

use crate::world::{World, finding, look};

/// Weighs a memory by the verdicts of one retrospective, one run each, and compares weight and parts.
#[track_caller]
fn check(weight: u16, verdicts: &[MemoryVerdict], line: &str) {
    let mut world = World::new();
    let id = world.active("A", weight);
    let looks: Vec<_> =
        (0..).zip(verdicts).map(|(nth, verdict)| look(&format!("r{nth}")).judged(id, *verdict)).collect();
    assert_eq!(world.retro(&looks), [line], "{weight} {verdicts:?}");
}

#[test]
fn every_verdict_moves_the_weight_as_the_policy_says() {
    check(300, &[Helped], "retro reweighted (helped +0.100) A: active 0.400");
    check(300, &[Harmed], "retro reweighted (harmed -0.150) A: active 0.150");
    check(300, &[Applied], "retro reweighted (applied +0.000) A: active 0.300");
    check(300, &[Ignored], "retro reweighted (ignored -0.020) A: active 0.280");
    check(300, &[CueNotMet], "retro exempted (1 in a row) A: active 0.300");
}

#[test]
fn ignored_is_counted_once_a_retrospective_and_only_if_no_run_used_it() {
    check(300, &[Ignored, Ignored, Ignored], "retro reweighted (ignored -0.020) A: active 0.280");
    check(300, &[Ignored, CueNotMet], "retro reweighted (ignored -0.020) A: active 0.280");
    check(300, &[Ignored, Applied], "retro reweighted (applied +0.000) A: active 0.300");
    check(300, &[Ignored, Helped, Ignored], "retro reweighted (helped +0.100) A: active 0.400");
}

#[test]
fn a_retrospectives_movements_are_summed_and_clamped_once() {
    check(
        300,
        &[Helped, Helped, Harmed],
        "retro reweighted (helped +0.100, helped +0.100, harmed -0.150) A: active 0.350",
    );
    check(
        950,
        &[Helped, Helped, Harmed],
        "retro reweighted (helped +0.100, helped +0.100, harmed -0.150) A: active 1.000",
    );
    check(
        200,
        &[Harmed, Harmed, Helped, Helped],
        "retro reweighted (harmed -0.150, harmed -0.150, helped +0.100, helped +0.100) A: active 0.100",
    );
}

#[test]
fn of_several_verdicts_on_a_memory_in_one_run_the_strongest_counts() {
    for (said, line) in [
        ([Helped, Harmed], "retro reweighted (harmed -0.150) A: active 0.150"),
        ([Harmed, Helped], "retro reweighted (harmed -0.150) A: active 0.150"),
        ([Applied, Helped], "retro reweighted (helped +0.100) A: active 0.400"),
        ([Ignored, Applied], "retro reweighted (applied +0.000) A: active 0.300"),
        ([CueNotMet, Ignored], "retro reweighted (ignored -0.020) A: active 0.280"),
    ] {
        let mut world = World::new();
        let id = world.active("A", 300);
        let looks = said.map(|verdict| look("r1").judged(id, verdict));
        assert_eq!(world.retro(&looks), [line], "{said:?}");
    }
}

#[test]
fn a_memory_presented_without_a_verdict_was_ignored() {
    let mut world = World::new();
    let id = world.active("A", 300);
    let (lines, applied) = world.retrospective(&[look("r1").shown(id)]);
    assert_eq!(lines, ["retro reweighted (ignored -0.020) A: active 0.280"]);
    assert_eq!(applied.outcomes[0].why, "-0.020 ignored: presented, and read or applied in no run");
}

#[test]
fn reading_counts_as_use() {
    let mut world = World::new();
    let id = world.active("A", 300);
    let lines = world.retro(&[look("r1").read(id), look("r2").shown(id)]);
    assert_eq!(lines, ["retro reweighted (read +0.000) A: active 0.300"]);
}

#[test]
fn a_cue_that_never_came_up_exempts_for_five_retrospectives_in_a_row_and_no_longer() {
    let mut world = World::new();
    let id = world.active("A", 300);
    let retro = |world: &mut World, nth: u32| {
        world.retro(&[look(&format!("r{nth}")).judged(id, CueNotMet)]).remove(0)
    };
    for nth in 1..=5 {
        assert_eq!(retro(&mut world, nth), format!("retro exempted ({nth} in a row) A: active 0.300"));
    }
    assert_eq!(retro(&mut world, 6), "retro reweighted (ignored -0.020) A: active 0.280");
    assert_eq!(retro(&mut world, 7), "retro reweighted (ignored -0.020) A: active 0.260");
}

#[test]
fn use_or_a_cue_that_came_up_ends_the_row() {
    let mut world = World::new();
    let id = world.active("A", 500);
    for (nth, ending) in [
        look("a").judged(id, Helped),
        look("b").judged(id, Ignored),
        look("c").judged(id, Applied),
        look("d").read(id),
    ]
    .into_iter()
    .enumerate()
    {
        for row in 1..=2 {
            let line = world.retro(&[look(&format!("r{nth}.{row}")).judged(id, CueNotMet)]).remove(0);
            assert!(line.contains(&format!("exempted ({row} in a row)")), "{line}");
        }
        world.retro(&[look(&format!("r{nth}.3"))]);
        assert_eq!(world.named("A").cue_not_met, 2, "not being presented neither adds nor ends");
        world.retro(&[ending]);
        assert_eq!(world.named("A").cue_not_met, 0);
    }
}

#[test]
fn a_policy_may_exempt_nobody() {
    let mut world = World::with(Policy { cue_not_met_max: 0, ..Policy::default() });
    let id = world.active("A", 300);
    let lines = world.retro(&[look("r1").judged(id, CueNotMet)]);
    assert_eq!(lines, ["retro reweighted (ignored -0.020) A: active 0.280"]);
}

#[test]
fn what_has_no_weight_to_move_refuses_credit_and_says_so() {
    let mut world = World::new();
    world.retro(&[look("r1").finds(finding("A"))]);
    let id = world.id("A");
    let (lines, applied) =
        world.retrospective(&[look("r2").judged(id, Helped), look("r3").judged(id, Helped)]);
    assert_eq!(lines, ["retro refused (credit) A: tentative 0.000"]);
    for outcome in &applied.outcomes[..2] {
        assert_eq!(outcome.why, "it is tentative: it has no weight to move");
    }
    let mut world = World::new();
    let id = world.archived("A");
    assert_eq!(world.retro(&[look("r1").judged(id, Harmed)]), ["retro refused (credit) A: archived 0.000"]);
}

#[test]
fn a_memory_confirmed_in_a_retrospective_is_weighed_in_it() {
    let mut world = World::new();
    world.retro(&[look("r1").finds(finding("A"))]);
    let id = world.id("A");
    let lines = world.retro(&[look("r2").finds(finding("A")).judged(id, Helped)]);
    assert_eq!(lines, ["r2 promoted A: active 0.300", "retro reweighted (helped +0.100) A: active 0.400"]);
}
