//! Replay: what comes of sending a dead letter again, and how many letters of a batch may go next.
//!
//! **One letter.** It goes out with a new delivery id and its old identity, so that the broker does not drop it and the
//! inbox still knows it: replayed any number of times it has one effect.
//!
//! **A batch.** First a few, the canary, each of which has to succeed; then the rest at a pace, as long as few enough of
//! them fail. [`next`] is asked again and again by whoever drives the batch, with everything that is known; it
//! remembers nothing, so any process may drive it, and a crash in the middle changes nothing.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::dead_letter::Rejection;

/// The header that names the replay which a message is.
pub const REPLAY_HEADER: &str = "Retro-Replay";
/// The header that holds the id under which the message came at first, when it had one.
pub const ORIGINAL_ID_HEADER: &str = "Retro-Original-Msg-Id";
/// Letters a second, in thousandths, when nobody asks for another pace: a person can follow it, and stop it.
pub const RATE_MILLI: u32 = 5_000;
/// The fastest pace, in thousandths of a letter a second: a tenth of what a small machine counts.
pub const RATE_MILLI_MAX: u32 = 1_000_000;
/// The share of failures that stops a batch, in thousandths, when nobody asks for another.
pub const FAILED_PERMILLE_MAX: u32 = 200;
/// Failures are a share of at least so many, or the first one of a batch would stop it.
pub const SHARE_OF_MIN: u32 = 10;
/// Letters of a batch that may be under way at once: when nothing answers, so few wait at the broker.
pub const UNDER_WAY_MAX: u32 = 50;
/// Letters that one batch may hold. More are several batches, each of which a person has looked at.
pub const BATCH_LETTERS_MAX: u32 = 10_000;
/// How far ahead letters are taken up, so that a slow batch does not hold the pace against others.
const AHEAD: SignedDuration = SignedDuration::from_secs(1);

/// What came of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "came", rename_all = "snake_case")]
pub enum Outcome {
    /// It was handled, and its effects are stored.
    Handled,
    /// It had been handled before: nothing changed.
    Known,
    /// It was given up again.
    Failed {
        /// Why.
        rejection: Rejection,
        /// Attempts that it took.
        attempts: u32,
    },
    /// The broker does not take it, whenever it is asked.
    Refused {
        /// In the words of the broker or its client.
        problem: String,
    },
}

impl Outcome {
    /// Whether the letter is done with.
    pub const fn succeeded(&self) -> bool {
        matches!(self, Self::Handled | Self::Known)
    }
}

impl std::fmt::Display for Outcome {
    /// One sentence without its end. It may quote the message as far as a rejection does.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Handled => f.write_str("it was handled"),
            Self::Known => f.write_str("it was known before, and nothing changed"),
            Self::Failed { rejection, .. } => write!(f, "it failed again: {rejection}"),
            Self::Refused { problem } => write!(f, "the broker does not take it: {problem}"),
        }
    }
}

/// How a batch is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// So many go first, and the others only when each of them succeeded; 0: none.
    pub canary: u32,
    /// Letters a second, in thousandths; at least 1.
    pub rate_milli: u32,
    /// More failures than this share, in thousandths, stop it.
    pub failed_permille_max: u32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { canary: 0, rate_milli: RATE_MILLI, failed_permille_max: FAILED_PERMILLE_MAX }
    }
}

impl Pace {
    /// Refuses a pace that cannot be kept, with the field and what is wrong with it.
    pub fn check(&self) -> Result<(), PaceError> {
        let out_of = |field, value: u32, min, max| PaceError { field, value, min, max };
        if !(1..=RATE_MILLI_MAX).contains(&self.rate_milli) {
            return Err(out_of("rate_milli", self.rate_milli, 1, RATE_MILLI_MAX));
        }
        if self.failed_permille_max > 1000 {
            return Err(out_of("max_failed_permille", self.failed_permille_max, 0, 1000));
        }
        if self.canary > BATCH_LETTERS_MAX {
            return Err(out_of("canary", self.canary, 0, BATCH_LETTERS_MAX));
        }
        Ok(())
    }

    /// The time between two letters.
    pub fn gap(&self) -> SignedDuration {
        SignedDuration::from_micros(1_000_000_000 / i64::from(self.rate_milli.max(1)))
    }
}

/// A pace that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {value}; it must be {min} to {max}")]
pub struct PaceError {
    /// Which part of it.
    pub field: &'static str,
    /// What it is.
    pub value: u32,
    /// The least that it may be.
    pub min: u32,
    /// The most.
    pub max: u32,
}

/// How far a batch is: each of its letters stands in one of these places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Not taken up yet.
    pub waiting: u32,
    /// Taken up, and nothing has come of it yet.
    pub under_way: u32,
    /// Handled, now or before.
    pub handled: u32,
    /// Failed again.
    pub failed: u32,
    /// Left alone: somebody else had acted on it.
    pub skipped: u32,
}

impl Progress {
    /// Letters of the batch.
    pub const fn letters(&self) -> u32 {
        self.waiting + self.under_way + self.ended()
    }

    /// Letters that nothing more comes of.
    pub const fn ended(&self) -> u32 {
        self.handled + self.failed + self.skipped
    }
}

/// What is to be done about a batch now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Take up so many letters, in their order; at least one.
    Release(u32),
    /// Nothing, for the time being.
    Wait,
    /// Take up no more.
    Stop(Stop),
    /// Every letter has ended.
    Done,
}

/// Why a batch stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// One of those that went first failed.
    CanaryFailed {
        /// So many did.
        failed: u32,
        /// Of so many.
        of: u32,
    },
    /// Too large a share failed.
    TooManyFailed {
        /// So many did.
        failed: u32,
        /// Of so many that were sent and ended.
        of: u32,
    },
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CanaryFailed { failed, of } => {
                write!(f, "{failed} of the {of} that went first failed again")
            }
            Self::TooManyFailed { failed, of } => {
                write!(f, "{failed} of the {of} that were sent failed again, which is more than was allowed")
            }
        }
    }
}

/// Decides what is done about a batch: `due` is when its next letter may be taken up at the earliest.
pub fn next(pace: &Pace, progress: &Progress, due: Timestamp, now: Timestamp) -> Next {
    let Progress { waiting, under_way, handled, failed, .. } = *progress;
    let sent = handled + failed;
    // A letter that was left alone tells nothing, and another one goes first in its place.
    let first = pace.canary.min(waiting + under_way + sent);
    let canary = sent + under_way <= first && first > 0;
    if failed > 0 && canary {
        return Next::Stop(Stop::CanaryFailed { failed, of: first });
    }
    if u64::from(failed) * 1000 > u64::from(pace.failed_permille_max) * u64::from(sent.max(SHARE_OF_MIN)) {
        return Next::Stop(Stop::TooManyFailed { failed, of: sent });
    }
    if waiting == 0 {
        return if under_way == 0 { Next::Done } else { Next::Wait };
    }
    let room = if handled < first { first.saturating_sub(sent + under_way) } else { waiting };
    let room = room.min(waiting).min(UNDER_WAY_MAX.saturating_sub(under_way));
    match room.min(on_time(pace, due, now)) {
        0 => Next::Wait,
        letters => Next::Release(letters),
    }
}

/// How many letters are due by now, or soon enough.
fn on_time(pace: &Pace, due: Timestamp, now: Timestamp) -> u32 {
    let ahead = now.duration_since(due).saturating_add(AHEAD);
    if due > now && due.duration_since(now) >= AHEAD {
        return 0;
    }
    let gaps = ahead.as_micros() / pace.gap().as_micros().max(1);
    // What was missed while nobody drove the batch is not caught up with: the pace is a promise to whoever handles them.
    let at_once = (AHEAD.as_micros() / pace.gap().as_micros().max(1)).max(1);
    u32::try_from(gaps.clamp(1, at_once)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
