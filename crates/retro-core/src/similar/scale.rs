//! One scale for every embedder: what a policy calls 700 is the same nearness, whoever measured it.
//!
//! The cosine from which two texts say the same depends on the embedder: 0.9 is far too strict for one that counts words
//! and lax for another. So an embedder brings three of its cosines along, calibrated on texts of which people said what is
//! the same, and those are put where the policy's defaults stand; between them the scale is straight. A policy stays
//! right when the embedder changes, and nearnesses of two embedders may be compared.

use serde::{Deserialize, Serialize};

/// Where an embedder's cosines lie on the common scale, thousandths: 0 < contradiction < tombstone < merge < 1000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// The cosine from which two texts are about one thing: 500 on the scale.
    pub contradiction: u16,
    /// The cosine from which a text is kept away by a tombstone: 600.
    pub tombstone: u16,
    /// The cosine from which two texts are one memory: 700.
    pub merge: u16,
}

/// A scale whose cosines are not in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "contradiction {}, tombstone {}, merge {} (thousandths) must grow, between 0 and 1000",
    .0.contradiction, .0.tombstone, .0.merge
)]
pub struct ScaleError(pub Scale);

impl Scale {
    /// Where every embedder's cosine of contradiction stands, thousandths.
    pub const CONTRADICTION: u16 = 500;
    /// Where every embedder's cosine of tombstones stands, thousandths.
    pub const TOMBSTONE: u16 = 600;
    /// Where every embedder's cosine of merging stands, thousandths.
    pub const MERGE: u16 = 700;

    /// Fails when its cosines do not grow.
    pub fn check(self) -> Result<Self, ScaleError> {
        let grows = [0, self.contradiction, self.tombstone, self.merge, 1000].is_sorted_by(|a, b| a < b);
        if grows { Ok(self) } else { Err(ScaleError(self)) }
    }

    /// A cosine's place, thousandths; at most 1000, which only equal directions reach.
    pub fn place(self, cosine: u16) -> u16 {
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
        let more = share / u32::from(to.saturating_sub(from).max(1));
        low + u16::try_from(more).unwrap_or(u16::MAX).min(high - low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calibrated_cosines_stand_where_the_policy_has_its_defaults() {
        let scale = Scale { contradiction: 200, tombstone: 300, merge: 400 };
        let placed = [0, 100, 199, 200, 250, 300, 399, 400, 700, 999, 1000].map(|cosine| scale.place(cosine));
        assert_eq!(placed, [0, 250, 497, 500, 550, 600, 699, 700, 850, 999, 1000]);
    }

    #[test]
    fn a_scale_never_turns_round_and_only_equal_directions_reach_its_end() {
        for scale in [
            Scale { contradiction: 1, tombstone: 2, merge: 3 },
            Scale { contradiction: 997, tombstone: 998, merge: 999 },
            Scale { contradiction: 500, tombstone: 600, merge: 700 },
        ] {
            scale.check().unwrap();
            let placed: Vec<_> = (0..=1000).map(|cosine| scale.place(cosine)).collect();
            assert!(placed.is_sorted(), "{scale:?}");
            assert!(placed[999] < 1000, "{scale:?}");
        }
    }

    #[test]
    fn cosines_that_do_not_grow_are_refused_with_all_three() {
        let error = Scale { contradiction: 300, tombstone: 300, merge: 400 }.check().unwrap_err();
        let told = "contradiction 300, tombstone 300, merge 400 (thousandths) must grow, between 0 and 1000";
        assert_eq!(error.to_string(), told);
        assert!(Scale { contradiction: 0, tombstone: 1, merge: 2 }.check().is_err());
        assert!(Scale { contradiction: 1, tombstone: 2, merge: 1000 }.check().is_err());
    }
}
