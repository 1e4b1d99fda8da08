//! Sets one field of a JSON document and leaves every other byte unchanged. Parsing and serializing the whole
//! document would round numbers, drop duplicate keys and reorder keys, so the sender would not recognise its
//! own message.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Reasons why a field cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetFieldError {
    /// The document is not JSON.
    #[error("the payload is not JSON, so no field can be set: replace the whole payload")]
    NotJson,
    /// The path is invalid. Valid paths look like `data.usage.input_tokens` or `data.steps[3].text`.
    #[error("`{0}` is not a path such as data.usage.input_tokens or data.steps[3].text")]
    InvalidPath(String),
    /// An element of the path does not exist. Only the last element may be missing, and only if it is a
    /// field.
    #[error("`{path}` cannot be set: there is no `{missing}` in the payload")]
    Missing {
        /// The whole path that was to be set.
        path: String,
        /// The shortest prefix of the path that does not exist.
        missing: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PathSegment {
    Field(String),
    Index(usize),
}

/// Sets the value at `path`, and adds the last field of the path if it is missing. Every other byte is kept.
pub(super) fn set_value(json: &str, path: &str, value: &Value) -> Result<String, SetFieldError> {
    let parts = parse_path(path)?;
    // `RawValue` borrows from `json`, so `byte_offset` can locate each value in the original text.
    let mut at: &RawValue = serde_json::from_str(json).map_err(|_| SetFieldError::NotJson)?;
    for (nth, part) in parts.iter().enumerate() {
        let missing =
            || SetFieldError::Missing { path: path.to_owned(), missing: render_path(&parts[..=nth]) };
        let found = match part {
            PathSegment::Index(index) => {
                let items: Vec<&RawValue> = serde_json::from_str(at.get()).map_err(|_| missing())?;
                items.get(*index).copied().ok_or_else(missing)?
            }
            PathSegment::Field(name) => {
                let ObjectFields(fields) = read_fields(at.get()).ok_or_else(missing)?;
                // Parsers keep the last of duplicate keys, so that is the one to change.
                match fields.iter().rev().find(|(known, _)| known == name).map(|(_, value)| *value) {
                    Some(value) => value,
                    None if nth + 1 == parts.len() => {
                        return Ok(insert_field(json, at.get(), fields.is_empty(), name, value));
                    }
                    None => return Err(missing()),
                }
            }
        };
        at = found;
    }
    Ok(splice_text(json, byte_offset(json, at.get()), at.get().len(), &value.to_string()))
}

/// Appends a field to `object`, which must be a slice of `json`.
fn insert_field(json: &str, object: &str, empty: bool, name: &str, value: &Value) -> String {
    // The last byte is the closing brace. The field goes right behind the last value, before the white space.
    let closing = object.trim_end().len() - 1;
    let behind = object[..closing].trim_end().len();
    let comma = if empty { "" } else { ", " };
    splice_text(
        json,
        byte_offset(json, object) + behind,
        0,
        &format!("{comma}{}: {value}", Value::from(name)),
    )
}

fn splice_text(json: &str, start: usize, length: usize, with: &str) -> String {
    format!("{}{with}{}", &json[..start], &json[start + length..])
}

/// Returns the byte offset of `part` in `whole`. `part` must be a slice of `whole`.
fn byte_offset(whole: &str, part: &str) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

fn parse_path(path: &str) -> Result<Vec<PathSegment>, SetFieldError> {
    let wrong = || SetFieldError::InvalidPath(path.to_owned());
    let mut parts = Vec::new();
    for segment in path.split('.') {
        let (name, mut items) = segment.find('[').map_or((segment, ""), |at| segment.split_at(at));
        if name.is_empty() {
            return Err(wrong());
        }
        parts.push(PathSegment::Field(name.to_owned()));
        while let Some(rest) = items.strip_prefix('[') {
            let (index, behind) = rest.split_once(']').ok_or_else(wrong)?;
            parts.push(PathSegment::Index(index.parse().map_err(|_| wrong())?));
            items = behind;
        }
        if !items.is_empty() {
            return Err(wrong());
        }
    }
    Ok(parts)
}

fn render_path(parts: &[PathSegment]) -> String {
    let mut out = String::new();
    for part in parts {
        match part {
            PathSegment::Field(name) if out.is_empty() => out.push_str(name),
            PathSegment::Field(name) => out.push_str(&format!(".{name}")),
            PathSegment::Index(index) => out.push_str(&format!("[{index}]")),
        }
    }
    out
}

/// Fields of an object in document order, duplicates included, with unparsed values.
struct ObjectFields<'a>(Vec<(String, &'a RawValue)>);

fn read_fields(object: &str) -> Option<ObjectFields<'_>> {
    struct FieldsVisitor;
    impl<'de> Visitor<'de> for FieldsVisitor {
        type Value = ObjectFields<'de>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut fields = Vec::new();
            while let Some(field) = map.next_entry()? {
                fields.push(field);
            }
            Ok(ObjectFields(fields))
        }
    }
    serde_json::Deserializer::from_str(object).deserialize_map(FieldsVisitor).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(before: &str, path: &str, value: &Value, after: &str) {
        assert_eq!(set_value(before, path, value).as_deref(), Ok(after));
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
    fn a_missing_last_field_is_added_and_a_missing_parent_is_an_error() {
        check(r#"{"a": 1 }"#, "b", &json!("é"), r#"{"a": 1, "b": "é" }"#);
        check("{ }", "a\"b", &json!(true), "{\"a\\\"b\": true }");
        check(r#"{"data": {}}"#, "data.run_id", &json!("r"), r#"{"data": {"run_id": "r"}}"#);
        let missing = set_value(r#"{"a": {"b": 1}}"#, "a.x.y", &json!(1)).unwrap_err();
        assert_eq!(missing.to_string(), "`a.x.y` cannot be set: there is no `a.x` in the payload");
        for path in ["a.b.c", "a[0]", "a.b[0]"] {
            assert!(
                matches!(
                    set_value(r#"{"a": {"b": 1}}"#, path, &json!(1)),
                    Err(SetFieldError::Missing { .. })
                ),
                "{path}"
            );
        }
        for path in ["", ".a", "a..b", "a[", "a[x]", "a[0]b"] {
            assert!(matches!(set_value("{}", path, &json!(1)), Err(SetFieldError::InvalidPath(_))), "{path}");
        }
        assert_eq!(set_value("{", "a", &json!(1)), Err(SetFieldError::NotJson));
    }
}
