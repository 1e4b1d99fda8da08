//! Defines emitted events, and parses event identities from broker messages.
//!
//! The checker has its own parser so that it shares no parsing bug with the program.

use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Event emitted by a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Tenant that owns the event.
    pub tenant: String,
    /// Workflow to which the event is addressed.
    pub workflow: String,
    /// Identity and content hash of the event; `None` if the payload is invalid and must become a dead
    /// letter.
    pub parsed: Option<ParsedEvent>,
    /// SHA-256 of the payload, in lower-case hexadecimal.
    pub payload_sha256: String,
}

/// Identity and content hash of a parsed event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParsedEvent {
    /// `source` attribute of the CloudEvent.
    pub source: String,
    /// `id` attribute of the CloudEvent.
    pub id: String,
    /// Id of the reported run.
    pub run: String,
    /// SHA-256 of `data` as canonical JSON, in lower-case hexadecimal.
    pub content_sha256: String,
}

/// Identity of an event: tenant, source and id.
pub(crate) type Identity<'a> = (&'a str, &'a str, &'a str);

impl Event {
    /// Creates an event from its payload, a CloudEvent in structured mode.
    pub fn from_payload(tenant: &str, workflow: &str, payload: &[u8]) -> Self {
        let parsed = serde_json::from_slice(payload).ok().and_then(|event| parse_event(&event));
        let (tenant, workflow) = (tenant.to_owned(), workflow.to_owned());
        Self { tenant, workflow, parsed, payload_sha256: sha256_hex(payload) }
    }

    /// Returns the identity of the event; `None` if the payload is invalid.
    pub(crate) fn identity(&self) -> Option<Identity<'_>> {
        self.parsed.as_ref().map(|parsed| (self.tenant.as_str(), parsed.source.as_str(), parsed.id.as_str()))
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tenant, workflow, .. } = self;
        match &self.parsed {
            Some(ParsedEvent { source, id, run, .. }) => {
                write!(f, "event {id:?} of {source:?} (tenant {tenant}, workflow {workflow}, run {run})")
            }
            None => write!(
                f,
                "an unparsable message of tenant {tenant}, workflow {workflow} (sha256 {})",
                self.payload_sha256
            ),
        }
    }
}

fn parse_event(event: &Value) -> Option<ParsedEvent> {
    let data = &event["data"];
    Some(ParsedEvent {
        source: event["source"].as_str()?.to_owned(),
        id: event["id"].as_str()?.to_owned(),
        run: data["run_id"].as_str()?.to_owned(),
        content_sha256: content_sha256(data),
    })
}

/// Parses the source and id of a CloudEvent from a message in binary or structured mode.
pub(crate) fn parse_source_and_id(headers: &[(String, String)], payload: &[u8]) -> Option<(String, String)> {
    let header = |wanted: &str| {
        let found = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.clone())
    };
    if let (Some(source), Some(id)) = (header("ce-source"), header("ce-id")) {
        return Some((source, id));
    }
    let event: Value = serde_json::from_slice(payload).ok()?;
    Some((event["source"].as_str()?.to_owned(), event["id"].as_str()?.to_owned()))
}

/// Parses the tenant from the second-to-last token of a subject, which is percent-encoded with `=` for `%`.
pub(crate) fn parse_tenant(subject: &str) -> Option<String> {
    let token = subject.rsplit('.').nth(1)?;
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'=').then(|| after.get(..2)).flatten();
        match escaped {
            Some(digits) => {
                bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Hashes a value as canonical JSON: sorted keys, no whitespace, whole numbers without a fraction.
pub(crate) fn content_sha256(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    sha256_hex(text.as_bytes())
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_unstable();
            write_separated(out, ['{', '}'], &keys, |key, out| {
                let _ = write!(out, "{}:", Value::from(key.as_str()));
                write_canonical(&map[*key], out);
            });
        }
        Value::Array(items) => write_separated(out, ['[', ']'], items, write_canonical),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            // Up to 2^53 a float represents each whole number exactly. Negative zero is written as zero.
            Some(whole) if whole.fract() == 0.0 && whole.abs() < 9_007_199_254_740_992.0 => {
                let _ = write!(out, "{}", if whole == 0.0 { 0.0 } else { whole });
            }
            _ => {
                let _ = write!(out, "{number}");
            }
        },
        plain => {
            let _ = write!(out, "{plain}");
        }
    }
}

fn write_separated<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: &[T],
    mut each: impl FnMut(&T, &mut String),
) {
    out.push(open);
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        each(item, out);
    }
    out.push(close);
}

/// Returns the SHA-256 of bytes, in lower-case hexadecimal.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_content_has_the_same_hash_in_any_notation() {
        let one: Value = serde_json::from_str(r#"{"b": [1.0, -0.0, 1.5], "a": "ü\n"}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a":"ü\n","b":[1,0,1.5]}"#).unwrap();
        assert_eq!(content_sha256(&one), content_sha256(&other));
        let mut text = String::new();
        write_canonical(&one, &mut text);
        assert_eq!(text, r#"{"a":"ü\n","b":[1,0,1.5]}"#);
    }

    #[test]
    fn the_tenant_is_read_from_the_subject_and_the_identity_from_either_mode() {
        assert_eq!(parse_tenant("retro.run.completed.a=2Eb.flow").as_deref(), Some("a.b"));
        let structured = parse_source_and_id(&[], br#"{"source":"s","id":"1"}"#);
        let headers = [("CE-Source".to_owned(), "s".to_owned()), ("ce-id".to_owned(), "1".to_owned())];
        assert_eq!(structured, parse_source_and_id(&headers, b"whatever"));
        assert_eq!(parse_source_and_id(&[], b"\xff"), None);
        assert_eq!(Event::from_payload("t", "w", b"poison").parsed, None);
    }
}
