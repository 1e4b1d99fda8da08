//! Injects random mixtures of faults while runs arrive. Everything is drawn from a seed, which reproduces the
//! run. `make chaos SEEDS=1..200` runs the given seeds; those that were sound with the same build are not run again.

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
    let mut figures = SeedFigures::open();
    for seed in &seeds {
        if let Some(line) = figures.find_sound(*seed) {
            println!("seed {seed} was sound before: {line}");
            continue;
        }
        let history = prepare_history_path(*seed);
        let plan = Plan::from_seed(*seed);
        println!("{plan}  its history: {}", history.display());
        if plan.fills_disk() && !nix::unistd::Uid::effective().is_root() {
            println!("  not root: the disk is not filled");
        }
        let mut driver = Driver::start_process(&plan, &history).await;
        for (number, step) in plan.steps.iter().enumerate() {
            driver.play_step(number + 1, step).await;
        }
        let (checked, recoveries) = driver.finish().await;
        let (worst, times) = (recoveries.iter().max().copied().unwrap_or_default(), recoveries.len());
        println!("  {}", checked.progress);
        println!("  {times} recoveries, the longest {worst} ms\n");
        figures.append_sound(*seed, checked.progress.counted, &recoveries);
        shortest = shortest.min(checked.progress.counted);
        std::fs::remove_file(&history).expect("our own file");
    }
    println!("{} seeds, shortest progress: {shortest} runs counted", seeds.len());
    println!("{}", figures.summarize());
}

/// Figures of the seeds that were sound with this build of the program, kept in a file, so that a long list of seeds can
/// be interrupted and continued. Only used for seeds that were asked for by name.
struct SeedFigures {
    path: Option<PathBuf>,
}

impl SeedFigures {
    fn open() -> Self {
        let asked = std::env::var_os("CHAOS_SEEDS").is_some();
        let path = asked.then(|| {
            let program = std::fs::read(env!("CARGO_BIN_EXE_retro")).expect("the program was built");
            let build = &retro_core::canonical::sha256_hex(&program)[..16];
            let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chaos");
            std::fs::create_dir_all(&folder).expect("the build's own folder");
            folder.join(format!("sound-{build}.jsonl"))
        });
        Self { path }
    }

    fn read_lines(&self) -> Vec<serde_json::Value> {
        let text = self.path.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn find_sound(&self, seed: u64) -> Option<serde_json::Value> {
        self.read_lines().into_iter().find(|line| line["seed"] == seed)
    }

    fn append_sound(&mut self, seed: u64, counted: u64, recoveries_ms: &[u64]) {
        use std::io::Write as _;
        let Some(path) = &self.path else { return };
        let line = serde_json::json!({"seed": seed, "counted": counted, "recoveries_ms": recoveries_ms});
        let mut file = std::fs::File::options().create(true).append(true).open(path).expect("our own file");
        writeln!(file, "{line}").expect("our own file");
    }

    /// Summarizes all sound seeds of this build.
    fn summarize(&self) -> String {
        let lines = self.read_lines();
        let mut recoveries: Vec<u64> = lines
            .iter()
            .flat_map(|line| line["recoveries_ms"].as_array().into_iter().flatten())
            .filter_map(serde_json::Value::as_u64)
            .collect();
        recoveries.sort_unstable();
        let at = |permille: usize| {
            recoveries.get(recoveries.len().saturating_sub(1) * permille / 1000).copied().unwrap_or_default()
        };
        format!(
            "{} sound seeds of this build in all; {} recoveries, p50 {} ms, p99 {} ms, the longest {} ms",
            lines.len(),
            recoveries.len(),
            at(500),
            at(990),
            at(1000)
        )
    }
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
