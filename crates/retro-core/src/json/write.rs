//! A document's values, written again.

use std::io::{self, Write};

use crate::canonical;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use sha2::{Digest, Sha256};

use super::document::{Kind, Node};

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
        let mut out = Vec::with_capacity(self.text().len());
        self.write(&mut out, Numbers::Canonical).expect("a vector takes everything");
        String::from_utf8(out).expect("JSON is written as text")
    }

    /// SHA-256 of the canonical form, in lower-case hex, without building it.
    pub fn content_hash(self) -> String {
        let mut hash = Hasher(Sha256::new());
        self.write(&mut hash, Numbers::Canonical).expect("a hash takes everything");
        canonical::hex(&hash.0.finalize())
    }

    /// The value with sorted keys and without white space.
    pub fn sorted_json(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text().len());
        self.write(&mut out, Numbers::AsRead).expect("a vector takes everything");
        out
    }

    fn write(self, out: &mut impl Write, numbers: Numbers) -> io::Result<()> {
        match self.kind() {
            Kind::Object => {
                let mut members: Vec<_> = self.members().expect("it is an object").collect();
                members.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
                out.write_all(b"{")?;
                for (nth, (key, value)) in members.into_iter().enumerate() {
                    if nth > 0 {
                        out.write_all(b",")?;
                    }
                    serde_json::to_writer(&mut *out, &key)?;
                    out.write_all(b":")?;
                    value.write(out, numbers)?;
                }
                out.write_all(b"}")
            }
            Kind::Array => {
                out.write_all(b"[")?;
                for (nth, item) in self.items().expect("it is an array").enumerate() {
                    if nth > 0 {
                        out.write_all(b",")?;
                    }
                    item.write(out, numbers)?;
                }
                out.write_all(b"]")
            }
            Kind::String => Ok(serde_json::to_writer(out, &self.as_str().expect("it is a string"))?),
            Kind::Number => {
                let number = self.as_number().expect("it is a number");
                match numbers {
                    Numbers::Canonical => out.write_all(canonical::number(&number).as_bytes()),
                    Numbers::AsRead => out.write_all(number.to_string().as_bytes()),
                }
            }
            Kind::Bool | Kind::Null => out.write_all(self.text().as_bytes()),
        }
    }
}

/// Hashes what is written to it.
struct Hasher(Sha256);

impl Write for Hasher {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
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
