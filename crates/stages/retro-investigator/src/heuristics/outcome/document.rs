//! Finds failures in JSON answers by field names that are common for errors.

use std::sync::LazyLock;

use bytes::Bytes;
use regex::Regex;
use retro_core::json::{JsonBounds, JsonDocument};
use retro_events::atif::BODY_BYTES_MAX;
use serde_json::{Map, Value};

use super::{CallFailure, first_line};
use crate::heuristics::error_signature;

/// Maximum depth, below the top-level fields of an answer, at which errors are searched for.
const ERROR_DEPTH_MAX: usize = 3;
/// Maximum number of values and keys in an answer that is searched completely. In a larger answer, only small
/// members are searched.
const TREE_VALUES_MAX: usize = 4096;
/// Maximum number of top-level members that are searched in a larger answer.
const MEMBERS_MAX: usize = 256;
/// Maximum number of values and keys in a member of a larger answer. Members with more are skipped.
const MEMBER_VALUES_MAX: usize = 64;

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($text).expect("constant patterns compile"));
    };
}

// Symbolic error codes, as remote procedure calls return them.
pattern!(
    REFUSING_CODE,
    concat!(
        r"\A(?:[A-Z]+_)*(?:INVALID|NOT|NO|ERROR|FAILED|FAILURE|DENIED|MISSING|REQUIRED|EXCEEDED|UNAUTH[A-Z]*|UNAVAILABLE|UNKNOWN|CONFLICT|",
        r"EXPIRED|FORBIDDEN|ABORTED|CANCELLED|INTERNAL|TIMEOUT|EXHAUSTED|OUT_OF|ALREADY|UNIMPLEMENTED|DATA_LOSS|BAD|UNSUPPORTED)(?:_[A-Z]+)*\z"
    )
);
// Words in a message that rule out a failure.
pattern!(WELL, r"(?i)\b(?:succe\w+|ok|done|created|accepted|finished)\b");
// HTTP error status before a document.
pattern!(STATUS_LINE, r"\A([45]\d\d):?[ \t]+");
// Dictionary as Python prints it.
pattern!(REPR_ERROR, r#"(?s)^\{(?:'output': '', )?'error': ['"](.+)['"]\}$"#);

/// Finds the failure in a JSON answer, or in a dictionary as Python prints it.
pub(super) fn find_json_failure(answer: &str) -> Option<CallFailure<'_>> {
    if let Some(found) = REPR_ERROR.captures(answer).and_then(|found| found.get(1)) {
        return Some(CallFailure::from_line(found.as_str()));
    }
    let map = parse_object(answer)?;
    let error = ["error", "errors", "error_message", "exception"]
        .iter()
        .find_map(|key| error_text(map.get(*key)?))
        .or_else(|| find_field_errors(&map))
        .or_else(|| find_nested_error(&map, ERROR_DEPTH_MAX))
        .or_else(|| find_status_message(&map));
    (error.is_some() || reports_failure(&map))
        .then(|| build_failure(answer, error.or_else(|| find_explanation(&map))))
}

/// Parses a string as a JSON object. Keeps only the small members of a large object, because an error is
/// short and the tree of all values would take many times the memory of the text.
fn parse_object(text: &str) -> Option<Map<String, Value>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let text = Bytes::copy_from_slice(text.as_bytes());
    let document = JsonDocument::parse(&text, JsonBounds::with_bytes_max(BODY_BYTES_MAX)).ok()?;
    let is_small = document.root().descendant_count() <= TREE_VALUES_MAX;
    let members = document.root().members()?.take(if is_small { usize::MAX } else { MEMBERS_MAX });
    let members = members.map(|(name, value)| {
        let is_kept = is_small || value.descendant_count() <= MEMBER_VALUES_MAX;
        (name.into_owned(), if is_kept { value.to_value() } else { Value::Null })
    });
    Some(members.collect())
}

/// Finds the failure in a JSON object at the start of `rest`, after white space. Returns `None` for any other
/// text.
pub(super) fn find_embedded_failure(rest: &str) -> Option<CallFailure<'_>> {
    find_json_failure(Some(rest.trim_start()).filter(|rest| rest.starts_with('{'))?)
}

/// Finds the failure in an HTTP error status followed by a JSON document that explains it. A transient status
/// (429, 502, 503, 504) yields an empty signature, so no lesson is made from it.
pub(super) fn find_status_failure(answer: &str) -> Option<CallFailure<'_>> {
    let status = STATUS_LINE.captures(answer)?;
    let document = &answer[status.get(0)?.end()..];
    let map = parse_object(document)?;
    if matches!(&status[1], "429" | "502" | "503" | "504") {
        return Some(CallFailure { line: first_line(answer), error: String::new() });
    }
    find_json_failure(document).or_else(|| Some(build_failure(document, find_explanation(&map))))
}

/// Returns the explanation in a document that reports a failure.
fn find_explanation(map: &Map<String, Value>) -> Option<String> {
    ["message", "detail", "reason", "title", "stderr"].iter().find_map(|key| error_text(map.get(*key)?))
}

/// Builds the failure that `words` of the document report. Without words, the line is the whole document and
/// the signature is empty.
fn build_failure(document: &str, words: Option<String>) -> CallFailure<'_> {
    let text = words.unwrap_or_default();
    let at = document.find(first_line(&text)).unwrap_or(0);
    let line = &document[at..];
    let line = if text.is_empty() { document } else { line.get(..first_line(&text).len()).unwrap_or(line) };
    CallFailure { line, error: error_signature(first_line(&text)) }
}

/// Returns the error in a nested object of an answer, which may report success at its top level. Searches
/// only fields called `error` and no lists, because rows of data contain errors too.
fn find_nested_error(map: &Map<String, Value>, depth: usize) -> Option<String> {
    let parts = || map.values().filter_map(Value::as_object);
    // Called only if `depth` is above 0, so the subtraction cannot underflow.
    let deeper = || parts().find_map(|part| find_nested_error(part, depth - 1));
    (depth > 0).then(|| parts().find_map(|part| error_text(part.get("error")?)).or_else(deeper))?
}

fn error_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(text.clone()),
        Value::Object(map) => {
            ["message", "msg", "detail", "code", "type"].iter().find_map(|key| error_text(map.get(*key)?))
        }
        Value::Array(items) => items.iter().find_map(error_text),
        _ => None,
    }
}

/// Returns the message of an answer that consists only of a status: an error code and its meaning, as in
/// remote procedure calls.
fn find_status_message(map: &Map<String, Value>) -> Option<String> {
    const PARTS: &[&str] =
        &["code", "message", "details", "detail", "status", "reason", "request_id", "trace_id"];
    let message = error_text(map.get("message")?)?;
    let refuses = match map.get("code")? {
        Value::Number(code) => code.as_i64().is_some_and(|code| code != 0 && !(100..400).contains(&code)),
        Value::String(code) => REFUSING_CODE.is_match(code),
        _ => false,
    };
    let only = map.keys().all(|key| PARTS.contains(&key.as_str()));
    (refuses && only && !WELL.is_match(&message)).then_some(message)
}

/// Returns the reason for which a field of the request was refused, if a validator returned a list of
/// locations and messages.
fn find_field_errors(map: &Map<String, Value>) -> Option<String> {
    let list = map.get("detail")?.as_array()?;
    let place = |item: &Value| item.get("loc").is_some_and(Value::is_array) && item.get("msg").is_some();
    (!list.is_empty() && list.iter().all(place)).then(|| error_text(&list[0]))?
}

/// Returns `true` if a field of the answer, such as `success` or `exit_code`, reports a failure without a
/// reason.
fn reports_failure(map: &Map<String, Value>) -> bool {
    let is = |key: &str, value: Value| map.get(key) == Some(&value);
    let code = |key: &str| {
        let value = map.get(key)?;
        value.as_i64().or_else(|| value.as_str()?.parse().ok())
    };
    is("success", Value::Bool(false))
        || is("ok", Value::Bool(false))
        || is("isError", Value::Bool(true))
        || is("is_error", Value::Bool(true))
        || matches!(map.get("status").and_then(Value::as_str), Some("error" | "failed" | "failure"))
        || ["exit_code", "exitCode", "returncode", "return_code"]
            .iter()
            .any(|key| code(key).is_some_and(|n| n != 0))
        || ["status", "status_code", "statusCode"]
            .iter()
            .any(|key| code(key).is_some_and(|n| (400..600).contains(&n)))
}
