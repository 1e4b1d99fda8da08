//! Measures the time from an accepted event to a memory that the next run is handed.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinHandle;

use crate::fleet::{Fleet, Layout, compose_failing_run};
use crate::servers::{Broker, Database, DatabaseKind};

/// Number of runs that fill a window under the default policy.
const THRESHOLD: usize = 10;
/// Interval at which the context of the next run is requested.
const POLL_INTERVAL: Duration = Duration::from_millis(3);
/// Timeout for one trial.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(120);
/// Upper bounds of the histogram, in milliseconds.
const BUCKETS_MS: [u128; 10] = [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000];

/// Options of `retro-bench lag`.
#[derive(Debug, clap::Args)]
pub(crate) struct LagOptions {
    /// Number of trials, each with a workflow of its own.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trials: u32,
    /// Distribution of the roles over processes.
    #[arg(long, default_value = "one")]
    layout: Layout,
    /// Database of the processes.
    #[arg(long, default_value = "sqlite")]
    database: DatabaseKind,
    /// Runs per second of other workflows during the trials; every ten of them cause a retrospective.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    load: u32,
    /// Runs of other workflows that are accepted just before each trial.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    burst: u32,
}

/// Runs the trials and prints the distribution of the lag.
pub(crate) async fn run_lag(retro: &Path, folder: &Path, options: &LagOptions) -> Result<()> {
    let broker = Broker::start().await?;
    let folder = tempfile::tempdir_in(folder)?;
    let database = Database::create(options.database, &folder.path().join("data"), retro).await?;
    let log = folder.path().join("fleet.log");
    let fleet = Arc::new(Fleet::start(retro, &broker, &database, options.layout, 1, &log).await?);
    // The first retrospective opens connections and compiles patterns.
    measure_trial(&fleet, "warm-up").await?;
    let load = (options.load > 0).then(|| spawn_load(fleet.clone(), options.load));
    let mut lags = Vec::new();
    for trial in 0..options.trials {
        if options.burst > 0 {
            post_burst(&fleet, trial, options.burst as usize).await?;
        }
        lags.push(measure_trial(&fleet, &format!("trial-{trial}")).await?);
    }
    if let Some(load) = load {
        ensure!(!load.is_finished(), "the load stopped: {:?}", load.await);
        load.abort();
        let _ = load.await;
    }
    println!(
        "{:?}, {:?}, load {} runs/s, burst {} runs: event accepted → memory injectable, {} trials",
        options.database, options.layout, options.load, options.burst, options.trials
    );
    print_distribution(&mut lags);
    Arc::into_inner(fleet).context("the load has ended")?.stop().await
}

/// Sends a window of runs, again if it is refused, and returns the time from its acceptance to a memory.
pub(crate) async fn measure_trial(fleet: &Fleet, workflow: &str) -> Result<Duration> {
    let events: Vec<_> = (0..THRESHOLD).map(|nth| compose_failing_run(workflow, nth)).collect();
    fleet.post_events_until_accepted(&events).await?;
    let accepted = Instant::now();
    for poll in 0.. {
        if fleet.has_injectable_memory(workflow, &format!("{workflow}-next-{poll}")).await? {
            break;
        }
        ensure!(accepted.elapsed() < TRIAL_TIMEOUT, "{workflow}: no memory in {} s", TRIAL_TIMEOUT.as_secs());
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(accepted.elapsed())
}

/// Posts windows of other workflows at a constant rate of runs.
pub(crate) fn spawn_load(fleet: Arc<Fleet>, runs_per_s: u32) -> JoinHandle<Result<()>> {
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_secs(THRESHOLD as u64) / runs_per_s);
        for window in 0.. {
            ticks.tick().await;
            let workflow = format!("load-{window}");
            let events: Vec<_> = (0..THRESHOLD).map(|nth| compose_failing_run(&workflow, nth)).collect();
            fleet.post_events_until_accepted(&events).await?;
        }
        Ok(())
    })
}

async fn post_burst(fleet: &Fleet, trial: u32, runs: usize) -> Result<()> {
    let events: Vec<_> = (0..runs).map(|nth| compose_failing_run(&format!("burst-{trial}"), nth)).collect();
    for batch in events.chunks(500) {
        fleet.post_events(batch).await?;
    }
    Ok(())
}

/// Prints quantiles and a histogram.
pub(crate) fn print_distribution(lags: &mut [Duration]) {
    lags.sort_unstable();
    let at = |permille: usize| lags[(lags.len() - 1) * permille / 1000].as_secs_f64() * 1e3;
    println!("  p50 {:.0} ms, p90 {:.0} ms, p99 {:.0} ms, max {:.0} ms", at(500), at(900), at(990), at(1000));
    let mut below = 0;
    for bound in BUCKETS_MS {
        let number = lags.iter().filter(|lag| lag.as_millis() < bound).count();
        if number > below {
            println!(
                "  < {bound:>6} ms  {:>5}  {}",
                number - below,
                "#".repeat((number - below) * 60 / lags.len())
            );
        }
        below = number;
    }
}
