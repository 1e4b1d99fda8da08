//! Implements `cargo xtask eval`, which runs the binary `retro-eval` with the same arguments.
//!
//! The evaluations are a program of their own, because they link most of the product and the other tasks must
//! not wait until it is compiled.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

/// Replaces this process by `retro-eval`, which cargo builds first. Returns only if cargo cannot be started.
pub(crate) fn run(root: &Path, arguments: &[OsString]) -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--locked", "--package", "retro-eval", "--bin", "retro-eval"]);
    // The current folder stays, because the arguments may contain relative paths.
    cargo.arg("--manifest-path").arg(root.join("Cargo.toml")).arg("--").args(arguments);
    Err(cargo.exec()).context("cannot start cargo")
}
