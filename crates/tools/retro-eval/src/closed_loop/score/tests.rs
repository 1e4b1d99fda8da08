use super::*;
use crate::closed_loop::lesson::Lesson;
use crate::closed_loop::simulation::{MemorySnapshot, WorkflowResult};
use crate::closed_loop::table::{render_unknown_causes, render_wrong_memories};
use crate::closed_loop::truth::{MemoryClaim, WorldItem};
use crate::closed_loop::world::tests::{CHANGED, SMALL, read, small};
use crate::closed_loop::world::{AgentHabits, World};

fn world() -> World {
    World {
        name: "w".to_owned(),
        about: String::new(),
        agents: AgentHabits::default(),
        workflows: vec![small()],
    }
}

fn kept(id: &str, says: MemoryClaim, standing: MemoryTruth, weight: u32) -> MemorySnapshot {
    MemorySnapshot {
        id: id.to_owned(),
        lesson: Lesson::default(),
        claim: says,
        truth: standing,
        status: "active".to_owned(),
        active: weight >= 50,
        audience: String::new(),
        tentative: weight == 0,
        weight,
    }
}

fn look(runs_over: u32, memories: Vec<MemorySnapshot>) -> WindowResult {
    WindowResult {
        runs_completed: runs_over,
        failed: 1,
        failed_without: 3,
        harmed: 0,
        causes_met: BTreeMap::new(),
        causes_met_without: BTreeMap::new(),
        tokens: 50,
        handed: 0,
        handed_elsewhere: 0,
        causes_handed: (0, 0),
        handed_memories: Vec::new(),
        suppressed: 1,
        memories,
    }
}

fn world_results(world: &World, windows: Vec<WindowResult>) -> Vec<WorldResult<'_>> {
    vec![WorldResult { world, workflow_results: vec![WorkflowResult { seed: 1, workflow: 0, windows }] }]
}

fn about(item: WorldItem) -> MemoryClaim {
    MemoryClaim { items: vec![item], ..MemoryClaim::default() }
}

fn cause() -> MemoryClaim {
    about(WorldItem::Cause(0, 0))
}

#[test]
fn precision_and_recall_count_active_memories_against_the_world() {
    let world = world();
    let windows = vec![
        look(10, vec![kept("a", cause(), MemoryTruth::True, 0)]),
        look(
            20,
            vec![
                kept("a", cause(), MemoryTruth::True, 300),
                kept("b", MemoryClaim::default(), MemoryTruth::Noise, 300),
            ],
        ),
        look(
            70,
            vec![
                kept("a", cause(), MemoryTruth::Outdated, 300),
                kept("c", MemoryClaim::default(), MemoryTruth::Stale, 300),
            ],
        ),
    ];
    let points = compute_curve(&world_results(&world, windows));
    assert_eq!((points[0].precision, points[0].recall), (None, Some(0.0)), "a tentative one is none");
    assert_eq!((points[1].precision, points[1].recall), (Some(0.5), Some(1.0)));
    assert_eq!(
        (points[2].precision, points[2].precision_strict, points[2].recall),
        (Some(0.5), Some(0.0), None)
    );
    assert_eq!((points[2].suppressed, points[2].tokens_per_run, points[2].success), (3.0, 5.0, 0.9));
}

#[test]
fn a_cause_has_ten_retrospectives_to_become_known() {
    let world = world();
    // The cause is fixed after run 60, so these windows have five runs each.
    let known_late = (1..=12).map(|at| {
        let weight = if at >= 10 { 300 } else { 0 };
        look(at * 5, vec![kept("a", cause(), MemoryTruth::True, weight)])
    });
    let summary = compute_summary(&world_results(&world, known_late.collect()));
    assert_eq!((summary.recall, summary.causes), (Some(1.0), 1));
    assert_eq!(summary.recall_kept, Some(1.0), "three retrospectives from the tenth on");
    assert!((summary.success - summary.success_without - 0.2).abs() < 1e-9 && summary.gain.is_none());
}

#[test]
fn a_cause_that_is_forgotten_counts_against_the_kept_recall() {
    let world = world();
    let looks = (1..=12).map(|at| {
        let weight = if at == 10 { 300 } else { 0 };
        look(at * 5, vec![kept("a", cause(), MemoryTruth::True, weight)])
    });
    let summary = compute_summary(&world_results(&world, looks.collect()));
    assert_eq!((summary.recall, summary.recall_kept), (Some(1.0), Some(1.0 / 3.0)));
}

#[test]
fn harm_lasts_until_the_memory_is_no_longer_handed_out_and_comebacks_are_counted() {
    let world = world();
    let trap = |weight| vec![kept("t", about(WorldItem::Trap(0)), MemoryTruth::Trap, weight)];
    let looks =
        [0, 300, 150, 80, 0, 300, 300].iter().zip(1..).map(|(weight, at)| look(at * 10, trap(*weight)));
    let world_results = world_results(&world, looks.collect());
    let episodes = harmful_episodes(&world_results);
    assert_eq!((episodes.count, episodes.longest, episodes.within_three, episodes.unended), (2, 2, 1, 1));
    assert_eq!(episodes::comebacks_per_workflow(&world_results), 1.0);
}

#[test]
fn waiting_ends_when_a_run_is_handed_the_memory() {
    let world = world();
    let mut windows: Vec<WindowResult> = (1..=5)
        .map(|at| {
            look(
                at * 10,
                vec![kept("a", cause(), MemoryTruth::True, 300), kept("b", cause(), MemoryTruth::True, 300)],
            )
        })
        .collect();
    windows[3].handed_memories = vec!["a".to_owned()];
    let episodes = waiting_episodes(&world_results(&world, windows));
    assert_eq!((episodes.count, episodes.longest, episodes.unended), (2, 4, 1));
    assert_eq!(episodes.mean, 3.5);
}

#[test]
fn each_remedy_of_a_cause_has_ten_retrospectives_of_its_own() {
    let world = World { workflows: vec![read(CHANGED).unwrap()], ..world() };
    let looks = (1..=20).map(|at| look(at * 10, vec![kept("old", cause(), MemoryTruth::True, 300)]));
    let summary = compute_summary(&world_results(&world, looks.collect()));
    assert_eq!((summary.recall, summary.causes), (Some(0.5), 2), "the new remedy is never learnt");
    assert_eq!(summary.recall_kept, Some(0.5), "known at the tenth, unknown at the twentieth");
}

#[test]
fn every_cause_is_scored_or_said_to_be_left_out() {
    let mut workflow = small();
    let rare = SMALL.replace("chance = 0.5\nuntil = 60", "chance = 0.1");
    workflow.causes.push(read(&rare).unwrap().causes.remove(0));
    let world = World { workflows: vec![workflow], ..world() };
    let tool = Lesson::from_line("`deploy_service` is slow.");
    let held = MemorySnapshot {
        status: HELD.to_owned(),
        active: false,
        lesson: tool,
        ..kept("h", MemoryClaim::default(), MemoryTruth::Noise, 300)
    };
    let short = (1..=3).map(|at| look(at * 10, Vec::new()));
    let summary = compute_summary(&world_results(&world, short.collect()));
    assert_eq!((summary.causes, summary.causes_rare, summary.causes_brief), (0, 1, 1));
    let enough: Vec<_> = (1..=10).map(|at| look(at * 5, vec![held.clone()])).collect();
    let results = world_results(&world, enough);
    let summary = compute_summary(&results);
    assert_eq!((summary.recall, summary.causes, summary.causes_brief), (Some(0.0), 1, 0));
    assert_eq!((summary.held, summary.active.total()), (1.0, 0.0), "held memories are counted apart");
    let scored = score_causes(&results);
    assert_eq!(scored[0].near, [("held".to_owned(), "`deploy_service` is slow.".to_owned())]);
    assert_eq!(list_final_memories(&results).len(), 1, "in whatever status");
}

#[test]
fn every_wrong_memory_and_every_near_one_is_printed_whole() {
    let world = world();
    let long = |at: usize| format!("{at:02} `deploy_service` {}", "x".repeat(300));
    let wrong = |at: usize| MemorySnapshot {
        lesson: Lesson::from_line(&long(at)),
        ..kept(&at.to_string(), MemoryClaim::default(), MemoryTruth::Noise, 300)
    };
    let looks = (1..=10).map(|at| look(at * 5, (0..50).map(wrong).collect())).collect();
    let results = world_results(&world, looks);
    for text in [render_wrong_memories(&results), render_unknown_causes(&results)] {
        assert!((0..50).all(|at| text.contains(&long(at))), "{text}");
    }
}
