//! The one real clock of the program.

use jiff::Timestamp;
use retro_core::time::Clock;

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the composition root owns the one real clock")]
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        let off_ms = retro_fault::clock_off_s() * 1000;
        // Milliseconds: what people read in every reason; nothing here needs more.
        Timestamp::from_millisecond(now.as_millisecond() + off_ms).unwrap_or(now)
    }
}
