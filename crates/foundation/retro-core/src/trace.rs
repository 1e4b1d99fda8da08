//! W3C Trace Context of a message, carried in headers and stored in rows. No decision and no id depends on
//! it.

use std::fmt;
use std::str::FromStr;

/// Maximum length of a `tracestate`, in bytes. Every row and header carries it, so a longer one is dropped,
/// as the standard allows.
const STATE_BYTES_MAX: usize = 512;

/// Reference to a span that other spans continue or link to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// Id of the trace; never zero.
    pub trace_id: u128,
    /// Id of the span; never zero.
    pub span_id: u64,
    /// Trace flags; bit 0 means that the trace is sampled.
    pub flags: u8,
    /// Vendor data from the `tracestate` header, unchanged; `None` if there is none or it cannot be carried.
    pub state: Option<String>,
}

/// Error for a string that is not a trace context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a W3C trace context: expected 00-<32 hex digits>-<16>-<2> in lower case, neither id zero")]
pub struct TraceParseError;

impl TraceContext {
    /// Parses the `traceparent` and `tracestate` headers. Fails if `traceparent` is invalid. Drops a
    /// `tracestate` that cannot be carried.
    pub fn from_headers(parent: &str, state: Option<&str>) -> Result<Self, TraceParseError> {
        let fields: Vec<&str> = parent.trim().split('-').collect();
        // Version 00 has exactly four fields; later versions may have more.
        let (version, ids) = match fields[..] {
            [version, trace, span, flags] => (version, (trace, span, flags)),
            [version, trace, span, flags, ..] if version != "00" => (version, (trace, span, flags)),
            _ => return Err(TraceParseError),
        };
        let (trace, span, flags) = ids;
        if version == "ff" || version.len() != 2 || !is_hex(version) {
            return Err(TraceParseError);
        }
        let context = Self {
            trace_id: parse_hex(trace, 32)?,
            span_id: u64::try_from(parse_hex(span, 16)?).map_err(|_| TraceParseError)?,
            flags: u8::try_from(parse_hex(flags, 2)?).map_err(|_| TraceParseError)?,
            state: state.map(str::trim).filter(|state| is_valid_state(state)).map(str::to_owned),
        };
        if context.trace_id == 0 || context.span_id == 0 { Err(TraceParseError) } else { Ok(context) }
    }

    /// Returns the value of the `traceparent` header.
    pub fn traceparent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }

    /// Returns `true` if the origin of the trace records it.
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }
}

/// Formats the context as stored in rows: `traceparent`, followed by a space and `tracestate` if there is
/// one.
impl fmt::Display for TraceContext {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.traceparent())?;
        self.state.as_ref().map_or(Ok(()), |state| write!(out, " {state}"))
    }
}

impl FromStr for TraceContext {
    type Err = TraceParseError;

    fn from_str(text: &str) -> Result<Self, TraceParseError> {
        match text.split_once(' ') {
            Some((parent, state)) => Self::from_headers(parent, Some(state)),
            None => Self::from_headers(text, None),
        }
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn parse_hex(text: &str, digits: usize) -> Result<u128, TraceParseError> {
    // `from_str_radix` alone would accept a leading `+` and upper case.
    if text.len() != digits || !is_hex(text) {
        return Err(TraceParseError);
    }
    u128::from_str_radix(text, 16).map_err(|_| TraceParseError)
}

/// Returns `true` if headers and rows can carry a `tracestate`: it is short enough and printable ASCII.
fn is_valid_state(state: &str) -> bool {
    (1..=STATE_BYTES_MAX).contains(&state.len()) && state.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_round_trips_with_and_without_state() {
        for text in [PARENT.to_owned(), format!("{PARENT} vendor=a,other=b")] {
            let context: TraceContext = text.parse().unwrap();
            assert_eq!((context.to_string(), context.is_sampled()), (text, true));
        }
        let later =
            TraceContext::from_headers(&PARENT.replacen("00", "01", 1).replace("-01", "-00-more"), None);
        assert_eq!(later.unwrap().traceparent(), PARENT.replace("b7-01", "b7-00"));
    }

    #[test]
    fn invalid_trace_contexts_are_rejected() {
        let zero_trace = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let zero_span = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";
        let upper = PARENT.to_ascii_uppercase();
        let version = PARENT.replacen("00", "ff", 1);
        let longer = format!("{PARENT}-00");
        let plus = PARENT.replace("00f067aa", "+0f067aa");
        for text in
            ["", "00", zero_trace, zero_span, &upper, &version, &longer, &plus, "00-4b-00-01", "é-é-é-é"]
        {
            assert_eq!(text.parse::<TraceContext>(), Err(TraceParseError), "{text}");
        }
    }

    #[test]
    fn an_invalid_state_is_dropped() {
        for state in ["", "a\nb", "ä=1", &"x".repeat(STATE_BYTES_MAX + 1)] {
            assert_eq!(TraceContext::from_headers(PARENT, Some(state)).unwrap().state, None, "{state:?}");
        }
    }
}
