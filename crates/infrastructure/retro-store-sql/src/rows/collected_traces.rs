//! Converts rows of collected traces and their spans.

use std::fmt::Write as _;

use retro_core::trace_collection::SpanOutline;
use retro_store::{ClaimedTrace, Result, StoredSpan, TraceClaim, decompress_document};

use super::metrics::non_negative_millis;
use crate::at;

/// Trace that is stored when spans of it come.
pub(crate) struct KnownTrace {
    pub(crate) bytes: u64,
    pub(crate) read_spans: u64,
    pub(crate) is_closed: bool,
}

/// Row of `collected_traces`, when spans of it come.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct KnownTraceRecord {
    trace_id: String,
    bytes: i64,
    read_spans: i64,
    closed_ms: Option<i64>,
}

impl KnownTraceRecord {
    /// Converts the row to the id of the trace, and the trace. Fails if a value is damaged.
    pub(crate) fn into_known(self) -> Result<(String, KnownTrace)> {
        let place = at("collected_traces", &self.trace_id);
        let known = KnownTrace {
            bytes: place.parse_unsigned(self.bytes)?,
            read_spans: place.parse_unsigned(self.read_spans)?,
            is_closed: self.closed_ms.is_some(),
        };
        Ok((self.trace_id, known))
    }
}

/// Row of `collected_traces` that was claimed.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct ClaimedTraceRecord {
    tenant: String,
    trace_id: String,
    attempt: i64,
    spans: i64,
    read_spans: i64,
    quiet_ms: i64,
    workflow: Option<String>,
}

impl ClaimedTraceRecord {
    /// Converts the row. Fails if a value is damaged.
    pub(crate) fn into_claimed(self) -> Result<ClaimedTrace> {
        let place = at("collected_traces", &self.trace_id);
        let claim = TraceClaim {
            tenant: place.parse(&self.tenant)?,
            attempt: place.parse_unsigned(self.attempt)?,
            spans: place.parse_unsigned(self.spans)?,
            trace_id: self.trace_id.clone(),
        };
        Ok(ClaimedTrace {
            claim,
            read_spans: place.parse_unsigned(self.read_spans)?,
            quiet_ms: non_negative_millis(self.quiet_ms),
            workflow: self.workflow.map(|workflow| place.parse(&workflow)).transpose()?,
        })
    }
}

/// Row of `trace_spans` without its document.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct OutlineRecord {
    trace_id: String,
    span_id: String,
    parent_id: String,
    ended: i64,
    remote: i64,
    is_call: i64,
}

impl OutlineRecord {
    /// Converts the row to the id of the trace, and the outline.
    pub(crate) fn into_outline(self) -> (String, SpanOutline) {
        let outline = SpanOutline {
            span_id: self.span_id,
            parent_id: self.parent_id,
            has_ended: self.ended != 0,
            has_remote_parent: self.remote != 0,
            is_call: self.is_call != 0,
        };
        (self.trace_id, outline)
    }
}

/// Row of `trace_spans`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct StoredSpanRecord {
    span_id: String,
    parent_id: String,
    ended: i64,
    remote: i64,
    is_call: i64,
    document: Vec<u8>,
}

impl StoredSpanRecord {
    /// Converts the row of a span of this trace. Fails if its document is damaged.
    pub(crate) fn into_stored(self, trace_id: &str) -> Result<StoredSpan> {
        let place = at("trace_spans", format!("{trace_id}/{}", self.span_id));
        let document = decompress_document(&self.document).map_err(|problem| place.damaged_error(problem))?;
        let outline = SpanOutline {
            span_id: self.span_id,
            parent_id: self.parent_id,
            has_ended: self.ended != 0,
            has_remote_parent: self.remote != 0,
            is_call: self.is_call != 0,
        };
        Ok(StoredSpan { outline, document })
    }
}

/// Returns the stored form of a flag.
pub(crate) const fn to_flag(is_set: bool) -> i64 {
    if is_set { 1 } else { 0 }
}

/// Returns bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}
