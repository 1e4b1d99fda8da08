//! Provides [`JsonDocument`], a JSON text with an index of its values.
//!
//! The index is a flat list: the entry of an object is followed by the entries of its keys and values in
//! turn, and the entry of an array by those of its items. Each entry stores the index of the next entry
//! outside its value, so a reader can skip the value in one step.

use std::borrow::Cow;
use std::sync::Arc;

use crate::dead_letter::{DeadLetterCode, Rejection};
use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::{Number, Value};

use super::bounds::JsonBounds;
use super::measure::{count_values, scalar_end, string_end};
use super::validated_text;

/// A validated JSON text, or one value within it. Clones share the text.
#[derive(Debug, Clone)]
pub struct JsonDocument {
    tape: Arc<Tape>,
    at: u32,
}

#[derive(Debug)]
struct Tape {
    text: Bytes,
    entries: Vec<Entry>,
}

/// Position of a value or a key in the text.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Byte offset in the text at which the value begins.
    start: u32,
    /// Byte offset in the text just past the value.
    end: u32,
    /// Index of the next entry that is not part of this value.
    next: u32,
}

/// Kind of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonKind {
    /// The value `null`.
    Null,
    /// The value `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

/// A value within a [`JsonDocument`].
#[derive(Debug, Clone, Copy)]
pub struct JsonNode<'a> {
    tape: &'a Tape,
    at: u32,
}

impl JsonDocument {
    /// Parses and validates a JSON text. Fails with `oversized`, `not_utf8`, `too_deep`, `too_many_values`,
    /// `duplicate_key` or `not_json`. The error locates the problem and never quotes the text.
    pub fn parse(bytes: &Bytes, bounds: JsonBounds) -> Result<Self, Rejection> {
        let text = validated_text(bytes, bounds.bytes_max)?;
        let values = count_values(text, bounds)?;
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| Rejection::of_message(DeadLetterCode::NotJson, error.to_string()))?;
        // The count is an upper bound, so the entries are allocated once and never moved.
        let entries = Vec::with_capacity(values);
        Tape { text: bytes.slice_ref(text.as_bytes()), entries }.index_text(text)
    }

    /// Returns a document that contains a trusted value. No bounds are checked.
    pub fn from_value(value: &Value) -> Self {
        Self::from_serialized(value.to_string().into_bytes())
    }

    /// Returns a document for JSON that one of our own serializers has just written. No bounds are checked,
    /// because a document that combines two others may be nested more deeply than either. May panic if the
    /// text is not valid JSON.
    pub fn from_serialized(json: Vec<u8>) -> Self {
        let text = Bytes::from(json);
        let written = std::str::from_utf8(&text).expect("JSON is written as text");
        Tape { text: text.clone(), entries: Vec::new() }
            .index_text(written)
            .expect("JSON that was written is JSON")
    }

    /// Returns a document that contains only `null`.
    pub fn null() -> Self {
        Self::from_value(&Value::Null)
    }

    /// Returns the outermost value of the document.
    pub fn root(&self) -> JsonNode<'_> {
        JsonNode { tape: &self.tape, at: self.at }
    }

    /// Returns a value within this document as a separate document, which keeps the whole text alive. Panics
    /// if the node belongs to another document.
    pub fn subdocument(&self, node: JsonNode<'_>) -> Self {
        // A node of another document would point to arbitrary entries of this one.
        assert!(std::ptr::eq(&raw const *self.tape, node.tape), "the node is one of this document");
        Self { tape: Arc::clone(&self.tape), at: node.at }
    }
}

impl From<Value> for JsonDocument {
    fn from(value: Value) -> Self {
        Self::from_value(&value)
    }
}

/// Documents are equal if their canonical forms are equal.
impl PartialEq for JsonDocument {
    fn eq(&self, other: &Self) -> bool {
        self.root().canonical_json() == other.root().canonical_json()
    }
}

impl Tape {
    /// Appends an entry for every value and key of the text, which must already have passed the grammar
    /// check. Fails on duplicate keys, lone surrogates and numbers that are out of range.
    fn index_text(mut self, text: &str) -> Result<JsonDocument, Rejection> {
        let bytes = text.as_bytes();
        let mut open: Vec<u32> = Vec::new();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            at = match byte {
                b'{' | b'[' => {
                    open.push(to_index(self.entries.len()));
                    self.push(at, at + 1);
                    at + 1
                }
                b'}' | b']' => {
                    let opened = open.pop().expect("JSON has its brackets in pairs");
                    self.close_container(opened, at + 1)?;
                    at + 1
                }
                b'"' => {
                    let end = string_end(bytes, at);
                    check_escapes(text, at, end)?;
                    self.push(at, end);
                    end
                }
                b',' | b':' | b' ' | b'\t' | b'\n' | b'\r' => at + 1,
                _ => {
                    let end = scalar_end(bytes, at);
                    check_number(text, at, end)?;
                    self.push(at, end);
                    end
                }
            };
        }
        Ok(JsonDocument { tape: Arc::new(self), at: 0 })
    }

    fn push(&mut self, start: usize, end: usize) {
        let next = to_index(self.entries.len() + 1);
        self.entries.push(Entry { start: to_index(start), end: to_index(end), next });
    }

    fn close_container(&mut self, opened: u32, end: usize) -> Result<(), Rejection> {
        let next = to_index(self.entries.len());
        let entry = &mut self.entries[opened as usize];
        (entry.end, entry.next) = (to_index(end), next);
        check_keys(JsonNode { tape: self, at: opened })
    }
}

fn to_index(offset: usize) -> u32 {
    u32::try_from(offset).expect("texts are shorter than 4 GiB")
}

/// Rejects a string with an escaped lone surrogate, which the grammar allows but no Rust string can contain.
fn check_escapes(text: &str, start: usize, end: usize) -> Result<(), Rejection> {
    let string = &text[start..end];
    if !string.contains("\\u") {
        return Ok(());
    }
    serde_json::from_str::<String>(string).map(drop).map_err(|_| {
        let detail = format!("the string at byte {start} holds an escape that is no character");
        Rejection::of_message(DeadLetterCode::NotJson, detail)
    })
}

/// Rejects a number that the grammar allows but that is out of range for an `f64`.
fn check_number(text: &str, start: usize, end: usize) -> Result<(), Rejection> {
    let number = &text[start..end];
    // `f64::MAX` has 309 digits, so a shorter number without an exponent is always in range.
    if number.len() < 309 && !number.contains(['e', 'E']) {
        return Ok(());
    }
    serde_json::from_str::<Value>(number).map(drop).map_err(|_| {
        Rejection::of_message(DeadLetterCode::NotJson, format!("the number at byte {start} is out of range"))
    })
}

/// Rejects an object in which a key occurs twice, even if the two occurrences are escaped differently.
fn check_keys(object: JsonNode<'_>) -> Result<(), Rejection> {
    let Some(members) = object.members() else { return Ok(()) };
    // Keys are compared decoded: `a` and `\u0061` are the same key to every other reader.
    let mut keys: Vec<(Cow<'_, str>, u32)> =
        members.map(|(key, value)| (key, object.tape.entries[value.at as usize].start)).collect();
    keys.sort_unstable();
    match keys.windows(2).find(|two| two[0].0 == two[1].0) {
        Some(two) => {
            let detail = format!(
                "a key of the object at byte {} stands twice, the second time before byte {}; which of the two \
                 counts is not for the reader to choose",
                object.entry().start,
                two[1].1
            );
            Err(Rejection::of_message(DeadLetterCode::DuplicateKey, detail))
        }
        None => Ok(()),
    }
}

impl<'a> JsonNode<'a> {
    fn entry(self) -> Entry {
        self.tape.entries[self.at as usize]
    }

    /// Returns the text of the value, exactly as written.
    pub fn raw_text(self) -> &'a str {
        let Entry { start, end, .. } = self.entry();
        std::str::from_utf8(&self.tape.text[start as usize..end as usize])
            .expect("the text was checked, and a value begins and ends at characters")
    }

    /// Returns the kind of the value.
    pub fn kind(self) -> JsonKind {
        match self.tape.text[self.entry().start as usize] {
            b'{' => JsonKind::Object,
            b'[' => JsonKind::Array,
            b'"' => JsonKind::String,
            b't' | b'f' => JsonKind::Bool,
            b'n' => JsonKind::Null,
            _ => JsonKind::Number,
        }
    }

    /// Returns `true` if the value is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// Returns the decoded text of a string, or `None` for values of other kinds.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        if self.kind() != JsonKind::String {
            return None;
        }
        let written = self.raw_text();
        let inner = &written[1..written.len() - 1];
        if inner.contains('\\') {
            return Some(Cow::Owned(serde_json::from_str(written).expect("the string was checked")));
        }
        Some(Cow::Borrowed(inner))
    }

    /// Returns `true` if the value is a string equal to `text`.
    pub fn equals_str(self, text: &str) -> bool {
        self.as_str().is_some_and(|own| own == text)
    }

    /// Returns the value of a boolean, or `None` for values of other kinds.
    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == JsonKind::Bool).then(|| self.raw_text() == "true")
    }

    /// Returns the value of a number as `serde_json` parses it, or `None` for values of other kinds.
    pub fn as_number(self) -> Option<Number> {
        let is_number = self.kind() == JsonKind::Number;
        is_number.then(|| serde_json::from_str(self.raw_text()).expect("the number was checked"))
    }

    /// Returns the members of an object in order, with decoded keys, or `None` for values of other kinds.
    pub fn members(self) -> Option<impl Iterator<Item = (Cow<'a, str>, JsonNode<'a>)> + use<'a>> {
        let members = self.member_nodes()?;
        Some(members.map(|(key, value)| (key.as_str().expect("a key is a string"), value)))
    }

    /// Returns the keys and values of an object in order, or `None` for values of other kinds.
    pub(super) fn member_nodes(self) -> Option<impl Iterator<Item = (JsonNode<'a>, JsonNode<'a>)> + use<'a>> {
        (self.kind() == JsonKind::Object).then(|| {
            let mut children = self.children();
            std::iter::from_fn(move || {
                let key = children.next()?;
                Some((key, children.next().expect("a key has a value")))
            })
        })
    }

    /// Returns the items of an array, or `None` for values of other kinds.
    pub fn items(self) -> Option<impl Iterator<Item = JsonNode<'a>> + use<'a>> {
        (self.kind() == JsonKind::Array).then(|| self.children())
    }

    /// Returns the value of the object's member with this key. Returns `None` if there is no such member, and
    /// for values of other kinds.
    pub fn get(self, key: &str) -> Option<JsonNode<'a>> {
        if self.kind() != JsonKind::Object {
            return None;
        }
        let mut children = self.children();
        while let Some(name) = children.next() {
            let value = children.next();
            if name.is_key(key) {
                return value;
            }
        }
        None
    }

    /// Returns `true` if this entry is a key equal to `key`. Decodes the entry only if it contains escapes.
    fn is_key(self, key: &str) -> bool {
        let Entry { start, end, .. } = self.entry();
        let written = &self.tape.text[start as usize + 1..end as usize - 1];
        written == key.as_bytes() || written.contains(&b'\\') && self.equals_str(key)
    }

    /// Like [`JsonNode::get`], but returns `None` for a member that is `null`.
    pub fn get_non_null(self, key: &str) -> Option<JsonNode<'a>> {
        self.get(key).filter(|value| !value.is_null())
    }

    /// Returns the number of values and keys that this value contains.
    pub fn descendant_count(self) -> usize {
        (self.entry().next - self.at - 1) as usize
    }

    /// Returns the value as a tree, which may need a hundred times the memory of the text. Call this only on
    /// small values.
    pub fn to_value(self) -> Value {
        serde_json::from_str(self.raw_text()).expect("the text was checked")
    }

    fn children(self) -> impl Iterator<Item = JsonNode<'a>> + use<'a> {
        let JsonNode { tape, at } = self;
        let end = self.entry().next;
        let mut next = at + 1;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let child = JsonNode { tape, at: next };
                next = child.entry().next;
                child
            })
        })
    }
}
