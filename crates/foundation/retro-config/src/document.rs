//! Parses TOML files into entries with line numbers, so each mistake can be reported with its line.

use std::path::Path;

use toml::de::DeTable;
use toml::{Table, Value};

use crate::problem::{Problems, format_place};

/// Maximum size of a TOML file, in bytes. A larger file is surely not a configuration file.
const BYTES_MAX: u64 = 1024 * 1024;

/// A value in a TOML file, with its key and line.
#[derive(Debug, Clone, PartialEq)]
pub struct TomlEntry {
    /// Names of the enclosing tables, followed by the key.
    pub path: Vec<String>,
    /// 1-based line number of the key.
    pub line: usize,
    /// Value as written in the file.
    pub value: Value,
}

/// Reads a file into a string. Fails if the file cannot be read or is too large; the error contains the path.
pub fn read_document(path: &Path) -> Result<String, Problems> {
    let size = std::fs::metadata(path).map(|file| file.len());
    let text = size.and_then(|bytes| match bytes {
        0..=BYTES_MAX => std::fs::read_to_string(path),
        _ => Err(std::io::Error::other(format!("{bytes} bytes, more than {BYTES_MAX}"))),
    });
    text.map_err(|error| Problems::from_sentence(format!("cannot read {}: {error}", path.display())))
}

/// Returns the entries of a file, sorted by line. Tables are expanded down to `depth` levels. Fails with the
/// line number if the text is not valid TOML.
pub fn parse_entries(path: &Path, text: &str, depth: usize) -> Result<Vec<TomlEntry>, Problems> {
    let to_problem = |error: toml::de::Error| {
        // Uses only the message, because the full error quotes the line, which may contain a secret.
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        Problems::from_sentence(format!(
            "{}: {}",
            format_place(path, line),
            error.message().replace('\n', ", ")
        ))
    };
    let spans = DeTable::parse(text).map_err(to_problem)?;
    let values: Table = text.parse().map_err(to_problem)?;
    let mut entries = Vec::new();
    collect_entries(text, spans.get_ref(), &values, depth, &mut Vec::new(), &mut entries);
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

fn collect_entries(
    text: &str,
    spans: &DeTable<'_>,
    values: &Table,
    depth: usize,
    within: &mut Vec<String>,
    entries: &mut Vec<TomlEntry>,
) {
    for (key, span) in spans {
        let name = key.get_ref().as_ref();
        let Some(value) = values.get(name) else { continue };
        within.push(name.to_owned());
        match (span.get_ref().as_table(), value.as_table()) {
            // An empty table becomes an entry of its own; otherwise a table in place of a number would be
            // dropped without an error.
            (Some(spans), Some(values)) if within.len() < depth && !values.is_empty() => {
                collect_entries(text, spans, values, depth, within, entries);
            }
            _ => {
                let line = line_of(text, key.span().start);
                entries.push(TomlEntry { path: within.clone(), line, value: value.clone() });
            }
        }
        within.pop();
    }
}

fn line_of(text: &str, byte: usize) -> usize {
    text.as_bytes()[..byte.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
