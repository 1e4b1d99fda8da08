//! Runs every test and counts them, whichever runner is there.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::left_over::{left_over, mark};

/// How many tests ended how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: u64,
    pub(super) failed: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Runs the doctests and then the tests; their output is shown as it comes. Fails when the runner fails without a failed
/// test (it did not compile, most likely), when nothing was run at all, or when a process outlives the tests.
pub(super) fn run(root: &Path) -> Result<Counts> {
    let doctests = run_one(root, &["test", "--doc", "--workspace", "--locked", "--no-fail-fast"])?;
    let tests = if nextest_is_there(root) {
        run_one(root, &["nextest", "run", "--workspace", "--locked"])?
    } else {
        run_one(root, &["test", "--workspace", "--all-targets", "--locked", "--no-fail-fast"])?
    };
    let counts = Counts { passed: doctests.passed + tests.passed, failed: doctests.failed + tests.failed };
    ensure!(tests != Counts::default(), "no test was run");
    let left = left_over();
    ensure!(left.is_empty(), "left running by a test: {}", left.join("; "));
    Ok(counts)
}

fn nextest_is_there(root: &Path) -> bool {
    let asked = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}

fn run_one(root: &Path, arguments: &[&str]) -> Result<Counts> {
    // One pipe for both streams keeps the lines in the order in which a person would see them.
    let mut child = mark(&mut Command::new("sh"))
        .current_dir(root)
        .args(["-c", r#"exec "$0" "$@" 2>&1"#, env!("CARGO")])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().context("its output is piped")?;
    let mut counts = Counts::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        counts = add(counts, &line);
    }
    let status = child.wait()?;
    ensure!(status.success() || counts.failed > 0, "`cargo {}` ended with {status}", arguments.join(" "));
    Ok(counts)
}

/// Adds what a closing line says: cargo's (`test result: ok. 3 passed; 0 failed; …`) or nextest's
/// (`Summary [ 0.5s] 4 tests run: 3 passed (1 slow), 1 failed, 0 skipped`). Nextest repeats the output of a failed test,
/// cargo's line in it, indented: only a line that is not is cargo's own.
fn add(counts: Counts, line: &str) -> Counts {
    let closing = line.strip_prefix("test result: ").or_else(|| {
        let rest = line.trim_start().strip_prefix("Summary [")?;
        Some(rest.split_once("run: ")?.1)
    });
    let Some(closing) = closing else {
        return counts;
    };
    Counts {
        passed: counts.passed + before(closing, "passed"),
        // A test that was killed for taking too long, or that left a process behind, did not pass.
        failed: counts.failed + before(closing, "failed") + before(closing, "timed out"),
    }
}

/// The number that stands before `word`, or 0.
fn before(text: &str, word: &str) -> u64 {
    let parts = text.split([',', ';', '.', '(', ')']).map(str::trim);
    let number =
        parts.filter_map(|part| part.strip_suffix(word)).find_map(|number| number.trim().parse().ok());
    number.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_both_runners_are_counted() {
        let lines = [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            "     Summary [   0.512s] 10 tests run: 7 passed (1 slow, 1 leaky), 1 failed, 2 timed out, 0 skipped",
            "    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 11 filtered out; finished in 1.19s",
            "     Summary [   2.023s] 1 test run: 0 passed, 1 failed (1 due to being leaky), 0 skipped",
            "     Summary [   9.115s] 5 tests run: 5 passed (1 flaky), 0 skipped",
            "the program said: 100 passed, 100 failed",
        ];
        let counts = lines.iter().fold(Counts::default(), |counts, line| add(counts, line));
        assert_eq!(counts, Counts { passed: 19, failed: 6 });
        assert_eq!(counts.to_string(), "19 passed, 6 failed");
    }
}
