//! Answers that are the log of some work and end in an error.
//!
//! Such an answer begins with what went well, so that its first words say nothing; the program that printed it stopped at its
//! last ones. Only the end counts, and only in the words that errors begin with, behind whatever a runner puts in front of a
//! line (a time, the number of a build's step). What tools fetch or print for others to read may end in anything.

use std::sync::LazyLock;

use regex::Regex;

use super::arguments::Arguments;
use super::failing_line::{bare, failing_lines};
use super::lookup;

/// How many of the last lines are looked at: some programs say a word more after their error.
const LAST_LINES: usize = 3;
/// How many lines are read from the end to find them between empty ones and hints.
const LINES_READ_MAX: usize = 40;

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("a constant pattern"));
    };
}

// The number of a step, as an image's build has it, and the seconds since it began.
pattern!(NUMBERED, r"\A#[0-9]{1,4} (?:[0-9.]{1,10} )?");
pattern!(
    ERROR,
    concat!(
        r"\A(?:(?i:error|fatal error|fatal)(?:\[[A-Z]?[0-9]+\])?: \S|##\[error\]|make(?:\[[0-9]+\])?: \*\*\* |npm (?:ERR!|error) |E: [A-Z]|",
        r"(?:[A-Za-z_]+\.)*[A-Z]\w*(?:Error|Exception): )"
    )
);
// What programs add to their error for whoever reads it.
pattern!(ADDED, r"\A(?:(?i:hint|note|help|info): |= |For more information |See )");
// The runner of tests that could not even collect them, and why: Python's pytest, in its own fixed words.
pattern!(NOT_COLLECTED, r"\A!+ Interrupted: [0-9]+ errors? during collection !+\z");
pattern!(WHY_NOT, r"\AE   +((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): .*)\z");
// What nobody says whose work has failed.
pattern!(WELL, r"(?i)\b(?:done|finished|succe\w+|ok|passed|saved|written|built)\b");
/// Words of a tool's name that say that it shows what others wrote.
const SHOWING_TOOLS: &[&str] = &[
    "log", "logs", "diff", "download", "browse", "browser", "page", "web", "crawl", "scrape", "click",
    "visit", "print", "history",
];
/// Programs, and what others are told to do, of which the same is true.
const SHOWING_PROGRAMS: &[&str] =
    &["echo", "printf", "curl", "wget", "journalctl", "diff", "dmesg", "ls", "find"];
const SHOWING_WORDS: &[&str] = &["log", "logs", "show", "diff", "blame", "history"];

/// The words that say why the work failed, of a log that ends in an error; `None` for every other answer.
pub(super) fn error<'a>(tool: &str, arguments: &Arguments, answer: &'a str) -> Option<&'a str> {
    if shows(tool, arguments) {
        return None;
    }
    // The last line first.
    let tail = answer.lines().rev().take(LINES_READ_MAX).map(said);
    let last: Vec<&str> =
        tail.filter(|line| !line.is_empty() && !ADDED.is_match(line)).take(LAST_LINES).collect();
    if last.iter().any(|line| NOT_COLLECTED.is_match(line)) {
        return answer.lines().map(said).find_map(|line| Some(WHY_NOT.captures(line)?.get(1)?.as_str()));
    }
    let at = last.iter().position(|line| ERROR.is_match(line))?;
    let goes_on = last[..at].iter().any(|line| WELL.is_match(line));
    let why = || failing_lines(answer).first().map_or(last[at], |line| line.text);
    (answer.trim().contains('\n') && !goes_on).then(why)
}

/// A line without what the runner put in front of it.
fn said(line: &str) -> &str {
    let line = bare(line).trim();
    NUMBERED.find(line).map_or(line, |front| &line[front.end()..])
}

/// Whether the call shows what others wrote: its answer may end in an error of theirs.
pub(super) fn shows(tool: &str, arguments: &Arguments) -> bool {
    let mut parts = tool.split(['_', '-', '.', ' ']).map(str::to_lowercase);
    lookup::names_looking(tool)
        || parts.any(|part| SHOWING_TOOLS.contains(&part.as_str()))
        || arguments.command().is_some_and(|command| {
            let named = |word: &String| SHOWING_WORDS.contains(&word.as_str());
            command.sql
                || command.programs().any(|program| SHOWING_PROGRAMS.contains(&program))
                || command.words.iter().any(named)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(tool: &str, arguments: &str, answer: &str) -> Option<String> {
        error(tool, &Arguments::read(arguments), answer).map(str::to_owned)
    }

    #[test]
    fn a_log_that_ends_in_an_error_says_why_the_work_failed() {
        for (arguments, answer, line) in [
            (
                "{}",
                "[2026-11-03T02:11:09Z] pulling the image\n[2026-11-03T02:11:41Z] Error: no space for layer 3",
                "Error: no space for layer 3",
            ),
            (
                "cargo check -p a",
                "   Compiling a v0.1.0\nerror[E0432]: unresolved import `b`\n --> a/src/lib.rs:3:5\n  |\nerror: could not compile `a` (lib) due to 1 previous error",
                "error[E0432]: unresolved import `b`",
            ),
            (
                "docker build .",
                "#5 [2/4] COPY . /app\n#6 ERROR: process \"make\" did not complete successfully: exit code: 1\nexec /bin/sh: exec format error",
                "exec /bin/sh: exec format error",
            ),
            (
                "make",
                "cc a.c\na.c:3:10: fatal error: b.h: No such file or directory\nmake: *** [a.o] Error 1",
                "a.c:3:10: fatal error: b.h: No such file or directory",
            ),
            (
                "pytest -q",
                "collected 0 items / 1 error\n\n___ ERROR collecting tests/a.py ___\nE   ModuleNotFoundError: No module named 'src'\n=== short test summary info ===\nERROR tests/a.py\n!!!!!!!! Interrupted: 1 error during collection !!!!!!!!\n1 error in 0.31s",
                "ModuleNotFoundError: No module named 'src'",
            ),
            (
                "git push",
                "To example.org:a/b.git\n ! [rejected] main -> main (fetch first)\nerror: failed to push some refs to 'example.org:a/b.git'\nhint: Updates were rejected\nhint: because the remote\nhint: contains work",
                "error: failed to push some refs to 'example.org:a/b.git'",
            ),
            (
                "apt-get install x",
                "Reading package lists...\nBuilding dependency tree...\nE: Unable to locate package x",
                "E: Unable to locate package x",
            ),
            ("python load.py", "read 3 rows\nValueError: row 4 is empty", "ValueError: row 4 is empty"),
        ] {
            assert_eq!(told("bash", arguments, answer).as_deref(), Some(line), "{answer}");
        }
    }

    #[test]
    fn other_answers_may_hold_any_line() {
        const LOG: &str = "started\nError: disk full";
        for (tool, arguments, answer) in [
            ("run", "{}", "Error: row 3 is empty, left out\nwritten 17 rows"),
            ("run", "{}", "1: Error: x\n2: a\n3: b\n4: c\n5: d"),
            ("bash", "pytest", "E   ValueError: not 3\n=== 1 failed, 211 passed in 0.31s ==="),
            ("run", "{}", "Errors: 0\nWarnings: 3"),
            ("run", "{}", "it said\nno error: all is well"),
            ("download_log", "{}", LOG),
            ("get_build", "{}", LOG),
            ("bash", "kubectl logs web", LOG),
            ("bash", "git show HEAD", LOG),
            ("mysql", "SELECT line FROM t", LOG),
        ] {
            assert_eq!(told(tool, arguments, answer), None, "{tool} {arguments} {answer}");
        }
        assert!(told("run", "{}", LOG).is_some());
    }
}
