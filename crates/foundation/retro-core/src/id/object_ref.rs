//! Parses the references by which people name retrospectives, reports, proposals, dead letters and batches.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use super::memory_ref::{MemoryRef, SHORT_ID_DIGITS};

/// Reference to an object with a derived id: the first hexadecimal digits of the id, at least
/// [`SHORT_ID_DIGITS`], written as those of a [`MemoryRef`]. It matches every id that begins with its digits; the
/// tenant's store resolves it to one object of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectRef(MemoryRef);

impl ObjectRef {
    /// Returns the id if the reference is a full id, or `None` if it is a prefix.
    pub fn exact_id(self) -> Option<Uuid> {
        self.0.exact_id().map(|id| id.0)
    }

    /// Returns the lowest and the highest id that begin with these digits. Ids sort like their digits.
    pub const fn id_range(self) -> (Uuid, Uuid) {
        let (first, last) = self.0.id_range();
        (first.0, last.0)
    }

    /// Returns `true` if an id begins with these digits.
    pub fn matches_id(self, id: Uuid) -> bool {
        let (first, last) = self.id_range();
        (first..=last).contains(&id)
    }
}

impl From<Uuid> for ObjectRef {
    fn from(id: Uuid) -> Self {
        Self(super::derived::MemoryId(id).into())
    }
}

/// Writes the given digits with the hyphens of an id.
impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Error for a string that is not a reference to an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected an id, or {SHORT_ID_DIGITS} or more of its first hexadecimal digits")]
pub struct ObjectRefError;

impl FromStr for ObjectRef {
    type Err = ObjectRefError;

    fn from_str(text: &str) -> Result<Self, ObjectRefError> {
        text.parse().map(Self).map_err(|_| ObjectRefError)
    }
}

impl<'de> serde::Deserialize<'de> for ObjectRef {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Returns the first [`SHORT_ID_DIGITS`] digits of an id, which tables show and every command accepts.
pub fn short_id(id: Uuid) -> String {
    super::derived::MemoryId(id).short_id()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_matches_the_ids_that_begin_with_it() {
        let id: Uuid = "8aad0cee-9a64-8ac7-b6f4-7c003c797ddb".parse().unwrap();
        let short: ObjectRef = short_id(id).parse().unwrap();
        assert_eq!((short.to_string().as_str(), short.exact_id()), ("8aad0cee", None));
        assert!(short.matches_id(id) && !short.matches_id(Uuid::max()));
        let whole = ObjectRef::from(id);
        assert_eq!((whole.exact_id(), whole.id_range()), (Some(id), (id, id)));
        assert_eq!("8aad0ce".parse::<ObjectRef>(), Err(ObjectRefError));
    }
}
