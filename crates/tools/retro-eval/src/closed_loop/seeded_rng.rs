//! Derives random numbers from names alone. The same seed and question always give the same answer, in
//! whatever order the questions are asked, so a run with memory differs from the run without it only by what
//! the memory changed.

use sha2::{Digest, Sha256};

/// Generator of the random numbers for one question, such as whether an agent opens a memory.
#[derive(Debug, Clone)]
pub(crate) struct SeededRng(u64);

impl SeededRng {
    /// Seeds the generator from the parts of a question's name.
    pub(crate) fn from_parts(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // Without the length, ("1", "23") and ("12", "3") would draw the same numbers.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        let bytes = hash.finalize();
        Self(u64::from_le_bytes(bytes[..8].try_into().expect("a hash has 32 bytes")))
    }

    /// Returns the next 64 bits of SplitMix64 (Steele, Lea, Flood 2014).
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Returns a number in [0, 1).
    pub(crate) fn random_fraction(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns `true` with this probability.
    pub(crate) fn random_bool(&mut self, probability: f64) -> bool {
        self.random_fraction() < probability
    }

    /// Returns a number below `count`, which must be at least 1. For the small counts used here, the modulo
    /// bias is below 2⁻⁵⁰.
    pub(crate) fn random_below(&mut self, count: usize) -> usize {
        (self.next_u64() % count as u64) as usize
    }

    /// Returns a randomly chosen item, or `None` if there are none.
    pub(crate) fn choose<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        (!among.is_empty()).then(|| &among[self.random_below(among.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_question_gives_the_same_numbers() {
        let draws = |parts: &[&str]| {
            let mut chance = SeededRng::from_parts(parts);
            (0..4).map(|_| chance.random_below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draws(&["1", "deploy"]), draws(&["1", "deploy"]));
        assert_ne!(draws(&["1", "deploy"]), draws(&["2", "deploy"]));
        assert_ne!(draws(&["1", "23"]), draws(&["12", "3"]), "parts do not run together");
    }

    #[test]
    fn random_bool_has_the_given_probability() {
        let mut chance = SeededRng::from_parts(&["often"]);
        let times = (0..10_000).filter(|_| chance.random_bool(0.3)).count();
        assert!((2_800..3_200).contains(&times), "{times}");
        assert!(!chance.random_bool(0.0) && chance.random_bool(1.0));
    }
}
