//! Injects random mixtures of faults while runs arrive. Everything is drawn from a seed, which reproduces the
//! run. `make chaos SEEDS=1..20` runs the given seeds.

mod drive;
mod plan;

use std::path::{Path, PathBuf};

use drive::Driver;
use plan::Plan;

/// One seed per database.
const DEFAULT_SEEDS: &str = "1..2";

#[tokio::test]
async fn whatever_faults_a_seed_mixes_nothing_is_lost_nothing_happens_twice_and_work_goes_on() {
    let mut shortest = u64::MAX;
    let seeds = parse_seeds(&std::env::var("CHAOS_SEEDS").unwrap_or_else(|_| DEFAULT_SEEDS.to_owned()));
    for seed in &seeds {
        let history = prepare_history_path(*seed);
        let plan = Plan::from_seed(*seed);
        println!("{plan}  its history: {}", history.display());
        let mut driver = Driver::start_process(&plan, &history).await;
        for (number, step) in plan.steps.iter().enumerate() {
            driver.play_step(number + 1, step).await;
        }
        let (checked, recoveries) = driver.finish().await;
        let (worst, times) = (recoveries.iter().max().copied().unwrap_or_default(), recoveries.len());
        println!("  {}", checked.progress);
        println!("  {times} recoveries, the longest {worst} ms\n");
        shortest = shortest.min(checked.progress.counted);
        std::fs::remove_file(&history).expect("our own file");
    }
    println!("{} seeds, shortest progress: {shortest} runs counted", seeds.len());
}

/// Parses seeds: a range such as `1..20`, both ends included, or a list such as `3,7`.
fn parse_seeds(text: &str) -> Vec<u64> {
    let number = |text: &str| text.trim().parse().unwrap_or_else(|_| panic!("{text:?} is no seed"));
    let seeds: Vec<u64> = match text.split_once("..") {
        Some((first, last)) => (number(first)..=number(last)).collect(),
        None => text.split(',').map(number).collect(),
    };
    assert!(!seeds.is_empty(), "{text:?} names no seed: 1..20 or 3,7");
    seeds
}

/// Returns the path of a seed's history, which is kept if the seed fails.
fn prepare_history_path(seed: u64) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chaos");
    std::fs::create_dir_all(&folder).expect("the build's own folder");
    let path = folder.join(format!("seed-{seed}.jsonl"));
    if path.exists() {
        std::fs::remove_file(&path).expect("our own file");
    }
    path
}

#[test]
fn seeds_are_parsed_from_a_range_or_a_list() {
    assert_eq!(parse_seeds("1..3"), [1, 2, 3]);
    assert_eq!(parse_seeds("3, 7"), [3, 7]);
}
