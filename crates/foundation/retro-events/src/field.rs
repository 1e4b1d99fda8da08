//! Deserializes values. An error contains the path of the invalid field, and never its value.

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use serde::{Deserialize, Deserializer};

use retro_core::json::{JsonKind, JsonNode};

/// Maximum length of a short text (repository, user, commit, versions), in bytes. Short texts are shown in
/// tables.
pub const SHORT_TEXT_BYTES_MAX: usize = 1024;

/// Deserializes the value located at the path `at` of its document. A rejection contains `code` and the
/// complete path.
pub fn deserialize_field<'de, T, D>(code: DeadLetterCode, at: &str, value: D) -> Result<T, Rejection>
where
    T: Deserialize<'de>,
    D: Deserializer<'de, Error: std::fmt::Display>,
{
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = join_path(at, &error.path().to_string());
        explain_error(code, path, &error.into_inner().to_string())
    })
}

/// Joins two paths, such as `data` and `usage.input_tokens`, or `steps` and `[3]`.
pub fn join_path(at: &str, rest: &str) -> String {
    match (at, rest) {
        (at, "" | ".") => at.to_owned(),
        ("", rest) => rest.to_owned(),
        (at, rest) if rest.starts_with('[') => format!("{at}{rest}"),
        (at, rest) => format!("{at}.{rest}"),
    }
}

/// Fails unless a value is an object. Serde would also read an array as a struct, field by field, which is
/// never intended here.
pub fn check_object(code: DeadLetterCode, path: &str, value: JsonNode<'_>) -> Result<(), Rejection> {
    if value.kind() == JsonKind::Object {
        Ok(())
    } else {
        Err(Rejection::of_field(code, path, "is not an object"))
    }
}

/// Fails unless a short text has at most [`SHORT_TEXT_BYTES_MAX`] bytes and no control characters.
pub fn check_short_text(path: &str, text: &str) -> Result<(), Rejection> {
    let detail = if text.len() > SHORT_TEXT_BYTES_MAX {
        format!("is {} bytes long; at most {SHORT_TEXT_BYTES_MAX} are taken", text.len())
    } else if text.chars().any(char::is_control) {
        "holds a control character".to_owned()
    } else {
        return Ok(());
    };
    Err(Rejection::of_field(DeadLetterCode::FieldInvalid, path, detail))
}

/// Turns serde's message into a rejection. Serde quotes the value, which may be a secret, so only the part that
/// describes the expected type is kept.
fn explain_error(code: DeadLetterCode, path: String, message: &str) -> Rejection {
    if let Some(name) = message.strip_prefix("missing field `") {
        return Rejection::of_field(code, join_path(&path, name.trim_end_matches('`')), "is missing");
    }
    // A custom message is not cut: its `, expected` could come from the value.
    let is_serdes_own = message.starts_with("invalid ") || message.starts_with("unknown variant ");
    // Times are recognised by the name of the field, because the parser's messages quote the value.
    let detail = if path.ends_with("_at") || path.ends_with("time") {
        "is not a time with an offset, such as 2026-11-20T10:00:00Z".to_owned()
    } else if let Some((found, expected)) = message.rsplit_once(", expected ").filter(|_| is_serdes_own) {
        format!("{}; expected {}", kind_found(found), describe_expected(expected))
    } else if ["tenant ", "workflow ", "run_id ", "step "].iter().any(|name| message.starts_with(name)) {
        message.to_owned()
    } else if message.starts_with("UUID") {
        "is not a UUID".to_owned()
    } else {
        "has a value that cannot be read".to_owned()
    };
    Rejection::of_field(code, path, detail)
}

/// Returns the kind of value that was found, from serde's message: `invalid type: string "xyz"` becomes `found a
/// string`.
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

fn describe_expected(expected: &str) -> String {
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
        let rejection =
            deserialize_field::<RunFacts, _>(DeadLetterCode::FieldInvalid, "data", data).unwrap_err();
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
    fn errors_from_a_json_node_have_the_same_wording() {
        #[derive(Debug, Deserialize, PartialEq)]
        struct Run {
            id: String,
            count: Option<u32>,
            #[serde(default)]
            names: Vec<String>,
        }
        let read = |value: Value| {
            let document = retro_core::json::JsonDocument::from_value(&value);
            super::deserialize_field::<Run, _>(DeadLetterCode::FieldInvalid, "data", document.root())
        };
        let run = Run { id: "a\n".to_owned(), count: None, names: vec!["x".to_owned()] };
        assert_eq!(read(json!({"id": "a\n", "count": null, "names": ["x"], "more": [{}]})).unwrap(), run);
        for (value, path, detail) in [
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
            assert_eq!((rejection.path.as_deref(), rejection.detail.as_str()), (Some(path), detail));
        }
    }
}
