//! Computes the waits between attempts within one process. Redelivery is not covered: the broker redelivers
//! messages, and their attempts are counted in the database.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

/// Endless sequence of waits that double from the first wait up to the longest, with jitter.
#[derive(Debug)]
pub struct Backoff {
    builder: ExponentialBuilder,
    waits: ExponentialBackoff,
    wait_max: Duration,
}

impl Backoff {
    /// Creates a sequence of waits from `first` up to about twice `longest`, because jitter can double a wait.
    pub fn new(first: Duration, longest: Duration) -> Self {
        let builder = ExponentialBuilder::new()
            .with_min_delay(first)
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter();
        Self { builder, waits: builder.build(), wait_max: longest }
    }

    /// Returns the next wait of the sequence.
    pub fn next_wait(&mut self) -> Duration {
        // The sequence never ends; the fallback only avoids a panic.
        self.waits.next().unwrap_or(self.wait_max)
    }

    /// Resets the sequence after a success: the next wait is the first one again.
    pub fn reset(&mut self) {
        self.waits = self.builder.build();
    }
}

/// Returns the wait after `attempts` failures: `first` after the first failure, doubled with each further
/// failure, and at most `longest`.
pub fn exponential_wait(first: Duration, attempts: u32, longest: Duration) -> Duration {
    // 2^16 times `first` is beyond any `longest`, and a larger shift would overflow.
    let factor = 1u32 << attempts.saturating_sub(1).min(16);
    first.saturating_mul(factor).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_maximum_and_reset_after_a_success() {
        let (first, longest) = (Duration::from_millis(10), Duration::from_millis(100));
        let mut backoff = Backoff::new(first, longest);
        let waits: Vec<_> = (0..50).map(|_| backoff.next_wait()).collect();
        assert!(waits[0] >= first && waits[0] <= first * 2, "{waits:?}");
        assert!(waits[10..].iter().all(|wait| *wait >= longest && *wait <= longest * 2), "{waits:?}");
        backoff.reset();
        assert!(backoff.next_wait() <= first * 2);
    }

    #[test]
    fn the_wait_after_failures_doubles_and_stays_bounded() {
        let wait =
            |attempts| exponential_wait(Duration::from_secs(1), attempts, Duration::from_secs(60)).as_secs();
        assert_eq!([0, 1, 2, 3, 6, 7, u32::MAX].map(wait), [1, 1, 2, 4, 32, 60, 60]);
    }
}
