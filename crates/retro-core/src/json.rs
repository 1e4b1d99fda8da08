//! Bytes from a stranger → JSON, within bounds that hold before anything is built from it.
//!
//! **The need.** A few kilobytes of `[{},{},…]`, packed or not, become gigabytes as a tree of values: a map of one member
//! costs a hundred times its text. Whoever may send one message could end the process.
//!
//! **The design.** [`Document::parse`] first walks over the text without keeping anything and counts: nesting, values, the
//! length of keys and numbers. What is above a bound is refused there. Then the library's own parser checks the grammar,
//! again without keeping anything. What is built is one flat list with twelve bytes a value, which points into the text
//! ([`Document`]). Strings and numbers are decoded when somebody asks for them. A duplicate key is refused: two readers that
//! take another one of the two would see two different events.
//!
//! **What failed.** `serde_json::Value` with a bound on its number of values: with a bound low enough for maps, real
//! trajectories of many small calls were refused.

mod deserialize;
mod document;
mod measure;
mod write;

pub use document::{Document, Kind, Node};
pub use measure::{DEPTH_MAX, KEY_BYTES_MAX, NUMBER_BYTES_MAX, VALUES_MAX};

use crate::dead_letter::{Code, Rejection};
use bytes::Bytes;
use serde::de::{Deserializer as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// What is taken of a JSON text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of the text.
    pub bytes_max: usize,
    /// Values and keys in it, together.
    pub values_max: usize,
}

impl Bounds {
    /// Texts of at most so many bytes with at most [`VALUES_MAX`] values and keys.
    pub const fn bytes(bytes_max: usize) -> Self {
        Self { bytes_max, values_max: VALUES_MAX }
    }
}

/// Splits a JSON array into the texts of its items, unread, so that one bad item does not spoil the others. Fails on more
/// than `items_max` items as soon as one too many is met, and as [`Document::parse`] does on what is no array or breaks it.
pub fn split_items(bytes: &Bytes, bytes_max: usize, items_max: usize) -> Result<Vec<Bytes>, Rejection> {
    let text = checked_text(bytes, bytes_max)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let items = reader.deserialize_seq(Items { items_max }).and_then(|items| reader.end().map(|()| items));
    let items = items.map_err(|error| {
        let code = if error.is_data() { Code::NotCloudEvent } else { Code::NotJson };
        let (line, column) = (error.line(), error.column());
        Rejection::whole(
            code,
            format!("a batch is a JSON array of events; line {line} column {column} is not"),
        )
    })?;
    if items.len() > items_max {
        let detail = format!("more than {items_max} events; at most {items_max} are taken at once");
        return Err(Rejection::whole(Code::Oversized, detail));
    }
    Ok(items.into_iter().map(|item| bytes.slice_ref(item.get().as_bytes())).collect())
}

/// Collects the items of an array, and passes over those after the first one too many.
struct Items {
    items_max: usize,
}

impl<'de> Visitor<'de> for Items {
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
        while array.next_element::<serde::de::IgnoredAny>()?.is_some() {}
        Ok(items)
    }
}

/// The bytes as text, without a byte order mark, which some Windows tools put before what they write.
fn checked_text(bytes: &[u8], bytes_max: usize) -> Result<&str, Rejection> {
    if bytes.len() > bytes_max {
        let detail = format!("{} bytes; at most {bytes_max} are taken", bytes.len());
        return Err(Rejection::whole(Code::Oversized, detail));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        Rejection::whole(Code::NotUtf8, format!("byte {} is not UTF-8", error.valid_up_to()))
    })?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

#[cfg(test)]
mod tests;
