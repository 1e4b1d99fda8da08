//! Limits the rate of requests.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time for which unused requests add up, so that a client may send its requests of a second at once.
const BURST: Duration = Duration::from_secs(1);

/// Limits requests to a rate, by the generic cell rate algorithm of ATM networks: each request moves the time at
/// which the next one is due, and one that comes more than [`BURST`] before it is refused.
#[derive(Debug, Default)]
pub(super) struct RateLimit {
    due: Mutex<Option<Instant>>,
}

impl RateLimit {
    /// Returns `true` if a request may be answered now, at a rate of at most `per_s` per second.
    pub(super) fn try_take(&self, per_s: u32, now: Instant) -> bool {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let next = due.unwrap_or(now).max(now) + Duration::from_secs(1) / per_s.max(1);
        let fits = next <= now + BURST;
        if fits {
            *due = Some(next);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_requests_may_come_at_once_and_then_the_rate_holds() {
        let (limit, start) = (RateLimit::default(), Instant::now());
        let taken = |after_ms: u64, tries: u32| {
            let now = start + Duration::from_millis(after_ms);
            (0..tries).filter(|_| limit.try_take(10, now)).count()
        };
        assert_eq!(taken(0, 100), 10);
        assert_eq!(taken(99, 5), 0);
        assert_eq!(taken(300, 100), 3);
        assert_eq!(taken(60_000, 100), 10, "what is unused for longer is lost");
    }
}
