//! The embedder that needs no weights: words, and the character trigrams inside them, hashed into buckets.
//!
//! A word counts whole, and a part of it once more by its trigrams, so that a word and its plural meet. The trigrams of a
//! word share one weight, or long words would drown short ones. What is said twice counts less than double.
//!
//! What was tried and separates paraphrases no better: telling the parts of camelCase words apart, stems instead of
//! trigrams, longer or mixed n-grams, pairs of words, more stop words, less weight for words that are frequent in reviews
//! at large. Fewer buckets separate worse, because their collisions are of the size of what differs.

use std::collections::BTreeMap;

use super::{COMPONENT_MAX, Embedder, Scale, words};

/// The built-in embedder, `ngram-2`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NgramEmbedder;

/// Buckets of a vector.
const BUCKETS: usize = 4096;
/// Units of a word.
const WORD_UNITS: u32 = 600;
/// Units of all the trigrams of a word together.
const TRIGRAMS_UNITS: u32 = 300;
/// Words in which advice is given, and how far it reaches, whatever it is about: between two short lessons they would be half
/// of what is shared.
const LIGHT_WORDS: &[&str] = &[
    "add", "all", "always", "any", "avoid", "call", "can", "check", "do", "each", "ensure", "every", "first",
    "get", "if", "keep", "make", "must", "need", "needs", "never", "not", "run", "set", "should", "use",
    "used", "uses", "using",
];
/// A light word counts so many times less.
const LIGHT_SHARE: u32 = 3;
/// Units are multiplied by it before the root is taken, which keeps one place behind the point.
const ROOT_SCALE: u32 = 100;

impl Embedder for NgramEmbedder {
    fn name(&self) -> &str {
        "ngram-2"
    }

    fn scale(&self) -> Scale {
        // Printed by `cargo xtask eval paraphrases --calibrate`, from the part of its set that may be read.
        Scale { contradiction: 223, tombstone: 324, merge: 498 }
    }

    fn embed(&self, text: &str) -> Option<Vec<i32>> {
        let mut units: BTreeMap<u64, u32> = BTreeMap::new();
        let mut count = |feature: u64, more: u32| {
            let known = units.entry(feature).or_default();
            *known = known.saturating_add(more);
        };
        for word in words(text) {
            let share = if is_light(&word) { LIGHT_SHARE } else { 1 };
            count(fnv1a(word.bytes()), WORD_UNITS / share);
            let padded: Vec<char> = [' '].into_iter().chain(word.chars()).chain([' ']).collect();
            let each = TRIGRAMS_UNITS / share / u32::try_from(padded.len() - 2).unwrap_or(u32::MAX);
            for trigram in padded.windows(3) {
                count(fnv1a(trigram.iter().collect::<String>().bytes()), each);
            }
        }
        let mut vector = vec![0i32; BUCKETS];
        for (feature, units) in units {
            add(&mut vector, feature, units);
        }
        Some(vector)
    }
}

/// Whether a word only gives advice, whatever it is about.
pub(super) fn is_light(word: &str) -> bool {
    LIGHT_WORDS.contains(&word)
}

/// Adds a feature to its bucket with a sign drawn from its hash, so that collisions cancel instead of adding up.
fn add(vector: &mut [i32], feature: u64, units: u32) {
    let bucket = usize::try_from(feature % BUCKETS as u64).expect("below the number of buckets");
    let weight = i32::try_from(units.saturating_mul(ROOT_SCALE).isqrt()).expect("a root of 32 bits");
    let signed = if feature >> 63 == 0 { weight } else { -weight };
    vector[bucket] = vector[bucket].saturating_add(signed).clamp(-COMPONENT_MAX, COMPONENT_MAX);
}

/// FNV-1a, 64 bits: the same on every machine and in every version of this program.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
