//! Runs every test with nextest or with cargo, and counts the results.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::environment::remove_package_variables;
use super::leaked_processes::{find_leaked, mark_descendants};
use super::memory_folder::create_memory_folder;

/// Number of tests that nextest runs at once for each core. A story computes for less than half of its time: otherwise it
/// waits for leases, redeliveries and processes that start.
const TESTS_PER_CORE: usize = 2;

/// Numbers of passed and failed tests.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct TestCounts {
    pub(super) passed: u64,
    pub(super) failed: u64,
}

impl fmt::Display for TestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Runs the doctests and then the tests, and prints their output as it arrives. Fails if the runner fails
/// without a failed test (usually a compile error), if no test ran, or if a process outlives the tests.
pub(super) fn run_tests(root: &Path) -> Result<TestCounts> {
    // Separate, because nextest does not run doctests.
    let doctests =
        run_cargo_test(root, &["test", "--doc", "--workspace", "--locked", "--no-fail-fast"], None)?;
    let threads = (available_parallelism()?.get() * TESTS_PER_CORE).to_string();
    let arguments = if has_nextest(root) {
        vec!["nextest", "run", "--workspace", "--locked", "--test-threads", &threads]
    } else {
        vec!["test", "--workspace", "--all-targets", "--locked", "--no-fail-fast"]
    };
    let folder = create_memory_folder();
    let tests = run_cargo_test(root, &arguments, folder.as_ref().map(TempDir::path))?;
    let counts =
        TestCounts { passed: doctests.passed + tests.passed, failed: doctests.failed + tests.failed };
    // A runner that finds no tests succeeds, which would hide a wrong configuration.
    ensure!(tests != TestCounts::default(), "no test ran");
    let left = find_leaked();
    ensure!(left.is_empty(), "still running after the tests: {}", left.join("; "));
    Ok(counts)
}

fn has_nextest(root: &Path) -> bool {
    let version = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

/// Runs tests with cargo, with temporary files in `folder` if one is given, and counts the results.
fn run_cargo_test(root: &Path, arguments: &[&str], folder: Option<&Path>) -> Result<TestCounts> {
    // Both streams share one pipe, so their lines stay in order.
    let mut command = Command::new("sh");
    remove_package_variables(&mut command);
    let mut child = mark_descendants(&mut command)
        .envs(folder.map(|folder| ("TMPDIR", folder)))
        .current_dir(root)
        // `exec` replaces the shell, so the exit status is cargo's own.
        .args(["-c", r#"exec "$0" "$@" 2>&1"#, env!("CARGO")])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().context("its output is piped")?;
    let mut counts = TestCounts::default();
    for line in BufReader::new(output).lines() {
        let line = line?;
        println!("{line}");
        counts = add_summary(counts, &line);
    }
    let status = child.wait()?;
    ensure!(status.success() || counts.failed > 0, "`cargo {}` ended with {status}", arguments.join(" "));
    Ok(counts)
}

/// Adds the numbers in a summary line to the counts. The line is cargo's
/// (`test result: ok. 3 passed; 0 failed; …`) or nextest's
/// (`Summary [ 0.5s] 4 tests run: 3 passed (1 slow), 1 failed, 0 skipped`).
///
/// Nextest repeats the output of a failed test, including cargo's summary, but indented. Only an unindented
/// cargo line counts, so no test is counted twice.
fn add_summary(counts: TestCounts, line: &str) -> TestCounts {
    let closing = line.strip_prefix("test result: ").or_else(|| {
        let rest = line.trim_start().strip_prefix("Summary [")?;
        Some(rest.split_once("run: ")?.1)
    });
    let Some(closing) = closing else {
        return counts;
    };
    TestCounts {
        passed: counts.passed + number_before(closing, "passed"),
        // A test that timed out or leaked a process did not pass.
        failed: counts.failed + number_before(closing, "failed") + number_before(closing, "timed out"),
    }
}

/// Returns the number before `word`, or 0 if there is none.
fn number_before(text: &str, word: &str) -> u64 {
    let parts = text.split([',', ';', '.', '(', ')']).map(str::trim);
    let number =
        parts.filter_map(|part| part.strip_suffix(word)).find_map(|number| number.trim().parse().ok());
    number.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_lines_of_both_runners_are_counted() {
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
        let counts = lines.iter().fold(TestCounts::default(), |counts, line| add_summary(counts, line));
        assert_eq!(counts, TestCounts { passed: 19, failed: 6 });
        assert_eq!(counts.to_string(), "19 passed, 6 failed");
    }
}
