//! Recognises answers that are logs and end in an error.
//!
//! Such an answer begins with what went well, and the program that printed it stopped at its last lines. Only
//! the end is read, and only lines that begin with the words of an error count, after any prefix of the
//! runner (a timestamp, the number of a build step). The output of tools that fetch or print other people's
//! text may end in anything and is excluded.

use std::sync::LazyLock;

use regex::Regex;

use super::arguments::Arguments;
use super::failing_line::{failing_lines, strip_log_prefix};
use super::lookup;

/// Number of final lines that may contain the error. Some programs print a message after their error.
const LAST_LINES: usize = 3;
/// Maximum number of lines read from the end of an answer, including empty lines and hints.
const LINES_READ_MAX: usize = 40;

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

// Prefix of an image build: the number of the build step, and the seconds since the step began.
pattern!(NUMBERED, r"\A#[0-9]{1,4} (?:[0-9.]{1,10} )?");
pattern!(
    ERROR,
    concat!(
        r"\A(?:(?i:error|fatal error|fatal)(?:\[[A-Z]?[0-9]+\])?: \S|##\[error\]|make(?:\[[0-9]+\])?: \*\*\* |npm (?:ERR!|error) |E: [A-Z]|",
        r"(?:[A-Za-z_]+\.)*[A-Z]\w*(?:Error|Exception): )"
    )
);
// Hints that programs add after their error.
pattern!(ADDED, r"\A(?:(?i:hint|note|help|info): |= |For more information |See )");
// Message of pytest when it could not collect the tests, and the reason, in pytest's own words.
pattern!(NOT_COLLECTED, r"\A!+ Interrupted: [0-9]+ errors? during collection !+\z");
pattern!(WHY_NOT, r"\AE   +((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): .*)\z");
// Words that, in a line after the error, rule out that the work failed.
pattern!(WELL, r"(?i)\b(?:done|finished|succe\w+|ok|passed|saved|written|built)\b");
/// Words in the name of a tool that prints other people's text.
const SHOWING_TOOLS: &[&str] = &[
    "log", "logs", "diff", "download", "browse", "browser", "page", "web", "crawl", "scrape", "click",
    "visit", "print", "history",
];
/// Programs that print other people's text.
const SHOWING_PROGRAMS: &[&str] =
    &["echo", "printf", "curl", "wget", "journalctl", "diff", "dmesg", "ls", "find"];
const SHOWING_WORDS: &[&str] = &["log", "logs", "show", "diff", "blame", "history"];

/// Returns the line that says why the work failed if the answer is a log that ends in an error; otherwise
/// `None`.
pub(super) fn find_final_error<'a>(tool: &str, arguments: &Arguments, answer: &'a str) -> Option<&'a str> {
    if prints_foreign_text(tool, arguments) {
        return None;
    }
    // In reverse: `last[0]` is the last line, and `last[..at]` are the lines after the error.
    let tail = answer.lines().rev().take(LINES_READ_MAX).map(strip_step_number);
    let last: Vec<&str> =
        tail.filter(|line| !line.is_empty() && !ADDED.is_match(line)).take(LAST_LINES).collect();
    if last.iter().any(|line| NOT_COLLECTED.is_match(line)) {
        return answer
            .lines()
            .map(strip_step_number)
            .find_map(|line| Some(WHY_NOT.captures(line)?.get(1)?.as_str()));
    }
    let at = last.iter().position(|line| ERROR.is_match(line))?;
    let goes_on = last[..at].iter().any(|line| WELL.is_match(line));
    let why = || failing_lines(answer).first().map_or(last[at], |line| line.text);
    (answer.trim().contains('\n') && !goes_on).then(why)
}

/// Returns the line without the colours, timestamp and build-step number before it.
fn strip_step_number(line: &str) -> &str {
    let line = strip_log_prefix(line).trim();
    NUMBERED.find(line).map_or(line, |front| &line[front.end()..])
}

/// Returns `true` if the call prints other people's text, which may end in an error that the call did not
/// cause.
pub(super) fn prints_foreign_text(tool: &str, arguments: &Arguments) -> bool {
    let mut parts = tool.split(['_', '-', '.', ' ']).map(str::to_lowercase);
    lookup::is_lookup_name(tool)
        || parts.any(|part| SHOWING_TOOLS.contains(&part.as_str()))
        || arguments.as_command().is_some_and(|command| {
            let named = |word: &String| SHOWING_WORDS.contains(&word.as_str());
            command.sql
                || command.programs().any(|program| SHOWING_PROGRAMS.contains(&program))
                || command.words.iter().any(named)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn final_error(tool: &str, arguments: &str, answer: &str) -> Option<String> {
        find_final_error(tool, &Arguments::parse(arguments), answer).map(str::to_owned)
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
            assert_eq!(final_error("bash", arguments, answer).as_deref(), Some(line), "{answer}");
        }
    }

    #[test]
    fn other_answers_may_contain_error_lines() {
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
            assert_eq!(final_error(tool, arguments, answer), None, "{tool} {arguments} {answer}");
        }
        assert!(final_error("run", "{}", LOG).is_some());
    }
}
