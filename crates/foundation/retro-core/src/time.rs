//! Time as an input: no decision reads a clock. Leases use the database clock. Policies use `as_of`, which is
//! read once when a retrospective opens.

use jiff::Timestamp;

/// Source of the current time for all code outside the core; tests substitute a [`FixedClock`].
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// A clock that always returns the same time, for tests and for repeating a past decision.
#[derive(Debug, Clone, Copy)]
pub struct FixedClock(pub Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
}

/// Adds whole seconds to a timestamp, saturating at [`Timestamp::MAX`].
pub fn add_seconds(moment: Timestamp, seconds: u64) -> Timestamp {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    moment.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}
