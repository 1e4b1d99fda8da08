use std::collections::BTreeMap;

use super::*;
use crate::world::tests::small;

const HABITS: Agents = Agents { read: 0.5, follow: 1.0, finds_out: 0.5, fails_anyway: 0.0 };
const REGION: &str = "When `deploy_service` answers “missing required argument …”, pass `region` as well.";
const FORCE: &str = "When `deploy_service` answers “no quorum”, pass `force` as well.";

fn play(number: u32, lines: &[&str]) -> Played {
    let memories = lines.iter().map(|line| (format!("id of {line}"), (*line).to_owned())).collect();
    let handed = Handed { text: "block".to_owned(), tokens: 9, memories };
    let workflow = small();
    let run = Run { world: "w", agents: &HABITS, workflow: &workflow, seed: 1, number };
    run.play(&BTreeMap::from([("deploy".to_owned(), handed)]))
}

fn failed(runs: std::ops::RangeInclusive<u32>, lines: &[&str]) -> usize {
    runs.filter(|number| play(*number, lines).failed).count()
}

#[test]
fn a_run_meets_the_same_whatever_it_was_handed() {
    for number in 1..=60 {
        let (with, without) = (play(number, &[REGION]), play(number, &[]));
        assert_eq!(with.met, without.met);
        assert_eq!(with.shown, without.shown);
        assert_eq!(with.remarks, without.remarks);
    }
}

#[test]
fn a_remedy_that_is_followed_prevents_the_failure_and_only_while_its_cause_is_there() {
    assert!(failed(1..=60, &[]) > 8, "about a quarter of sixty");
    assert_eq!(failed(1..=60, &[REGION]), 0);
    assert_eq!(failed(61..=120, &[]), 0, "it is fixed");
    assert!(failed(61..=120, &[REGION]) > 20, "about half of sixty: the argument is gone");
}

#[test]
fn a_trap_harms_whoever_follows_it() {
    let harmed: Vec<Played> = (61..=120).map(|number| play(number, &[FORCE])).collect();
    assert!(harmed.iter().all(|played| played.harmed_by == [About::Trap(0)]));
    assert!(harmed.iter().any(|played| played.failed) && harmed.iter().any(|played| !played.failed));
}

#[test]
fn an_agent_that_is_told_less_does_not_follow() {
    let vague = "When `deploy_service` answers “missing required argument …”, stop repeating the call.";
    assert_eq!(failed(1..=60, &[vague]), failed(1..=60, &[]));
}

#[test]
fn memories_are_opened_as_often_as_agents_do() {
    let read: usize = (1..=100).map(|number| play(number, &[REGION]).read.len()).sum();
    assert!((30..70).contains(&read), "{read}");
}
