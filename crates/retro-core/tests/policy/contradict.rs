//! Contradiction stays within workflow, step and subject; it deletes what is tentative, and twice what is active.

use retro_core::finding::{Finding, MemoryVerdict};
use retro_core::policy::Policy;

use crate::world::{Look, World, against, finding, in_step, look};

fn contradicting(run: &str, world: &World) -> Look {
    look(run).finds(against(world.id("A")))
}

/// The lines about the memory `A`.
fn about_a(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().filter(|line| line.contains(" A: ")).collect()
}

#[test]
fn a_tentative_memory_is_deleted_by_one_run_and_leaves_a_tombstone() {
    let mut world = World::new();
    world.retro(&[look("r1").finds(finding("A"))]);
    let r2 = contradicting("r2", &world);
    let (lines, applied) = world.retrospective(&[r2]);
    assert_eq!(about_a(lines), ["r2 deleted A: deleted 0.000"]);
    assert_eq!(applied.tombstones.len(), 1);
    assert!(applied.tombstones[0].reason.starts_with("contradicted while tentative by run r2"));
}

#[test]
fn one_run_against_an_active_memory_counts_as_one_harm() {
    let mut world = World::new();
    let id = world.active("A", 500);
    let r1 = contradicting("r1", &world).finds(Finding { title: "B".into(), ..against(id) });
    let r1 = r1.judged(id, MemoryVerdict::Harmed);
    assert_eq!(
        about_a(world.retro(&[r1])),
        ["retro reweighted (contradicted -0.150) A: active 0.350"],
        "two contradictions and a verdict of one run are one harm"
    );
}

#[test]
fn a_contradiction_outweighs_a_milder_verdict_of_the_same_run() {
    for verdict in
        [MemoryVerdict::Helped, MemoryVerdict::Applied, MemoryVerdict::Ignored, MemoryVerdict::CueNotMet]
    {
        let mut world = World::new();
        let id = world.active("A", 500);
        let r1 = contradicting("r1", &world).judged(id, verdict);
        assert_eq!(
            about_a(world.retro(&[r1])),
            ["retro reweighted (contradicted -0.150) A: active 0.350"],
            "{verdict:?}"
        );
    }
}

#[test]
fn two_runs_of_one_retrospective_delete_an_active_memory() {
    let mut world = World::new();
    world.active("A", 1000);
    let looks = ["r1", "r2"].map(|name| contradicting(name, &world));
    let (lines, applied) = world.retrospective(&looks);
    assert_eq!(about_a(lines), ["retro deleted A: deleted 1.000"]);
    assert_eq!(applied.tombstones[0].reason, "contradicted by separate runs: r1, r2");
    let told: Vec<_> = applied.outcomes.iter().filter(|one| one.asked.kind == "contradict").collect();
    assert!(told.len() == 2 && told.iter().all(|one| one.did[0].kind == "deleted"), "{told:?}");
}

#[test]
fn one_run_now_and_one_in_the_previous_retrospective_delete_it() {
    let mut world = World::new();
    world.active("A", 500);
    let r1 = contradicting("r1", &world);
    world.retro(&[r1]);
    world.fail();
    let r2 = contradicting("r2", &world);
    assert_eq!(
        about_a(world.retro(&[r2])),
        ["retro deleted A: deleted 0.350"],
        "a failed one is no previous"
    );
}

#[test]
fn an_older_contradiction_is_forgotten() {
    let mut world = World::new();
    world.active("A", 500);
    let r1 = contradicting("r1", &world);
    world.retro(&[r1]);
    world.retro(&[look("r2")]);
    let r3 = contradicting("r3", &world);
    assert_eq!(about_a(world.retro(&[r3])), ["retro reweighted (contradicted -0.150) A: active 0.200"]);
}

#[test]
fn the_previous_contradiction_alone_deletes_nothing() {
    let mut world = World::with(Policy { contradiction_runs: 1, ..Policy::default() });
    let id = world.active("A", 500);
    world.policy.contradiction_runs = 2;
    let r1 = contradicting("r1", &world);
    world.retro(&[r1]);
    world.policy.contradiction_runs = 1;
    let r2 = look("r2").judged(id, MemoryVerdict::Helped);
    assert_eq!(world.retro(&[r2]), ["retro reweighted (helped +0.100) A: active 0.450"]);
}

#[test]
fn a_revived_memory_begins_without_its_old_contradictions() {
    let mut world = World::new();
    world.active("A", 160);
    let r1 = contradicting("r1", &world);
    assert_eq!(about_a(world.retro(&[r1])).last().unwrap(), "retro archived A: archived 0.010");
    let looks = [look("r2").finds(finding("A")), look("r3").finds(finding("A")), contradicting("r4", &world)];
    assert_eq!(
        about_a(world.retro(&looks)).last().unwrap(),
        "retro reweighted (contradicted -0.150) A: active 0.150"
    );
}

#[test]
fn another_step_or_subject_contradicts_nothing() {
    let mut world = World::new();
    let id = world.active("A", 500);
    let elsewhere = [in_step("review", against(id)), Finding { subject: "git".into(), ..against(id) }];
    for (nth, finding) in elsewhere.into_iter().enumerate() {
        let lines = world.retro(&[look(&format!("r{nth}")).finds(finding)]);
        assert_eq!(about_a(lines), [format!("r{nth} refused (contradict) A: active 0.500")]);
    }
}

#[test]
fn what_is_archived_or_gone_cannot_be_contradicted() {
    let mut world = World::new();
    world.archived("A");
    let r1 = contradicting("r1", &world);
    let (lines, applied) = world.retrospective(&[r1]);
    assert_eq!(about_a(lines), ["r1 refused (contradict) A: archived 0.000"]);
    assert_eq!(applied.outcomes[1].why, "it is archived: there is nothing to take back");
    let mut world = World::new();
    world.retro(&[look("r1").finds(finding("A"))]);
    let looks = ["r2", "r3"].map(|name| contradicting(name, &world));
    assert_eq!(
        about_a(world.retro(&looks)),
        ["r2 deleted A: deleted 0.000", "r3 refused (contradict) A: deleted 0.000"]
    );
}

#[test]
fn a_policy_may_ask_for_more_runs() {
    let mut world = World::with(Policy { contradiction_runs: 3, ..Policy::default() });
    world.active("A", 500);
    let looks = ["r1", "r2"].map(|name| contradicting(name, &world));
    assert_eq!(
        about_a(world.retro(&looks)),
        ["retro reweighted (contradicted -0.150, contradicted -0.150) A: active 0.200"]
    );
    let r3 = contradicting("r3", &world);
    assert_eq!(about_a(world.retro(&[r3])), ["retro deleted A: deleted 0.200"]);
}

#[test]
fn what_contradicts_a_memory_is_no_evidence_for_it_however_alike_the_words_are() {
    let mut world = World::new();
    let id = world.active("A", 500);
    let alike = Finding { contradicts: Some(id), ..finding("A") };
    assert_eq!(
        world.retro(&[look("r1").finds(alike)]),
        ["r1 created A: tentative 0.000", "retro reweighted (contradicted -0.150) A: active 0.350"]
    );
    assert_eq!(world.memories[&id].observed_runs, 1);
}
