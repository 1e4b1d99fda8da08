//! A table of every key: what it may be, its default, and what it means.

use std::fmt::Write as _;

use retro_config::keys::{Key, Kind};
use serde_json::Value;

/// The table of keys that stand in a file and in the environment.
pub(super) fn with_variables(keys: &[Key], variables: impl Fn(&Key) -> Vec<String>) -> String {
    let mut text =
        "| key | in the environment | what it may be | default | |\n|---|---|---|---|---|\n".to_owned();
    for key in keys {
        let variables: Vec<_> = variables(key).iter().map(|name| format!("`{name}`")).collect();
        let (kind, default, doc) = (kind(key), default(key), doc(key));
        let _ = writeln!(text, "| `{}` | {} | {kind} | {default} | {doc} |", key.name, variables.join(", "));
    }
    text
}

/// The table of keys that stand in a file alone.
pub(super) fn of(keys: &[Key]) -> String {
    let mut text = "| key | what it may be | default | |\n|---|---|---|---|\n".to_owned();
    for key in keys {
        let _ = writeln!(text, "| `{}` | {} | {} | {} |", key.name, kind(key), default(key), doc(key));
    }
    text
}

fn kind(key: &Key) -> String {
    match &key.kind {
        Kind::Number { low, high } => format!("{low} … {high}"),
        Kind::Text if key.secret => "text, **secret**".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Choice(words) => {
            words.iter().map(|(word, _)| format!("`\"{word}\"`")).collect::<Vec<_>>().join(", ")
        }
    }
}

fn default(key: &Key) -> String {
    match &key.default {
        Value::Null => "none".to_owned(),
        value => format!("`{value}`"),
    }
}

fn doc(key: &Key) -> String {
    let mut text = key.doc.clone();
    if let Kind::Choice(words) = &key.kind {
        for (word, doc) in words {
            let _ = write!(text, " `\"{word}\"`: {doc}");
        }
    }
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_a_key_may_be_and_whether_it_is_secret() {
        let key = |kind, default| Key {
            name: "it".into(),
            doc: "One | other.".into(),
            kind,
            default,
            example: None,
            secret: true,
        };
        let table = of(&[key(Kind::Text, Value::Null), key(Kind::Number { low: -5, high: 0 }, (-2).into())]);
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
