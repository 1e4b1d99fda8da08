//! A JSON text with a flat list of where its values stand.
//!
//! An object is followed by its members, key and value in turn, an array by its items; each entry knows the entry after
//! everything that it contains, so that a value is passed over in one step.

use std::borrow::Cow;
use std::sync::Arc;

use crate::dead_letter::{Code, Rejection};
use bytes::Bytes;
use serde::de::IgnoredAny;
use serde_json::{Number, Value};

use super::measure::{count_values, scalar_end, string_end};
use super::{Bounds, checked_text};

/// A JSON text that was checked, or a value within one. Clones share the text.
#[derive(Debug, Clone)]
pub struct Document {
    tape: Arc<Tape>,
    at: u32,
}

#[derive(Debug)]
struct Tape {
    text: Bytes,
    entries: Vec<Entry>,
}

/// Where a value or a key stands.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The offset of its first byte.
    start: u32,
    /// The offset after its last one.
    end: u32,
    /// The entry after it and everything in it.
    next: u32,
}

/// What kind of value it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    Null,
    /// `true` or `false`.
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

/// A value within a [`Document`].
#[derive(Debug, Clone, Copy)]
pub struct Node<'a> {
    tape: &'a Tape,
    at: u32,
}

impl Document {
    /// Reads a text. Fails with `oversized`, `not_utf8`, `too_deep`, `too_many_values`, `duplicate_key` or `not_json`;
    /// what it says holds positions, never the text.
    pub fn parse(bytes: &Bytes, bounds: Bounds) -> Result<Self, Rejection> {
        let text = checked_text(bytes, bounds.bytes_max)?;
        let values = count_values(text, bounds)?;
        serde_json::from_str::<IgnoredAny>(text)
            .map_err(|error| Rejection::whole(Code::NotJson, error.to_string()))?;
        let entries = Vec::with_capacity(values);
        Tape { text: bytes.slice_ref(text.as_bytes()), entries }.fill(text)
    }

    /// The document of a value of our own, which has no bounds.
    pub fn of_value(value: &Value) -> Self {
        Self::of_written(value.to_string().into_bytes())
    }

    /// The document of JSON that a serializer of ours has just written: within no bounds, since what is put together of
    /// two documents may be nested deeper than each. Panics on anything else.
    pub fn of_written(json: Vec<u8>) -> Self {
        let text = Bytes::from(json);
        let written = std::str::from_utf8(&text).expect("JSON is written as text");
        Tape { text: text.clone(), entries: Vec::new() }.fill(written).expect("JSON that was written is JSON")
    }

    /// `null`.
    pub fn null() -> Self {
        Self::of_value(&Value::Null)
    }

    /// The value.
    pub fn root(&self) -> Node<'_> {
        Node { tape: &self.tape, at: self.at }
    }

    /// A value within this document as one of its own, which keeps the whole text.
    pub fn part(&self, node: Node<'_>) -> Self {
        assert!(std::ptr::eq(&raw const *self.tape, node.tape), "the node is one of this document");
        Self { tape: Arc::clone(&self.tape), at: node.at }
    }
}

impl From<Value> for Document {
    fn from(value: Value) -> Self {
        Self::of_value(&value)
    }
}

/// Two documents are equal when their canonical forms are.
impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.root().canonical_json() == other.root().canonical_json()
    }
}

impl Tape {
    /// Adds an entry for everything in its text, which is known to follow the grammar.
    fn fill(mut self, text: &str) -> Result<Document, Rejection> {
        let bytes = text.as_bytes();
        let mut open: Vec<u32> = Vec::new();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            at = match byte {
                b'{' | b'[' => {
                    open.push(index(self.entries.len()));
                    self.push(at, at + 1);
                    at + 1
                }
                b'}' | b']' => {
                    let opened = open.pop().expect("JSON has its brackets in pairs");
                    self.close(opened, at + 1)?;
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
        Ok(Document { tape: Arc::new(self), at: 0 })
    }

    fn push(&mut self, start: usize, end: usize) {
        let next = index(self.entries.len() + 1);
        self.entries.push(Entry { start: index(start), end: index(end), next });
    }

    fn close(&mut self, opened: u32, end: usize) -> Result<(), Rejection> {
        let next = index(self.entries.len());
        let entry = &mut self.entries[opened as usize];
        (entry.end, entry.next) = (index(end), next);
        check_keys(Node { tape: self, at: opened })
    }
}

fn index(offset: usize) -> u32 {
    u32::try_from(offset).expect("no text of four gigabytes is taken")
}

/// The grammar lets half a surrogate pair through; no text can hold one.
fn check_escapes(text: &str, start: usize, end: usize) -> Result<(), Rejection> {
    let string = &text[start..end];
    if !string.contains("\\u") {
        return Ok(());
    }
    serde_json::from_str::<String>(string).map(drop).map_err(|_| {
        let detail = format!("the string at byte {start} holds an escape that is no character");
        Rejection::whole(Code::NotJson, detail)
    })
}

/// The grammar lets numbers through that no double holds.
fn check_number(text: &str, start: usize, end: usize) -> Result<(), Rejection> {
    let number = &text[start..end];
    if number.len() < 309 && !number.contains(['e', 'E']) {
        return Ok(());
    }
    serde_json::from_str::<Value>(number)
        .map(drop)
        .map_err(|_| Rejection::whole(Code::NotJson, format!("the number at byte {start} is out of range")))
}

/// Refuses an object in which a key stands twice, however the two are escaped.
fn check_keys(object: Node<'_>) -> Result<(), Rejection> {
    let Some(members) = object.members() else { return Ok(()) };
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
            Err(Rejection::whole(Code::DuplicateKey, detail))
        }
        None => Ok(()),
    }
}

impl<'a> Node<'a> {
    fn entry(self) -> Entry {
        self.tape.entries[self.at as usize]
    }

    /// The value as it was written.
    pub fn text(self) -> &'a str {
        let Entry { start, end, .. } = self.entry();
        std::str::from_utf8(&self.tape.text[start as usize..end as usize])
            .expect("the text was checked, and a value begins and ends at characters")
    }

    /// Its kind.
    pub fn kind(self) -> Kind {
        match self.tape.text[self.entry().start as usize] {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b't' | b'f' => Kind::Bool,
            b'n' => Kind::Null,
            _ => Kind::Number,
        }
    }

    /// Whether it is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// The text of a string.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        if self.kind() != Kind::String {
            return None;
        }
        let written = self.text();
        let inner = &written[1..written.len() - 1];
        if inner.contains('\\') {
            return Some(Cow::Owned(serde_json::from_str(written).expect("the string was checked")));
        }
        Some(Cow::Borrowed(inner))
    }

    /// Whether it is a string with this text.
    pub fn is_str(self, text: &str) -> bool {
        self.as_str().is_some_and(|own| own == text)
    }

    /// A boolean.
    pub fn as_bool(self) -> Option<bool> {
        (self.kind() == Kind::Bool).then(|| self.text() == "true")
    }

    /// A number, as exact as the library reads it.
    pub fn as_number(self) -> Option<Number> {
        let is_number = self.kind() == Kind::Number;
        is_number.then(|| serde_json::from_str(self.text()).expect("the number was checked"))
    }

    /// The members of an object, keys decoded.
    pub fn members(self) -> Option<impl Iterator<Item = (Cow<'a, str>, Node<'a>)> + use<'a>> {
        (self.kind() == Kind::Object).then(|| {
            let mut children = self.children();
            std::iter::from_fn(move || {
                let key = children.next()?.as_str().expect("a key is a string");
                Some((key, children.next().expect("a key has a value")))
            })
        })
    }

    /// The items of an array.
    pub fn items(self) -> Option<impl Iterator<Item = Node<'a>> + use<'a>> {
        (self.kind() == Kind::Array).then(|| self.children())
    }

    /// The member of an object under this key; `None` for everything else.
    pub fn get(self, key: &str) -> Option<Node<'a>> {
        if self.kind() != Kind::Object {
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

    /// Whether it is the key with this text; decoded only when it is written with escapes.
    fn is_key(self, key: &str) -> bool {
        let Entry { start, end, .. } = self.entry();
        let written = &self.tape.text[start as usize + 1..end as usize - 1];
        written == key.as_bytes() || written.contains(&b'\\') && self.is_str(key)
    }

    /// As [`Node::get`]; `None` for `null`, too.
    pub fn get_present(self, key: &str) -> Option<Node<'a>> {
        self.get(key).filter(|value| !value.is_null())
    }

    /// Values and keys below it.
    pub fn size(self) -> usize {
        (self.entry().next - self.at - 1) as usize
    }

    /// The value as a tree, which may cost fifty times its text: for what is known to be small.
    pub fn to_value(self) -> Value {
        serde_json::from_str(self.text()).expect("the text was checked")
    }

    fn children(self) -> impl Iterator<Item = Node<'a>> + use<'a> {
        let Node { tape, at } = self;
        let end = self.entry().next;
        let mut next = at + 1;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let child = Node { tape, at: next };
                next = child.entry().next;
                child
            })
        })
    }
}
