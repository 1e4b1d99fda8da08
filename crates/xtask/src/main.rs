#![doc = include_str!("../README.md")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for people at a terminal: what it prints is what it is for"
)]

mod broker;
mod ci;
mod demo;
mod eval;
mod fixtures;
mod generate;
mod instance;
mod language;
mod load;
mod tidy;

use std::env::var_os;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// The project's own tool.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that CI runs, in order; stops at the first failure and says what to do.
    Ci,
    /// Every test, doctests included, by nextest where it is installed.
    Test,
    /// Proves the layout: dependency arrows, lints, READMEs, reasons, runbooks, lengths.
    Tidy,
    /// Measures names and doc comments of the code; fails when a goal is missed.
    Language(language::Options),
    /// Shows the main job on real runs, then everything that can happen to a memory; ends by itself.
    Demo {
        /// The built program [default: `retro` of the release profile].
        #[arg(long)]
        retro: Option<PathBuf>,
    },
    /// Sends signed webhooks at a steady rate, kills the broker half-way, and says what was answered, stored and counted.
    Load {
        /// The built program [default: `retro` of the release profile].
        #[arg(long)]
        retro: Option<PathBuf>,
        #[command(flatten)]
        load: load::Sending,
    },
    /// Makes the demo's real runs out of evaluation data; what it writes is committed.
    Fixtures {
        /// The folder of the evaluation data.
        #[arg(long, env = "RETRO_EVAL_DATA")]
        data: PathBuf,
    },
    /// Measures on evaluation data what the program decides without a model.
    Eval {
        #[command(subcommand)]
        eval: eval::Eval,
    },
    /// Writes what is generated from the types: policy and configuration with their defaults.
    Gen {
        /// Writes nothing; fails when a file is not what would be written.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match run(&Arguments::parse().task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<ExitCode> {
    let root = workspace_root()?;
    match task {
        Task::Ci => return ci::run(&root),
        Task::Test => return ci::test(&root),
        Task::Tidy => tidy::run(&root),
        Task::Language(options) => return language::run(&root, options),
        Task::Demo { retro } => demo::run(&root, retro.as_deref()),
        Task::Load { retro, load } => load::run(&root, retro.as_deref(), *load),
        Task::Fixtures { data } => fixtures::run(&root, data),
        Task::Eval { eval } => eval::run(&root, eval),
        Task::Gen { check: true } => generate::check(&root),
        Task::Gen { check: false } => generate::write(&root),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// The folder of the workspace, wherever the command was typed. Asked of the environment and not of the compiler: a
/// target folder that two clones share may hold a program that was compiled in the other one.
fn workspace_root() -> Result<PathBuf> {
    let own = var_os("CARGO_MANIFEST_DIR").context("cargo says where the workspace is: run `cargo xtask`")?;
    let root = Path::new(&own).ancestors().nth(2);
    root.map(Path::to_path_buf).context("crates/xtask lies two folders below the workspace's root")
}
