//! Compares the counter with the hand-written loop: the same stored events, in turn, on fresh databases.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::child::{MeasuredProcess, cpu_time_of};
use crate::events::compose_events;
use crate::figures::MedianRange;
use crate::parts;
use crate::servers::{Broker, Database, DatabaseKind};

/// Durable consumer of the hand-written loop.
const FLOOR_CONSUMER: &str = "floor";
/// Durable consumer of the counter role.
pub(crate) const COUNTER_CONSUMER: &str = "counter";
/// Interval at which the measured processes are checked for an early end.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Number of events over which the parts are timed.
const PART_EVENTS: u64 = 5_000;
/// Log filter of a counter whose statements are counted.
const STATEMENTS: &str = "warn,retro_counter=info,sqlx::query=debug";

/// Options of `retro-bench intake`.
#[derive(Debug, clap::Args)]
pub(crate) struct IntakeOptions {
    /// Number of events.
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1_000..=2_000_000))]
    events: u64,
    /// Number of workflows over which the events are spread; may be repeated.
    #[arg(long, default_values_t = [100, 1_000, 20_000])]
    workflows: Vec<u64>,
    /// Number of pairs of measurements for each database and number of workflows.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=50))]
    pairs: u32,
    /// Databases to measure; may be repeated.
    #[arg(long, default_values = ["sqlite", "postgres"])]
    database: Vec<DatabaseKind>,
    /// Number of counter processes on Postgres.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    counters: u32,
    /// Leaves the hand-written loop out.
    #[arg(long)]
    role_only: bool,
}

/// One measurement.
pub(crate) struct Measured {
    pub(crate) events_per_s: f64,
    /// CPU time of the measured processes per event, in µs.
    cpu_us: f64,
    /// CPU time of the database server per event, in µs.
    server_us: f64,
    peak_mib: f64,
}

/// Runs the comparison and prints it.
pub(crate) async fn run_intake(retro: &Path, folder: &Path, options: &IntakeOptions) -> Result<()> {
    print_parts()?;
    for workflows in &options.workflows {
        let broker = Broker::start().await?;
        broker.publish_events(compose_events(options.events, *workflows)).await?;
        println!(
            "\n{} events of {workflows} workflows; minimum / median / maximum of {} pairs",
            options.events, options.pairs
        );
        for kind in &options.database {
            compare(&broker, *kind, retro, folder, options).await?;
        }
    }
    Ok(())
}

fn print_parts() -> Result<()> {
    let events: Vec<_> = compose_events(PART_EVENTS, 100).collect();
    let bytes: usize = events.iter().map(|event| event.payload.len()).sum();
    println!("CPU of the counter's pure parts per event of {} bytes, on one thread:", bytes / events.len());
    for part in parts::time_parts(&events)? {
        println!("  {:<16} {:>6.1} µs", part.name, part.time.as_secs_f64() * 1e6);
    }
    Ok(())
}

async fn compare(
    broker: &Broker,
    kind: DatabaseKind,
    retro: &Path,
    folder: &Path,
    options: &IntakeOptions,
) -> Result<()> {
    let (mut loops, mut roles) = (Vec::new(), Vec::new());
    for _ in 0..options.pairs {
        if !options.role_only {
            loops.push(measure_loop(broker, kind, retro, folder, options).await?);
        }
        roles.push(measure_role(broker, kind, retro, folder, options).await?);
    }
    println!("  {kind:?}");
    print_statements(broker, kind, retro, folder, options.events).await?;
    print_measured("loop", &loops);
    print_measured("counter", &roles);
    let ratios = loops.iter().zip(&roles).map(|(floor, role)| role.events_per_s / floor.events_per_s);
    if let Some(ratios) = MedianRange::from_values(ratios) {
        println!("    ratio    {ratios:.2}");
    }
    Ok(())
}

/// Prints how many statements and transactions an event costs. They are counted in the log of a counter that is not
/// timed. A transaction costs one sync of the write-ahead log; checkpoints come on top.
async fn print_statements(
    broker: &Broker,
    kind: DatabaseKind,
    retro: &Path,
    folder: &Path,
    events: u64,
) -> Result<()> {
    let folder = tempfile::tempdir_in(folder)?;
    let database = Database::create(kind, folder.path(), retro).await?;
    let log = folder.path().join("counter.log");
    broker.reset_consumer(COUNTER_CONSUMER).await?;
    let (servers, variables) = ((broker, &database), [("RUST_LOG", STATEMENTS)]);
    let process = MeasuredProcess::start_roles(retro, servers, &["counter"], &[], &variables, &log)?;
    measure(broker, &database, COUNTER_CONSUMER, vec![process], events, &log).await?;
    let log = std::fs::read_to_string(&log)?;
    let count = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    // One line of the counter for each transaction.
    let (statements, transactions) = (count("sqlx::query"), count("retro_counter"));
    println!(
        "    {:.3} statements and {:.4} transactions an event: {statements} and {transactions} in all, with those of the start",
        statements as f64 / events as f64,
        transactions as f64 / events as f64,
    );
    Ok(())
}

pub(crate) fn print_measured(name: &str, measured: &[Measured]) {
    let spread = |value: fn(&Measured) -> f64| MedianRange::from_values(measured.iter().map(value));
    let (Some(rate), Some(cpu)) = (spread(|one| one.events_per_s), spread(|one| one.cpu_us)) else { return };
    let (Some(server), Some(peak)) = (spread(|one| one.server_us), spread(|one| one.peak_mib)) else {
        return;
    };
    println!(
        "    {name:<8} {rate} events/s; CPU {cpu:.1} µs an event; server {server:.1} µs; peak {peak} MiB"
    );
}

async fn measure_loop(
    broker: &Broker,
    kind: DatabaseKind,
    retro: &Path,
    folder: &Path,
    options: &IntakeOptions,
) -> Result<Measured> {
    let folder = tempfile::tempdir_in(folder)?;
    let database = Database::create(kind, folder.path(), retro).await?;
    broker.reset_consumer(FLOOR_CONSUMER).await?;
    let own = std::env::current_exe()?;
    let address = database.address();
    let arguments =
        ["floor-loop", "--nats", broker.url(), "--database", &address, "--consumer", FLOOR_CONSUMER];
    let log = folder.path().join("loop.log");
    let process = MeasuredProcess::start(&own, &arguments, &[], &log)?;
    let measured = measure(broker, &database, FLOOR_CONSUMER, vec![process], options.events, &log).await?;
    broker.delete_consumer(FLOOR_CONSUMER).await?;
    Ok(measured)
}

async fn measure_role(
    broker: &Broker,
    kind: DatabaseKind,
    retro: &Path,
    folder: &Path,
    options: &IntakeOptions,
) -> Result<Measured> {
    let folder = tempfile::tempdir_in(folder)?;
    let database = Database::create(kind, folder.path(), retro).await?;
    let counters = if kind == DatabaseKind::Postgres { options.counters } else { 1 };
    measure_role_on(broker, &database, retro, folder.path(), counters, options.events).await
}

/// Measures counter processes on a database over the events that the broker has.
pub(crate) async fn measure_role_on(
    broker: &Broker,
    database: &Database,
    retro: &Path,
    folder: &Path,
    counters: u32,
    events: u64,
) -> Result<Measured> {
    let log = folder.join("counter.log");
    broker.reset_consumer(COUNTER_CONSUMER).await?;
    let processes = (0..counters)
        .map(|_| MeasuredProcess::start_roles(retro, (broker, database), &["counter"], &[], &[], &log))
        .collect::<Result<Vec<_>>>()?;
    measure(broker, database, COUNTER_CONSUMER, processes, events, &log).await
}

/// Measures from the first delivery to the last acknowledgement, so the start of the processes does not count.
pub(crate) async fn measure(
    broker: &Broker,
    database: &Database,
    consumer: &str,
    mut processes: Vec<MeasuredProcess>,
    events: u64,
    log: &Path,
) -> Result<Measured> {
    broker.wait_until_begun(consumer).await?;
    let began = Instant::now();
    let cpu = |processes: &[MeasuredProcess]| {
        processes.iter().map(MeasuredProcess::cpu_time).sum::<Result<Duration>>()
    };
    let server = || database.server_pid().map_or(Ok(Duration::ZERO), cpu_time_of_server);
    let (cpu_before, server_before) = (cpu(&processes)?, server()?);
    while !broker.is_finished(consumer).await? {
        for process in &mut processes {
            if let Err(error) = process.check_running() {
                let said = std::fs::read_to_string(log).unwrap_or_default();
                anyhow::bail!("{error}:\n{said}");
            }
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
    let took = began.elapsed();
    let per_event = |time: Duration| time.as_secs_f64() * 1e6 / events as f64;
    let mut peak = 0;
    for process in &processes {
        peak = peak.max(process.peak_memory()?);
    }
    let measured = Measured {
        events_per_s: events as f64 / took.as_secs_f64(),
        cpu_us: per_event(cpu(&processes)?.saturating_sub(cpu_before)),
        server_us: per_event(server()?.saturating_sub(server_before)),
        peak_mib: peak as f64 / (1024.0 * 1024.0),
    };
    for process in processes {
        process.stop().await?;
    }
    Ok(measured)
}

/// Returns the CPU time of a Postgres server: of its main process and of all processes that this one has started.
fn cpu_time_of_server(pid: u32) -> Result<Duration> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let mut total = cpu_time_of(pid)?;
    for child in children.split_whitespace() {
        // Fails for a process that has ended since the list was read.
        total += cpu_time_of(child.parse()?).unwrap_or_default();
    }
    Ok(total)
}
