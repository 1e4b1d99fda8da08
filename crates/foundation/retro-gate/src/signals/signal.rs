//! Defines a pattern of an attack.

use crate::folded::View;
use crate::reason::{Code, Strength};

/// A pattern with its meaning. The views `Words` and `Sentences` contain only words and single spaces. In a
/// pattern, `{n}` between two words means at most `n` words, and words in capitals are names from
/// `SHORTHANDS`.
pub(super) struct Signal {
    pub(super) code: Code,
    pub(super) strength: Strength,
    pub(super) view: View,
    pub(super) pattern: &'static str,
}

/// Builds a pattern of a sure sign.
pub(super) const fn sure(code: Code, view: View, pattern: &'static str) -> Signal {
    Signal { code, strength: Strength::Sure, view, pattern }
}

/// Builds a pattern that is only a hint.
pub(super) const fn hint(code: Code, view: View, pattern: &'static str) -> Signal {
    Signal { code, strength: Strength::Hint, view, pattern }
}
