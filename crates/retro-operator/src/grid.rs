//! Tables for terminals.

use comfy_table::{ColumnConstraint, ContentArrangement, LineStyle, Table, TableStyle};
use retro_core::printable::make_printable;

/// The width that is used where there is no terminal to ask, columns.
pub const COLUMNS_WITHOUT_TERMINAL: u16 = 120;

/// The narrowest a table is drawn, columns: below it words would be cut letter by letter.
const COLUMNS_MIN: u16 = 60;

/// The width of the terminal on stdout, or [`COLUMNS_WITHOUT_TERMINAL`] when stdout is none.
pub fn terminal_columns() -> u16 {
    Table::new().width().unwrap_or(COLUMNS_WITHOUT_TERMINAL)
}

/// Columns of a bounded width that are read as one: ids are there to be copied, moments to be compared.
const WHOLE: &[&str] = &["id", "when", "received", "given up"];

/// A table with a header, wrapped to `columns`; without rows it is empty. The columns of [`WHOLE`] are never wrapped.
pub(crate) fn grid<const N: usize>(columns: u16, head: [&str; N], rows: Vec<[String; N]>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(columns.max(COLUMNS_MIN));
    table.set_header(head);
    // Before the columns are measured: a code is wider than what it stands for.
    table.add_rows(rows.into_iter().map(|row| row.map(|cell| make_printable(&cell).into_owned())));
    for (column, _) in table.column_iter_mut().zip(head).filter(|(_, name)| WHOLE.contains(name)) {
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
        let shown = grid(60, ["memory", "id"], vec![["a word ".repeat(20), id.to_owned()]]);
        assert!(shown.lines().count() > 5 && shown.contains(id), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
        assert_eq!(grid(60, ["memory", "id"], vec![]), "");
    }
}
