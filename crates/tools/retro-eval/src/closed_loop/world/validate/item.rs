//! Items of a workflow in the form in which they are checked.

use serde_json::Value;

use crate::closed_loop::world::parts::MemoryPattern;

/// Item of a workflow, reduced to what is checked.
pub(super) struct CheckedItem<'a> {
    pub(super) kind: &'static str,
    pub(super) line: usize,
    pub(super) id: &'a str,
    pub(super) step: &'a str,
    pub(super) probabilities: Vec<(&'static str, f64)>,
    /// Strings that may contain placeholders.
    pub(super) texts: Vec<&'a str>,
    pub(super) arguments: Vec<&'a Value>,
    pub(super) errors: Option<usize>,
    pub(super) patterns: Vec<&'a MemoryPattern>,
    /// Problems that are specific to this kind of item.
    pub(super) problems: Vec<String>,
}

/// Collects the strings inside a value.
pub(super) fn collect_texts<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, out)),
        Value::Object(map) => map.values().for_each(|item| collect_texts(item, out)),
        _ => {}
    }
}
