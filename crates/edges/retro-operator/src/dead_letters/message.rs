//! Builds the redacted view of a dead letter's message.

use bytes::Bytes;
use retro_core::json::{JsonBounds, JsonDocument, JsonNode};
use retro_events::encoding;
use retro_redact::{Redactor, TEXT_BYTES_MAX};
use serde::Serialize;
use utoipa::ToSchema;

use crate::redact::RedactFn;
use crate::text;

/// Maximum number of payload lines in terminal output: a few screens. `-o json` prints all lines.
const TERMINAL_LINES_MAX: usize = 200;
/// Maximum number of payload characters in terminal output, because a payload may be a single line.
const TERMINAL_CHARS_MAX: usize = 20_000;

/// Maximum number of values and keys in a payload that is indented. Indentation puts each on its own line,
/// which would multiply the size of a larger payload.
const INDENTED_VALUES_MAX: usize = 50_000;

/// A redacted message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = DeadLetterMessage)]
pub struct MessageView {
    /// Headers as pairs of name and value.
    #[schema(value_type = Vec<Vec<String>>)]
    pub headers: Vec<(String, String)>,
    /// Payload as text, decompressed if a header names the encoding. JSON is indented; bytes that are not
    /// UTF-8 are replaced.
    pub payload: String,
    /// `true` if the decompressed payload is UTF-8.
    pub payload_utf8: bool,
}

impl MessageView {
    /// Builds the redacted view of a message.
    pub(crate) fn from_message(headers: &[(String, String)], payload: &[u8], redact: RedactFn<'_>) -> Self {
        let packed_by =
            headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(encoding::CONTENT_ENCODING));
        let packed = Bytes::copy_from_slice(payload);
        let unpacked =
            encoding::decompress_payload(packed_by.map(|(_, how)| how.as_str()), &packed, TEXT_BYTES_MAX);
        // A payload that cannot be decompressed is shown as it is, because that may be the reason for the
        // rejection.
        let payload = unpacked.unwrap_or(packed);
        Self {
            headers: headers.iter().map(|(name, value)| redact_header(name, value, redact)).collect(),
            payload: render_payload(&payload, redact),
            payload_utf8: std::str::from_utf8(&payload).is_ok(),
        }
    }

    /// Renders the whole message, one header per line.
    pub(super) fn render_lines(&self) -> String {
        let headers: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        format!("{headers}\n{}\n", self.payload)
    }

    /// Renders the message for a terminal, bounded in lines and characters.
    pub(super) fn render_text(&self) -> String {
        let header = |(name, value): &(String, String)| {
            format!("{}: {}\n", text::single_line(name), text::single_line(value))
        };
        let headers: String = self.headers.iter().map(header).collect();
        let lines = self.payload.lines().count();
        let first: Vec<_> = self.payload.lines().take(TERMINAL_LINES_MAX).collect();
        let bounded = text::truncate(&first.join("\n"), TERMINAL_CHARS_MAX);
        let left_out = if lines > TERMINAL_LINES_MAX || bounded.ends_with('…') {
            format!(
                "\n(the first part of {}; `-o json` shows all of it)",
                text::format_count(lines as u64, "line")
            )
        } else {
            String::new()
        };
        let note = if self.payload_utf8 { "" } else { " (not UTF-8: shown with replacements)" };
        let between = if headers.is_empty() { "" } else { "\n" };
        format!("{headers}{between}{}{left_out}{note}\n", text::printable(&bounded))
    }
}

fn indent_json(json: JsonNode<'_>) -> String {
    serde_json::to_string_pretty(&json).expect("parsed JSON can be serialized")
}

/// Redacts a header. The name and the value are redacted together as a JSON field, because a name such as
/// `Authorization` marks its value as a secret.
fn redact_header(name: &str, value: &str, redact: RedactFn<'_>) -> (String, String) {
    let named = JsonDocument::from_value(&serde_json::json!({ name: value }));
    let (clean, _) = Redactor::shared().redact_json(named.root());
    let clean = JsonDocument::from_serialized(clean.into_bytes());
    let field = clean.root().members().and_then(|mut fields| fields.next());
    let (name, value) =
        field.map_or((name.into(), value.into()), |(name, value)| (name, value.as_str().unwrap_or_default()));
    (redact(&name), redact(&value))
}

/// Renders a payload as redacted text. In JSON, a field name can mark its value as a secret; any other
/// payload is searched as plain text.
fn render_payload(payload: &Bytes, redact: RedactFn<'_>) -> String {
    match JsonDocument::parse(payload, JsonBounds::with_bytes_max(TEXT_BYTES_MAX)) {
        Ok(json) => {
            // By field names first and then as plain text, because the value of any field may contain a
            // secret.
            let (clean, _) = Redactor::shared().redact_json(json.root());
            let clean = JsonDocument::from_serialized(clean.into_bytes());
            // Indenting deeply nested JSON can multiply its size.
            let indented = clean.root().descendant_count() <= INDENTED_VALUES_MAX;
            redact(&if indented { indent_json(clean.root()) } else { clean.root().raw_text().to_owned() })
        }
        _ => redact(&String::from_utf8_lossy(payload)),
    }
}
