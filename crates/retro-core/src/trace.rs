//! Where a message stands in a trace: W3C Trace Context, as it travels in headers and is kept in rows. Nothing is decided by
//! it, and no id is derived from it.

use std::fmt;
use std::str::FromStr;

/// A longer `tracestate` is left out, as the standard allows; every row and header carries it.
const STATE_BYTES_MAX: usize = 512;

/// A span that something else continues or is linked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// Of the whole trace; never zero.
    pub trace_id: u128,
    /// Of the span; never zero.
    pub span_id: u64,
    /// Bit 0: it is recorded.
    pub flags: u8,
    /// What vendors add, as it came.
    pub state: Option<String>,
}

/// Why a text is no trace context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no W3C trace context: 00-<32 hex digits>-<16>-<2> in lower case, neither id zero")]
pub struct NoTrace;

impl TraceContext {
    /// Of the two headers. Fails when the first cannot be read; the second is left out when it cannot be carried.
    pub fn of_headers(parent: &str, state: Option<&str>) -> Result<Self, NoTrace> {
        let fields: Vec<&str> = parent.trim().split('-').collect();
        // A later version may have more fields; this one has four.
        let (version, ids) = match fields[..] {
            [version, trace, span, flags] => (version, (trace, span, flags)),
            [version, trace, span, flags, ..] if version != "00" => (version, (trace, span, flags)),
            _ => return Err(NoTrace),
        };
        let (trace, span, flags) = ids;
        if version == "ff" || version.len() != 2 || !is_hex(version) {
            return Err(NoTrace);
        }
        let context = Self {
            trace_id: number(trace, 32)?,
            span_id: u64::try_from(number(span, 16)?).map_err(|_| NoTrace)?,
            flags: u8::try_from(number(flags, 2)?).map_err(|_| NoTrace)?,
            state: state.map(str::trim).filter(|state| is_carried(state)).map(str::to_owned),
        };
        if context.trace_id == 0 || context.span_id == 0 { Err(NoTrace) } else { Ok(context) }
    }

    /// The header `traceparent`.
    pub fn parent(&self) -> String {
        format!("00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }

    /// Whether whoever began the trace records it.
    pub const fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }
}

/// As it is kept in a row: `traceparent`, and after a space `tracestate` when there is one.
impl fmt::Display for TraceContext {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.parent())?;
        self.state.as_ref().map_or(Ok(()), |state| write!(out, " {state}"))
    }
}

impl FromStr for TraceContext {
    type Err = NoTrace;

    fn from_str(text: &str) -> Result<Self, NoTrace> {
        match text.split_once(' ') {
            Some((parent, state)) => Self::of_headers(parent, Some(state)),
            None => Self::of_headers(text, None),
        }
    }
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn number(text: &str, digits: usize) -> Result<u128, NoTrace> {
    if text.len() != digits || !is_hex(text) {
        return Err(NoTrace);
    }
    u128::from_str_radix(text, 16).map_err(|_| NoTrace)
}

/// Printable ASCII, as both headers and rows carry it.
fn is_carried(state: &str) -> bool {
    (1..=STATE_BYTES_MAX).contains(&state.len()) && state.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_was_read_is_written_again_with_and_without_state() {
        for text in [PARENT.to_owned(), format!("{PARENT} vendor=a,other=b")] {
            let context: TraceContext = text.parse().unwrap();
            assert_eq!((context.to_string(), context.is_sampled()), (text, true));
        }
        let later =
            TraceContext::of_headers(&PARENT.replacen("00", "01", 1).replace("-01", "-00-more"), None);
        assert_eq!(later.unwrap().parent(), PARENT.replace("b7-01", "b7-00"));
    }

    #[test]
    fn what_is_no_trace_context_is_refused() {
        let zero_trace = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let zero_span = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";
        let upper = PARENT.to_ascii_uppercase();
        let version = PARENT.replacen("00", "ff", 1);
        let longer = format!("{PARENT}-00");
        let plus = PARENT.replace("00f067aa", "+0f067aa");
        for text in
            ["", "00", zero_trace, zero_span, &upper, &version, &longer, &plus, "00-4b-00-01", "é-é-é-é"]
        {
            assert_eq!(text.parse::<TraceContext>(), Err(NoTrace), "{text}");
        }
    }

    #[test]
    fn a_state_that_cannot_be_carried_is_left_out() {
        for state in ["", "a\nb", "ä=1", &"x".repeat(STATE_BYTES_MAX + 1)] {
            assert_eq!(TraceContext::of_headers(PARENT, Some(state)).unwrap().state, None, "{state:?}");
        }
    }
}
