//! Serializes JSON canonically and hashes it: equal values give equal bytes, however they were written.
//!
//! Keys are sorted by code point, white space is removed, and whole numbers are written as integers. `1`,
//! `1.0` and `10e-1` are the same value, because an emitter that sends an event again may format its numbers
//! differently.

use std::fmt::Write as _;

use serde_json::{Number, Value};
use sha2::{Digest, Sha256};

/// Returns `value` as canonical JSON: keys sorted by code point, no white space, whole numbers as integers.
pub fn canonical_json(value: &Value) -> String {
    let mut out = String::new();
    write_value(value, &mut out);
    out
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            // `str` compares bytewise, which for UTF-8 is the order of code points.
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (at, (key, value)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                let _ = write!(out, "{}:", Value::String(key.clone()));
                write_value(value, out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Number(number) => out.push_str(&self::canonical_number(number)),
        plain => {
            let _ = write!(out, "{plain}");
        }
    }
}

/// Returns a number in canonical form. A float that is a whole number below 2^53 is written as an integer.
pub fn canonical_number(number: &Number) -> String {
    exact_integer(number).map_or_else(|| number.to_string(), |whole| whole.to_string())
}

/// Converts a float to the integer that it represents. Returns `None` if the number is not a float, has a
/// fraction, or is too large to be exact.
fn exact_integer(number: &Number) -> Option<i64> {
    // From 2^53 on, a double cannot represent every integer, so its digits may not be those that were sent.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let float =
        number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT_MAX)?;
    #[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^53")]
    Some(float as i64)
}

/// Returns the SHA-256 of a value's canonical JSON in lower-case hex (64 characters).
pub fn content_hash(value: &Value) -> String {
    sha256_hex(canonical_json(value).as_bytes())
}

/// Returns the SHA-256 of `bytes` in lower-case hex (64 characters).
pub fn sha256_hex(bytes: &[u8]) -> String {
    encode_hex(&Sha256::digest(bytes))
}

/// Encodes bytes as lower-case hex digits.
pub fn encode_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_order_and_space_do_not_matter() {
        let a: Value = serde_json::from_str(r#"{"b": [1, {"y":1,"x":2}], "a": "ü\n"}"#).unwrap();
        let b: Value = serde_json::from_str(r#"{"a":"ü\n","b":[1,{"x":2,"y":1}]}"#).unwrap();
        assert_eq!(canonical_json(&a), r#"{"a":"ü\n","b":[1,{"x":2,"y":1}]}"#);
        assert_eq!(content_hash(&a), content_hash(&b));
    }

    #[test]
    fn equal_numbers_have_one_form() {
        let all: Value = serde_json::from_str("[1, 1.0, 10e-1, -0.0, 1.5, 18446744073709551615]").unwrap();
        assert_eq!(canonical_json(&all), "[1,1,1,0,1.5,18446744073709551615]");
    }
}
