//! Computes the unified diff that an edit returns.

use similar::TextDiff;

/// Number of lines of context around each change.
const CONTEXT_LINES: usize = 3;
/// Maximum number of lines in a diff: a few screens. An edit that replaces the whole payload may produce many
/// more.
const LINES_MAX: usize = 400;

/// Returns the unified diff of two redacted messages, cut after `LINES_MAX` lines.
pub(super) fn unified_diff(before_name: &str, before: &str, after: &str) -> String {
    // The messages are redacted, so a change within a secret is invisible.
    if before == after {
        return "(no visible difference: the change is redacted, or white space)\n".to_owned();
    }
    let diff = TextDiff::from_lines(before, after);
    let whole = diff.unified_diff().context_radius(CONTEXT_LINES).header(before_name, "edited").to_string();
    let lines = whole.lines().count();
    if lines <= LINES_MAX {
        return whole;
    }
    let first: Vec<_> = whole.lines().take(LINES_MAX).collect();
    format!("{}\n(the first {LINES_MAX} of {lines} lines)\n", first.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_changes_with_context() {
        let text = |value: &str| {
            (1..=20).map(|n| format!("line {n}{}\n", if n == 10 { value } else { "" })).collect::<String>()
        };
        insta::assert_snapshot!(unified_diff("version 0", &text(""), &text(" is another")), @r"
        --- version 0
        +++ edited
        @@ -7,7 +7,7 @@
         line 7
         line 8
         line 9
        -line 10
        +line 10 is another
         line 11
         line 12
         line 13
        ");
        assert!(unified_diff("version 0", "a", "a").starts_with("(no visible difference"));
        let long = |name: &str| (0..1000).map(|n| format!("{name} {n}\n")).collect::<String>();
        let cut = unified_diff("version 0", &long("a"), &long("b"));
        assert!(cut.lines().count() == LINES_MAX + 1 && cut.ends_with("lines)\n"), "{cut}");
    }
}
