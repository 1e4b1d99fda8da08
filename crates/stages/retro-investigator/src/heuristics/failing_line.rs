//! Finds the lines of a long log that say why the work failed.
//!
//! A log contains thousands of lines that look like errors: warnings, retries, and the runner's messages
//! about the failed step. Every line gets a score from its strongest sign. A line that only repeats that
//! something failed ("exited with code 1") scores near zero. Lines right before the runner gives up score
//! higher, and lines after that score lower. Of equal lines only the last one counts, because it belongs to
//! the last attempt. The scores were set by hand and only order the signs.
//!
//! The time is linear in the length of the log: one automaton scans each line once, and only the last
//! `LOG_BYTES_MAX` bytes are read, because the failure is at the end.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use super::quote::first_chars;

/// Maximum number of bytes read from the end of a log, where the failure is. Reading 8 MiB takes about a
/// second.
const LOG_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Maximum number of characters of a line that are considered; the rest of a longer line is data.
const LINE_CHARS_MAX: usize = 1_000;
/// Maximum number of failing lines returned for one log.
const LINES_MAX: usize = 3;
/// Minimum score of a line that explains the failure on its own.
const WEIGHT_MIN: i32 = 30;
/// Base score of a line that the runner marks as an error. A stronger sign in the line replaces the base
/// score.
const MARKED_WEIGHT: i32 = 78;
/// Score that the runner's error mark adds to the score of an informative line.
const MARK_BONUS: i32 = 6;
/// Score added to each line right before the runner gives up, and the number of such lines.
const BEFORE_END_BONUS: (i32, usize) = (15, 6);
/// Score subtracted from each line after the runner gave up.
const AFTER_END_PENALTY: i32 = 40;

/// Line of a log that says why the work failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailingLine<'a> {
    /// 0-based index of the line in the log.
    pub number: usize,
    /// Verbatim text of the line, without its timestamp and the runner's error mark.
    pub text: &'a str,
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

// Prefixes that runners put before a line: colours and timestamps.
pattern!(
    FRONT,
    concat!(
        r"\A(?:\x{feff}|\x1b\[[0-9;?]*[A-Za-z]|\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9:]{4,6})?\]?[ \t]|",
        r"[ \t])+"
    )
);
// Error marks of GitHub's, Azure's and GitLab's runners.
pattern!(MARK, r"\A(?:##\[error\]|::error[^:]{0,200}::|ERROR: Job failed: )");
// Lines with which the runner aborts the step.
pattern!(
    END,
    concat!(
        r"\A(?:##\[error\]|::error::|Error: |ERROR: )?.{0,60}(?:Process completed with exit code|exited with code|",
        r"failed with exit code|Job failed: exit code)"
    )
);

/// Signs with their scores. The first sign that matches a line decides.
static SIGNS: LazyLock<(RegexSet, Vec<i32>)> = LazyLock::new(|| {
    let signs = [
        // Echoed commands, headings and remarks.
        (r"\A(?:##\[(?:command|group|endgroup|warning|debug|section|notice)\]|\[command\]|\++ )", 0),
        (r"\A(?i:warning|info|debug|notice|trace)(?-u:\b)|(?i:(?-u:\b)warnings?:)", 0),
        // An exception with an exit status in it: the exception is more informative than the status.
        (
            r"\A(?:[A-Za-z_][A-Za-z0-9_]*\.)*[A-Z][A-Za-z0-9_]*(?:Error|Exception): .*(?i:exit (?:code|status)|non-zero)",
            45,
        ),
        // Lines that only say that something failed.
        (
            concat!(
                r"(?i)exit(?:ed with)? (?:code|status)|non-zero (?:exit|code)|container implementation failed|",
                r"make(?:\[[0-9]+\])?: \*\*\* \[|ninja: build stopped|npm err! (?:code|errno|a complete log)|",
                r"process '[^']*' failed|\Abuild failed|\AFAILED \("
            ),
            5,
        ),
        // Heading of a failed test.
        (r"\A_{3,} [^ ].* _{3,}\z|\A(?:ERROR|FAIL): [A-Za-z_][A-Za-z0-9_]* \(", 95),
        (r"\A(?:[^\s:]+:[0-9]+(?::[0-9]+)?|[^\s(]+\([0-9]+(?:,[0-9]+)?\)) ?: (?:fatal )?error(?-u:\b)", 92),
        (
            r"Received signal|Segmentation fault|SIG(?:SEGV|BUS|ABRT|KILL|ILL)|core dumped|[Oo]ut of memory|OOMKilled|panicked at",
            89,
        ),
        (
            r"\A(?:E  +)?(?:[A-Za-z_][A-Za-z0-9_]*\.)*[A-Z][A-Za-z0-9_]*(?:Error|Exception|Interrupt|Exit)(?:: |\z)",
            88,
        ),
        (r"!{4,} [A-Za-z]+ !{4,}", 88),
        (r"\Aerror(?:\[E[0-9]+\])?: ", 85),
        (r"\A(?:--- )?FAIL(?:ED)?(?-u:\b)|(?-u:\b)FAIL(?:ED)?:", 82),
        (r"\A(?i:fatal(?: error)?|error)(?-u:\b):? |\AError response|\Amake: \*\*\* ", 80),
        (
            concat!(
                r"(?i)(?-u:\b)(?:cannot|can't|could ?n[o']t|couldn't|unable to|not found|denied|refused|refusing|exceeded|",
                r"missing|not authorized|no such|mismatch|conflict|dirty|out of sync|timed out|is required|unexpected|",
                r"invalid|failed|failure|unhealthy|cancell?ed)(?-u:\b)"
            ),
            50,
        ),
        (r"(?i)(?-u:\b)error(?-u:\b)", 35),
    ];
    let set = RegexSet::new(signs.map(|(sign, _)| sign)).expect("constant patterns compile");
    (set, signs.map(|(_, weight)| weight).to_vec())
});

/// Returns the lines of a log that probably say why the work failed, most likely first; empty if no line
/// explains it.
pub fn failing_lines(log: &str) -> Vec<FailingLine<'_>> {
    failing_lines_of_tail(log, LOG_BYTES_MAX, None)
}

/// Returns the same as [`failing_lines`] if one sign were not known: its index, as returned by [`sign_of_line`]. For
/// measuring what a sign adds.
pub fn failing_lines_without_sign(log: &str, sign: usize) -> Vec<FailingLine<'_>> {
    failing_lines_of_tail(log, LOG_BYTES_MAX, Some(sign))
}

/// Returns the index of the sign by which a line of a log is judged; `None` if it has none.
pub fn sign_of_line(line: &str) -> Option<usize> {
    find_sign(strip_error_mark(strip_log_prefix(line)), None)
}

/// Returns the failing lines among the last `bytes_max` bytes of a log. The sign `left_out` is ignored.
fn failing_lines_of_tail(log: &str, bytes_max: usize, left_out: Option<usize>) -> Vec<FailingLine<'_>> {
    // The cut may fall inside a character, and slicing there would panic.
    let cut = log.ceil_char_boundary(log.len().saturating_sub(bytes_max));
    let skipped = log[..cut].matches('\n').count();
    let lines: Vec<&str> = log[cut..].split('\n').map(strip_log_prefix).collect();
    let end = lines.iter().position(|line| END.is_match(line)).unwrap_or(lines.len());
    // The last of several equal lines overwrites the others, because it belongs to the last attempt.
    let mut last: HashMap<&str, (i32, usize)> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        let weight = weigh_line(line, left_out);
        if weight >= WEIGHT_MIN {
            last.insert(line, (weight + weight_by_position(at, end), at));
        }
    }
    let mut found: Vec<_> = last.into_values().collect();
    // The position breaks ties, because the order of a `HashMap` differs between processes.
    found.sort_unstable_by_key(|(weight, at)| (-weight, *at));
    found.truncate(LINES_MAX);
    found
        .into_iter()
        .map(|(_, at)| FailingLine { number: skipped + at, text: strip_error_mark(lines[at]) })
        .collect()
}

/// Returns the line without the colours and timestamp that a runner puts before it.
pub(crate) fn strip_log_prefix(line: &str) -> &str {
    let line = first_chars(line, LINE_CHARS_MAX).trim_end();
    FRONT.find(line).map_or(line, |front| &line[front.end()..])
}

/// Returns the line without the runner's error mark.
fn strip_error_mark(line: &str) -> &str {
    MARK.find(line).map_or(line, |mark| &line[mark.end()..])
}

/// Returns the index of the first sign that matches a line without its marks, other than `left_out`.
fn find_sign(text: &str, left_out: Option<usize>) -> Option<usize> {
    SIGNS.0.matches(text).iter().find(|sign| Some(*sign) != left_out)
}

fn weigh_line(line: &str, left_out: Option<usize>) -> i32 {
    let text = strip_error_mark(line);
    let sign = find_sign(text, left_out).map(|first| SIGNS.1[first]);
    match (text.len() < line.len(), sign) {
        (true, None) => MARKED_WEIGHT + MARK_BONUS,
        (true, Some(weight)) if weight >= WEIGHT_MIN => weight.max(MARKED_WEIGHT) + MARK_BONUS,
        (_, sign) => sign.unwrap_or(0),
    }
}

fn weight_by_position(at: usize, end: usize) -> i32 {
    if at > end {
        -AFTER_END_PENALTY
    } else if at < end && at + BEFORE_END_BONUS.1 >= end {
        BEFORE_END_BONUS.0
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(log: &str) -> &str {
        failing_lines(log).first().map_or("", |line| line.text)
    }

    #[test]
    fn the_cause_ranks_above_the_report_of_failure() {
        let build = "2026-01-02T03:04:05.6Z Building\nsrc/a.c:3:7: error: 'x' undeclared\n   3 | x\nmake: *** [a.o] Error 1\n\
                     2026-01-02T03:04:06.6Z ##[error]Process completed with exit code 2.\nerror: cannot clean up";
        let found = failing_lines(build);
        assert_eq!((found[0].number, found[0].text), (1, "src/a.c:3:7: error: 'x' undeclared"));
        assert_eq!(
            first("ok\nWARNING: error rate is unknown\nValueError: no key\n+ exit 1"),
            "ValueError: no key"
        );
        assert_eq!(first("all\nis\nwell"), "");
        assert_eq!(first(""), "");
    }

    #[test]
    fn the_last_of_equal_lines_wins() {
        let log = "##[error]fatal: no such ref\nWaiting 18 seconds\n##[error]fatal: no such ref\ndone";
        assert_eq!(failing_lines(log), [FailingLine { number: 2, text: "fatal: no such ref" }]);
    }

    #[test]
    fn a_long_log_is_read_from_its_end() {
        let mut log = "Error: long ago\n".to_owned() + &"all is well hére\n".repeat(100);
        log.push_str("FAIL: TestX");
        let found = failing_lines_of_tail(&log, 1_000, None);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].number, found[0].text), (log.lines().count() - 1, "FAIL: TestX"));
    }
}
