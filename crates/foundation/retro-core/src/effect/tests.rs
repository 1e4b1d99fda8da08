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
    let effect = estimate_effect(&trials, ALWAYS);
    assert_eq!(
        (effect.with, effect.without),
        (Arm { runs: 20, succeeded: 19 }, Arm { runs: 20, succeeded: 12 })
    );
    assert_eq!(effect.paired_tasks, 20);
    // Computed independently: centre 7/22, variance (9 + 1)/22 − (7/22)², Student 1.729 with 19 degrees.
    let expected =
        Estimate { method: ComparisonMethod::Paired, difference_milli: 350, low_milli: 99, high_milli: 537 };
    assert_eq!(effect.estimate, Some(expected));
    assert_eq!(expected.claim(), Claim::Helps);
}

#[test]
fn many_runs_of_one_task_are_one_observation() {
    let mut trials = pairs(9, false, true, 0);
    trials.extend((0..50).map(|_| trial(Some("task 0"), true, true)));
    let effect = estimate_effect(&trials, ALWAYS);
    assert_eq!(
        (effect.paired_tasks, effect.with.runs, effect.estimate),
        (9, 59, None),
        "nine tasks are too few"
    );
    trials.extend(pairs(1, true, true, 9));
    assert_eq!(estimate_effect(&trials, ALWAYS).paired_tasks, 10);
    assert_eq!(estimate_effect(&trials, ALWAYS).estimate.unwrap().difference_milli, 900);
}

#[test]
fn runs_without_a_task_are_compared_unpaired() {
    let runs = |met, succeeded, many| (0..many).map(move |_| trial(None, met, succeeded));
    let few = runs(true, true, 9).chain(runs(false, false, 30)).collect::<Vec<_>>();
    assert_eq!(estimate_effect(&few, ALWAYS).estimate, None, "nine on one side");
    let all = runs(true, true, 56).chain(runs(true, false, 14)).chain(runs(false, true, 48));
    let all = all.chain(runs(false, false, 32)).collect::<Vec<_>>();
    // Newcombe 1998, table II (a): 56/70 and 48/80 at 95 % give 0.0524 to 0.3339. The 90 % interval was
    // computed independently.
    let expected = Estimate {
        method: ComparisonMethod::Unpaired,
        difference_milli: 200,
        low_milli: 77,
        high_milli: 314,
    };
    assert_eq!(estimate_effect(&all, ALWAYS).estimate, Some(expected));
    assert_eq!(estimate_effect(&all, ALWAYS).paired_tasks, 0);
}

#[test]
fn runs_of_unknown_outcome_are_on_neither_side() {
    let known = [pairs(8, false, true, 0), pairs(12, true, true, 8)].concat();
    let unknown = |one: &Trial| Trial { succeeded: None, ..one.clone() };
    let all: Vec<_> = known.iter().cloned().chain(known.iter().map(unknown)).collect();
    assert_eq!(estimate_effect(&all, ALWAYS), estimate_effect(&known, ALWAYS));
    let nobody_said: Vec<_> = known.iter().map(unknown).collect();
    assert_eq!(estimate_effect(&nobody_said, ALWAYS), estimate_effect(&[], ALWAYS));
}

#[test]
fn one_line_claims_no_more_than_the_interval_does() {
    let effect = |trials: Vec<Trial>| estimate_effect(&trials, ALWAYS).summary_line();
    assert_eq!(effect(vec![]), "no claim: 0 of 10 observations");
    assert_eq!(effect(pairs(7, false, true, 0)), "no claim: 7 of 10 observations");
    let side = |met: bool, many: usize| (0..many).map(move |_| trial(None, met, met)).collect::<Vec<_>>();
    assert_eq!(effect([side(true, 4), side(false, 90)].concat()), "no claim: 4 of 10 observations");
    assert_eq!(
        effect([side(true, 10), side(false, 90)].concat()),
        "runs end well more often with it: +100.0 points of success, 90 % interval +78.5 to +100.0"
    );
    let harmed = effect([pairs(12, true, false, 0), pairs(3, true, true, 12)].concat());
    assert!(harmed.starts_with("runs end well less often with it: −80.0 points"), "{harmed}");
    let alike = effect(pairs(12, true, true, 0));
    assert!(alike.starts_with("no difference is shown: +0.0 points") && alike.contains(" −"), "{alike}");
}

#[test]
fn nothing_is_claimed_while_the_interval_contains_zero() {
    let effect = estimate_effect(&pairs(40, true, true, 0), ALWAYS).estimate.unwrap();
    assert_eq!((effect.difference_milli, effect.claim()), (0, Claim::Inconclusive));
    assert!(effect.low_milli < 0 && effect.high_milli > 0, "agreeing pairs are not certainty: {effect:?}");
    let worse = estimate_effect(&pairs(20, true, false, 0), ALWAYS).estimate.unwrap();
    assert_eq!(worse.claim(), Claim::Harms);
}

#[test]
fn unexposed_runs_count_only_while_the_memory_is_active() {
    let run = |second, met| Trial { began_at: at(second), ..trial(None, met, true) };
    let spans = [(at(10), Some(at(20))), (at(30), None)];
    let trials =
        [run(9, false), run(10, false), run(19, false), run(20, false), run(30, false), run(0, true)];
    let effect = estimate_effect(&trials, &spans);
    assert_eq!((effect.without.runs, effect.with.runs), (3, 1));
    assert_eq!(estimate_effect(&trials, &[]).without.runs, 0, "it was never active");
}

/// Returns the binomial coefficient of `n` and `k`, which is exact for these sizes.
fn choose(n: u32, k: u32) -> f64 {
    (0..k).fold(1.0, |all, nth| all * f64::from(n - nth) / f64::from(nth + 1))
}

/// Returns the exact probability that the paired interval of `n` tasks covers the true difference, if a task
/// improves with probability `up` and worsens with probability `down`.
fn covers(n: u32, up: f64, down: f64) -> f64 {
    let still = 1.0 - up - down;
    let power = |base: f64, times: u32| base.powi(i32::try_from(times).unwrap());
    let mut chance = 0.0;
    for better in 0..=n {
        for worse in 0..=n - better {
            let same = n - better - worse;
            let tasks = [(1.0, better), (-1.0, worse), (0.0, same)];
            let differences: Vec<f64> =
                tasks.iter().flat_map(|(one, many)| std::iter::repeat_n(*one, *many as usize)).collect();
            let effect = paired_estimate(&differences).unwrap();
            let truth = to_milli(up - down);
            if effect.low_milli <= truth && truth <= effect.high_milli {
                let ways = choose(n, better) * choose(n - better, worse);
                chance += ways * power(up, better) * power(down, worse) * power(still, same);
            }
        }
    }
    chance
}

#[test]
fn the_paired_interval_has_its_nominal_coverage() {
    for (n, least, mean) in [(OBSERVATIONS_MIN, 0.84, 0.92), (20, 0.87, 0.90)] {
        let twentieths = (0..=20u32).flat_map(|up| (0..=20 - up).map(move |down| (up, down)));
        let all: Vec<f64> =
            twentieths.map(|(up, down)| covers(n, f64::from(up) / 20.0, f64::from(down) / 20.0)).collect();
        let lowest = all.iter().copied().fold(1.0, f64::min);
        let average = all.iter().sum::<f64>() / all.len() as f64;
        assert!(lowest >= least && average >= mean, "{n} tasks: at least {lowest}, {average} in the mean");
    }
}

proptest! {
    #[test]
    fn an_estimate_knows_no_order_and_turns_around_with_its_sides(
        runs in proptest::collection::vec((0u8..15, any::<bool>(), any::<bool>()), 0..120)
    ) {
        let trials: Vec<Trial> =
            runs.iter().map(|(task, met, well)| trial(Some(&task.to_string()), *met, *well)).collect();
        let effect = estimate_effect(&trials, ALWAYS);
        let mut turned = trials;
        turned.reverse();
        prop_assert_eq!(estimate_effect(&turned, ALWAYS), effect);
        turned.iter_mut().for_each(|trial| trial.exposed = !trial.exposed);
        let mirrored = estimate_effect(&turned, ALWAYS);
        prop_assert_eq!((mirrored.with, mirrored.without), (effect.without, effect.with));
        if let (Some(effect), Some(mirrored)) = (effect.estimate, mirrored.estimate) {
            prop_assert_eq!(effect.difference_milli, -mirrored.difference_milli);
            prop_assert!((-1000..=effect.difference_milli + 200).contains(&effect.low_milli));
            prop_assert!((effect.low_milli + mirrored.high_milli).abs() <= 1);
        }
    }
}
