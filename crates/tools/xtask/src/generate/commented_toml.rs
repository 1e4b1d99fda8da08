//! Renders the keys of a type as a TOML file, each key with its documentation and default.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use retro_config::keys::{Key, KeyKind};
use serde_json::Value;

/// Maximum width of a comment line, in characters.
const WIDTH: usize = 110;

/// Renders one paragraph per key. A key without a default is commented out and shows its example. Fails if a
/// key has neither a default nor an example.
pub(super) fn render_keys(keys: &[Key]) -> Result<String> {
    let mut text = String::new();
    for key in keys {
        let _ = writeln!(text, "\n{}", wrap_comment(&key.doc, WIDTH));
        if let KeyKind::Choice(words) | KeyKind::List(words) = &key.kind {
            for (word, doc) in words {
                let _ = writeln!(text, "#   \"{word}\": {}", doc.replace('\n', " "));
            }
        }
        let _ = match (&key.default, &key.example) {
            (Value::Null, Some(example)) => writeln!(text, "# {} = {example}", key.name),
            (Value::Null, None) => bail!("`{}` has no default and needs an example", key.name),
            (default, _) => writeln!(text, "{} = {default}", key.name),
        };
    }
    Ok(text)
}

/// Wraps the text into comment lines of at most `width` characters.
fn wrap_comment(text: &str, width: usize) -> String {
    let mut lines = vec![String::from("#")];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a first line");
        if line.len() + 1 + word.len() > width && line.len() > 1 {
            lines.push(format!("# {word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_wrapped() {
        assert_eq!(wrap_comment("one two three", 9), "# one two\n# three");
    }

    #[test]
    fn a_key_without_a_default_and_without_an_example_is_an_error() {
        let kind = KeyKind::Text;
        let key = Key {
            name: "place".into(),
            doc: "Where.".into(),
            kind,
            default: Value::Null,
            example: None,
            secret: false,
        };
        assert!(render_keys(std::slice::from_ref(&key)).is_err());
        let text = render_keys(&[Key { example: Some("here".into()), ..key }]).unwrap();
        assert_eq!(text, "\n# Where.\n# place = \"here\"\n");
    }
}
