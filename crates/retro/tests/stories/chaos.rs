//! Faults mixed at random while runs come in: everything is drawn from a seed, and played again by it. `make chaos
//! SEEDS=1..20` plays as many as are asked for.

mod drive;
mod plan;

use std::path::{Path, PathBuf};

use drive::Driver;
use plan::Plan;

/// One on each database.
const SEEDS: &str = "1..2";

#[tokio::test]
async fn whatever_faults_a_seed_mixes_nothing_is_lost_nothing_happens_twice_and_work_goes_on() {
    let mut shortest = u64::MAX;
    let seeds = seeds(&std::env::var("CHAOS_SEEDS").unwrap_or_else(|_| SEEDS.to_owned()));
    for seed in &seeds {
        let history = history_of(*seed);
        let plan = Plan::of(*seed);
        println!("{plan}  its history: {}", history.display());
        let mut driver = Driver::begin(&plan, &history).await;
        for (number, step) in plan.steps.iter().enumerate() {
            driver.play(number + 1, step).await;
        }
        let (checked, recoveries) = driver.end().await;
        let (worst, times) = (recoveries.iter().max().copied().unwrap_or_default(), recoveries.len());
        println!("  {}", checked.progress);
        println!("  {times} recoveries, the longest {worst} ms\n");
        shortest = shortest.min(checked.progress.counted);
        std::fs::remove_file(&history).expect("our own file");
    }
    println!("{} seeds, shortest progress: {shortest} runs counted", seeds.len());
}

/// `1..20` with both ends, or `3,7`.
fn seeds(text: &str) -> Vec<u64> {
    let number = |text: &str| text.trim().parse().unwrap_or_else(|_| panic!("{text:?} is no seed"));
    let seeds: Vec<u64> = match text.split_once("..") {
        Some((first, last)) => (number(first)..=number(last)).collect(),
        None => text.split(',').map(number).collect(),
    };
    assert!(!seeds.is_empty(), "{text:?} names no seed: 1..20 or 3,7");
    seeds
}

/// Where the history of a seed is written; it stays when the seed fails.
fn history_of(seed: u64) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chaos");
    std::fs::create_dir_all(&folder).expect("the build's own folder");
    let path = folder.join(format!("seed-{seed}.jsonl"));
    if path.exists() {
        std::fs::remove_file(&path).expect("our own file");
    }
    path
}

#[test]
fn seeds_are_read_as_a_range_or_a_list() {
    assert_eq!(seeds("1..3"), [1, 2, 3]);
    assert_eq!(seeds("3, 7"), [3, 7]);
}
