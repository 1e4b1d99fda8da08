//! Parses JSON from untrusted senders, and checks size limits before it allocates memory for the result.
//!
//! **Problem.** A few kilobytes of compressed `[{"a":0},{"a":0},…]` become gigabytes as a tree of values,
//! because a map with one member needs about a hundred times the memory of its text. A single message from
//! any sender could exhaust the memory of the process.
//!
//! **Design.** [`JsonDocument::parse`] first scans the text without allocating. It counts values, measures
//! the nesting depth and the lengths of keys and numbers, and rejects a text that exceeds a bound. Then the
//! parser of `serde_json` checks the grammar without building values. The result ([`JsonDocument`]) is a flat
//! list of positions in the text, twelve bytes per value. Strings and numbers are decoded on access.
//! Duplicate keys are rejected, because a reader that keeps the first value and a reader that keeps the last
//! one would see different events.
//!
//! **Rejected alternative.** `serde_json::Value` with a bound on the number of values. A bound low enough to
//! limit the memory of maps rejected real trajectories with many small calls.

mod bounds;
mod deserialize;
mod document;
mod measure;
mod write;

pub use bounds::{DEPTH_MAX, JsonBounds, KEY_BYTES_MAX, NUMBER_BYTES_MAX, VALUES_MAX};
pub use document::{JsonDocument, JsonKind, JsonNode};

use crate::dead_letter::{DeadLetterCode, Rejection};
use bytes::Bytes;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Splits a JSON array into the texts of its items without building values, so an invalid event does not
/// affect the others of its batch. Fails if the text is not a JSON array, has more than `items_max` items, is
/// longer than `bytes_max`, or is not UTF-8.
pub fn split_array(bytes: &Bytes, bytes_max: usize, items_max: usize) -> Result<Vec<Bytes>, Rejection> {
    let text = validated_text(bytes, bytes_max)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let items =
        reader.deserialize_seq(ItemsVisitor { items_max }).and_then(|items| reader.end().map(|()| items));
    let items = items.map_err(|error| {
        let code = if error.is_data() { DeadLetterCode::NotCloudEvent } else { DeadLetterCode::NotJson };
        let (line, column) = (error.line(), error.column());
        Rejection::of_message(
            code,
            format!("a batch is a JSON array of events; line {line} column {column} is not"),
        )
    })?;
    if items.len() > items_max {
        let detail = format!("more than {items_max} events; at most {items_max} are taken at once");
        return Err(Rejection::of_message(DeadLetterCode::Oversized, detail));
    }
    Ok(items.into_iter().map(|item| bytes.slice_ref(item.get().as_bytes())).collect())
}

/// Serde visitor that collects at most one item more than `items_max` and skips the rest.
struct ItemsVisitor {
    items_max: usize,
}

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() <= self.items_max {
            match array.next_element()? {
                Some(item) => items.push(item),
                None => return Ok(items),
            }
        }
        // `serde_json` would report an array that was not read to its end as malformed.
        while array.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(items)
    }
}

/// Returns the bytes as text, without the byte order mark that some Windows tools write at the beginning.
/// Fails if there are more than `bytes_max` bytes or they are not UTF-8.
fn validated_text(bytes: &[u8], bytes_max: usize) -> Result<&str, Rejection> {
    if bytes.len() > bytes_max {
        let detail = format!("{} bytes; at most {bytes_max} are taken", bytes.len());
        return Err(Rejection::of_message(DeadLetterCode::Oversized, detail));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Rejection::of_message(DeadLetterCode::NotUtf8, format!("byte {} is not UTF-8", error.valid_up_to()))
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

#[cfg(test)]
mod tests;
