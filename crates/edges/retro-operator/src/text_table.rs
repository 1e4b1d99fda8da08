//! Renders tables, for terminals and as Markdown.

use comfy_table::{ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};
use retro_core::printable::make_printable;

use crate::markdown;

/// Table width in columns if stdout is not a terminal.
pub const COLUMNS_WITHOUT_TERMINAL: u16 = 120;

/// Minimum table width in columns; a narrower table would break words apart.
const COLUMNS_MIN: u16 = 60;

/// Returns the width of the terminal on stdout, or [`COLUMNS_WITHOUT_TERMINAL`] if stdout is not a terminal.
pub fn terminal_columns() -> u16 {
    Table::new().width().unwrap_or(COLUMNS_WITHOUT_TERMINAL)
}

/// Headers of the columns that are never wrapped, because people copy ids and compare timestamps.
const UNWRAPPED_COLUMNS: &[&str] = &["id", "when", "received", "rejected"];

/// Form in which tables are rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// For a terminal of this width, in columns.
    Terminal(u16),
    /// As a table of GitHub-flavoured Markdown.
    Markdown,
}

impl From<u16> for Layout {
    fn from(columns: u16) -> Self {
        Self::Terminal(columns)
    }
}

/// Renders a table with a header. On a terminal it is wrapped to the width of the layout, and the columns named in
/// [`UNWRAPPED_COLUMNS`] are never wrapped. Returns an empty string if there are no rows.
pub(crate) fn render_table<const N: usize>(
    layout: impl Into<Layout>,
    head: [&str; N],
    rows: Vec<[String; N]>,
) -> String {
    let columns = match layout.into() {
        Layout::Markdown => return markdown::render_table(head, &rows),
        Layout::Terminal(columns) => columns,
    };
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns.max(COLUMNS_MIN));
    table.set_header(head);
    // Escape before the columns are measured: an escape sequence is wider than the character it replaces.
    table.add_rows(rows.into_iter().map(|row| row.map(|cell| make_printable(&cell).into_owned())));
    for (column, _) in table.column_iter_mut().zip(head).filter(|(_, name)| UNWRAPPED_COLUMNS.contains(name))
    {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    format!("{}\n", table.trim_fmt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_wrapped_and_an_id_is_not() {
        let id = "34a602e3-e256-8691-85bf-68c6c11e0f42";
        let shown = render_table(60_u16, ["memory", "id"], vec![["a word ".repeat(20), id.to_owned()]]);
        assert!(shown.lines().count() > 5 && shown.contains(id), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
        assert_eq!(render_table(60_u16, ["memory", "id"], vec![]), "");
    }
}
