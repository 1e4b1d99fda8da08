//! Serializes the values of a JSON document, canonically or as `serde_json` does.

use std::borrow::Cow;
use std::fmt::{self, Write};

use crate::canonical;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use sha2::{Digest, Sha256};

use super::document::{JsonKind, JsonNode};

/// Maximum number of bytes of a string that are escaped at once.
const STRING_PIECE_BYTES: usize = 4096;

/// Format of numbers in the output.
#[derive(Clone, Copy)]
enum NumberFormat {
    /// Whole numbers are written as integers: `1.0` becomes `1`, so equal values have equal bytes.
    Canonical,
    /// Numbers are written as `serde_json` writes them after parsing.
    AsRead,
}

impl JsonNode<'_> {
    /// Returns the value as canonical JSON, with the same bytes as [`canonical::canonical_json`].
    pub fn canonical_json(self) -> String {
        let mut out = String::with_capacity(self.raw_text().len());
        self.write_json(&mut out, NumberFormat::Canonical).expect("writing to a string never fails");
        out
    }

    /// Returns the SHA-256 of the canonical JSON in lower-case hex (64 characters), without building that
    /// JSON in memory.
    pub fn content_hash(self) -> String {
        let mut hash = HashWriter(Sha256::new());
        self.write_json(&mut hash, NumberFormat::Canonical).expect("writing to a hash never fails");
        canonical::encode_hex(&hash.0.finalize())
    }

    /// Returns the value as JSON with keys sorted by code point and without white space.
    pub fn sorted_json(self) -> Vec<u8> {
        let mut out = String::with_capacity(self.raw_text().len());
        self.write_json(&mut out, NumberFormat::AsRead).expect("writing to a string never fails");
        out.into_bytes()
    }

    fn write_json(self, out: &mut impl Write, numbers: NumberFormat) -> fmt::Result {
        match self.kind() {
            JsonKind::Object => {
                let mut members: Vec<_> = self.member_nodes().expect("the kind is Object").collect();
                members.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(&other.as_str()));
                out.write_char('{')?;
                for (nth, (key, value)) in members.into_iter().enumerate() {
                    if nth > 0 {
                        out.write_char(',')?;
                    }
                    key.write_string(out)?;
                    out.write_char(':')?;
                    value.write_json(out, numbers)?;
                }
                out.write_char('}')
            }
            JsonKind::Array => {
                out.write_char('[')?;
                for (nth, item) in self.items().expect("the kind is Array").enumerate() {
                    if nth > 0 {
                        out.write_char(',')?;
                    }
                    item.write_json(out, numbers)?;
                }
                out.write_char(']')
            }
            JsonKind::String => self.write_string(out),
            JsonKind::Number => {
                let number = self.as_number().expect("the kind is Number");
                match numbers {
                    NumberFormat::Canonical => out.write_str(&canonical::canonical_number(&number)),
                    NumberFormat::AsRead => write!(out, "{number}"),
                }
            }
            JsonKind::Bool | JsonKind::Null => out.write_str(self.raw_text()),
        }
    }

    /// Writes a string, which may be a key.
    fn write_string(self, out: &mut impl Write) -> fmt::Result {
        match self.as_str().expect("the kind is String") {
            // Written without an escape, so it contains no character that needs one: it is written as it was.
            Cow::Borrowed(_) => out.write_str(self.raw_text()),
            Cow::Owned(text) => write_escaped(&text, out),
        }
    }
}

/// Writes a string in quotes. Escapes it in pieces, so a long string is never copied as a whole.
fn write_escaped(mut text: &str, out: &mut impl Write) -> fmt::Result {
    out.write_char('"')?;
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(STRING_PIECE_BYTES));
        // Each character is escaped on its own, so escaped pieces add up to the escaped string.
        let quoted = serde_json::to_string(piece).expect("a string serializes");
        out.write_str(&quoted[1..quoted.len() - 1])?;
        text = rest;
    }
    out.write_char('"')
}

/// Writer that hashes the bytes written to it.
struct HashWriter(Sha256);

impl Write for HashWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

impl Serialize for JsonNode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.kind() {
            JsonKind::Null => serializer.serialize_unit(),
            JsonKind::Bool => serializer.serialize_bool(self.as_bool() == Some(true)),
            JsonKind::Number => self.as_number().serialize(serializer),
            JsonKind::String => serializer.serialize_str(&self.as_str().expect("the kind is String")),
            JsonKind::Array => {
                let mut array = serializer.serialize_seq(None)?;
                for item in self.items().expect("the kind is Array") {
                    array.serialize_element(&item)?;
                }
                array.end()
            }
            JsonKind::Object => {
                let mut object = serializer.serialize_map(None)?;
                for (key, value) in self.members().expect("the kind is Object") {
                    object.serialize_entry(&key, &value)?;
                }
                object.end()
            }
        }
    }
}
