//! Implements the command line of the closed-loop simulation.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for people at a terminal: what it prints is what it is for"
)]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use retro_eval::closed_loop::{Simulation, find_world_folders, load_worlds, run_ablations};
use tokio::signal::unix::{SignalKind, signal};

/// Simulates worlds with planted failures against a retro process, and reports how accurate and how useful
/// its memories are.
#[derive(Parser)]
#[command(name = "retro-loop")]
struct Arguments {
    /// Folder of a world; may be repeated. Without it, every world in `--worlds` is simulated.
    #[arg(long, value_name = "DIR")]
    world: Vec<PathBuf>,
    /// Folder with the worlds to simulate if no `--world` is given.
    #[arg(long, value_name = "DIR", default_value = "crates/tools/retro-eval/worlds")]
    worlds: PathBuf,
    /// Path of the `retro` binary.
    #[arg(long, value_name = "PATH", default_value = "target/release/retro")]
    retro: PathBuf,
    /// Number of seeds, 1 to 1000; each seed is simulated under its own tenant.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Number of runs per workflow, 10 to 10000; a multiple of the window size of ten.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    runs: u32,
    /// Number of repositories over which the runs of a workflow are spread, 0 to 1000; every second one is private
    /// [default: the runs name none].
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000), hide_default_value = true)]
    repositories: u32,
    /// Also run the ablations and, for comparison, the base, with this many seeds (5 if no number is given).
    #[arg(long, value_name = "SEEDS", num_args = 0..=1, default_missing_value = "5")]
    ablations: Option<u64>,
    /// Run only the ablations.
    #[arg(long, requires = "ablations")]
    only_ablations: bool,
    /// Policy file of the retro process [default: the default policy].
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Number of workflows simulated concurrently, 1 to 500.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=500))]
    side_by_side: u16,
    /// Maximum number of concurrent investigations in the retro process, 1 to 64.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    investigators: u32,
    /// Maximum number of seconds that a retrospective takes, 1 to 86400; raise it for a model that a person plays (the process
    /// inherits `RETRO_MODEL_URL`).
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    close_timeout_s: u64,
    /// Folder for the data of the retro process [default: the system's temporary folder].
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Write all figures to this file as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the curves to this file as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Only check the worlds and report their errors.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs `work`, but fails if SIGINT or SIGTERM arrives. Returning normally drops the child processes, so none
/// of them outlives this program.
async fn run_until_stopped<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut told_to_stop = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = told_to_stop.recv() => bail!("terminated"),
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let folders =
        if arguments.world.is_empty() { find_world_folders(&arguments.worlds)? } else { arguments.world };
    let worlds = load_worlds(&folders)?;
    for world in worlds.iter() {
        println!("{}: {}", world.name, world.about);
    }
    if arguments.check {
        return Ok(());
    }
    let playing = Simulation {
        retro: arguments.retro,
        folder: arguments.folder.unwrap_or_else(std::env::temp_dir),
        seeds: arguments.seeds,
        runs: arguments.runs,
        repositories: arguments.repositories,
        concurrency: usize::from(arguments.side_by_side),
        investigators: arguments.investigators,
        close_timeout: Duration::from_secs(arguments.close_timeout_s),
        poll_interval: Duration::from_millis(50),
    };
    // One worker thread, because the program under test needs the other cores.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut figures = serde_json::json!({});
    if !arguments.only_ablations {
        let policy = match &arguments.policy {
            None => String::new(),
            Some(file) => {
                std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?
            }
        };
        let played = runtime.block_on(run_until_stopped(playing.run(&worlds, &policy)))?;
        println!("\n{}", played.render_text(&worlds));
        figures["base"] = played.to_json(&worlds);
        if let Some(file) = &arguments.svg {
            std::fs::write(file, played.render_svg(&worlds))
                .with_context(|| format!("{} cannot be written", file.display()))?;
        }
    }
    if let Some(seeds) = arguments.ablations {
        let said = |line: &str| eprintln!("{line}");
        let few = Simulation { seeds, ..playing };
        let (table, json) = runtime.block_on(run_until_stopped(run_ablations(&few, &worlds, &said)))?;
        println!("{table}");
        figures["ablations"] = json;
    }
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&figures)?;
        std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(())
}
