//! Parses TOML files into entries with line numbers, so each mistake can be reported with its line.

use std::fs::File;
use std::io::{Error, Read as _};
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

/// Reads a file into a string, without a byte order mark. Fails if the file cannot be read, is too large or no UTF-8; the error
/// contains the path.
pub fn read_document(path: &Path) -> Result<String, Problems> {
    read_text(path).map_err(|error| describe_unreadable(path, &error))
}

/// Reads a file as [`read_document`] does, of a folder that is read again and again. Fails also if it is no regular file: opening
/// a named pipe waits for somebody who writes into it.
pub fn read_regular_document(path: &Path) -> Result<String, Problems> {
    let file = std::fs::metadata(path).map_err(|error| describe_unreadable(path, &error))?;
    match file.is_file() {
        true => read_document(path),
        false => Err(describe_unreadable(path, &Error::other("it is not a regular file"))),
    }
}

fn read_text(path: &Path) -> Result<String, Error> {
    // The length that a device states says nothing about how much can be read from it.
    let mut bytes = Vec::new();
    File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Error::other(format!("it has more than {BYTES_MAX} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|_| Error::other("it is not UTF-8"))?;
    Ok(match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    })
}

fn describe_unreadable(path: &Path, error: &Error) -> Problems {
    Problems::from_sentence(format!("cannot read {}: {error}", path.display()))
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
