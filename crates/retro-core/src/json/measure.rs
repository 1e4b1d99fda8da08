//! What a JSON text would cost, found out without building anything.

use crate::dead_letter::{Code, Rejection};

use super::Bounds;

/// The deepest nesting that is read. One less than the limit of the JSON parser itself, which protects the stack; events
/// of real engines stay below 20.
pub const DEPTH_MAX: usize = 127;
/// The most values and keys of one text: twelve bytes each are 12 MiB. A trajectory of 100,000 turns with a call each has
/// some eight a turn.
pub const VALUES_MAX: usize = 1024 * 1024;
/// The longest key, in bytes as written. Agents write paths and addresses as keys, and now and then a whole command.
pub const KEY_BYTES_MAX: usize = 64 * 1024;
/// The longest number, in characters: the largest double written without an exponent has 309 digits.
pub const NUMBER_BYTES_MAX: usize = 400;

/// Walks over a text, which need not be JSON, and returns how many values and keys it holds at most. Fails with
/// `too_deep`, `too_many_values`, or `oversized` for a key or a number; says the byte, never the text.
pub(super) fn count_values(text: &str, bounds: Bounds) -> Result<usize, Rejection> {
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
            return Err(Rejection::whole(Code::TooDeep, detail));
        }
        if values > bounds.values_max {
            let detail =
                format!("more than {} values and keys, by byte {at}; split it up", bounds.values_max);
            return Err(Rejection::whole(Code::TooManyValues, detail));
        }
        check_length(bytes, at, end)?;
        at = end;
    }
    Ok(values)
}

/// Refuses a number or a key that is too long.
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
    Err(Rejection::whole(Code::Oversized, detail))
}

/// A string is a key when a colon follows it.
fn is_key(bytes: &[u8], end: usize) -> bool {
    bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// The offset after the string that begins at `at`; the end of the text when it is not closed.
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

/// The offset after the number, `true`, `false` or `null` that begins at `at`, or after whatever else stands there.
pub(super) fn scalar_end(bytes: &[u8], at: usize) -> usize {
    let is_end = |byte: &u8| {
        matches!(byte, b',' | b':' | b'{' | b'}' | b'[' | b']' | b'"') || byte.is_ascii_whitespace()
    };
    bytes[at..].iter().skip(1).position(is_end).map_or(bytes.len(), |length| at + 1 + length)
}
