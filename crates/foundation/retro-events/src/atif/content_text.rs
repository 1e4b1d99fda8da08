//! Reads the text of messages and tool results.

use retro_core::json::{JsonKind, JsonNode};

/// Returns the text of a string or of content parts, with each image replaced by its path. Returns `None` for
/// any other value.
pub(super) fn content_text(content: JsonNode<'_>) -> Option<String> {
    match content.kind() {
        JsonKind::Null => Some(String::new()),
        JsonKind::String => content.as_str().map(|text| replace_nul(text.into_owned())),
        JsonKind::Array => {
            let mut text = String::new();
            for (nth, part) in content.items()?.enumerate() {
                if nth > 0 {
                    text.push('\n');
                }
                text.push_str(&part_text(part));
            }
            Some(text)
        }
        _ => None,
    }
}

fn part_text(part: JsonNode<'_>) -> String {
    if let Some(text) = part.as_str().or_else(|| part.get("text")?.as_str()) {
        return replace_nul(text.into_owned());
    }
    match part.get("source").and_then(|source| source.get("path")?.as_str()) {
        Some(path) => replace_nul(format!("[image: {path}]")),
        None => replace_nul(part.canonical_json()),
    }
}

/// Replaces NUL, which is legal in JSON but cannot be stored in a text column. Must run before anything is
/// quoted, so that quotes match the stored text.
pub(super) fn replace_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}
