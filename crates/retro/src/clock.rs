//! Provides the program's only real clock.

use jiff::Timestamp;
use retro_core::time::Clock;

/// The system clock, in milliseconds, shifted by the fault injection of tests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the composition root owns the only real clock")]
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        let off_ms = retro_fault::clock_offset_s() * 1000;
        // Milliseconds keep the times in reasons readable; the program needs no finer resolution.
        Timestamp::from_millisecond(now.as_millisecond() + off_ms).unwrap_or(now)
    }
}
