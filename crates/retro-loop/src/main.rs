//! The command line of the closed loop.
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
use retro_loop::{Playing, ablations, worlds, worlds_in};
use tokio::signal::unix::{SignalKind, signal};

/// Plays made-up worlds against a running retro and says how true and how useful its memories are.
#[derive(Parser)]
#[command(name = "retro-loop")]
struct Arguments {
    /// A world's folder; may be given several times. Without it, every world of `--worlds`.
    #[arg(long, value_name = "DIR")]
    world: Vec<PathBuf>,
    /// The folder whose worlds are played when none is named.
    #[arg(long, value_name = "DIR", default_value = "crates/retro-loop/worlds")]
    worlds: PathBuf,
    /// The program to try.
    #[arg(long, value_name = "PATH", default_value = "target/release/retro")]
    retro: PathBuf,
    /// How many seeds; each is a tenant of its own.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Runs of each workflow; whole windows of ten.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    runs: u32,
    /// Plays the ablations too: base and each of them with five seeds, or with so many.
    #[arg(long, value_name = "SEEDS", num_args = 0..=1, default_missing_value = "5")]
    ablations: Option<u64>,
    /// Plays nothing but the ablations.
    #[arg(long, requires = "ablations")]
    only_ablations: bool,
    /// Workflows that are under way at once.
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=500))]
    side_by_side: u16,
    /// Investigations that the program carries out at once.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    investigators: u32,
    /// Where the program's data is put while it runs.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Writes every figure there, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Writes the curves there, as a picture.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Only reads the worlds and says what is wrong with them.
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

/// Gives up when somebody stops the program, so that what it started does not outlive it.
async fn until_stopped<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let mut told_to_stop = signal(SignalKind::terminate())?;
    tokio::select! {
        done = work => done,
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = told_to_stop.recv() => bail!("told to stop"),
    }
}

fn run(arguments: Arguments) -> Result<()> {
    let folders = if arguments.world.is_empty() { worlds_in(&arguments.worlds)? } else { arguments.world };
    let worlds = worlds(&folders)?;
    for world in worlds.iter() {
        println!("{}: {}", world.name, world.about);
    }
    if arguments.check {
        return Ok(());
    }
    let playing = Playing {
        retro: arguments.retro,
        folder: arguments.folder.unwrap_or_else(std::env::temp_dir),
        seeds: arguments.seeds,
        runs: arguments.runs,
        side_by_side: usize::from(arguments.side_by_side),
        investigators: arguments.investigators,
        look_every: Duration::from_millis(50),
    };
    // One thread: the program that is tried needs the others.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut figures = serde_json::json!({});
    if !arguments.only_ablations {
        let played = runtime.block_on(until_stopped(playing.play(&worlds, "")))?;
        println!("\n{}", played.text(&worlds));
        figures["base"] = played.json(&worlds);
        if let Some(file) = &arguments.svg {
            std::fs::write(file, played.picture(&worlds))
                .with_context(|| format!("{} cannot be written", file.display()))?;
        }
    }
    if let Some(seeds) = arguments.ablations {
        let said = |line: &str| eprintln!("{line}");
        let few = Playing { seeds, ..playing };
        let (table, json) = runtime.block_on(until_stopped(ablations(&few, &worlds, &said)))?;
        println!("{table}");
        figures["ablations"] = json;
    }
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&figures)?;
        std::fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    Ok(())
}
