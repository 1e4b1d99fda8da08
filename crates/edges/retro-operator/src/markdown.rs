//! Writes GitHub-flavoured Markdown whose text from runs cannot produce links, mentions, images, HTML or table cells.

mod escape;

pub(crate) use escape::{EscapeContext, escape_markdown};

use crate::text;

/// Escapes text for use outside tables.
pub(crate) fn escape_text(text: &str) -> String {
    escape_markdown(text, EscapeContext::Line)
}

/// Renders a table with a header. Returns an empty string if there are no rows.
pub(crate) fn render_table<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut out = format!("| {} |\n|{}\n", head.join(" | "), "---|".repeat(N));
    for row in rows {
        let cells: Vec<_> = row.iter().map(|cell| escape_markdown(cell, EscapeContext::Cell)).collect();
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    out
}

/// Renders text as a code block, each line after an indentation. The fence is longer than any sequence of backticks
/// in the text, so the text cannot close it.
pub(crate) fn render_code_block(words: &str, indent: &str) -> String {
    let words = text::printable(words);
    let longest = words.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    // At least three backticks: fewer do not open a code block.
    let fence = "`".repeat(longest.max(2) + 1);
    let lines: String = words.lines().map(|line| format!("{indent}{line}\n")).collect();
    format!("{indent}{fence}text\n{lines}{indent}{fence}\n")
}

/// Renders one object, as it is shown on a terminal, as Markdown: a heading, and the text as a code block.
pub fn render_shown(noun: &str, id: &str, shown: &str) -> String {
    format!("# {} {}\n\n{}", escape_text(noun), escape_text(id), render_code_block(shown.trim_end(), ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_stays_in_its_cell_and_in_its_block() {
        let hostile = "a | b\n| c <img src=x> [l](https://evil.example) @all ```";
        let table = render_table(["id", "text"], &[["1".to_owned(), hostile.to_owned()]]);
        assert_eq!(table.lines().count(), 3, "{table}");
        for part in ["<img", " [l](http", " @all", "a | b"] {
            assert!(!table.contains(part), "{part}: {table}");
        }
        assert!(table.contains("\\|") && table.contains("`@all`"), "positive control: {table}");
        let block = render_shown("memory", "8aad0cee", "text\n````\n# not a heading");
        assert_eq!(block, "# memory 8aad0cee\n\n`````text\ntext\n````\n# not a heading\n`````\n");
        assert_eq!(render_table(["id"], &[]), "");
    }
}
