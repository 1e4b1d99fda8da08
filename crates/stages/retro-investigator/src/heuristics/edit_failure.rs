//! Recognises answers in which an editing tool reports that it changed nothing or broke the file.
//!
//! Such an answer often begins with what went well ("Applied edit to …"), so only known failure messages
//! decide: those of coding agents' editors (aider, the text editor tools of Claude and of SWE-agent,
//! `apply_patch`), of `git apply` and `patch`, and the flake8 codes E9 and F82, which mean that the code
//! cannot run and at which every Python editor stops.

use std::sync::LazyLock;

use regex::Regex;

/// Maximum number of lines of an answer that are searched. A refusal may follow a few lines about what
/// succeeded.
const LINES_MAX: usize = 60;

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

pattern!(
    REFUSED,
    concat!(
        r"\A(?:#+ )?(?:SearchReplaceNoExactMatch: |String to replace not found in|No replacement was performed|",
        r"Failed to find expected lines in|error: patch failed: |error: .{1,200}: patch does not apply|Hunk #\d+ FAILED at )"
    )
);
// Printed before the reason, so it decides only if no reason follows.
pattern!(UNREADABLE, r"\AThe LLM did not conform to the edit format");
pattern!(CANNOT_RUN, r"\A\S+\.py:\d+:\d+: (?:E9\d\d|F82[123]) ");

/// Returns the line, or the part of it, that says that an edit failed or broke the file.
pub(super) fn find_edit_failure(answer: &str) -> Option<&str> {
    let lines = || answer.lines().map(str::trim).take(LINES_MAX);
    let first = |pattern: &Regex| lines().find(|line| pattern.is_match(line));
    let refused = first(&REFUSED).map(|line| line.trim_start_matches(['#', ' ']));
    refused.or_else(|| first(&UNREADABLE)).or_else(|| {
        let line = first(&CANNOT_RUN)?;
        // Path, line and column are dropped, because they differ in every run.
        line.splitn(4, ':').nth(3).map(str::trim)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_edit_is_found_anywhere_in_the_answer() {
        for (answer, line) in [
            (
                "The LLM did not conform to the edit format.\n# 1 SEARCH/REPLACE block failed to match!\n\n## SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in a.py\n<<<<",
                Some("SearchReplaceNoExactMatch: This SEARCH block failed to exactly match lines in a.py"),
            ),
            (
                "The LLM did not conform to the edit format.\nI apologize.",
                Some("The LLM did not conform to the edit format."),
            ),
            (
                "Applied edit to a/b.py\n\n# Fix any errors below\n\na/b.py:27:14: F821 undefined name 'connection'",
                Some("F821 undefined name 'connection'"),
            ),
            ("a/b.py:27:80: E501 line too long", None),
            (
                "No replacement was performed, old_str `x` did not appear verbatim in /a.py.",
                Some("No replacement was performed, old_str `x` did not appear verbatim in /a.py."),
            ),
            ("Checking patch a.c...\nerror: patch failed: a.c:3", Some("error: patch failed: a.c:3")),
            ("Applied edit to a/b.py", None),
        ] {
            assert_eq!(find_edit_failure(answer), line, "{answer}");
        }
    }
}
