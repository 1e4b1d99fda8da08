//! Maps the cosines of all embedders to a common scale, so that 700 in a policy means the same similarity
//! with every embedder.
//!
//! The cosine above which two texts mean the same depends on the embedder: 0.9 is far too strict for an
//! embedder that counts words, and too lax for another. An embedder is therefore configured with three of its
//! cosines, calibrated on texts that people have judged. These cosines map to the policy's defaults, and the
//! scale is linear between them. A policy stays valid when the embedder changes, and similarities from two
//! embedders may be compared.

use serde::{Deserialize, Serialize};

/// Three cosines of an embedder, in thousandths, that map to fixed values on the common scale. They satisfy 0
/// < contradiction < tombstone < merge < 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimilarityScale {
    /// Lowest cosine of two texts about the same subject; maps to 500.
    pub contradiction: u16,
    /// Lowest cosine at which a tombstone forbids a text; maps to 600.
    pub tombstone: u16,
    /// Lowest cosine at which two texts are merged into one memory; maps to 700.
    pub merge: u16,
}

/// Error for a scale whose cosines are not in increasing order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "contradiction {}, tombstone {}, merge {} (thousandths) must grow, between 0 and 1000",
    .0.contradiction, .0.tombstone, .0.merge
)]
pub struct ScaleError(pub SimilarityScale);

impl SimilarityScale {
    /// Value that the contradiction cosine maps to, in thousandths.
    pub const CONTRADICTION: u16 = 500;
    /// Value that the tombstone cosine maps to, in thousandths.
    pub const TOMBSTONE: u16 = 600;
    /// Value that the merge cosine maps to, in thousandths.
    pub const MERGE: u16 = 700;

    /// Returns the scale if its cosines strictly increase between 0 and 1000, and fails otherwise.
    pub fn validate(self) -> Result<Self, ScaleError> {
        let grows = [0, self.contradiction, self.tombstone, self.merge, 1000].is_sorted_by(|a, b| a < b);
        if grows { Ok(self) } else { Err(ScaleError(self)) }
    }

    /// Maps a cosine to the common scale, in thousandths. Only a cosine of 1000, which means equal
    /// directions, maps to 1000.
    pub fn normalize_cosine(self, cosine: u16) -> u16 {
        let knots = [
            (0, 0),
            (self.contradiction, Self::CONTRADICTION),
            (self.tombstone, Self::TOMBSTONE),
            (self.merge, Self::MERGE),
            (1000, 1000),
        ];
        let cosine = cosine.min(1000);
        let above = knots.partition_point(|(knot, _)| *knot <= cosine).clamp(1, knots.len() - 1);
        let ((from, low), (to, high)) = (knots[above - 1], knots[above]);
        let share = u32::from(cosine.saturating_sub(from)) * u32::from(high - low);
        // A scale that was never validated may have equal cosines, so the divisor is at least 1.
        let more = share / u32::from(to.saturating_sub(from).max(1));
        low + u16::try_from(more).unwrap_or(u16::MAX).min(high - low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calibrated_cosines_map_to_the_policy_defaults() {
        let scale = SimilarityScale { contradiction: 200, tombstone: 300, merge: 400 };
        let placed = [0, 100, 199, 200, 250, 300, 399, 400, 700, 999, 1000]
            .map(|cosine| scale.normalize_cosine(cosine));
        assert_eq!(placed, [0, 250, 497, 500, 550, 600, 699, 700, 850, 999, 1000]);
    }

    #[test]
    fn a_scale_is_monotonic_and_only_equal_directions_reach_1000() {
        for scale in [
            SimilarityScale { contradiction: 1, tombstone: 2, merge: 3 },
            SimilarityScale { contradiction: 997, tombstone: 998, merge: 999 },
            SimilarityScale { contradiction: 500, tombstone: 600, merge: 700 },
        ] {
            scale.validate().unwrap();
            let placed: Vec<_> = (0..=1000).map(|cosine| scale.normalize_cosine(cosine)).collect();
            assert!(placed.is_sorted(), "{scale:?}");
            assert!(placed[999] < 1000, "{scale:?}");
        }
    }

    #[test]
    fn cosines_out_of_order_are_rejected() {
        let error =
            SimilarityScale { contradiction: 300, tombstone: 300, merge: 400 }.validate().unwrap_err();
        let expected =
            "contradiction 300, tombstone 300, merge 400 (thousandths) must grow, between 0 and 1000";
        assert_eq!(error.to_string(), expected);
        assert!(SimilarityScale { contradiction: 0, tombstone: 1, merge: 2 }.validate().is_err());
        assert!(SimilarityScale { contradiction: 1, tombstone: 2, merge: 1000 }.validate().is_err());
    }
}
