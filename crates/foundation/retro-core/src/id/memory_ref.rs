//! Parses the references by which people and agents name a memory: a full id or its first digits.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use uuid::Uuid;

use super::derived::MemoryId;

/// Number of hexadecimal digits in a short id. With eight digits, the probability that any two of a tenant's
/// thousand memories have the same short id is 1 in 8,600. More digits then tell them apart.
pub const SHORT_ID_DIGITS: usize = 8;

/// Number of hexadecimal digits in a full id.
const FULL_ID_DIGITS: usize = 32;

impl MemoryId {
    /// Returns the first [`SHORT_ID_DIGITS`] hexadecimal digits of the id, the form that people and agents
    /// use.
    pub fn short_id(self) -> String {
        self.0.simple().to_string()[..SHORT_ID_DIGITS].to_owned()
    }
}

/// Reference to a memory: the first hexadecimal digits of its id, at least [`SHORT_ID_DIGITS`]. The digits
/// may be in upper or lower case, with or without the hyphens of a full id. A reference matches every id that
/// begins with its digits; the tenant's store resolves it to one memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct MemoryRef {
    first: MemoryId,
    last: MemoryId,
}

impl MemoryRef {
    /// Returns the id if the reference is a full id, or `None` if it is a prefix.
    pub fn exact_id(self) -> Option<MemoryId> {
        (self.first == self.last).then_some(self.first)
    }

    /// Returns the lowest and the highest id that begin with these digits. Ids sort like their digits.
    pub const fn id_range(self) -> (MemoryId, MemoryId) {
        (self.first, self.last)
    }

    /// Returns `true` if an id begins with these digits.
    pub fn matches_id(self, id: MemoryId) -> bool {
        (self.first..=self.last).contains(&id)
    }
}

impl From<MemoryId> for MemoryRef {
    fn from(id: MemoryId) -> Self {
        Self { first: id, last: id }
    }
}

/// Writes the given digits with the hyphens of an id.
impl fmt::Display for MemoryRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first.to_string(), self.last.to_string());
        // After the given digits, the first id continues with 0 and the last one with f.
        let same = first.bytes().zip(last.bytes()).take_while(|(left, right)| left == right).count();
        f.write_str(first[..same].trim_end_matches('-'))
    }
}

/// Error for a string that is not a reference to a memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a memory is named by its id, or by {SHORT_ID_DIGITS} or more of the id's first hexadecimal digits")]
pub struct MemoryRefError;

impl TryFrom<String> for MemoryRef {
    type Error = MemoryRefError;
    fn try_from(text: String) -> Result<Self, MemoryRefError> {
        text.parse()
    }
}

impl FromStr for MemoryRef {
    type Err = MemoryRefError;

    fn from_str(text: &str) -> Result<Self, MemoryRefError> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        // The digits are checked here, because `from_str_radix` below would accept a leading `+`.
        if !(SHORT_ID_DIGITS..=FULL_ID_DIGITS).contains(&digits.len()) || !digits.bytes().all(is_hex_digit) {
            return Err(MemoryRefError);
        }
        // The first id fills the missing digits with 0, the last one with f.
        let open_bits = 4 * (FULL_ID_DIGITS - digits.len());
        let first = u128::from_str_radix(&digits, 16).map_err(|_| MemoryRefError)? << open_bits;
        let [first, last] =
            [first, first | ((1 << open_bits) - 1)].map(|bits| MemoryId(Uuid::from_u128(bits)));
        let named = Self { first, last };
        // Hyphens must be where an id has them, or absent. A trailing one is allowed, because cutting an id
        // between two groups leaves it.
        let cut = text.strip_suffix('-').unwrap_or(text);
        let as_in_an_id = cut.eq_ignore_ascii_case(&named.to_string());
        if as_in_an_id || !text.contains('-') { Ok(named) } else { Err(MemoryRefError) }
    }
}

fn is_hex_digit(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "8aad0cee-9a64-8ac7-b6f4-7c003c797ddb";

    fn named(text: &str) -> MemoryRef {
        text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
    }

    #[test]
    fn every_prefix_of_eight_digits_or_more_matches() {
        let id: MemoryId = ID.parse().unwrap();
        assert_eq!(id.short_id(), "8aad0cee");
        for length in SHORT_ID_DIGITS..=ID.len() {
            let text = &ID[..length];
            assert_eq!(named(text).to_string(), text.trim_end_matches('-'));
            for written in [text.to_owned(), text.to_uppercase(), text.replace('-', "")] {
                assert_eq!(named(&written), named(text), "{written}");
            }
            assert!(named(text).matches_id(id), "{text}");
            assert_eq!(named(text).exact_id(), (length == ID.len()).then_some(id), "{text}");
        }
        assert_eq!(named(ID), id.into());
    }

    #[test]
    fn a_prefix_matches_only_ids_that_begin_with_it() {
        let (first, last) = named("8aad0cee").id_range();
        assert_eq!(first.to_string(), "8aad0cee-0000-0000-0000-000000000000");
        assert_eq!(last.to_string(), "8aad0cee-ffff-ffff-ffff-ffffffffffff");
        for other in ["8aad0ced-ffff-ffff-ffff-ffffffffffff", "8aad0cef-0000-0000-0000-000000000000"] {
            assert!(!named("8aad0cee").matches_id(other.parse().unwrap()), "{other}");
        }
        assert_eq!(named("ffffffff").id_range().1, MemoryId(Uuid::max()));
        assert_eq!(named("0000000f").id_range().0.short_id(), "0000000f");
    }

    #[test]
    fn invalid_prefixes_are_rejected() {
        let (too_long, too_long_too) = (format!("{ID}0"), format!("{ID}--"));
        for text in [
            "",
            "8aad0ce",
            "8aad0ceg",
            "+8aad0ce",
            "8aad-0cee",
            "-8aad0cee",
            "8aad0cee--",
            "8aad0cee9-a64",
            "8aad0cee 9a64",
            "８aad0cee",
            "{8aad0cee}",
            &too_long,
            &too_long_too,
        ] {
            assert_eq!(text.parse::<MemoryRef>(), Err(MemoryRefError), "{text:?}");
        }
    }
}
