//! Chance that comes from names alone: the same seed and the same question always draw the same answer, in whatever order
//! the questions are asked. So a run is the same with and without memory except for what the memory changed.

use sha2::{Digest, Sha256};

/// A source of draws for one question.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// Of a question, named by its parts.
    pub(crate) fn of(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let bytes = hash.finalize();
        Self(u64::from_le_bytes(bytes[..8].try_into().expect("a hash has 32 bytes")))
    }

    /// The next 64 bits: the generator SplitMix64 (Steele, Lea, Flood 2014).
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// From 0 to below 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability.
    pub(crate) fn happens(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// From 0 to below `count`, which is at least 1; the bias for counts this small is below 2⁻⁵⁰.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.bits() % count as u64) as usize
    }

    /// One of them; `None` of none.
    pub(crate) fn one_of<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        (!among.is_empty()).then(|| &among[self.below(among.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_question_draws_the_same_and_another_another() {
        let draws = |parts: &[&str]| {
            let mut chance = Chance::of(parts);
            (0..4).map(|_| chance.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draws(&["1", "deploy"]), draws(&["1", "deploy"]));
        assert_ne!(draws(&["1", "deploy"]), draws(&["2", "deploy"]));
        assert_ne!(draws(&["1", "23"]), draws(&["12", "3"]), "parts do not run together");
    }

    #[test]
    fn what_has_a_probability_happens_that_often() {
        let mut chance = Chance::of(&["often"]);
        let times = (0..10_000).filter(|_| chance.happens(0.3)).count();
        assert!((2_800..3_200).contains(&times), "{times}");
        assert!(!chance.happens(0.0) && chance.happens(1.0));
    }
}
