//! What an edit makes another, for people.

use similar::TextDiff;

/// Lines around what differs.
const AROUND: usize = 3;
/// Lines of a difference that are shown: some screenfuls; a whole payload may be another.
const LINES_MAX: usize = 400;

/// The unified difference of two texts that are shown, and are redacted.
pub(super) fn unified(before_name: &str, before: &str, after: &str) -> String {
    if before == after {
        return "(nothing that is shown differs: what changed is redacted, or white space)\n".to_owned();
    }
    let diff = TextDiff::from_lines(before, after);
    let whole = diff.unified_diff().context_radius(AROUND).header(before_name, "edited").to_string();
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
    fn a_difference_shows_what_changed_and_a_little_around_it() {
        let text = |value: &str| {
            (1..=20).map(|n| format!("line {n}{}\n", if n == 10 { value } else { "" })).collect::<String>()
        };
        insta::assert_snapshot!(unified("version 0", &text(""), &text(" is another")), @r"
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
        assert!(unified("version 0", "a", "a").starts_with("(nothing that is shown differs"));
        let long = |name: &str| (0..1000).map(|n| format!("{name} {n}\n")).collect::<String>();
        let cut = unified("version 0", &long("a"), &long("b"));
        assert!(cut.lines().count() == LINES_MAX + 1 && cut.ends_with("lines)\n"), "{cut}");
    }
}
