//! Bounds the number of entries in a list.

use retro_http::Problem;

/// Default number of entries in a list: a screen or two.
pub const LIST_DEFAULT: u32 = 100;

/// Maximum number of entries in a list. For memories this is a few hundred kilobytes, which a browser still
/// displays without delay.
pub const LIST_MAX: u32 = 1000;

/// Maximum number of entries that a list returns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit(usize);

impl Limit {
    pub(crate) fn from_query(query: Option<u32>) -> Result<Self, Problem> {
        match query.unwrap_or(LIST_DEFAULT) {
            wanted @ 1..=LIST_MAX => Ok(Self(wanted as usize)),
            other => Err(Problem::invalid_field("limit", format!("{other} is not between 1 and {LIST_MAX}"))),
        }
    }

    /// Returns the maximum number of entries.
    pub(crate) fn get(self) -> u32 {
        u32::try_from(self.0).expect("a limit is at most LIST_MAX")
    }

    /// Returns the limit for the store: one more than requested, to detect whether there are more entries.
    pub(crate) fn fetch_limit(self) -> u32 {
        u32::try_from(self.0 + 1).expect("a limit is at most LIST_MAX")
    }

    /// Truncates a list that was loaded with [`Self::fetch_limit`]. Also returns `true` if there are more
    /// entries.
    pub(crate) fn truncate_list<T>(self, mut items: Vec<T>) -> (Vec<T>, bool) {
        let more = items.len() > self.0;
        items.truncate(self.0);
        (items, more)
    }
}
