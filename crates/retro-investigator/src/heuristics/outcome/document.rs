//! Failures that documents say: fields of JSON, and of XML, by the names that errors have there.

use std::sync::LazyLock;

use bytes::Bytes;
use regex::Regex;
use retro_core::json::{Bounds, Document};
use retro_events::atif::BODY_BYTES_MAX;
use serde_json::{Map, Value};

use super::{Failure, first_line};
use crate::heuristics::signature;

/// How deep below an answer's own fields the error of a part of it is looked for.
const ERROR_DEPTH_MAX: usize = 3;
/// Values and keys of an answer that is looked at whole.
const TREE_VALUES_MAX: usize = 4096;
/// Of a larger one: so many of its members, and of these the ones with so few values.
const MEMBERS_MAX: usize = 256;
/// See [`MEMBERS_MAX`].
const MEMBER_VALUES_MAX: usize = 64;

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("a constant pattern"));
    };
}

// An error document, as object stores and older services send it: a code, and mostly a message.
pattern!(
    XML_ERROR,
    r"(?s)\A(?:<\?xml[^>]*>\s*)?<(?:Error|ErrorResponse|Fault)\b[^>]*>.{0,200}?<Code>([^<]+)</Code>(?:.{0,200}?<Message>([^<]+)</Message>)?"
);
// Codes in words, as remote procedure calls have them.
pattern!(
    REFUSING_CODE,
    concat!(
        r"\A(?:[A-Z]+_)*(?:INVALID|NOT|NO|ERROR|FAILED|FAILURE|DENIED|MISSING|REQUIRED|EXCEEDED|UNAUTH[A-Z]*|UNAVAILABLE|UNKNOWN|CONFLICT|",
        r"EXPIRED|FORBIDDEN|ABORTED|CANCELLED|INTERNAL|TIMEOUT|EXHAUSTED|OUT_OF|ALREADY|UNIMPLEMENTED|DATA_LOSS|BAD|UNSUPPORTED)(?:_[A-Z]+)*\z"
    )
);
// What nobody says whose work has failed.
pattern!(WELL, r"(?i)\b(?:succe\w+|ok|done|created|accepted|finished)\b");
// A status that refuses, in front of a document.
pattern!(STATUS_LINE, r"\A([45]\d\d):?[ \t]+");
// Python's way of printing a dictionary.
pattern!(REPR_ERROR, r#"(?s)^\{(?:'output': '', )?'error': ['"](.+)['"]\}$"#);

/// JSON answers (and Python's way of printing a dictionary) carry their error in a field.
pub(super) fn structured(answer: &str) -> Option<Failure<'_>> {
    if let Some(found) = REPR_ERROR.captures(answer).and_then(|found| found.get(1)) {
        return Some(Failure::said(found.as_str()));
    }
    let map = read_object(answer)?;
    let error = ["error", "errors", "error_message", "exception"]
        .iter()
        .find_map(|key| error_text(map.get(*key)?))
        .or_else(|| refused_fields(&map))
        .or_else(|| nested_error(&map, ERROR_DEPTH_MAX))
        .or_else(|| status_text(&map));
    (error.is_some() || says_failed(&map)).then(|| with_words(answer, error.or_else(|| told_in(&map))))
}

/// The object that a text is. Of a large one only small members are kept: an error is told in few words, and the rest as a
/// tree would take many times the memory of the text.
fn read_object(text: &str) -> Option<Map<String, Value>> {
    if !text.trim_start().starts_with('{') {
        return None;
    }
    let text = Bytes::copy_from_slice(text.as_bytes());
    let document = Document::parse(&text, Bounds::bytes(BODY_BYTES_MAX)).ok()?;
    let is_small = document.root().size() <= TREE_VALUES_MAX;
    let members = document.root().members()?.take(if is_small { usize::MAX } else { MEMBERS_MAX });
    let members = members.map(|(name, value)| {
        let kept = is_small || value.size() <= MEMBER_VALUES_MAX;
        (name.into_owned(), if kept { value.to_value() } else { Value::Null })
    });
    Some(members.collect())
}

/// The failure that a document says that stands behind other words.
pub(super) fn behind(rest: &str) -> Option<Failure<'_>> {
    structured(Some(rest.trim_start()).filter(|rest| rest.starts_with('{'))?)
}

/// The failure that an error document in XML says.
pub(super) fn in_xml(answer: &str) -> Option<Failure<'_>> {
    let told = XML_ERROR.captures(answer)?;
    Some(Failure::said(told.get(2).or_else(|| told.get(1))?.as_str()))
}

/// The failure that a status in front of a document says; the document only tells why. What passes by itself has no words.
pub(super) fn refused_with(answer: &str) -> Option<Failure<'_>> {
    let status = STATUS_LINE.captures(answer)?;
    let document = &answer[status.get(0)?.end()..];
    let map = read_object(document)?;
    if matches!(&status[1], "429" | "502" | "503" | "504") {
        return Some(Failure { line: first_line(answer), error: String::new() });
    }
    structured(document).or_else(|| Some(with_words(document, told_in(&map))))
}

/// What a document tells beside saying that it failed.
fn told_in(map: &Map<String, Value>) -> Option<String> {
    ["message", "detail", "reason", "title", "stderr"].iter().find_map(|key| error_text(map.get(*key)?))
}

/// The failure with these words of the document.
fn with_words(document: &str, words: Option<String>) -> Failure<'_> {
    let text = words.unwrap_or_default();
    let at = document.find(first_line(&text)).unwrap_or(0);
    let line = &document[at..];
    let line = if text.is_empty() { document } else { line.get(..first_line(&text).len()).unwrap_or(line) };
    Failure { line, error: signature::of(first_line(&text)) }
}

/// The error of a part of what was asked for: an answer with status 200 that carries one all the same. Only a field of that
/// very name, and in no list: rows of data have errors, too.
fn nested_error(map: &Map<String, Value>, depth: usize) -> Option<String> {
    let parts = || map.values().filter_map(Value::as_object);
    let deeper = || parts().find_map(|part| nested_error(part, depth - 1));
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

/// The message of an answer that is a status and nothing else, as remote procedure calls answer: a code and what it means.
fn status_text(map: &Map<String, Value>) -> Option<String> {
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

/// Why the fields of a request were refused, as validators tell it: a list of places, each with a message.
fn refused_fields(map: &Map<String, Value>) -> Option<String> {
    let list = map.get("detail")?.as_array()?;
    let place = |item: &Value| item.get("loc").is_some_and(Value::is_array) && item.get("msg").is_some();
    (!list.is_empty() && list.iter().all(place)).then(|| error_text(&list[0]))?
}

/// Fields that say "failed" without saying why.
fn says_failed(map: &Map<String, Value>) -> bool {
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
