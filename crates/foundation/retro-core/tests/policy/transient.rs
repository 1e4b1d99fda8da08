//! An error that the identical call later overcomes teaches nothing, in whichever run it occurred.

use retro_core::finding::Finding;

use crate::world::{World, finding, in_step, investigate};

fn outcome_reason(applied: &retro_core::memory::AppliedBatch, row: usize) -> &str {
    &applied.outcomes[row].reason
}

#[test]
fn an_error_passed_in_one_run_gives_no_lesson_in_its_retrospective() {
    let mut world = World::new();
    let investigated = [
        investigate("r1").with_finding(finding("A")),
        investigate("r2").with_passed_error(&finding("A"), []),
    ];
    let (lines, applied) = world.retrospective(&investigated);
    assert_eq!(lines, [""; 0]);
    assert_eq!(
        outcome_reason(&applied, 0),
        "the very same call got past the error in run r2: it passes by itself"
    );

    let same = investigate("r3").with_finding(finding("A")).with_passed_error(&finding("A"), []);
    let (lines, applied) = world.retrospective(&[same]);
    assert_eq!(lines, [""; 0]);
    assert_eq!(
        outcome_reason(&applied, 0),
        "the very same call got past the error in the same run: it passes by itself"
    );
}

#[test]
fn other_errors_tools_and_steps_are_unaffected() {
    let mut other_tool = finding("A");
    other_tool.cue.tool = Some("make".to_owned());
    for passed in [finding("B"), other_tool, in_step("review", finding("A"))] {
        let mut world = World::new();
        let lines = world.retro(&[
            investigate("r1").with_finding(finding("A")),
            investigate("r2").with_passed_error(&passed, []),
        ]);
        assert_eq!(lines, ["r1 created A: tentative 0.000"]);
    }
}

#[test]
fn a_passed_error_contradicts_the_memories_about_it() {
    let mut world = World::new();
    world.add_active("A", 500);
    world.retro(&[investigate("r0").with_finding(finding("B"))]);
    let passed = |run: &str, name: &str, world: &World| {
        let about: Finding = finding(name);
        investigate(run).with_passed_error(&about, [world.named(name)])
    };
    let r1 = passed("r1", "B", &world);
    let (lines, applied) = world.retrospective(&[r1]);
    assert_eq!(lines, ["r1 deleted B: deleted 0.000"], "tentative: one run is enough");
    let reason = "contradicted while tentative by run r1: the very same call got past “B”";
    assert_eq!(applied.tombstones[0].reason, reason);

    let r2 = passed("r2", "A", &world);
    assert_eq!(world.retro(&[r2]), ["retro reweighted (contradicted -0.150) A: active 0.350"]);
    let r3 = passed("r3", "A", &world);
    assert_eq!(world.retro(&[r3]), ["retro deleted A: deleted 0.350"], "two runs in a row");
}
