//! Measures retrospectives per second when many are due at once.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::events::Event;
use crate::fleet::{Fleet, Layout, compose_failing_run, count_closed};
use crate::servers::{Broker, Database, DatabaseKind};

/// Number of runs of each workflow, which fill one window under the default policy.
const THRESHOLD: usize = 10;
/// Interval at which closed retrospectives are counted.
const COUNT_INTERVAL: Duration = Duration::from_millis(200);
/// Time without a newly closed retrospective after which the measurement fails.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of `retro-bench due`.
#[derive(Debug, clap::Args)]
pub(crate) struct DueOptions {
    /// Number of retrospectives.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    retrospectives: u32,
    /// Distribution of the roles over processes.
    #[arg(long, default_value = "one")]
    layout: Layout,
    /// Number of investigator processes, in the layout of several processes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    investigators: u32,
    /// Database of the processes.
    #[arg(long, default_value = "sqlite")]
    database: DatabaseKind,
}

/// Runs the measurement and prints it.
pub(crate) async fn run_due(retro: &Path, folder: &Path, options: &DueOptions) -> Result<()> {
    let broker = Broker::start().await?;
    let folder = tempfile::tempdir_in(folder)?;
    let database = Database::create(options.database, &folder.path().join("data"), retro).await?;
    let total = u64::from(options.retrospectives);
    broker.publish_events((0..total).flat_map(compose_window)).await?;
    let log = folder.path().join("fleet.log");
    let investigators = options.investigators as usize;
    let fleet = Fleet::start(retro, &broker, &database, options.layout, investigators, &log).await?;
    let (began, cpu_before) = (Instant::now(), fleet.cpu_time()?);
    let (mut closed, mut progressed) = (0, Instant::now());
    while closed < total {
        tokio::time::sleep(COUNT_INTERVAL).await;
        let now = count_closed(&database).await?;
        if now > closed {
            (closed, progressed) = (now, Instant::now());
        }
        ensure!(progressed.elapsed() < STALL_TIMEOUT, "stalled at {closed} of {total} closed retrospectives");
    }
    let (took, cpu) = (began.elapsed().as_secs_f64(), fleet.cpu_time()?.saturating_sub(cpu_before));
    println!(
        "{:?}, {:?}, {} investigator processes: {total} retrospectives in {took:.1} s, {:.0}/s; CPU {:.1} ms each",
        options.database,
        options.layout,
        if options.layout == Layout::One { 1 } else { investigators },
        total as f64 / took,
        cpu.as_secs_f64() * 1e3 / total as f64
    );
    fleet.stop().await
}

fn compose_window(nth: u64) -> Vec<Event> {
    let workflow = format!("due-{nth}");
    let event = |run| Event::from_json(&workflow, &compose_failing_run(&workflow, run));
    (0..THRESHOLD).map(event).collect()
}
