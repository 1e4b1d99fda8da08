use std::collections::BTreeMap;

use super::*;
use crate::closed_loop::world::tests::{SMALL, read, small};

pub(super) const HABITS: AgentHabits =
    AgentHabits { read: 0.5, follow: 1.0, finds_out: 0.5, fails_anyway: 0.0, wrong_costs: 0.0 };
const REGION: &str = "When `deploy_service` answers “missing required argument …”, pass `region` as well.";
const FORCE: &str = "When `deploy_service` answers “no quorum”, pass `force` as well.";

fn play(number: u32, lines: &[&str]) -> RunResult {
    let memories = lines.iter().map(|line| (format!("id of {line}"), Lesson::from_line(line))).collect();
    let handed = StepContext { text: "block".to_owned(), tokens: 9, memories };
    let workflow = small();
    let run = SimulatedRun { world: "w", agents: &HABITS, workflow: &workflow, seed: 1, number };
    run.simulate(&BTreeMap::from([("deploy".to_owned(), handed)]))
}

fn failed(runs: std::ops::RangeInclusive<u32>, lines: &[&str]) -> usize {
    runs.filter(|number| play(*number, lines).failed).count()
}

#[test]
fn a_run_meets_the_same_failures_whatever_it_was_handed() {
    for number in 1..=60 {
        let (with, without) = (play(number, &[REGION]), play(number, &[]));
        assert_eq!(with.causes_met, without.causes_met);
        assert_eq!(with.traps_seen, without.traps_seen);
        assert_eq!(with.remarks, without.remarks);
    }
}

#[test]
fn following_a_remedy_prevents_the_failure_only_while_its_cause_is_present() {
    assert!(failed(1..=60, &[]) > 8, "about a quarter of sixty");
    assert_eq!(failed(1..=60, &[REGION]), 0);
    assert_eq!(failed(61..=120, &[]), 0, "it is fixed");
    assert!(failed(61..=120, &[REGION]) > 20, "about half of sixty: the argument is gone");
}

#[test]
fn following_a_trap_harms_the_run() {
    let harmed: Vec<RunResult> = (61..=120).map(|number| play(number, &[FORCE])).collect();
    assert!(harmed.iter().all(|played| played.harmed_by == [WorldItem::Trap(0)]));
    assert!(harmed.iter().any(|played| played.failed) && harmed.iter().any(|played| !played.failed));
}

#[test]
fn a_vague_memory_is_not_followed() {
    let vague = "When `deploy_service` answers “missing required argument …”, stop repeating the call.";
    assert_eq!(failed(1..=60, &[vague]), failed(1..=60, &[]));
}

#[test]
fn memories_are_opened_with_the_agents_probability() {
    let read: usize = (1..=100).map(|number| play(number, &[REGION]).memories_read.len()).sum();
    assert!((30..70).contains(&read), "{read}");
}

const VERBOSE: &str = "When `notify` answers “502 Bad Gateway”, pass `verbose` as well.";

fn play_noise(text: &str, habits: AgentHabits, line: &str) -> Vec<RunResult> {
    let workflow = read(text).unwrap();
    let memories = vec![("m".to_owned(), Lesson::from_line(line))];
    let handed = BTreeMap::from([(
        "deploy".to_owned(),
        StepContext { text: "block".to_owned(), tokens: 9, memories },
    )]);
    let run = |number| SimulatedRun { world: "w", agents: &habits, workflow: &workflow, seed: 1, number };
    (61..=160).map(|number| run(number).simulate(&handed)).collect()
}

#[test]
fn following_a_memory_about_nothing_costs_some_runs_their_success() {
    let costs = AgentHabits { wrong_costs: 0.3, ..HABITS };
    let misled = |habits, line: &str| {
        let played = play_noise(SMALL, habits, line);
        assert!(played.iter().all(|run| run.misled_by.is_empty() || run.failed));
        played.iter().filter(|run| !run.misled_by.is_empty()).count()
    };
    assert!((15..45).contains(&misled(costs, "Restart the machine before anything else.")));
    assert_eq!(misled(HABITS, "Restart the machine before anything else."), 0, "a cost of zero");
    assert_eq!(misled(costs, REGION), 0, "about a cause, whatever became of it");
    assert_eq!(misled(AgentHabits { follow: 0.0, ..costs }, "Restart the machine."), 0, "not followed");
}

#[test]
fn a_change_that_noise_suggested_can_harm() {
    let harmful = SMALL.to_owned() + "harm = \"Error: unknown argument verbose\"\n";
    let misled = play_noise(&harmful, HABITS, VERBOSE).into_iter().filter(|run| !run.misled_by.is_empty());
    let (failed, well): (Vec<_>, Vec<_>) = misled.partition(|run| run.failed);
    assert!(!failed.is_empty() && !well.is_empty(), "some notice the mistake");
    assert!(play_noise(SMALL, HABITS, VERBOSE).iter().all(|run| run.misled_by.is_empty()), "harmless");
    assert!(
        play_noise(&harmful, HABITS, REGION).iter().all(|run| run.misled_by.is_empty()),
        "another memory"
    );
}
