//! Implements `cargo xtask eval`.
#![expect(clippy::print_stderr, reason = "a tool for people at a terminal: errors are for them")]

use std::env::var_os;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use retro_eval::decisions::{self, Eval};

/// Measures the quality of the decisions that need no model on evaluation data.
#[derive(Parser)]
#[command(name = "cargo xtask eval", bin_name = "cargo xtask eval")]
struct Arguments {
    #[command(subcommand)]
    eval: Eval,
}

fn main() -> ExitCode {
    match run(&Arguments::parse().eval) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("retro-eval: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(eval: &Eval) -> Result<()> {
    decisions::run(&workspace_root()?, eval)
}

/// Returns the root folder of the workspace. Reads the environment variable at run time, because clones that
/// share a target folder may run a binary that another clone compiled.
fn workspace_root() -> Result<PathBuf> {
    let own =
        var_os("CARGO_MANIFEST_DIR").context("cargo says where the workspace is: run `cargo xtask eval`")?;
    let root = Path::new(&own).ancestors().nth(3);
    root.map(Path::to_path_buf).context("crates/tools/retro-eval lies two folders below the workspace's root")
}
