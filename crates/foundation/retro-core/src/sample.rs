//! Draws the runs of a window to investigate, reproducibly from a seed.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::id::{Ordinal, RetrospectiveId};
use crate::policy::{Policy, SampleOrder};

/// A drawn sample, which is stored before the first investigation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Seed of the shuffle: the SHA-256 of the retrospective's id, in hex.
    pub seed: String,
    /// Ordinals of the whole window in shuffled order. The first `size` runs are the sample; the following
    /// runs replace those whose investigation failed.
    pub order: Vec<Ordinal>,
    /// Number of runs to investigate.
    pub size: u32,
}

/// Draws the sample of a retrospective from the ordinals of its window.
pub fn draw_sample(id: RetrospectiveId, mut window: Vec<Ordinal>, policy: &Policy) -> Sample {
    // Rows arrive in any order, which must not influence the sample.
    window.sort_unstable();
    let size = sample_size(window.len() as u64, policy);
    let seed: [u8; 32] = Sha256::digest(id.0.as_bytes()).into();
    match policy.sample_order {
        SampleOrder::Random => shuffle_ordinals(&mut window, seed),
        SampleOrder::MostRecent => window.reverse(),
    }
    let seed = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    Sample { seed, order: window, size }
}

/// Returns the number of runs to investigate: `clamp((window × permille + 500) / 1000, 1, cap)`, but never
/// more than the window contains.
pub fn sample_size(window: u64, policy: &Policy) -> u32 {
    // At least 1, because `clamp` panics if its maximum is below its minimum.
    let cap = u64::from(policy.sample_runs_max).min(window).max(1);
    let n = (window.saturating_mul(policy.sample_permille.into()).saturating_add(500) / 1000).clamp(1, cap);
    u32::try_from(n).expect("clamped to a u32 cap")
}

/// Shuffles ordinals with Fisher–Yates, from the last place down, using random numbers from ChaCha20. A
/// library's shuffle may change between versions, but stored samples must stay reproducible.
fn shuffle_ordinals(items: &mut [Ordinal], seed: [u8; 32]) {
    let mut rng = ChaCha20Rng::from_seed(seed);
    for last in (1..items.len()).rev() {
        let other = random_below(&mut rng, last as u64 + 1);
        items.swap(last, usize::try_from(other).expect("below a usize"));
    }
}

/// Returns a uniformly distributed number below `bound`, using rejection sampling to avoid modulo bias.
fn random_below(rng: &mut ChaCha20Rng, bound: u64) -> u64 {
    // Numbers beyond the largest multiple of `bound` would favour small results, so they are drawn again.
    let zone = u64::MAX - u64::MAX % bound;
    loop {
        let drawn = rng.next_u64();
        if drawn < zone {
            return drawn % bound;
        }
    }
}

/// Probabilities, in thousandths, that a sample drawn without replacement contains a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplingPower {
    /// Number of runs in the window that show the pattern.
    pub runs_with_pattern: u32,
    /// Probability that the sample contains at least one run with the pattern.
    pub seen_once: u16,
    /// Probability that the sample contains at least two runs with the pattern, enough to confirm it
    /// immediately.
    pub seen_twice: u16,
}

/// Computes the sampling power for patterns that occur in 1, 2, 3, 5 and half of the window's runs.
pub fn sampling_power(window: u64, sample: u32) -> Vec<SamplingPower> {
    let window = u32::try_from(window).unwrap_or(u32::MAX);
    let mut counts = vec![1, 2, 3, 5, window.div_ceil(2)];
    counts.retain(|count| *count <= window);
    counts.sort_unstable();
    counts.dedup();
    counts.into_iter().map(|with| power_for(window, sample, with)).collect()
}

/// Computes the hypergeometric probabilities that a sample contains a pattern of `with` runs in the window.
fn power_for(window: u32, sample: u32, with: u32) -> SamplingPower {
    let none = chance_of_none(window, sample, with);
    // Exactly one: sample × P(the first drawn run has the pattern) × P(no other drawn run has it).
    let one = if sample == 0 || window == 0 {
        0.0
    } else {
        f64::from(sample) * f64::from(with) / f64::from(window)
            * chance_of_none(window - 1, sample - 1, with.saturating_sub(1))
    };
    SamplingPower {
        runs_with_pattern: with,
        seen_once: to_thousandths(1.0 - none),
        seen_twice: to_thousandths(1.0 - none - one),
    }
}

/// Returns the probability that a sample contains none of the window's `with` runs that show a pattern.
fn chance_of_none(window: u32, sample: u32, with: u32) -> f64 {
    (0..sample).fold(1.0, |chance, drawn| {
        let left = window.saturating_sub(drawn);
        let unmarked = left.saturating_sub(with);
        if left == 0 { chance } else { chance * f64::from(unmarked) / f64::from(left) }
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=1000")]
fn to_thousandths(chance: f64) -> u16 {
    (chance * 1000.0).round().clamp(0.0, 1000.0) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::derive_uuid;

    #[test]
    fn the_sample_grows_with_the_window_up_to_the_cap() {
        let policy = Policy::default();
        for (window, n) in [(1, 1), (2, 1), (3, 1), (4, 2), (10, 4), (11, 4), (12, 5), (13, 5), (1000, 5)] {
            assert_eq!(sample_size(window, &policy), n, "window of {window}");
        }
        let all = Policy { sample_permille: 1000, sample_runs_max: 100, ..policy };
        assert_eq!(sample_size(7, &all), 7);
    }

    /// The expected values were computed independently, in another language, from SHA-256, ChaCha20 (64-bit
    /// words, low half first) and Fisher–Yates as written above.
    #[test]
    fn golden_vectors_of_the_shuffle() {
        let draw = |epoch: &str, last: Ordinal| {
            let id = RetrospectiveId(derive_uuid("retrospective", &["default", "golden", epoch]));
            draw_sample(id, (1..=last).rev().collect(), &Policy::default())
        };
        let ten = draw("1", 10);
        assert_eq!(ten.seed, "53a7d8609e5ed0afb83d4311a3f173caa2cc6f9c3f864ccd4ce04d9066532000");
        assert_eq!((ten.order, ten.size), (vec![10, 5, 7, 6, 4, 2, 1, 8, 9, 3], 4));
        let forty = draw("2", 40);
        assert_eq!(forty.seed, "4818d7405bffd3a1ad58908e9dc0813a10123f1e43593408338ce63c335ec124");
        assert_eq!(forty.size, 5);
        assert_eq!(
            forty.order,
            [
                32, 2, 17, 30, 19, 25, 16, 39, 37, 33, 23, 12, 31, 6, 8, 5, 4, 9, 36, 1, 27, 13, 28, 20, 29,
                40, 22, 15, 18, 11, 21, 26, 34, 38, 3, 24, 35, 10, 7, 14
            ]
        );
    }

    #[test]
    fn most_recent_first_is_there_for_comparison() {
        let policy = Policy { sample_order: SampleOrder::MostRecent, ..Policy::default() };
        let id = RetrospectiveId(derive_uuid("retrospective", &["default", "golden", "1"]));
        assert_eq!(draw_sample(id, vec![2, 1, 3], &policy).order, [3, 2, 1]);
    }

    #[test]
    fn every_place_is_equally_likely() {
        let mut first = [0u32; 5];
        for epoch in 0..5000 {
            let id = RetrospectiveId(derive_uuid("fair", &[&epoch.to_string()]));
            first
                [usize::try_from(draw_sample(id, (0..5).collect(), &Policy::default()).order[0]).unwrap()] +=
                1;
        }
        // 1000 expected each; five standard deviations are 141.
        assert!(first.iter().all(|count| (859..=1141).contains(count)), "{first:?}");
    }

    #[test]
    fn power_of_two_in_ten_with_a_sample_of_four() {
        let two = sampling_power(10, 4)[1];
        assert_eq!((two.runs_with_pattern, two.seen_once, two.seen_twice), (2, 667, 133));
        assert_eq!(sampling_power(1, 1)[0].seen_once, 1000);
    }
}
