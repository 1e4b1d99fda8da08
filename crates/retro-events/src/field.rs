//! JSON → types, with the path of the field that does not fit, and without ever repeating what stood in it.

use retro_core::dead_letter::{Code, Rejection};
use serde::{Deserialize, Deserializer};

use retro_core::json::{Kind, Node};

/// The longest short text (repository, user, commit, versions) that is taken, in bytes: they are shown in tables.
pub const SHORT_TEXT_BYTES_MAX: usize = 1024;

/// Reads a value that stands at path `at` of its document. A rejection carries `code` and the whole path.
pub fn read<'de, T, D>(code: Code, at: &str, value: D) -> Result<T, Rejection>
where
    T: Deserialize<'de>,
    D: Deserializer<'de, Error: std::fmt::Display>,
{
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = join(at, &error.path().to_string());
        explain(code, path, &error.into_inner().to_string())
    })
}

/// Puts two paths together: `data` and `usage.input_tokens`, or `steps` and `[3]`.
pub fn join(at: &str, rest: &str) -> String {
    match (at, rest) {
        (at, "" | ".") => at.to_owned(),
        ("", rest) => rest.to_owned(),
        (at, rest) if rest.starts_with('[') => format!("{at}{rest}"),
        (at, rest) => format!("{at}.{rest}"),
    }
}

/// Checks that a value is an object. Serde reads an array as a struct too, field by field: nobody means that in JSON.
pub fn check_object(code: Code, path: &str, value: Node<'_>) -> Result<(), Rejection> {
    if value.kind() == Kind::Object { Ok(()) } else { Err(Rejection::at(code, path, "is not an object")) }
}

/// Checks a short text: at most [`SHORT_TEXT_BYTES_MAX`] bytes without control characters.
pub fn check_short_text(path: &str, text: &str) -> Result<(), Rejection> {
    let detail = if text.len() > SHORT_TEXT_BYTES_MAX {
        format!("is {} bytes long; at most {SHORT_TEXT_BYTES_MAX} are taken", text.len())
    } else if text.chars().any(char::is_control) {
        "holds a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(Rejection::at(Code::FieldInvalid, path, detail))
}

/// A rejection from serde's sentence. Serde quotes the value it found, and the value may be a secret: only our own
/// half of the sentence is kept.
fn explain(code: Code, path: String, message: &str) -> Rejection {
    if let Some(name) = message.strip_prefix("missing field `") {
        return Rejection::at(code, join(&path, name.trim_end_matches('`')), "is missing");
    }
    let is_serdes_own = message.starts_with("invalid ") || message.starts_with("unknown variant ");
    let detail = if path.ends_with("_at") || path.ends_with("time") {
        "is not a time with an offset, such as 2026-11-20T10:00:00Z".to_owned()
    } else if let Some((found, expected)) = message.rsplit_once(", expected ").filter(|_| is_serdes_own) {
        format!("{}; expected {}", kind_found(found), in_words(expected))
    } else if ["tenant ", "workflow ", "run_id ", "step "].iter().any(|name| message.starts_with(name)) {
        message.to_owned()
    } else if message.starts_with("UUID") {
        "is not a UUID".to_owned()
    } else {
        "has a value that cannot be read".to_owned()
    };
    Rejection::at(code, path, detail)
}

/// `invalid type: string "xyz"` → `found a string`.
fn kind_found(found: &str) -> String {
    let kind = found
        .strip_prefix("invalid type: ")
        .or_else(|| found.strip_prefix("invalid value: "))
        .and_then(|rest| rest.split(['"', '`', ',']).next())
        .map(str::trim);
    match kind {
        Some("map") => "found an object".to_owned(),
        Some("sequence") => "found an array".to_owned(),
        Some("null" | "unit value") => "found null".to_owned(),
        Some(kind @ ("integer" | "array")) => format!("found an {kind}"),
        Some(kind @ ("string" | "boolean" | "floating point" | "number")) => format!("found a {kind}"),
        _ => "found something else".to_owned(),
    }
}

fn in_words(expected: &str) -> String {
    match expected {
        "u8" | "u32" | "u64" => "a whole number, not negative".to_owned(),
        "i64" => "a whole number".to_owned(),
        "f64" => "a number".to_owned(),
        "a sequence" => "an array".to_owned(),
        "a map" => "an object".to_owned(),
        expected if expected.starts_with("struct ") => "an object".to_owned(),
        expected => expected.replace('`', ""),
    }
}

#[cfg(test)]
mod tests {
    use retro_core::run::RunFacts;
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(data: &Value, path: &str, detail: &str) {
        let rejection = read::<RunFacts, _>(Code::FieldInvalid, "data", data).unwrap_err();
        assert_eq!((rejection.path.as_deref(), rejection.detail.as_str()), (Some(path), detail));
    }

    #[test]
    fn a_field_that_does_not_fit_is_named_by_its_path_and_never_repeated() {
        let run = |more: &Value| {
            let mut data = json!({"run_id": "r", "outcome": "success"});
            for (key, value) in more.as_object().unwrap() {
                data[key] = value.clone();
            }
            data
        };
        check(&json!({"outcome": "success"}), "data.run_id", "is missing");
        check(&run(&json!({"run_id": ""})), "data.run_id", "run_id is empty");
        check(
            &run(&json!({"usage": {"input_tokens": "s3cret, expected s3cret"}})),
            "data.usage.input_tokens",
            "found a string; expected a whole number, not negative",
        );
        check(
            &run(&json!({"outcome": "s3cret"})),
            "data.outcome",
            "found something else; expected one of success, failure, error, timeout, cancellation, skip, unknown",
        );
        check(
            &run(&json!({"started_at": "s3cret"})),
            "data.started_at",
            "is not a time with an offset, such as 2026-11-20T10:00:00Z",
        );
        check(&run(&json!({"memories": {"read": ["s3cret"]}})), "data.memories.read[0]", "is not a UUID");
        check(&run(&json!({"agent": 7})), "data.agent", "found an integer; expected an object");
    }

    #[test]
    fn a_type_is_read_from_a_node_and_its_mistakes_are_told_in_the_same_words() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Run {
            id: String,
            count: Option<u32>,
            #[serde(default)]
            names: Vec<String>,
        }
        let read = |value: Value| {
            let document = retro_core::json::Document::of_value(&value);
            super::read::<Run, _>(Code::FieldInvalid, "data", document.root())
        };
        let run = Run { id: "a\n".to_owned(), count: None, names: vec!["x".to_owned()] };
        assert_eq!(read(json!({"id": "a\n", "count": null, "names": ["x"], "more": [{}]})).unwrap(), run);
        for (value, path, told) in [
            (json!({}), "data.id", "is missing"),
            (json!({"id": null}), "data.id", "found null; expected a string"),
            (
                json!({"id": "a", "count": -1}),
                "data.count",
                "found an integer; expected a whole number, not negative",
            ),
            (json!({"id": "a", "names": ["x", {}]}), "data.names[1]", "found an object; expected a string"),
        ] {
            let rejection = read(value).unwrap_err();
            assert_eq!((rejection.path.as_deref(), rejection.detail.as_str()), (Some(path), told));
        }
    }
}
