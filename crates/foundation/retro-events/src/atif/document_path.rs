//! Tracks the path of a value in a trajectory. The text of the path is built only if an error reports it.

use std::borrow::Cow;

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use serde::Deserialize;

use super::content_text::content_text;
use crate::field;
use retro_core::json::{JsonKind, JsonNode};

/// Path of a value, linked to the path of its parent.
pub(super) enum DocumentPath<'a> {
    Root(&'a str),
    Member(&'a DocumentPath<'a>, &'a str),
    Item(&'a DocumentPath<'a>, &'a str, usize),
}

impl<'a> DocumentPath<'a> {
    pub(super) const fn root(path: &'a str) -> Self {
        Self::Root(path)
    }

    /// Returns the path of a member of this value.
    pub(super) const fn member(&'a self, name: &'a str) -> Self {
        Self::Member(self, name)
    }

    /// Returns the path of the item with the 0-based index `nth` in an array member of this value.
    pub(super) const fn item(&'a self, name: &'a str, nth: usize) -> Self {
        Self::Item(self, name, nth)
    }

    fn to_path(&self) -> String {
        match self {
            Self::Root(path) => (*path).to_owned(),
            Self::Member(parent, name) => field::join_path(&parent.to_path(), name),
            Self::Item(parent, name, nth) => field::join_path(&parent.to_path(), &format!("{name}[{nth}]")),
        }
    }

    /// Builds a rejection of the value at this path.
    pub(super) fn invalid_at(&self, detail: impl Into<String>) -> Rejection {
        Rejection::of_field(DeadLetterCode::TrajectoryInvalid, self.to_path(), detail)
    }

    /// Builds a rejection for a missing value at this path.
    pub(super) fn missing_at(&self) -> Rejection {
        self.invalid_at("is missing")
    }

    pub(super) fn check_object(&self, node: JsonNode<'_>) -> Result<(), Rejection> {
        if node.kind() == JsonKind::Object { Ok(()) } else { Err(self.invalid_at("is not an object")) }
    }

    /// Deserializes a required member.
    pub(super) fn parse_required<'de, T: Deserialize<'de>>(
        &self,
        object: JsonNode<'de>,
        name: &str,
    ) -> Result<T, Rejection> {
        let value = object.get(name).ok_or_else(|| self.member(name).missing_at())?;
        self.parse_member(value, name)
    }

    /// Deserializes a member that may be missing or `null`.
    pub(super) fn parse_optional<'de, T: Deserialize<'de>>(
        &self,
        object: JsonNode<'de>,
        name: &str,
    ) -> Result<Option<T>, Rejection> {
        object.get_non_null(name).map(|value| self.parse_member(value, name)).transpose()
    }

    fn parse_member<'de, T: Deserialize<'de>>(
        &self,
        value: JsonNode<'de>,
        name: &str,
    ) -> Result<T, Rejection> {
        T::deserialize(value).or_else(|_| {
            // Deserialized again only to build the error with path and message.
            field::deserialize_field(DeadLetterCode::TrajectoryInvalid, &self.member(name).to_path(), value)
        })
    }

    /// Returns the value of a string member, without copying it if possible; `None` if the member is missing
    /// or `null`.
    pub(super) fn parse_str<'de>(
        &self,
        object: JsonNode<'de>,
        name: &str,
    ) -> Result<Option<Cow<'de, str>>, Rejection> {
        let Some(value) = object.get_non_null(name) else { return Ok(None) };
        match value.as_str() {
            Some(text) => Ok(Some(text)),
            None => self.parse_member::<String>(value, name).map(|text| Some(text.into())),
        }
    }

    /// Returns the text of a member that is a string or content parts; empty if the member is missing.
    pub(super) fn parse_text(&self, object: JsonNode<'_>, name: &str) -> Result<String, Rejection> {
        let Some(value) = object.get(name) else { return Ok(String::new()) };
        content_text(value).ok_or_else(|| {
            let found = match value.kind() {
                JsonKind::Object => "an object",
                JsonKind::Bool => "a boolean",
                _ => "a number",
            };
            self.member(name).invalid_at(format!("found {found}; expected a string or an array of parts"))
        })
    }

    /// Returns the items of an array member; `None` if the member is missing or `null`.
    pub(super) fn parse_array<'de>(
        &self,
        object: JsonNode<'de>,
        name: &str,
    ) -> Result<Option<impl Iterator<Item = JsonNode<'de>> + use<'de>>, Rejection> {
        let Some(value) = object.get_non_null(name) else { return Ok(None) };
        match value.items() {
            Some(items) => Ok(Some(items)),
            None => Err(self
                .member(name)
                .invalid_at(format!("found {}; expected an array", kind_with_article(value.kind())))),
        }
    }
}

const fn kind_with_article(kind: JsonKind) -> &'static str {
    match kind {
        JsonKind::Object => "an object",
        JsonKind::String => "a string",
        JsonKind::Number => "an integer",
        JsonKind::Bool => "a boolean",
        // An array is never reported, because it is the expected kind.
        JsonKind::Null | JsonKind::Array => "null",
    }
}
