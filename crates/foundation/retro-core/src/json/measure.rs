//! Measures a JSON text before it is parsed, without allocating memory, and rejects texts that are costly to
//! parse.

use crate::dead_letter::{DeadLetterCode, Rejection};

use super::bounds::{DEPTH_MAX, JsonBounds, KEY_BYTES_MAX, NUMBER_BYTES_MAX};

/// Returns an upper bound for the number of values and keys in a text, which need not be valid JSON. Fails
/// with `too_deep`, with `too_many_values`, or with `oversized` if a key or a number is too long. The error
/// states the byte offset and never quotes the text.
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
                // The grammar is not checked yet, so closing brackets may outnumber opening ones.
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
            return Err(Rejection::of_message(DeadLetterCode::TooDeep, detail));
        }
        if values > bounds.values_max {
            let detail =
                format!("more than {} values and keys, by byte {at}; split it up", bounds.values_max);
            return Err(Rejection::of_message(DeadLetterCode::TooManyValues, detail));
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
    Err(Rejection::of_message(DeadLetterCode::Oversized, detail))
}

/// Returns `true` if the string that ends at `end` is a key, that is, if a colon follows it.
fn is_key(bytes: &[u8], end: usize) -> bool {
    bytes[end..].iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

/// Returns the offset just past the string that begins at `at`, or the end of the text if the string is not
/// closed.
pub(super) fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut next = at + 1;
    while let Some(byte) = bytes.get(next) {
        match byte {
            // Skips the escaped character, or an escaped quote would end the string.
            b'\\' => next += 2,
            b'"' => return next + 1,
            _ => next += 1,
        }
    }
    bytes.len()
}

/// Returns the offset just past the number, `true`, `false` or `null` that begins at `at`. In text that is
/// not JSON, this is the offset of the next delimiter after `at`.
pub(super) fn scalar_end(bytes: &[u8], at: usize) -> usize {
    let is_end = |byte: &u8| {
        matches!(byte, b',' | b':' | b'{' | b'}' | b'[' | b']' | b'"') || byte.is_ascii_whitespace()
    };
    // Skips the first byte, so the scan advances even if that byte is a delimiter.
    bytes[at..].iter().skip(1).position(is_end).map_or(bytes.len(), |length| at + 1 + length)
}
