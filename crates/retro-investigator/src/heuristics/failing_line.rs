//! The line of a long log that says why the work failed.
//!
//! A log holds thousands of lines that look like errors: warnings, retries, what the runner says about the step that failed.
//! Every line gets a weight from the strongest sign that it shows; what only repeats that something failed ("exited with code
//! 1") weighs next to nothing, what comes after the runner has given up weighs less, and what stands right before it more. A
//! line that comes again is the last attempt's. The weights order the signs, no more; nothing is learnt.
//!
//! Time grows with the length of the log: one automaton runs over each line once, and the log is read from its end up to a
//! bound, where the failure is.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Regex, RegexSet};

use super::quote::head;

/// How much of a log is read, in bytes, from its end: 8 MiB take about a second, and a failure ends a log.
const LOG_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How much of a line is looked at, in characters: the rest is data.
const LINE_CHARS_MAX: usize = 1_000;
/// How many lines are told, the likeliest first.
const LINES_MAX: usize = 3;
/// A line that weighs less says nothing by itself.
const WEIGHT_MIN: i32 = 30;
/// The weight of a line that the runner marks as an error and that has no other sign.
const MARKED: i32 = 78;
/// What the runner's mark adds to a sign.
const MARKED_MORE: i32 = 6;
/// What a line gains right before the runner gives up, and how many lines that is.
const BEFORE_END: (i32, usize) = (15, 6);
/// What a line loses after it.
const AFTER_END: i32 = 40;

/// A line of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailingLine<'a> {
    /// Which line of the log, from 0.
    pub number: usize,
    /// Its words without time and runner's mark, verbatim.
    pub text: &'a str,
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("a constant pattern"));
    };
}

// What a runner puts in front of a line: colours, the time.
pattern!(
    FRONT,
    concat!(
        r"\A(?:\x{feff}|\x1b\[[0-9;?]*[A-Za-z]|\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?(?:Z|[+-][0-9:]{4,6})?\]?[ \t]|",
        r"[ \t])+"
    )
);
// The runner's own mark of an error: GitHub's, Azure's, GitLab's.
pattern!(MARK, r"\A(?:##\[error\]|::error[^:]{0,200}::|ERROR: Job failed: )");
// The runner gives the step up.
pattern!(
    END,
    concat!(
        r"\A(?:##\[error\]|::error::|Error: |ERROR: )?.{0,60}(?:Process completed with exit code|exited with code|",
        r"failed with exit code|Job failed: exit code)"
    )
);

/// Signs with their weights; of several the first in this order counts.
static SIGNS: LazyLock<(RegexSet, Vec<i32>)> = LazyLock::new(|| {
    let signs = [
        // Commands as they are echoed, headings, remarks.
        (r"\A(?:##\[(?:command|group|endgroup|warning|debug|section|notice)\]|\[command\]|\++ )", 0),
        (r"\A(?i:warning|info|debug|notice|trace)(?-u:\b)|(?i:(?-u:\b)warnings?:)", 0),
        // An exception says more than the exit status in it.
        (
            r"\A(?:[A-Za-z_][A-Za-z0-9_]*\.)*[A-Z][A-Za-z0-9_]*(?:Error|Exception): .*(?i:exit (?:code|status)|non-zero)",
            45,
        ),
        // What only says that something failed.
        (
            concat!(
                r"(?i)exit(?:ed with)? (?:code|status)|non-zero (?:exit|code)|container implementation failed|",
                r"make(?:\[[0-9]+\])?: \*\*\* \[|ninja: build stopped|npm err! (?:code|errno|a complete log)|",
                r"process '[^']*' failed|\Abuild failed|\AFAILED \("
            ),
            5,
        ),
        // The heading of a test that failed.
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
    let set = RegexSet::new(signs.map(|(sign, _)| sign)).expect("constant patterns");
    (set, signs.map(|(_, weight)| weight).to_vec())
});

/// The lines of a log that most likely say why the work failed, the likeliest first; empty when none says anything.
pub fn failing_lines(log: &str) -> Vec<FailingLine<'_>> {
    at_the_end(log, LOG_BYTES_MAX)
}

/// The same, of the last `bytes_max` bytes.
fn at_the_end(log: &str, bytes_max: usize) -> Vec<FailingLine<'_>> {
    let cut = log.ceil_char_boundary(log.len().saturating_sub(bytes_max));
    let skipped = log[..cut].matches('\n').count();
    let lines: Vec<&str> = log[cut..].split('\n').map(bare).collect();
    let end = lines.iter().position(|line| END.is_match(line)).unwrap_or(lines.len());
    // A line that comes again is the last attempt's.
    let mut last: HashMap<&str, (i32, usize)> = HashMap::new();
    for (at, line) in lines.iter().enumerate() {
        let weight = weight(line);
        if weight >= WEIGHT_MIN {
            last.insert(line, (weight + by_place(at, end), at));
        }
    }
    let mut found: Vec<_> = last.into_values().collect();
    found.sort_unstable_by_key(|(weight, at)| (-weight, *at));
    found.truncate(LINES_MAX);
    found.into_iter().map(|(_, at)| FailingLine { number: skipped + at, text: unmarked(lines[at]) }).collect()
}

/// The line without what the runner put in front of it.
pub(super) fn bare(line: &str) -> &str {
    let line = head(line, LINE_CHARS_MAX).trim_end();
    FRONT.find(line).map_or(line, |front| &line[front.end()..])
}

/// The line without the runner's mark.
fn unmarked(line: &str) -> &str {
    MARK.find(line).map_or(line, |mark| &line[mark.end()..])
}

fn weight(line: &str) -> i32 {
    let text = unmarked(line);
    let (signs, weights) = &*SIGNS;
    let sign = signs.matches(text).iter().next().map(|first| weights[first]);
    match (text.len() < line.len(), sign) {
        (true, None) => MARKED + MARKED_MORE,
        (true, Some(weight)) if weight >= WEIGHT_MIN => weight.max(MARKED) + MARKED_MORE,
        (_, sign) => sign.unwrap_or(0),
    }
}

fn by_place(at: usize, end: usize) -> i32 {
    if at > end {
        -AFTER_END
    } else if at < end && at + BEFORE_END.1 >= end {
        BEFORE_END.0
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
    fn the_cause_is_told_and_not_that_something_failed() {
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
    fn a_line_that_comes_again_is_the_last_attempts() {
        let log = "##[error]fatal: no such ref\nWaiting 18 seconds\n##[error]fatal: no such ref\ndone";
        assert_eq!(failing_lines(log), [FailingLine { number: 2, text: "fatal: no such ref" }]);
    }

    #[test]
    fn a_long_log_is_read_from_its_end() {
        let mut log = "Error: long ago\n".to_owned() + &"all is well hére\n".repeat(100);
        log.push_str("FAIL: TestX");
        let found = at_the_end(&log, 1_000);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].number, found[0].text), (log.lines().count() - 1, "FAIL: TestX"));
    }
}
