//! Where in a trajectory something stands. The path is written only when somebody has to be told.

use std::borrow::Cow;

use retro_core::dead_letter::{Code, Rejection};
use serde::Deserialize;

use crate::field;
use retro_core::json::{Kind, Node};

/// A place, by what it is a member or an item of.
pub(super) enum Place<'a> {
    Root(&'a str),
    Member(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, &'a str, usize),
}

impl<'a> Place<'a> {
    pub(super) const fn root(path: &'a str) -> Self {
        Self::Root(path)
    }

    /// A member of what stands here.
    pub(super) const fn member(&'a self, name: &'a str) -> Self {
        Self::Member(self, name)
    }

    /// An item, from 0, of an array that is a member of what stands here.
    pub(super) const fn item(&'a self, name: &'a str, nth: usize) -> Self {
        Self::Item(self, name, nth)
    }

    fn path(&self) -> String {
        match self {
            Self::Root(path) => (*path).to_owned(),
            Self::Member(parent, name) => field::join(&parent.path(), name),
            Self::Item(parent, name, nth) => field::join(&parent.path(), &format!("{name}[{nth}]")),
        }
    }

    /// A rejection because of what stands here.
    pub(super) fn invalid(&self, detail: impl Into<String>) -> Rejection {
        Rejection::at(Code::TrajectoryInvalid, self.path(), detail)
    }

    /// A rejection because nothing stands here.
    pub(super) fn missing(&self) -> Rejection {
        self.invalid("is missing")
    }

    pub(super) fn check_object(&self, node: Node<'_>) -> Result<(), Rejection> {
        if node.kind() == Kind::Object { Ok(()) } else { Err(self.invalid("is not an object")) }
    }

    /// Reads a member that has to be there.
    pub(super) fn read_required<'de, T: Deserialize<'de>>(
        &self,
        object: Node<'de>,
        name: &str,
    ) -> Result<T, Rejection> {
        let value = object.get(name).ok_or_else(|| self.member(name).missing())?;
        self.read(value, name)
    }

    /// Reads a member that may be missing or `null`.
    pub(super) fn read_optional<'de, T: Deserialize<'de>>(
        &self,
        object: Node<'de>,
        name: &str,
    ) -> Result<Option<T>, Rejection> {
        object.get_present(name).map(|value| self.read(value, name)).transpose()
    }

    fn read<'de, T: Deserialize<'de>>(&self, value: Node<'de>, name: &str) -> Result<T, Rejection> {
        T::deserialize(value).or_else(|_| {
            // Again, for the path and the sentence.
            field::read(Code::TrajectoryInvalid, &self.member(name).path(), value)
        })
    }

    /// Reads a string that may be missing or `null`, without copying it if that can be avoided.
    pub(super) fn read_str<'de>(
        &self,
        object: Node<'de>,
        name: &str,
    ) -> Result<Option<Cow<'de, str>>, Rejection> {
        let Some(value) = object.get_present(name) else { return Ok(None) };
        match value.as_str() {
            Some(text) => Ok(Some(text)),
            None => self.read::<String>(value, name).map(|text| Some(text.into())),
        }
    }

    /// Reads the text of a string or of content parts; of nothing it is empty.
    pub(super) fn read_text(&self, object: Node<'_>, name: &str) -> Result<String, Rejection> {
        let Some(value) = object.get(name) else { return Ok(String::new()) };
        super::content_text(value).ok_or_else(|| {
            let found = match value.kind() {
                Kind::Object => "an object",
                Kind::Bool => "a boolean",
                _ => "a number",
            };
            self.member(name).invalid(format!("found {found}; expected a string or an array of parts"))
        })
    }

    /// The items of an array; `None` when it is missing or `null`.
    pub(super) fn read_array<'de>(
        &self,
        object: Node<'de>,
        name: &str,
    ) -> Result<Option<impl Iterator<Item = Node<'de>> + use<'de>>, Rejection> {
        let Some(value) = object.get_present(name) else { return Ok(None) };
        match value.items() {
            Some(items) => Ok(Some(items)),
            None => {
                Err(self.member(name).invalid(format!("found {}; expected an array", article(value.kind()))))
            }
        }
    }
}

const fn article(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "an object",
        Kind::String => "a string",
        Kind::Number => "an integer",
        Kind::Bool => "a boolean",
        Kind::Null | Kind::Array => "null",
    }
}
