//! A TOML file, read so that each mistake is told with its line.

use std::path::Path;

use toml::de::DeTable;
use toml::{Table, Value};

use crate::problem::{Problems, place};

/// Bytes beyond which a file is not one of ours.
const BYTES_MAX: u64 = 1024 * 1024;

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The tables it stands in, and its key.
    pub path: Vec<String>,
    /// Its line, from 1.
    pub line: usize,
    /// What was given.
    pub value: Value,
}

/// The text of a file. Fails with its path when it cannot be read or is too large.
pub fn read(path: &Path) -> Result<String, Problems> {
    let size = std::fs::metadata(path).map(|file| file.len());
    let text = size.and_then(|bytes| match bytes {
        0..=BYTES_MAX => std::fs::read_to_string(path),
        _ => Err(std::io::Error::other(format!("{bytes} bytes, more than {BYTES_MAX}"))),
    });
    text.map_err(|error| Problems::one(format!("cannot read {}: {error}", path.display())))
}

/// The entries of the file, tables down to `depth` opened, in the order of their lines. Fails with the line when it
/// is not TOML.
pub fn entries(path: &Path, text: &str, depth: usize) -> Result<Vec<Entry>, Problems> {
    let told = |error: toml::de::Error| {
        // Only the message: the whole error shows the line itself, which may hold a secret.
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        Problems::one(format!("{}: {}", place(path, line), error.message().replace('\n', ", ")))
    };
    let spans = DeTable::parse(text).map_err(told)?;
    let values: Table = text.parse().map_err(told)?;
    let mut entries = Vec::new();
    collect(text, spans.get_ref(), &values, depth, &mut Vec::new(), &mut entries);
    entries.sort_by_key(|entry| entry.line);
    Ok(entries)
}

fn collect(
    text: &str,
    spans: &DeTable<'_>,
    values: &Table,
    depth: usize,
    within: &mut Vec<String>,
    entries: &mut Vec<Entry>,
) {
    for (key, span) in spans {
        let name = key.get_ref().as_ref();
        let Some(value) = values.get(name) else { continue };
        within.push(name.to_owned());
        match (span.get_ref().as_table(), value.as_table()) {
            // An empty table is told as a value, or one in the place of a number would be nothing at all.
            (Some(spans), Some(values)) if within.len() < depth && !values.is_empty() => {
                collect(text, spans, values, depth, within, entries);
            }
            _ => {
                let line = line_of(text, key.span().start);
                entries.push(Entry { path: within.clone(), line, value: value.clone() });
            }
        }
        within.pop();
    }
}

fn line_of(text: &str, byte: usize) -> usize {
    text.as_bytes()[..byte.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}
