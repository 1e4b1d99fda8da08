//! Computes an upper bound for the cost of parsing a JSON text, without allocating memory.

use crate::dead_letter::{Code, Rejection};

use super::JsonBounds;

/// Maximum nesting depth. It is one less than the limit of the JSON parser, which protects the stack. Events of real
/// engines stay below 20.
pub const DEPTH_MAX: usize = 127;
/// Maximum number of values and keys in one text. At twelve bytes each they need 12 MiB. A trajectory of 100,000 turns
/// with one call each has about eight per turn.
pub const VALUES_MAX: usize = 1024 * 1024;
/// Maximum length of a key, in bytes as written. Agents use paths and addresses as keys, and sometimes whole
/// commands.
pub const KEY_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of a number, in characters. The largest `f64` written without an exponent has 309 digits.
pub const NUMBER_BYTES_MAX: usize = 400;

/// Scans a text, which need not be valid JSON, and returns an upper bound for its number of values and keys. Fails with
/// `too_deep`, with `too_many_values`, or with `oversized` when a key or a number is too long. The error states the
/// byte offset and never quotes the text.
pub(super) fn count_values(text: &str, bounds: JsonBounds) -> Result<usize, Rejection> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut values) = (0, 0usize, 0usize);
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b'"' => string_end(bytes, at),
            b'{' | b'[' => {
                depth += 1;
                at + 1
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at + 1
            }
            b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => at + 1,
            _ => scalar_end(bytes, at),
        };
        if !matches!(byte, b'}' | b']' | b',' | b':' | b' ' | b'\t' | b'\n' | b'\r') {
            values += 1;
        }
        if depth > DEPTH_MAX {
            let detail = format!("byte {at} is nested deeper than {DEPTH_MAX} levels");
            return Err(Rejection::of_message(Code::TooDeep, detail));
        }
        if values > bounds.values_max {
            let detail =
                format!("more than {} values and keys, by byte {at}; split it up", bounds.values_max);
            return Err(Rejection::of_message(Code::TooManyValues, detail));
        }
        check_length(bytes, at, end)?;
        at = end;
    }
    Ok(values)
}

/// Rejects a key or a number that is longer than its maximum.
fn check_length(bytes: &[u8], at: usize, end: usize) -> Result<(), Rejection> {
    let (what, max) = match bytes[at] {
        b'"' if end - at > KEY_BYTES_MAX && is_key(bytes, end) => ("key", KEY_BYTES_MAX),
        b'-' | b'0'..=b'9' => ("number", NUMBER_BYTES_MAX),
        _ => return Ok(()),
    };
    if end - at <= max {
        return Ok(());
    }
    let detail = format!("the {what} at byte {at} is {} bytes long; at most {max} are taken", end - at);
    Err(Rejection::of_message(Code::Oversized, detail))
}

/// Returns whether the string that ends here is a key, that is, whether a colon follows it.
fn is_key(bytes: &[u8], end: usize) -> bool {
    bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// Returns the offset after the string that begins at `at`, or the end of the text when the string is not closed.
pub(super) fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while let Some(byte) = bytes.get(next) {
        match byte {
            b'\\' => next += 2,
            b'"' => return next + 1,
            _ => next += 1,
        }
    }
    bytes.len()
}

/// Returns the offset after the number, `true`, `false` or `null` that begins at `at`. In text that is not JSON, it is
/// the offset of the next delimiter after `at`.
pub(super) fn scalar_end(bytes: &[u8], at: usize) -> usize {
    let is_end = |byte: &u8| {
        matches!(byte, b',' | b':' | b'{' | b'}' | b'[' | b']' | b'"') || byte.is_ascii_whitespace()
    };
    bytes[at..].iter().skip(1).position(is_end).map_or(bytes.len(), |length| at + 1 + length)
}
