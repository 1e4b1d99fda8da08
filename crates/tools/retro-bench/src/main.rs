#![doc = include_str!("../README.md")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for people at a terminal: what it prints is what it is for"
)]

mod child;
mod context;
mod due;
mod events;
mod figures;
mod fleet;
mod floor;
mod growth;
mod http;
mod intake;
mod lag;
mod outages;
mod parts;
mod retention;
mod servers;
mod soak;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Measures the running program beside hand-written loops.
#[derive(Parser)]
#[command(name = "retro-bench")]
struct Arguments {
    /// Path of the `retro` binary.
    #[arg(long, value_name = "PATH", default_value = "target/release/retro", global = true)]
    retro: PathBuf,
    /// Folder for the data of the measurements, on the disk to measure.
    #[arg(long, value_name = "DIR", default_value = ".bench", global = true)]
    folder: PathBuf,
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs every measurement but `context`, `outages` and `soak` with its defaults, one after the other.
    All,
    /// Compares the counter with a hand-written loop over the same stored events.
    Intake(intake::IntakeOptions),
    /// Compares `POST /v1/events` in batches with the broker's own rate.
    Http(http::HttpOptions),
    /// Measures `POST /v1/context` with a million memories, beside a constant answer.
    Context(context::ContextOptions),
    /// Counts what agents get while broker, database and gateway are killed in turn.
    Outages(outages::OutagesOptions),
    /// Measures the time from an accepted event to a memory that the next run is handed.
    Lag(lag::LagOptions),
    /// Measures retrospectives per second when many are due at once.
    Due(due::DueOptions),
    /// Measures what an event costs while the database grows.
    Growth(growth::GrowthOptions),
    /// Measures whether purging keeps up with the events that arrive.
    Retention(retention::RetentionOptions),
    /// Runs the program under load for an hour while its broker is killed again and again.
    Soak(soak::SoakOptions),
    /// Runs the server with constant answers. `context` starts it.
    #[command(hide = true)]
    ConstantServer {
        #[arg(long)]
        listen: String,
        #[arg(long)]
        body: PathBuf,
        #[arg(long)]
        memories: u64,
        #[arg(long)]
        workflows: u64,
        #[arg(long)]
        tenants: u64,
    },
    /// Runs the hand-written loop. `intake` starts it.
    #[command(hide = true)]
    FloorLoop {
        #[arg(long)]
        nats: String,
        #[arg(long)]
        database: String,
        #[arg(long)]
        consumer: String,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("retro-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: &Arguments) -> Result<()> {
    let Arguments { retro, folder, task } = arguments;
    if let Task::FloorLoop { nats, database, consumer } = task {
        return floor::run_floor_loop(nats, database, consumer).await;
    }
    if let Task::ConstantServer { listen, body, memories, workflows, tenants } = task {
        return context::serve_constant(listen, body, *memories, *workflows, *tenants).await;
    }
    std::fs::create_dir_all(folder)?;
    run_task(task, retro, folder).await
}

async fn run_task(task: &Task, retro: &Path, folder: &Path) -> Result<()> {
    match task {
        Task::All => run_all(retro, folder).await,
        Task::Intake(options) => intake::run_intake(retro, folder, options).await,
        Task::Http(options) => http::run_http(retro, folder, options).await,
        Task::Context(options) => context::run_context(retro, folder, options).await,
        Task::Outages(options) => outages::run_outages(retro, folder, options).await,
        Task::Lag(options) => lag::run_lag(retro, folder, options).await,
        Task::Due(options) => due::run_due(retro, folder, options).await,
        Task::Growth(options) => growth::run_growth(retro, folder, options).await,
        Task::Retention(options) => retention::run_retention(retro, folder, options).await,
        Task::Soak(options) => soak::run_soak(retro, folder, options).await,
        Task::FloorLoop { .. } | Task::ConstantServer { .. } => unreachable!("handled above"),
    }
}

/// Measurements of `retro-bench all`, as one would type them.
const ALL: [&[&str]; 10] = [
    &["intake"],
    &["intake", "--role-only", "--database", "postgres", "--workflows", "1000", "--counters", "2"],
    &["http"],
    &["lag"],
    &["lag", "--load", "150"],
    &["lag", "--layout", "eight", "--database", "postgres"],
    &["due"],
    &["due", "--layout", "eight", "--database", "postgres"],
    &["growth"],
    &["retention"],
];

async fn run_all(retro: &Path, folder: &Path) -> Result<()> {
    for arguments in ALL {
        println!("\n== {}", arguments.join(" "));
        let task = parse_task(arguments)?;
        Box::pin(run_task(&task, retro, folder)).await?;
    }
    Ok(())
}

fn parse_task(arguments: &[&str]) -> Result<Task> {
    let line = std::iter::once("retro-bench").chain(arguments.iter().copied());
    Ok(Arguments::try_parse_from(line)?.task)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measurement_can_be_typed() {
        for arguments in ALL {
            parse_task(arguments).expect("a valid command line");
        }
    }
}
