//! Runs the program for a long time under load while its broker is killed again and again, and watches whether its
//! memory and its open files grow.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::task::JoinHandle;

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

/// What a soak has measured so far.
#[derive(Default)]
struct Measurements {
    /// From an event that was accepted until a memory was learnt, while the broker was up.
    lags: Vec<Duration>,
    /// From a kill of the broker until a memory was learnt from events that were accepted afterwards.
    recoveries: Vec<Duration>,
    /// Resident memory in MiB after each trial.
    memory: Vec<f64>,
    /// Number of open files after each trial.
    files: Vec<f64>,
}

/// Runs the program and prints what changed between the first and the last quarter of the time. If a trial fails,
/// prints what was measured until then, and fails.
pub(crate) async fn run_soak(retro: &Path, folder: &Path, options: &SoakOptions) -> Result<()> {
    let broker = Broker::start().await?;
    let folder = tempfile::tempdir_in(folder)?;
    let database = Database::create(options.database, &folder.path().join("data"), retro).await?;
    let log = folder.path().join("fleet.log");
    let fleet = Arc::new(Fleet::start(retro, &broker, &database, options.layout, 1, &log).await?);
    measure_trial(&fleet, "warm-up").await?;
    let mut measured = Measurements::default();
    let began = Instant::now();
    let load = spawn_load(fleet.clone(), options.load);
    let ended = measured.fill(&fleet, &broker, &load, options).await;
    load.abort();
    let closed = count_closed(&database).await?;
    println!(
        "{:?}, {:?}, {:.1} of {} minutes at {} runs/s, the broker killed every {} s: {closed} retrospectives closed",
        options.database,
        options.layout,
        began.elapsed().as_secs_f64() / 60.0,
        options.minutes,
        options.load,
        options.kill_every
    );
    measured.print()?;
    ended
}

impl Measurements {
    /// Measures one trial after another until the time is over. Fails if a trial does, or if the load has stopped.
    async fn fill(
        &mut self,
        fleet: &Fleet,
        broker: &Broker,
        load: &JoinHandle<Result<()>>,
        options: &SoakOptions,
    ) -> Result<()> {
        let began = Instant::now();
        let mut killed_at = Instant::now();
        while began.elapsed() < Duration::from_secs(options.minutes * 60) {
            ensure!(!load.is_finished(), "the load stopped, because an event was refused");
            let workflow = format!("trial-{}", self.lags.len() + self.recoveries.len());
            if options.kill_every > 0 && killed_at.elapsed() >= Duration::from_secs(options.kill_every) {
                broker.kill();
                killed_at = Instant::now();
                measure_trial(fleet, &workflow).await?;
                self.recoveries.push(killed_at.elapsed());
                eprintln!(
                    "{:.1} min: learnt again {:.2} s after a kill",
                    began.elapsed().as_secs_f64() / 60.0,
                    killed_at.elapsed().as_secs_f64()
                );
            } else {
                self.lags.push(measure_trial(fleet, &workflow).await?);
            }
            let (resident, open) = fleet.resources()?;
            self.memory.push(resident as f64 / (1024.0 * 1024.0));
            self.files.push(open as f64);
            tokio::time::sleep(TRIAL_INTERVAL).await;
        }
        Ok(())
    }

    fn print(&mut self) -> Result<()> {
        if !self.lags.is_empty() {
            print_distribution(&mut self.lags);
        }
        if !self.recoveries.is_empty() {
            println!("  {} kills of the broker; until a memory was learnt again:", self.recoveries.len());
            print_distribution(&mut self.recoveries);
        }
        print_trend("resident memory, MiB", &self.memory)?;
        print_trend("open files", &self.files)
    }
}

/// Prints a figure in the first and in the last quarter of the time.
fn print_trend(name: &str, values: &[f64]) -> Result<()> {
    let quarter = values.len().div_ceil(4);
    let of = |part: &[f64]| MedianRange::from_values(part.iter().copied()).context("too short");
    let (first, last) = (of(&values[..quarter])?, of(&values[values.len() - quarter..])?);
    println!("  {name}: {first} in the first quarter, {last} in the last (minimum / median / maximum)");
    Ok(())
}
