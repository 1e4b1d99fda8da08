//! An error that the very same call gets past is nothing to learn from, in whatever run it came.

use retro_core::finding::Finding;

use crate::world::{World, finding, in_step, look};

fn why(applied: &retro_core::learn::AppliedBatch, row: usize) -> &str {
    &applied.outcomes[row].why
}

#[test]
fn what_passed_in_one_run_teaches_nothing_in_any_run_of_the_retrospective() {
    let mut world = World::new();
    let looks = [look("r1").finds(finding("A")), look("r2").passed(&finding("A"), [])];
    let (lines, applied) = world.retrospective(&looks);
    assert_eq!(lines, [""; 0]);
    assert_eq!(why(&applied, 0), "the very same call got past the error in run r2: it passes by itself");

    let same = look("r3").finds(finding("A")).passed(&finding("A"), []);
    let (lines, applied) = world.retrospective(&[same]);
    assert_eq!(lines, [""; 0]);
    assert_eq!(
        why(&applied, 0),
        "the very same call got past the error in the same run: it passes by itself"
    );
}

#[test]
fn another_error_tool_or_step_is_not_meant() {
    let mut other_tool = finding("A");
    other_tool.cue.tool = Some("make".to_owned());
    for passed in [finding("B"), other_tool, in_step("review", finding("A"))] {
        let mut world = World::new();
        let lines = world.retro(&[look("r1").finds(finding("A")), look("r2").passed(&passed, [])]);
        assert_eq!(lines, ["r1 created A: tentative 0.000"]);
    }
}

#[test]
fn it_speaks_against_the_memories_about_it_as_any_contradiction_does() {
    let mut world = World::new();
    world.active("A", 500);
    world.retro(&[look("r0").finds(finding("B"))]);
    let passed = |run: &str, name: &str, world: &World| {
        let about: Finding = finding(name);
        look(run).passed(&about, [world.named(name)])
    };
    let r1 = passed("r1", "B", &world);
    let (lines, applied) = world.retrospective(&[r1]);
    assert_eq!(lines, ["r1 deleted B: deleted 0.000"], "tentative: one run is enough");
    let told = "contradicted while tentative by run r1: the very same call got past “B”";
    assert_eq!(applied.tombstones[0].reason, told);

    let r2 = passed("r2", "A", &world);
    assert_eq!(world.retro(&[r2]), ["retro reweighted (contradicted -0.150) A: active 0.350"]);
    let r3 = passed("r3", "A", &world);
    assert_eq!(world.retro(&[r3]), ["retro deleted A: deleted 0.350"], "two runs in a row");
}
