//! The built-in embedder, which needs no model weights: it hashes words and their character trigrams into
//! buckets.
//!
//! A word counts as a whole and again by its trigrams, so a word and its plural are similar. The trigrams of
//! a word share one weight, because long words would otherwise outweigh short ones. A repeated word counts
//! less than double.
//!
//! These variants separate paraphrases no better: splitting camelCase words, stems instead of trigrams,
//! longer or mixed n-grams, pairs of words, more stop words, and less weight for words that are common in
//! reviews. Fewer buckets separate worse, because collisions become as large as the differences.

use std::collections::BTreeMap;

use super::embedder::Embedder;
use super::scale::SimilarityScale;
use super::vector::COMPONENT_MAX;
use super::words::content_words;

/// The built-in embedder, `ngram-2`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NgramEmbedder;

/// Number of buckets, equal to the number of components of a vector.
const BUCKETS: usize = 4096;
/// Units that a word adds as a whole.
const WORD_UNITS: u32 = 600;
/// Units that are divided among the trigrams of a word.
const TRIGRAMS_UNITS: u32 = 300;
/// Words that express advice or its extent, whatever the subject. At full weight, they would be half of the
/// words that two short lessons share.
const LIGHT_WORDS: &[&str] = &[
    "add", "all", "always", "any", "avoid", "call", "can", "check", "do", "each", "ensure", "every", "first",
    "get", "if", "keep", "make", "must", "need", "needs", "never", "not", "run", "set", "should", "use",
    "used", "uses", "using",
];
/// Divisor of the units of a light word.
const LIGHT_SHARE: u32 = 3;
/// Factor applied to units before the square root, which keeps one decimal place.
const ROOT_SCALE: u32 = 100;

impl Embedder for NgramEmbedder {
    fn name(&self) -> &str {
        "ngram-2"
    }

    fn scale(&self) -> SimilarityScale {
        // Printed by `cargo xtask eval paraphrases --calibrate`, computed from the pairs that are not held
        // out.
        SimilarityScale { contradiction: 223, tombstone: 324, merge: 498 }
    }

    fn embed(&self, text: &str) -> Option<Vec<i32>> {
        let mut units: BTreeMap<u64, u32> = BTreeMap::new();
        // Units are summed per feature before the root is taken, so a repeated word counts less than double.
        let mut count = |feature: u64, more: u32| {
            let known = units.entry(feature).or_default();
            *known = known.saturating_add(more);
        };
        for word in content_words(text) {
            let share = if is_light_word(&word) { LIGHT_SHARE } else { 1 };
            count(hash_fnv1a(word.bytes()), WORD_UNITS / share);
            let padded: Vec<char> = [' '].into_iter().chain(word.chars()).chain([' ']).collect();
            let each = TRIGRAMS_UNITS / share / u32::try_from(padded.len() - 2).unwrap_or(u32::MAX);
            for trigram in padded.windows(3) {
                count(hash_fnv1a(trigram.iter().collect::<String>().bytes()), each);
            }
        }
        let mut vector = vec![0i32; BUCKETS];
        for (feature, units) in units {
            add_feature(&mut vector, feature, units);
        }
        Some(vector)
    }
}

/// Returns `true` if a word only expresses advice, whatever the subject.
pub(crate) fn is_light_word(word: &str) -> bool {
    LIGHT_WORDS.contains(&word)
}

/// Adds a feature to its bucket with a sign from its hash, so that collisions cancel instead of adding up.
fn add_feature(vector: &mut [i32], feature: u64, units: u32) {
    let bucket = usize::try_from(feature % BUCKETS as u64).expect("below the number of buckets");
    let weight = i32::try_from(units.saturating_mul(ROOT_SCALE).isqrt()).expect("a root of 32 bits");
    let signed = if feature >> 63 == 0 { weight } else { -weight };
    vector[bucket] = vector[bucket].saturating_add(signed).clamp(-COMPONENT_MAX, COMPONENT_MAX);
}

/// Computes the 64-bit FNV-1a hash, which is the same on every machine and in every version of this program.
fn hash_fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
