//! Setting one field of a JSON document: only the bytes of that value change. Reading the whole and writing it anew would
//! round numbers, drop what stands twice and lose the order, and the sender could not recognise its own message.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Why a field could not be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The document is no JSON.
    #[error("the payload is not JSON, so no field of it can be set: replace it as a whole")]
    NotJson,
    /// A path is written as in a letter: `data.usage.input_tokens`, `data.steps[3].text`.
    #[error("`{0}` is not a path such as data.usage.input_tokens or data.steps[3].text")]
    Path(String),
    /// Something on the way there is missing.
    #[error("`{path}` cannot be set: there is no `{missing}` in the payload")]
    Missing {
        /// The whole path.
        path: String,
        /// As far as nothing is found.
        missing: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Field(String),
    Item(usize),
}

/// Sets the value at `path`, which is made when only its last field is missing. Everything else stays byte for byte.
pub(super) fn set(json: &str, path: &str, value: &Value) -> Result<String, SetError> {
    let parts = parts(path)?;
    let mut at: &RawValue = serde_json::from_str(json).map_err(|_| SetError::NotJson)?;
    for (nth, part) in parts.iter().enumerate() {
        let missing = || SetError::Missing { path: path.to_owned(), missing: shown(&parts[..=nth]) };
        let found = match part {
            Part::Item(index) => {
                let items: Vec<&RawValue> = serde_json::from_str(at.get()).map_err(|_| missing())?;
                items.get(*index).copied().ok_or_else(missing)?
            }
            Part::Field(name) => {
                let Fields(fields) = fields(at.get()).ok_or_else(missing)?;
                // Of a name that stands twice readers take the last.
                match fields.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value) {
                    Some(value) => value,
                    None if nth + 1 == parts.len() => {
                        return Ok(insert(json, at.get(), fields.is_empty(), name, value));
                    }
                    None => return Err(missing()),
                }
            }
        };
        at = found;
    }
    Ok(splice(json, place(json, at.get()), at.get().len(), &value.to_string()))
}

/// Puts a field behind the last one of an object.
fn insert(json: &str, object: &str, empty: bool, name: &str, value: &Value) -> String {
    let closing = object.trim_end().len() - 1;
    let behind = object[..closing].trim_end().len();
    let comma = if empty { "" } else { ", " };
    splice(json, place(json, object) + behind, 0, &format!("{comma}{}: {value}", Value::from(name)))
}

fn splice(json: &str, start: usize, length: usize, with: &str) -> String {
    format!("{}{with}{}", &json[..start], &json[start + length..])
}

/// Where a part of the text begins in it.
fn place(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

fn parts(path: &str) -> Result<Vec<Part>, SetError> {
    let wrong = || SetError::Path(path.to_owned());
    let mut parts = Vec::new();
    for segment in path.split('.') {
        let (name, mut items) = segment.find('[').map_or((segment, ""), |at| segment.split_at(at));
        if name.is_empty() {
            return Err(wrong());
        }
        parts.push(Part::Field(name.to_owned()));
        while let Some(rest) = items.strip_prefix('[') {
            let (index, behind) = rest.split_once(']').ok_or_else(wrong)?;
            parts.push(Part::Item(index.parse().map_err(|_| wrong())?));
            items = behind;
        }
        if !items.is_empty() {
            return Err(wrong());
        }
    }
    Ok(parts)
}

fn shown(parts: &[Part]) -> String {
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Field(name) if out.is_empty() => out.push_str(name),
            Part::Field(name) => out.push_str(&format!(".{name}")),
            Part::Item(index) => out.push_str(&format!("[{index}]")),
        }
    }
    out
}

/// The fields of an object in order, unread.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

fn fields(object: &str) -> Option<Fields<'_>> {
    struct Each;
    impl<'de> Visitor<'de> for Each {
        type Value = Fields<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = Vec::new();
            while let Some(field) = map.next_entry()? {
                fields.push(field);
            }
            Ok(Fields(fields))
        }
    }
    serde_json::Deserializer::from_str(object).deserialize_map(Each).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: &str, path: &str, value: &Value, after: &str) {
        assert_eq!(set(before, path, value).as_deref(), Ok(after));
    }

    #[test]
    fn only_the_bytes_of_the_value_change() {
        check(
            r#"{"a": 1.10,  "b":{"c":[1, {"d":"x"}]} }"#,
            "b.c[1].d",
            &json!("y"),
            r#"{"a": 1.10,  "b":{"c":[1, {"d":"y"}]} }"#,
        );
        check(
            r#"{"big": 123456789012345678901234567890, "a": 1}"#,
            "a",
            &json!(2),
            r#"{"big": 123456789012345678901234567890, "a": 2}"#,
        );
        check(r#"{"a": 1, "a": 2}"#, "a", &json!(null), r#"{"a": 1, "a": null}"#);
        check(r#"{"größe": {"x": []}}"#, "größe.x", &json!({"y": 1}), r#"{"größe": {"x": {"y":1}}}"#);
    }

    #[test]
    fn a_missing_field_is_put_behind_the_last_and_a_missing_way_is_told() {
        check(r#"{"a": 1 }"#, "b", &json!("é"), r#"{"a": 1, "b": "é" }"#);
        check("{ }", "a\"b", &json!(true), "{\"a\\\"b\": true }");
        check(r#"{"data": {}}"#, "data.run_id", &json!("r"), r#"{"data": {"run_id": "r"}}"#);
        let missing = set(r#"{"a": {"b": 1}}"#, "a.x.y", &json!(1)).unwrap_err();
        assert_eq!(missing.to_string(), "`a.x.y` cannot be set: there is no `a.x` in the payload");
        for path in ["a.b.c", "a[0]", "a.b[0]"] {
            assert!(
                matches!(set(r#"{"a": {"b": 1}}"#, path, &json!(1)), Err(SetError::Missing { .. })),
                "{path}"
            );
        }
        for path in ["", ".a", "a..b", "a[", "a[x]", "a[0]b"] {
            assert!(matches!(set("{}", path, &json!(1)), Err(SetError::Path(_))), "{path}");
        }
        assert_eq!(set("{", "a", &json!(1)), Err(SetError::NotJson));
    }
}
