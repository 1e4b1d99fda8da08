//! Runs the program for a long time under load while its broker is killed again and again, and watches whether its
//! memory and its open files grow.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::figures::MedianRange;
use crate::fleet::{Fleet, Layout, count_closed};
use crate::lag::{measure_trial, print_distribution, spawn_load};
use crate::servers::{Broker, Database, DatabaseKind};

/// Interval between two trials, at each of which memory and files are read.
const TRIAL_INTERVAL: Duration = Duration::from_secs(5);

/// Options of `retro-bench soak`.
#[derive(Debug, clap::Args)]
pub(crate) struct SoakOptions {
    /// Duration in minutes.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Runs per second; every ten of them cause a retrospective.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    load: u32,
    /// Seconds between two kills of the broker; 0 for none. With less than 45, the backoff of its supervisor is measured,
    /// which grows until the broker was healthy for half a minute.
    #[arg(long, default_value_t = 60)]
    kill_every: u64,
    /// Distribution of the roles over processes.
    #[arg(long, default_value = "one")]
    layout: Layout,
    /// Database of the processes.
    #[arg(long, default_value = "sqlite")]
    database: DatabaseKind,
}

/// Runs the program and prints what changed between the first and the last quarter of the time.
pub(crate) async fn run_soak(retro: &Path, folder: &Path, options: &SoakOptions) -> Result<()> {
    let broker = Broker::start().await?;
    let folder = tempfile::tempdir_in(folder)?;
    let database = Database::create(options.database, &folder.path().join("data"), retro).await?;
    let log = folder.path().join("fleet.log");
    let fleet = Arc::new(Fleet::start(retro, &broker, &database, options.layout, 1, &log).await?);
    measure_trial(&fleet, "warm-up").await?;
    let load = spawn_load(fleet.clone(), options.load);
    let began = Instant::now();
    let (mut lags, mut recoveries, mut memory, mut files) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut killed_at = Instant::now();
    while began.elapsed() < Duration::from_secs(options.minutes * 60) {
        ensure!(!load.is_finished(), "the load stopped: {:?}", load.await);
        let workflow = format!("trial-{}", lags.len() + recoveries.len());
        if options.kill_every > 0 && killed_at.elapsed() >= Duration::from_secs(options.kill_every) {
            broker.kill();
            killed_at = Instant::now();
            // From the kill until a memory is learnt from events that are accepted afterwards.
            measure_trial(&fleet, &workflow).await?;
            recoveries.push(killed_at.elapsed());
        } else {
            lags.push(measure_trial(&fleet, &workflow).await?);
        }
        let (resident, open) = fleet.resources()?;
        memory.push(resident as f64 / (1024.0 * 1024.0));
        files.push(open as f64);
        tokio::time::sleep(TRIAL_INTERVAL).await;
    }
    load.abort();
    let closed = count_closed(&database).await?;
    println!(
        "{:?}, {:?}, {} minutes at {} runs/s, the broker killed every {} s: {closed} retrospectives closed",
        options.database, options.layout, options.minutes, options.load, options.kill_every
    );
    print_distribution(&mut lags);
    if !recoveries.is_empty() {
        println!("  {} kills of the broker; until a memory was learnt again:", recoveries.len());
        print_distribution(&mut recoveries);
    }
    print_trend("resident memory, MiB", &memory)?;
    print_trend("open files", &files)?;
    Ok(())
}

/// Prints a figure in the first and in the last quarter of the time.
fn print_trend(name: &str, values: &[f64]) -> Result<()> {
    let quarter = values.len().div_ceil(4);
    let of = |part: &[f64]| MedianRange::from_values(part.iter().copied()).context("too short");
    let (first, last) = (of(&values[..quarter])?, of(&values[values.len() - quarter..])?);
    println!("  {name}: {first} in the first quarter, {last} in the last (minimum / median / maximum)");
    Ok(())
}
