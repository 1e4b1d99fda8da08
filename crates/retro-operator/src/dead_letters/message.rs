//! The message itself, redacted.

use bytes::Bytes;
use retro_core::json::{Bounds, Document, Node};
use retro_events::encoding;
use retro_redact::{Redactor, TEXT_BYTES_MAX};
use serde::Serialize;

use super::Redact;
use crate::words;

/// Lines of a payload that a terminal is shown: some screenfuls. `-o json` has all of it.
const LINES_MAX: usize = 200;
/// Characters of it, since a payload may be one line.
const CHARS_MAX: usize = 20_000;

/// Values and keys of a payload that is indented: each may take a line of its own, as deep as it is nested.
const INDENTED_VALUES_MAX: usize = 50_000;

/// A message, redacted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MessageView {
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The payload as text, unpacked where a header says how; JSON is indented, and bytes that are no UTF-8 are replaced.
    pub payload: String,
    /// Whether the payload, unpacked, is UTF-8.
    pub payload_utf8: bool,
}

impl MessageView {
    /// A message without its secrets.
    pub(crate) fn of(headers: &[(String, String)], payload: &[u8], redact: Redact<'_>) -> Self {
        let packed_by = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(encoding::HEADER));
        let packed = Bytes::copy_from_slice(payload);
        let unpacked = encoding::unpack(packed_by.map(|(_, how)| how.as_str()), &packed, TEXT_BYTES_MAX);
        let payload = unpacked.unwrap_or(packed);
        Self {
            headers: headers.iter().map(|(name, value)| header(name, value, redact)).collect(),
            payload: shown(&payload, redact),
            payload_utf8: std::str::from_utf8(&payload).is_ok(),
        }
    }

    /// All of it, a header a line.
    pub(super) fn lines(&self) -> String {
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("{headers}\n{}\n", self.payload)
    }

    /// The message for a terminal.
    pub(super) fn text(&self) -> String {
        let header =
            |(name, value): &(String, String)| format!("{}: {}\n", words::line(name), words::line(value));
        let headers: String = self.headers.iter().map(header).collect();
        let lines = self.payload.lines().count();
        let first: Vec<_> = self.payload.lines().take(LINES_MAX).collect();
        let bounded = words::short(&first.join("\n"), CHARS_MAX);
        let left_out = if lines > LINES_MAX || bounded.ends_with('…') {
            format!("\n(the first part of {}; `-o json` shows all of it)", words::count(lines as u64, "line"))
        } else {
            String::new()
        };
        let note = if self.payload_utf8 { "" } else { " (not UTF-8: shown with replacements)" };
        let between = if headers.is_empty() { "" } else { "\n" };
        format!("{headers}{between}{}{left_out}{note}\n", words::visible(&bounded))
    }
}

fn pretty(json: Node<'_>) -> String {
    serde_json::to_string_pretty(&json).expect("JSON is written as JSON")
}

/// A header whose name may tell that its value is a secret.
fn header(name: &str, value: &str, redact: Redact<'_>) -> (String, String) {
    let named = Document::of_value(&serde_json::json!({ name: value }));
    let (clean, _) = Redactor::shared().json(named.root());
    let clean = Document::of_written(clean.into_bytes());
    let field = clean.root().members().and_then(|mut fields| fields.next());
    let (name, value) =
        field.map_or((name.into(), value.into()), |(name, value)| (name, value.as_str().unwrap_or_default()));
    (redact(&name), redact(&value))
}

/// A payload as text. In JSON the name of a field may tell that its value is a secret; anything else is searched as text.
fn shown(payload: &Bytes, redact: Redact<'_>) -> String {
    match Document::parse(payload, Bounds::bytes(TEXT_BYTES_MAX)) {
        Ok(json) => {
            let (clean, _) = Redactor::shared().json(json.root());
            let clean = Document::of_written(clean.into_bytes());
            let indented = clean.root().size() <= INDENTED_VALUES_MAX;
            redact(&if indented { pretty(clean.root()) } else { clean.root().text().to_owned() })
        }
        _ => redact(&String::from_utf8_lossy(payload)),
    }
}
