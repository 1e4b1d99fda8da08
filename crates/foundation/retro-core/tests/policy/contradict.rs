//! Contradictions apply within one workflow, step and subject. One run deletes a tentative memory, two an
//! active one.

use retro_core::finding::{Finding, MemoryVerdict};
use retro_core::policy::Policy;

use crate::world::{InvestigatedRun, World, against, finding, in_step, investigate};

fn investigate_against_a(run: &str, world: &World) -> InvestigatedRun {
    investigate(run).with_finding(against(world.id("A")))
}

/// Filters the lines about memory `A`.
fn lines_about_a(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().filter(|line| line.contains(" A: ")).collect()
}

#[test]
fn a_tentative_memory_is_deleted_by_one_run_and_leaves_a_tombstone() {
    let mut world = World::new();
    world.retro(&[investigate("r1").with_finding(finding("A"))]);
    let r2 = investigate_against_a("r2", &world);
    let (lines, applied) = world.retrospective(&[r2]);
    assert_eq!(lines_about_a(lines), ["r2 deleted A: deleted 0.000"]);
    assert_eq!(applied.tombstones.len(), 1);
    assert!(applied.tombstones[0].reason.starts_with("contradicted while tentative by run r2"));
}

#[test]
fn one_run_against_an_active_memory_counts_as_one_harm() {
    let mut world = World::new();
    let id = world.add_active("A", 500);
    let r1 = investigate_against_a("r1", &world).with_finding(Finding { title: "B".into(), ..against(id) });
    let r1 = r1.with_verdict(id, MemoryVerdict::Harmed);
    assert_eq!(
        lines_about_a(world.retro(&[r1])),
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
        let id = world.add_active("A", 500);
        let r1 = investigate_against_a("r1", &world).with_verdict(id, verdict);
        assert_eq!(
            lines_about_a(world.retro(&[r1])),
            ["retro reweighted (contradicted -0.150) A: active 0.350"],
            "{verdict:?}"
        );
    }
}

#[test]
fn two_runs_of_one_retrospective_delete_an_active_memory() {
    let mut world = World::new();
    world.add_active("A", 1000);
    let investigated = ["r1", "r2"].map(|name| investigate_against_a(name, &world));
    let (lines, applied) = world.retrospective(&investigated);
    assert_eq!(lines_about_a(lines), ["retro deleted A: deleted 1.000"]);
    assert_eq!(applied.tombstones[0].reason, "contradicted by separate runs: r1, r2");
    let contradictions: Vec<_> =
        applied.outcomes.iter().filter(|one| one.request.kind == "contradict").collect();
    assert!(
        contradictions.len() == 2 && contradictions.iter().all(|one| one.changes[0].kind == "deleted"),
        "{contradictions:?}"
    );
}

#[test]
fn one_run_now_and_one_in_the_previous_retrospective_delete_it() {
    let mut world = World::new();
    world.add_active("A", 500);
    let r1 = investigate_against_a("r1", &world);
    world.retro(&[r1]);
    world.fail_retrospective();
    let r2 = investigate_against_a("r2", &world);
    assert_eq!(
        lines_about_a(world.retro(&[r2])),
        ["retro deleted A: deleted 0.350"],
        "a failed retrospective does not count as the previous one"
    );
}

#[test]
fn an_older_contradiction_is_forgotten() {
    let mut world = World::new();
    world.add_active("A", 500);
    let r1 = investigate_against_a("r1", &world);
    world.retro(&[r1]);
    world.retro(&[investigate("r2")]);
    let r3 = investigate_against_a("r3", &world);
    assert_eq!(lines_about_a(world.retro(&[r3])), ["retro reweighted (contradicted -0.150) A: active 0.200"]);
}

#[test]
fn the_previous_contradiction_alone_deletes_nothing() {
    let mut world = World::with(Policy { contradiction_runs: 1, ..Policy::default() });
    let id = world.add_active("A", 500);
    world.policy.contradiction_runs = 2;
    let r1 = investigate_against_a("r1", &world);
    world.retro(&[r1]);
    world.policy.contradiction_runs = 1;
    let r2 = investigate("r2").with_verdict(id, MemoryVerdict::Helped);
    assert_eq!(world.retro(&[r2]), ["retro reweighted (helped +0.100) A: active 0.450"]);
}

#[test]
fn a_revived_memory_begins_without_its_old_contradictions() {
    let mut world = World::new();
    world.add_active("A", 160);
    let r1 = investigate_against_a("r1", &world);
    assert_eq!(lines_about_a(world.retro(&[r1])).last().unwrap(), "retro archived A: archived 0.010");
    let investigated = [
        investigate("r2").with_finding(finding("A")),
        investigate("r3").with_finding(finding("A")),
        investigate_against_a("r4", &world),
    ];
    assert_eq!(
        lines_about_a(world.retro(&investigated)).last().unwrap(),
        "retro reweighted (contradicted -0.150) A: active 0.150"
    );
}

#[test]
fn another_step_or_subject_contradicts_nothing() {
    let mut world = World::new();
    let id = world.add_active("A", 500);
    let elsewhere = [in_step("review", against(id)), Finding { subject: "git".into(), ..against(id) }];
    for (nth, finding) in elsewhere.into_iter().enumerate() {
        let lines = world.retro(&[investigate(&format!("r{nth}")).with_finding(finding)]);
        assert_eq!(lines_about_a(lines), [format!("r{nth} refused (contradict) A: active 0.500")]);
    }
}

#[test]
fn archived_and_deleted_memories_cannot_be_contradicted() {
    let mut world = World::new();
    world.add_archived("A");
    let r1 = investigate_against_a("r1", &world);
    let (lines, applied) = world.retrospective(&[r1]);
    assert_eq!(lines_about_a(lines), ["r1 refused (contradict) A: archived 0.000"]);
    assert_eq!(applied.outcomes[1].reason, "it is archived: there is nothing to take back");
    let mut world = World::new();
    world.retro(&[investigate("r1").with_finding(finding("A"))]);
    let investigated = ["r2", "r3"].map(|name| investigate_against_a(name, &world));
    assert_eq!(
        lines_about_a(world.retro(&investigated)),
        ["r2 deleted A: deleted 0.000", "r3 refused (contradict) A: deleted 0.000"]
    );
}

#[test]
fn the_policy_can_require_more_runs() {
    let mut world = World::with(Policy { contradiction_runs: 3, ..Policy::default() });
    world.add_active("A", 500);
    let investigated = ["r1", "r2"].map(|name| investigate_against_a(name, &world));
    assert_eq!(
        lines_about_a(world.retro(&investigated)),
        ["retro reweighted (contradicted -0.150, contradicted -0.150) A: active 0.200"]
    );
    let r3 = investigate_against_a("r3", &world);
    assert_eq!(lines_about_a(world.retro(&[r3])), ["retro deleted A: deleted 0.200"]);
}

#[test]
fn a_contradicting_finding_is_no_evidence_even_with_the_same_words() {
    let mut world = World::new();
    let id = world.add_active("A", 500);
    let alike = Finding { contradicts: Some(id), ..finding("A") };
    assert_eq!(
        world.retro(&[investigate("r1").with_finding(alike)]),
        ["r1 created A: tentative 0.000", "retro reweighted (contradicted -0.150) A: active 0.350"]
    );
    assert_eq!(world.memories[&id].observed_runs, 1);
}
