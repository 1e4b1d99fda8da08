use std::sync::{Arc, Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};
use retro_core::time::Clock;

/// Clock that moves only when a test moves it. Clones share the same time.
#[derive(Debug, Clone)]
pub struct MovableClock(Arc<Mutex<Timestamp>>);

impl MovableClock {
    /// Creates a clock that initially shows `moment`.
    pub fn starting_at(moment: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(moment)))
    }

    /// Moves the clock forward, or back if the span is negative. Saturates at the limits of [`Timestamp`].
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.saturating_add(by).unwrap_or(Timestamp::MAX);
    }

    /// Sets the clock to `moment`.
    pub fn set(&self, moment: Timestamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = moment;
    }
}

impl Clock for MovableClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_advances_only_when_moved_and_for_every_clone() {
        let clock = MovableClock::starting_at(Timestamp::UNIX_EPOCH);
        let other = clock.clone();
        clock.advance(SignedDuration::from_secs(60));
        assert_eq!(other.now().as_second(), 60);
        other.set(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
    }
}
