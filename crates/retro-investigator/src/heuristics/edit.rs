//! What tools that change files say when they changed nothing, or what they changed cannot be read any more.
//!
//! Such an answer often begins with what went well ("Applied edit to …"), so that only these words tell: coding agents'
//! editors (aider, the text editor tools of Claude and of SWE-agent, `apply_patch`), `git apply` and `patch`, and the two
//! classes of flake8 that every Python editor stops at (E9, F82: code that cannot run).

use std::sync::LazyLock;

use regex::Regex;

/// The most lines of an answer that are looked at: what was refused follows a few words on what was not.
const LINES_MAX: usize = 60;

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("a constant pattern"));
    };
}

pattern!(
    REFUSED,
    concat!(
        r"\A(?:#+ )?(?:SearchReplaceNoExactMatch: |String to replace not found in|No replacement was performed|",
        r"Failed to find expected lines in|error: patch failed: |error: .{1,200}: patch does not apply|Hunk #\d+ FAILED at )"
    )
);
// Said before the reason, where there is one.
pattern!(UNREADABLE, r"\AThe LLM did not conform to the edit format");
pattern!(CANNOT_RUN, r"\A\S+\.py:\d+:\d+: (?:E9\d\d|F82[123]) ");

/// The words that say that an edit came to nothing or broke the file; `None` when nothing does.
pub(super) fn refusal(answer: &str) -> Option<&str> {
    let lines = || answer.lines().map(str::trim).take(LINES_MAX);
    let first = |pattern: &Regex| lines().find(|line| pattern.is_match(line));
    let refused = first(&REFUSED).map(|line| line.trim_start_matches(['#', ' ']));
    refused.or_else(|| first(&UNREADABLE)).or_else(|| {
        let line = first(&CANNOT_RUN)?;
        // The place is another one in every run.
        line.splitn(4, ':').nth(3).map(str::trim)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_that_came_to_nothing_is_seen_wherever_it_is_said() {
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
            assert_eq!(refusal(answer), line, "{answer}");
        }
    }
}
