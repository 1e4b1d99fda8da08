//! Writes rows for a statement as one JSON array of arrays.

use serde::Serialize;

/// JSON array of rows, each an array of columns, built without a tree of values.
#[derive(Debug, Default)]
pub(crate) struct JsonRows {
    json: Vec<u8>,
}

impl JsonRows {
    /// Begins another row.
    pub(crate) fn begin_row(&mut self) {
        self.json.extend_from_slice(if self.json.is_empty() { b"[[" } else { b"],[" });
    }

    /// Adds a column to the row.
    pub(crate) fn push_column(&mut self, value: &impl Serialize) {
        if self.json.last() != Some(&b'[') {
            self.json.push(b',');
        }
        serde_json::to_writer(&mut self.json, value).expect("a column serializes to JSON");
    }

    /// Returns the JSON text.
    pub(crate) fn finish(mut self) -> String {
        self.json.extend_from_slice(if self.json.is_empty() { b"[]" } else { b"]]" });
        String::from_utf8(self.json).expect("JSON is UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_arrays_of_columns() {
        let mut rows = JsonRows::default();
        for (name, number) in [("[", Some(1)), ("\0", None)] {
            rows.begin_row();
            rows.push_column(&name);
            rows.push_column(&number);
        }
        assert_eq!(rows.finish(), r#"[["[",1],["\u0000",null]]"#);
        assert_eq!(JsonRows::default().finish(), "[]");
    }
}
