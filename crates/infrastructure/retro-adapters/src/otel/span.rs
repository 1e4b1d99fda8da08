//! A span, as every encoding of a trace gives it.

use jiff::Timestamp;
use serde_json::{Map, Value};

/// Start of the year 2000, in nanoseconds since 1970. A span of before that has a clock that counts from anywhere: its times
/// order it, and say nothing else.
const EARLIEST_NS: i128 = 946_684_800_000_000_000;

/// Attributes by key.
pub(crate) type Attributes = Map<String, Value>;

/// A finished span.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Span {
    /// Id of the trace in lower-case hexadecimal digits, never empty and never zero.
    pub(crate) trace_id: String,
    /// Id of the span in its trace.
    pub(crate) span_id: String,
    /// Id of the span that contains it; empty for the root.
    pub(crate) parent_id: String,
    /// `true` if the span that contains it is of another process, as its flags or its kind say.
    pub(crate) has_remote_parent: bool,
    pub(crate) name: String,
    /// Start, in nanoseconds since 1970; 0 if not said.
    pub(crate) start: i128,
    /// End, in nanoseconds since 1970; 0 if the span has not ended or does not say when.
    pub(crate) end: i128,
    pub(crate) attributes: Attributes,
    pub(crate) events: Vec<SpanEvent>,
    pub(crate) status: SpanStatus,
    /// What the status says of an error.
    pub(crate) status_message: String,
    /// Attributes of the resource that wrote the span.
    pub(crate) resource: std::sync::Arc<Attributes>,
}

/// Something noted during a span.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SpanEvent {
    pub(crate) name: String,
    pub(crate) attributes: Attributes,
}

/// Status of a span.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum SpanStatus {
    #[default]
    Unset,
    Ok,
    Error,
}

impl Span {
    /// Returns the first of these attributes that is a text and not empty.
    pub(crate) fn text(&self, keys: &[&str]) -> Option<&str> {
        first_text(&self.attributes, keys)
    }

    /// Returns the first of these attributes that is a whole number, in digits or as one.
    pub(crate) fn count(&self, keys: &[&str]) -> Option<u64> {
        keys.iter().find_map(|key| {
            let value = self.attributes.get(*key)?;
            value.as_u64().or_else(|| value.as_str()?.parse().ok())
        })
    }

    /// Returns `true` if the span ended with an error: its status says so, or it has an `error.type`.
    pub(crate) fn has_failed(&self) -> bool {
        self.status == SpanStatus::Error || self.text(&["error.type"]).is_some()
    }

    /// Returns the time of the start; `None` if not said.
    pub(crate) fn started_at(&self) -> Option<Timestamp> {
        timestamp(self.start)
    }

    /// Returns the time of the end; `None` if not said.
    pub(crate) fn ended_at(&self) -> Option<Timestamp> {
        timestamp(self.end)
    }
}

/// Bit of a span's flags that says that the next one is set at all.
pub(crate) const FLAG_KNOWS_REMOTE: u32 = 0x100;
/// Bit of a span's flags that says that the parent is of another process.
pub(crate) const FLAG_IS_REMOTE: u32 = 0x200;
/// Kinds of spans that handle what another process has sent: server and consumer.
pub(crate) const KINDS_OF_REQUESTS: [i32; 2] = [2, 5];

/// Returns `true` if a span with a parent, these flags and this kind was caused by another process.
pub(crate) fn is_caused_remotely(parent_id: &str, flags: u32, is_of_request: bool) -> bool {
    let says = flags & FLAG_KNOWS_REMOTE != 0;
    !parent_id.is_empty() && (if says { flags & FLAG_IS_REMOTE != 0 } else { is_of_request })
}

/// Returns the first of these attributes that is a text and not empty.
pub(crate) fn first_text<'a>(attributes: &'a Attributes, keys: &[&str]) -> Option<&'a str> {
    keys.iter().filter_map(|key| attributes.get(*key)?.as_str()).find(|text| !text.trim().is_empty())
}

fn timestamp(nanoseconds: i128) -> Option<Timestamp> {
    (nanoseconds >= EARLIEST_NS).then(|| Timestamp::from_nanosecond(nanoseconds).ok()).flatten()
}

/// Returns an id in lower-case digits without `0x`, or an empty text for an id that is not set: no digit, or only zeros.
pub(crate) fn normalize_id(text: &str) -> String {
    let digits = text.strip_prefix("0x").unwrap_or(text).to_ascii_lowercase();
    if digits.bytes().all(|digit| digit == b'0') { String::new() } else { digits }
}
