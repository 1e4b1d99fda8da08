//! Lists the values within nested parameters by their paths.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::values;

/// Maximum depth of a parameter within others. What is nested deeper is one value.
pub(in super::super) const NESTING_MAX: usize = 8;

/// Returns the leaves of parameters by dotted path. A list is a leaf, unless it contains objects.
pub(super) fn flatten(map: &Map<String, Value>) -> BTreeMap<String, &Value> {
    flatten_above(map, &BTreeSet::new())
}

/// Returns the leaves of some parameters by dotted path. The values at the paths in `whole` are leaves, too.
pub(super) fn flatten_above<'v>(
    map: &'v Map<String, Value>,
    whole: &BTreeSet<String>,
) -> BTreeMap<String, &'v Value> {
    fn collect<'v>(
        path: &str,
        value: &'v Value,
        depth: usize,
        whole: &BTreeSet<String>,
        out: &mut BTreeMap<String, &'v Value>,
    ) {
        let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        match value {
            Value::Object(map) if depth < NESTING_MAX && !map.is_empty() && !whole.contains(path) => {
                map.iter().for_each(|(key, item)| collect(&below(key), item, depth + 1, whole, out));
            }
            Value::Array(items)
                if depth < NESTING_MAX && items.iter().any(Value::is_object) && !whole.contains(path) =>
            {
                let numbered = items.iter().enumerate().take(16);
                numbered.for_each(|(at, item)| collect(&below(&at.to_string()), item, depth + 1, whole, out));
            }
            leaf => {
                out.insert(path.to_owned(), leaf);
            }
        }
    }
    let mut out = BTreeMap::new();
    map.iter().for_each(|(key, value)| collect(key, value, 1, whole, &mut out));
    out
}

/// Returns the paths at which one value is a list and the other one is not: the list is the lesson, and not what is in
/// it.
pub(super) fn find_reshaped(a: &Map<String, Value>, b: &Map<String, Value>) -> BTreeSet<String> {
    fn collect(path: &str, a: &Value, b: &Value, depth: usize, out: &mut BTreeSet<String>) {
        match (a, b) {
            (Value::Object(a), Value::Object(b)) if depth < NESTING_MAX => {
                for (key, value) in a {
                    if let Some(other) = b.get(key) {
                        collect(&format!("{path}.{key}"), value, other, depth + 1, out);
                    }
                }
            }
            _ if a.is_array() != b.is_array() => {
                out.insert(path.to_owned());
            }
            _ => {}
        }
    }
    let mut out = BTreeSet::new();
    for (key, value) in a {
        if let Some(other) = b.get(key) {
            collect(key, value, other, 1, &mut out);
        }
    }
    out
}

/// Returns the name by which a lesson knows the leaf at a path: without the places in lists, and only the last part of a
/// path that is too long to be a name.
pub(super) fn name_of_path(path: &str) -> String {
    let is_place = |part: &&str| part.chars().all(|c| c.is_ascii_digit());
    let name = path.split('.').filter(|part| !is_place(part)).collect::<Vec<_>>().join(".");
    match name.rsplit('.').next() {
        Some(last) if !values::is_name_of_parameter(&name) => last.to_owned(),
        _ => name,
    }
}
