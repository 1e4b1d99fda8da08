//! Parses the reports of compilers, linters and test runners: diagnostics with their locations, and test
//! counts.
//!
//! Most tools put the location before the message, in one of a few spellings, so one parser serves all of
//! them. Reports in documents (XML, JSON) or over several lines are not parsed. A test runner ends with a
//! line of counts; the last such line of an output is used.
//!
//! Linear-time automata match every line once, and the numbers of lines and diagnostics are bounded.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::quote::first_chars;

/// Maximum number of lines of an output that are read. Even the build of a large project prints fewer.
const LINES_MAX: usize = 100_000;
/// Maximum number of diagnostics returned for one output. A lesson only mentions their number.
const PLACES_MAX: usize = 10_000;
/// Maximum number of characters of a line that are read.
const LINE_CHARS_MAX: usize = 1_000;

/// Diagnostic that a tool reports about a location in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Diagnostic<'a> {
    /// Path of the file, as printed by the tool.
    pub file: &'a str,
    /// 1-based line number.
    pub line: u32,
    /// Message of the tool about the location.
    pub message: &'a str,
}

/// Numbers of tests by result, as reported by a test runner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TestCounts {
    /// Number of tests that passed.
    pub passed: u32,
    /// Number of tests whose assertions failed.
    pub failed: u32,
    /// Number of tests that did not run to completion.
    pub errors: u32,
    /// Number of tests that were skipped.
    pub skipped: u32,
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

// `src/a.c:3:7: error: …`, `.env:1 …`, `a.php:63:…`; a file name without dot or slash needs line and column.
pattern!(
    IN_FRONT,
    concat!(
        r"\A[ \t]*(?:\[(?:error|warn|warning|ERROR|WARNING)\] )?(?:",
        r"([^\s:()\[\]|]*[./][^\s:()\[\]|]*):([0-9]{1,7})(?::[0-9]{1,6})?(?::[ \t]*|[ \t]+)|",
        r"([A-Za-z][^\s:()\[\]|]*):([0-9]{1,7}):[0-9]{1,6}:[ \t]*)([^\s].*)\z"
    )
);
// `a.ts(3,13): error …`, `a.ts[418, 38]: …`.
pattern!(
    IN_BRACKETS,
    r"\A[ \t]*([^\s:()\[\]|]*[./][^\s:()\[\]|]*)[(\[]([0-9]{1,7})(?:, ?[0-9]{1,6})?[)\]][ \t]*:[ \t]*([^\s].*)\z"
);
// Remark on the preceding diagnostic.
pattern!(REMARK, r"\A(?:note|help|info):");
// Colour codes of a terminal.
pattern!(COLOUR, r"\x1b\[[0-9;?]*[A-Za-z]");
// Lines with counts, by runner.
pattern!(
    PYTEST,
    r"\A=+ (?:.*, )?[0-9]+ (?:passed|failed|errors?|skipped|xfailed|xpassed|warnings?|deselected)(?:, .*)? in [0-9.]+ ?s"
);
pattern!(SYMPY, r"\A\s*tests finished: (.*)\z");
pattern!(CARGO, r"\Atest result: (?:ok|FAILED)\. (.*)\z");
pattern!(JEST, r"\ATests: +(.*)\z");
pattern!(MAVEN, r"Tests run: ([0-9]+), Failures: ([0-9]+), Errors: ([0-9]+)(?:, Skipped: ([0-9]+))?");
pattern!(UNITTEST_RAN, r"\ARan ([0-9]+) tests? in ");
pattern!(UNITTEST_END, r"\A(?:OK|FAILED)(?: \((.*)\))?\z");
pattern!(COUNTED, r"([0-9]+) (passed|failed|errors?|exceptions?|skipped|ignored|todo)(?-u:\b)");
pattern!(KEYED, r"(failures|errors|skipped)=([0-9]+)");

/// Parses the diagnostics in an output, in the order of its lines.
pub fn find_diagnostics(output: &str) -> Vec<Diagnostic<'_>> {
    let lines = output.lines().take(LINES_MAX).map(|line| first_chars(line, LINE_CHARS_MAX).trim_end());
    lines.filter_map(parse_diagnostic).take(PLACES_MAX).collect()
}

fn parse_diagnostic(line: &str) -> Option<Diagnostic<'_>> {
    let part = |found: &Captures<'_>, nth: usize| found.get(nth).map(|part| &line[part.range()]);
    let (file, number, message) = if let Some(found) = IN_FRONT.captures(line) {
        (part(&found, 1).or(part(&found, 3))?, part(&found, 2).or(part(&found, 4))?, part(&found, 5)?)
    } else {
        let found = IN_BRACKETS.captures(line)?;
        (part(&found, 1)?, part(&found, 2)?, part(&found, 3)?)
    };
    // Times and addresses have digits around the colon, but no letters before it. Remarks belong to the
    // preceding diagnostic.
    let is_name = file.chars().any(char::is_alphabetic);
    let stands = is_name && !REMARK.is_match(message);
    stands.then_some(Diagnostic { file, line: number.parse().ok()?, message })
}

/// Parses the counts from the last line of an output that contains counts. Returns `None` if no line does.
pub fn parse_test_counts(output: &str) -> Option<TestCounts> {
    let mut counts = None;
    let mut ran = None;
    for line in output.lines().take(LINES_MAX) {
        let line = first_chars(line.trim_end(), LINE_CHARS_MAX);
        let line = if line.contains('\x1b') { COLOUR.replace_all(line, "") } else { line.into() };
        let line: &str = &line;
        if PYTEST.is_match(line) {
            counts = Some(parse_counts(line));
        } else if let Some(found) =
            [&SYMPY, &CARGO, &JEST].into_iter().find_map(|pattern| pattern.captures(line))
        {
            counts = Some(parse_counts(&found[1]));
        } else if let Some(found) = MAVEN.captures(line) {
            counts = Some(counts_from_maven(&found));
        } else if let Some(found) = UNITTEST_RAN.captures(line) {
            ran = found[1].parse::<u32>().ok();
        } else if let (Some(all), Some(found)) = (ran, UNITTEST_END.captures(line)) {
            counts = Some(counts_from_unittest(all, found.get(1).map_or("", |part| part.as_str())));
            ran = None;
        }
    }
    counts
}

fn parse_counts(text: &str) -> TestCounts {
    let mut counts = TestCounts::default();
    for found in COUNTED.captures_iter(text) {
        let number = parse_count(&found[1]);
        match &found[2] {
            "passed" => counts.passed += number,
            "failed" => counts.failed += number,
            "skipped" | "ignored" | "todo" => counts.skipped += number,
            _ => counts.errors += number,
        }
    }
    counts
}

fn counts_from_maven(found: &Captures<'_>) -> TestCounts {
    let at = |nth: usize| found.get(nth).map_or(0, |part| parse_count(part.as_str()));
    let (failed, errors, skipped) = (at(2), at(3), at(4));
    TestCounts { passed: at(1).saturating_sub(failed + errors + skipped), failed, errors, skipped }
}

fn counts_from_unittest(ran: u32, text: &str) -> TestCounts {
    let mut counts = TestCounts::default();
    for found in KEYED.captures_iter(text) {
        match &found[1] {
            "failures" => counts.failed = parse_count(&found[2]),
            "errors" => counts.errors = parse_count(&found[2]),
            _ => counts.skipped = parse_count(&found[2]),
        }
    }
    counts.passed = ran.saturating_sub(counts.failed + counts.errors + counts.skipped);
    counts
}

/// Parses a count. Returns 0 if it is not a number or exceeds 10,000,000, which keeps the sums of a line
/// within `u32`.
fn parse_count(digits: &str) -> u32 {
    digits.parse::<u32>().ok().filter(|number| *number <= 10_000_000).unwrap_or(0)
}

/// Summarises the report of an output in one sentence. Returns `None` if the output reports no problem.
pub(super) fn summarize_output(output: &str) -> Option<String> {
    if let Some(TestCounts { passed, failed, errors, skipped }) = parse_test_counts(output) {
        let all = passed + failed + errors + skipped;
        return (failed + errors > 0).then(|| format!("{} of {all} tests did not pass.", failed + errors));
    }
    // Only the number: the names of files are the tool's words.
    let places = find_diagnostics(output).len();
    (places > 1).then(|| format!("It named {places} places."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_parsed_in_each_spelling() {
        for (line, file, number, message) in [
            ("src/a.c:3:7: error: x", "src/a.c", 3, "error: x"),
            (".env:1 Leading space", ".env", 1, "Leading space"),
            ("a/b.php:63:Call to x", "a/b.php", 63, "Call to x"),
            ("Gemfile:4:1: C: Extra line", "Gemfile", 4, "C: Extra line"),
            ("  /p/a.js:4:12: Missing space", "/p/a.js", 4, "Missing space"),
            ("a.ts(3,13): error TS7006: y", "a.ts", 3, "error TS7006: y"),
            ("p/a.ts[418, 38]: ' should be", "p/a.ts", 418, "' should be"),
            ("v/a.slim:16 [W] Long", "v/a.slim", 16, "[W] Long"),
        ] {
            assert_eq!(find_diagnostics(line), [Diagnostic { file, line: number, message }], "{line}");
        }
        for line in [
            "12:30:01 all is well",
            "127.0.0.1:80 is open",
            "https://example.org:80/x y",
            "a.c:3:7: note: declared here",
            "    at Object.next (/a/b.js:3:4)",
            "Linting 1 files",
            "",
        ] {
            assert_eq!(find_diagnostics(line), [], "{line}");
        }
    }

    #[test]
    fn tests_are_counted_as_each_runner_counts() {
        let counts = |passed, failed, errors, skipped| Some(TestCounts { passed, failed, errors, skipped });
        for (output, expected) in [
            ("==== 2 failed, 46 passed, 3 skipped in 22.28s ====", counts(46, 2, 0, 3)),
            (
                "\x1b[31m=== \x1b[33m7 warnings\x1b[0m, \x1b[31m1 error\x1b[0m in 0.41s ===",
                counts(0, 0, 1, 0),
            ),
            ("=== 56 passed, 1 warnings in 1.55 seconds ===", counts(56, 0, 0, 0)),
            ("Ran 157 tests in 1.893s\n\nFAILED (failures=2, errors=1)", counts(154, 2, 1, 0)),
            ("Ran 3 tests in 0.1s\n\nOK", counts(3, 0, 0, 0)),
            (" tests finished: 854 passed, 1 failed, 63 skipped,", counts(854, 1, 0, 63)),
            ("test result: FAILED. 7 passed; 2 failed; 1 ignored; 0 measured", counts(7, 2, 0, 1)),
            ("Tests:       1 failed, 5 passed, 6 total", counts(5, 1, 0, 0)),
            ("[ERROR] Tests run: 9, Failures: 1, Errors: 2, Skipped: 3", counts(3, 1, 2, 3)),
            ("OK", None),
            ("all is well", None),
        ] {
            assert_eq!(parse_test_counts(output), expected, "{output}");
        }
        assert_eq!(
            summarize_output("==== 2 failed, 46 passed in 1s ====").as_deref(),
            Some("2 of 48 tests did not pass.")
        );
        assert_eq!(summarize_output("==== 46 passed in 1s ===="), None);
        let places = "a.c:3:7: error: x\na.c:4:7: error: y";
        assert_eq!(summarize_output(places).as_deref(), Some("It named 2 places."));
    }
}
