//! Renders a reference table of all keys, with their allowed values, defaults and documentation.

use std::fmt::Write as _;

use retro_config::keys::{Key, KeyKind};
use serde_json::Value;

/// Renders the table with an additional column for environment variables.
pub(super) fn render_table_with_variables(keys: &[Key], variables: impl Fn(&Key) -> Vec<String>) -> String {
    let mut text =
        "| key | environment variable | allowed values | default | |\n|---|---|---|---|---|\n".to_owned();
    for key in keys {
        let variables: Vec<_> = variables(key).iter().map(|name| format!("`{name}`")).collect();
        let (kind, default, doc) = (format_kind(key), format_default(key), format_doc(key));
        let _ = writeln!(text, "| `{}` | {} | {kind} | {default} | {doc} |", key.name, variables.join(", "));
    }
    text
}

/// Renders the table for keys that can be set only in a file.
pub(super) fn render_table(keys: &[Key]) -> String {
    let mut text = "| key | allowed values | default | |\n|---|---|---|---|\n".to_owned();
    for key in keys {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} |",
            key.name,
            format_kind(key),
            format_default(key),
            format_doc(key)
        );
    }
    text
}

fn format_kind(key: &Key) -> String {
    match &key.kind {
        KeyKind::Number { low, high } => format!("{low} … {high}"),
        KeyKind::Boolean => "true or false".to_owned(),
        KeyKind::Text if key.secret => "text, **secret**".to_owned(),
        KeyKind::Text => "text".to_owned(),
        KeyKind::Choice(words) => join_words(words),
        KeyKind::List(words) => format!("list of {}", join_words(words)),
    }
}

fn join_words(words: &[(String, String)]) -> String {
    words.iter().map(|(word, _)| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
}

fn format_default(key: &Key) -> String {
    match &key.default {
        Value::Null => "none".to_owned(),
        value => format!("`{value}`"),
    }
}

fn format_doc(key: &Key) -> String {
    let mut text = key.doc.clone();
    if let KeyKind::Choice(words) | KeyKind::List(words) = &key.kind {
        for (word, doc) in words {
            let _ = write!(text, " `\"{word}\"`: {doc}");
        }
    }
    // A bar would end the table cell, and a line break the row.
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_allowed_values_and_secrecy() {
        let key = |kind, default| Key {
            name: "it".into(),
            doc: "One | other.".into(),
            kind,
            default,
            example: None,
            secret: true,
        };
        let table = render_table(&[
            key(KeyKind::Text, Value::Null),
            key(KeyKind::Number { low: -5, high: 0 }, (-2).into()),
        ]);
        let rows: Vec<_> = table.lines().skip(2).collect();
        let doc = "One \\| other.";
        assert_eq!(
            rows,
            [
                format!("| `it` | text, **secret** | none | {doc} |"),
                format!("| `it` | -5 … 0 | `-2` | {doc} |")
            ]
        );
    }
}
