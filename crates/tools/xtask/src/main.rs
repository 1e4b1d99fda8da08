#![doc = include_str!("../README.md")]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for people at a terminal: what it prints is what it is for"
)]

mod ci;
mod demo;
mod demo_model;
mod eval;
mod fixtures;
mod generate;
mod language;
mod load;
mod tidy;

use std::env::var_os;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

/// Development tasks of the project.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Runs everything that CI runs, in order. Stops at the first failure and prints advice.
    Ci,
    /// Runs every test including doctests, with nextest if it is installed.
    Test,
    /// Checks the layout of the workspace: dependency directions, lints, READMEs, reasons, runbooks, file
    /// lengths.
    Tidy,
    /// Measures the names and doc comments of the code; fails if a goal is missed.
    Language(language::Options),
    /// Runs the demo: first real runs, then every kind of change that can happen to a memory.
    Demo {
        /// Path of the `retro` binary [default: the release build].
        #[arg(long)]
        retro: Option<PathBuf>,
    },
    /// Investigates real runs with a language model that is played from recorded answers, beside the heuristics alone.
    DemoModel {
        /// Path of the `retro` binary [default: the release build].
        #[arg(long)]
        retro: Option<PathBuf>,
        /// Records the answers anew from `answers.toml`, after a prompt was changed.
        #[arg(long)]
        record: bool,
    },
    /// Sends signed webhooks at a constant rate, kills the broker half-way, and prints the numbers of
    /// accepted, stored and counted webhooks.
    Load {
        /// Path of the `retro` binary [default: the release build].
        #[arg(long)]
        retro: Option<PathBuf>,
        #[command(flatten)]
        load: load::LoadOptions,
    },
    /// Generates the demo's real runs from evaluation data; the output is committed.
    Fixtures {
        /// Folder with the evaluation data.
        #[arg(long, env = "RETRO_EVAL_DATA")]
        data: PathBuf,
    },
    /// Measures the quality of the decisions that need no model on evaluation data.
    #[command(disable_help_flag = true)]
    Eval {
        /// Arguments of `retro-eval`; `--help` lists its evaluations.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Writes the files that are generated from the code's types, such as policy and configuration with their
    /// defaults.
    Gen {
        /// Only checks the files; fails if one is out of date.
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
        Task::Test => return ci::run_tests(&root),
        Task::Tidy => tidy::run(&root),
        Task::Language(options) => return language::run(&root, options),
        Task::Demo { retro } => demo::run(&root, retro.as_deref()),
        Task::DemoModel { retro, record } => demo_model::run(&root, retro.as_deref(), *record),
        Task::Load { retro, load } => load::run(&root, retro.as_deref(), *load),
        Task::Fixtures { data } => fixtures::run(&root, data),
        Task::Eval { arguments } => eval::run(&root, arguments),
        Task::Gen { check: true } => generate::check_generated(&root),
        Task::Gen { check: false } => generate::write_generated(&root),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Returns the root folder of the workspace. Reads the environment variable at run time, because clones that
/// share a target folder may run a binary that another clone compiled.
fn workspace_root() -> Result<PathBuf> {
    let own = var_os("CARGO_MANIFEST_DIR").context("cargo says where the workspace is: run `cargo xtask`")?;
    let root = Path::new(&own).ancestors().nth(3);
    root.map(Path::to_path_buf).context("crates/tools/xtask lies three folders below the workspace's root")
}
