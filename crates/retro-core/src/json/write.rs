//! A document's values, written again.

use std::fmt::{self, Write};

use crate::canonical;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use sha2::{Digest, Sha256};

use super::document::{Kind, Node};

/// The bytes of a string that are escaped at once.
const STRING_PIECE_BYTES: usize = 4096;

/// How whole numbers are written.
#[derive(Clone, Copy)]
enum Numbers {
    /// `1.0` as `1`: the same value has the same bytes.
    Canonical,
    /// As the library writes what it read.
    AsRead,
}

impl Node<'_> {
    /// The canonical form: equal, byte for byte, to [`canonical::canonical_json`] of the same value.
    pub fn canonical_json(self) -> String {
        let mut out = String::with_capacity(self.text().len());
        self.write(&mut out, Numbers::Canonical).expect("a string takes everything");
        out
    }

    /// SHA-256 of the canonical form, in lower-case hex, without building it.
    pub fn content_hash(self) -> String {
        let mut hash = Hasher(Sha256::new());
        self.write(&mut hash, Numbers::Canonical).expect("a hash takes everything");
        canonical::hex(&hash.0.finalize())
    }

    /// The value with sorted keys and without white space.
    pub fn sorted_json(self) -> Vec<u8> {
        let mut out = String::with_capacity(self.text().len());
        self.write(&mut out, Numbers::AsRead).expect("a string takes everything");
        out.into_bytes()
    }

    fn write(self, out: &mut impl Write, numbers: Numbers) -> fmt::Result {
        match self.kind() {
            Kind::Object => {
                let mut members: Vec<_> = self.members().expect("it is an object").collect();
                members.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
                out.write_char('{')?;
                for (nth, (key, value)) in members.into_iter().enumerate() {
                    if nth > 0 {
                        out.write_char(',')?;
                    }
                    write_string(&key, out)?;
                    out.write_char(':')?;
                    value.write(out, numbers)?;
                }
                out.write_char('}')
            }
            Kind::Array => {
                out.write_char('[')?;
                for (nth, item) in self.items().expect("it is an array").enumerate() {
                    if nth > 0 {
                        out.write_char(',')?;
                    }
                    item.write(out, numbers)?;
                }
                out.write_char(']')
            }
            Kind::String => write_string(&self.as_str().expect("it is a string"), out),
            Kind::Number => {
                let number = self.as_number().expect("it is a number");
                match numbers {
                    Numbers::Canonical => out.write_str(&canonical::number(&number)),
                    Numbers::AsRead => write!(out, "{number}"),
                }
            }
            Kind::Bool | Kind::Null => out.write_str(self.text()),
        }
    }
}

/// Writes a string with its quotes, piece by piece: a long one is not copied as a whole.
fn write_string(mut text: &str, out: &mut impl Write) -> fmt::Result {
    out.write_char('"')?;
    while !text.is_empty() {
        let (piece, rest) = text.split_at(text.floor_char_boundary(STRING_PIECE_BYTES));
        let quoted = serde_json::to_string(piece).expect("a text is JSON");
        out.write_str(&quoted[1..quoted.len() - 1])?;
        text = rest;
    }
    out.write_char('"')
}

/// Hashes what is written to it.
struct Hasher(Sha256);

impl Write for Hasher {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.kind() {
            Kind::Null => serializer.serialize_unit(),
            Kind::Bool => serializer.serialize_bool(self.as_bool() == Some(true)),
            Kind::Number => self.as_number().serialize(serializer),
            Kind::String => serializer.serialize_str(&self.as_str().expect("it is a string")),
            Kind::Array => {
                let mut array = serializer.serialize_seq(None)?;
                for item in self.items().expect("it is an array") {
                    array.serialize_element(&item)?;
                }
                array.end()
            }
            Kind::Object => {
                let mut object = serializer.serialize_map(None)?;
                for (key, value) in self.members().expect("it is an object") {
                    object.serialize_entry(&key, &value)?;
                }
                object.end()
            }
        }
    }
}
