//! Runs the steps of CI, ordered to find mistakes early. The tests come last, so the last line of output
//! contains the test counts.

mod deny;
mod environment;
mod leaked_processes;
mod memory_folder;
mod test_runner;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::{generate, tidy};
use environment::remove_package_variables;
use test_runner::TestCounts;

/// A CI step: its name, its function, and advice for a failure.
struct Step {
    name: &'static str,
    run: fn(&Path) -> Result<()>,
    remedy: &'static str,
}

const STEPS: &[Step] = &[
    Step { name: "format", run: check_format, remedy: "run `cargo fmt --all`" },
    Step { name: "tidy", run: tidy::run, remedy: "each line of `cargo xtask tidy` says what to do" },
    Step {
        name: "gen",
        run: generate::check_generated,
        remedy: "run `cargo xtask gen` and commit what it writes",
    },
    Step { name: "deny", run: deny::run, remedy: "see .deny.toml, where every exception has a reason" },
    Step {
        name: "clippy",
        run: run_clippy,
        remedy: "fix the first warning; an exception is an `#[expect]` with a reason",
    },
    Step { name: "docs", run: build_docs, remedy: "fix the link or the example in the first warning" },
];

/// Runs all steps and then the tests, and stops at the first failure.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let mut times = Vec::new();
    for step in STEPS {
        println!("ci: {}", step.name);
        let began = Instant::now();
        (step.run)(root).with_context(|| format!("step `{}` failed: {}", step.name, step.remedy))?;
        times.push((step.name, began.elapsed()));
    }
    println!("ci: tests");
    let began = Instant::now();
    let counts = test_runner::run_tests(root)?;
    times.push(("tests", began.elapsed()));
    println!("ci: {}", format_timing(&times));
    Ok(report_tests(counts))
}

/// Runs every test and prints the test counts.
pub(crate) fn run_tests(root: &Path) -> Result<ExitCode> {
    test_runner::run_tests(root).map(report_tests)
}

/// Prints the test counts as the last line of output, where scripts look for them.
fn report_tests(counts: TestCounts) -> ExitCode {
    if counts.failed > 0 {
        println!("step `tests` failed: each failure above names its test");
    }
    println!("{counts}");
    if counts.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn format_timing(times: &[(&str, Duration)]) -> String {
    let parts: Vec<_> =
        times.iter().map(|(name, time)| format!("{name} {:.1} s", time.as_secs_f64())).collect();
    parts.join(", ")
}

fn check_format(root: &Path) -> Result<()> {
    run_cargo(root, &["fmt", "--all", "--check"], &[])
}

fn run_clippy(root: &Path) -> Result<()> {
    run_cargo(root, &["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"], &[])
}

fn build_docs(root: &Path) -> Result<()> {
    run_cargo(root, &["doc", "--workspace", "--no-deps", "--locked"], &[("RUSTDOCFLAGS", "--deny warnings")])
}

/// Runs cargo in the workspace. Fails if cargo fails.
fn run_cargo(root: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    let mut command = Command::new(env!("CARGO"));
    remove_package_variables(&mut command);
    let status = command.current_dir(root).args(arguments).envs(variables.iter().copied()).status()?;
    ensure!(status.success(), "`cargo {}` ended with {status}", arguments.join(" "));
    Ok(())
}
