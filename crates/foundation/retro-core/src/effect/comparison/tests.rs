use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

const ALWAYS: &[ActivePeriod] = &[(Timestamp::MIN, None)];

fn trial(task: Option<&str>, met: bool, succeeded: bool) -> Trial {
    Trial { began_at: at(0), task: task.map(str::to_owned), exposed: met, succeeded: Some(succeeded) }
}

/// Returns trials of `many` tasks, each tried once without and once with the memory.
fn pairs(many: usize, without: bool, with: bool, from: usize) -> Vec<Trial> {
    let name = |nth: usize| format!("task {nth}");
    let both = |nth| [trial(Some(&name(nth)), false, without), trial(Some(&name(nth)), true, with)];
    (from..from + many).flat_map(both).collect()
}

#[test]
fn tasks_are_compared_with_themselves() {
    let trials = [pairs(8, false, true, 0), pairs(1, true, false, 8), pairs(11, true, true, 9)].concat();
    let comparison = compare_runs(&trials, ALWAYS);
    let expected = RunComparison {
        with: Arm { runs: 20, succeeded: 19 },
        without: Arm { runs: 20, succeeded: 12 },
        paired_tasks: 20,
        method: ComparisonMethod::Paired,
        difference_milli: Some(350),
    };
    assert_eq!(comparison, expected);
}

#[test]
fn many_runs_of_one_task_are_one_observation() {
    let mut trials = pairs(9, false, true, 0);
    trials.extend((0..50).map(|_| trial(Some("task 0"), true, true)));
    let comparison = compare_runs(&trials, ALWAYS);
    let found = (comparison.paired_tasks, comparison.with.runs, comparison.difference_milli);
    assert_eq!(found, (9, 59, None), "nine tasks are too few");
    trials.extend(pairs(1, true, true, 9));
    let comparison = compare_runs(&trials, ALWAYS);
    assert_eq!((comparison.paired_tasks, comparison.difference_milli), (10, Some(900)));
}

#[test]
fn runs_without_a_task_are_compared_unpaired() {
    let runs = |met, succeeded, many| (0..many).map(move |_| trial(None, met, succeeded));
    let few = runs(true, true, 9).chain(runs(false, false, 30)).collect::<Vec<_>>();
    assert_eq!(compare_runs(&few, ALWAYS).difference_milli, None, "nine on one side");
    let all = runs(true, true, 56).chain(runs(true, false, 14)).chain(runs(false, true, 48));
    let all = all.chain(runs(false, false, 32)).collect::<Vec<_>>();
    let comparison = compare_runs(&all, ALWAYS);
    let found = (comparison.method, comparison.difference_milli, comparison.paired_tasks);
    assert_eq!(found, (ComparisonMethod::Unpaired, Some(200), 0));
}

#[test]
fn runs_of_unknown_outcome_are_on_neither_side() {
    let known = [pairs(8, false, true, 0), pairs(12, true, true, 8)].concat();
    let unknown = |one: &Trial| Trial { succeeded: None, ..one.clone() };
    let all: Vec<_> = known.iter().cloned().chain(known.iter().map(unknown)).collect();
    assert_eq!(compare_runs(&all, ALWAYS), compare_runs(&known, ALWAYS));
    let nobody_said: Vec<_> = known.iter().map(unknown).collect();
    assert_eq!(compare_runs(&nobody_said, ALWAYS), compare_runs(&[], ALWAYS));
}

#[test]
fn unexposed_runs_count_only_while_the_memory_is_active() {
    let run = |second, met| Trial { began_at: at(second), ..trial(None, met, true) };
    let spans = [(at(10), Some(at(20))), (at(30), None)];
    let trials =
        [run(9, false), run(10, false), run(19, false), run(20, false), run(30, false), run(0, true)];
    let comparison = compare_runs(&trials, &spans);
    assert_eq!((comparison.without.runs, comparison.with.runs), (3, 1));
    assert_eq!(compare_runs(&trials, &[]).without.runs, 0, "it was never active");
}

proptest! {
    #[test]
    fn a_comparison_knows_no_order_and_turns_around_with_its_sides(
        runs in proptest::collection::vec((0u8..15, any::<bool>(), any::<bool>()), 0..120)
    ) {
        let trials: Vec<Trial> =
            runs.iter().map(|(task, met, well)| trial(Some(&task.to_string()), *met, *well)).collect();
        let comparison = compare_runs(&trials, ALWAYS);
        let mut turned = trials;
        turned.reverse();
        prop_assert_eq!(compare_runs(&turned, ALWAYS), comparison);
        turned.iter_mut().for_each(|trial| trial.exposed = !trial.exposed);
        let mirrored = compare_runs(&turned, ALWAYS);
        prop_assert_eq!((mirrored.with, mirrored.without), (comparison.without, comparison.with));
        prop_assert_eq!(mirrored.difference_milli, comparison.difference_milli.map(|one| -one));
    }
}
