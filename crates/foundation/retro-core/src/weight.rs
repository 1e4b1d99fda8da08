//! Weights as integers in thousandths. Sums of floats depend on the order of their terms, and so would
//! threshold decisions.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Weight of a memory, from 0 to 1000 thousandths. A weight of 300 is stored as `300` and printed as `0.300`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Weight(u16);

/// Error for a stored weight above 1000 thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a weight of {0} thousandths; it must be at most 1000")]
pub struct WeightError(u16);

impl TryFrom<u16> for Weight {
    type Error = WeightError;
    fn try_from(value: u16) -> Result<Self, WeightError> {
        if value > 1000 { Err(WeightError(value)) } else { Ok(Self(value)) }
    }
}

impl From<Weight> for u16 {
    fn from(weight: Weight) -> Self {
        weight.0
    }
}

impl Weight {
    /// Minimum weight.
    pub const ZERO: Self = Self(0);
    /// Maximum weight.
    pub const ONE: Self = Self(1000);

    /// Creates a weight from thousandths, clamped to 1000.
    pub const fn from_thousandths(value: u16) -> Self {
        if value > 1000 { Self(1000) } else { Self(value) }
    }

    /// Returns the weight in thousandths.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Returns this weight changed by `delta`, clamped to the range of a weight.
    pub fn adjusted_by(self, delta: WeightDelta) -> Self {
        // Added as i64, because an i32 sum could overflow before it is clamped.
        let sum = i64::from(self.0) + i64::from(delta.0);
        Self(u16::try_from(sum.clamp(0, 1000)).expect("clamped to 0..=1000"))
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// Signed change of a weight in thousandths, printed as `+0.100` or `-0.150`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WeightDelta(pub i32);

impl fmt::Display for WeightDelta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { '-' } else { '+' };
        let size = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:03}", size / 1000, size % 1000)
    }
}

impl std::iter::Sum for WeightDelta {
    fn sum<I: Iterator<Item = Self>>(deltas: I) -> Self {
        Self(deltas.fold(0i32, |sum, delta| sum.saturating_add(delta.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_clamp_and_print_three_places() {
        assert_eq!(Weight::from_thousandths(300).to_string(), "0.300");
        assert_eq!(Weight::from_thousandths(300).adjusted_by(WeightDelta(-450)), Weight::ZERO);
        assert_eq!(Weight::from_thousandths(950).adjusted_by(WeightDelta(100)).to_string(), "1.000");
        assert_eq!(serde_json::to_string(&Weight::from_thousandths(300)).unwrap(), "300");
        assert!(serde_json::from_str::<Weight>("1001").is_err());
        assert_eq!(WeightDelta(-20).to_string(), "-0.020");
        assert_eq!(WeightDelta(100).to_string(), "+0.100");
    }
}
