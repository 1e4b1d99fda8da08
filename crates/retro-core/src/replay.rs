//! Replay: the result of sending a dead letter again, and the pace of a batch of replays.
//!
//! **One dead letter.** It is published with a new delivery id and its old identity, so that the broker does not drop
//! it and the inbox still recognises it. Replayed any number of times, it has one effect.
//!
//! **A batch.** First a few dead letters are sent, the canary, and each of them has to succeed. The others
//! follow at a pace, as long as the share of failures stays low. The process that drives the batch calls
//! [`decide_batch_action`] repeatedly with everything that is known. The function keeps no state, so any
//! process may drive the batch, and a crash changes nothing.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::dead_letter::Rejection;

/// Header with the id of the replay.
pub const REPLAY_HEADER: &str = "Retro-Replay";
/// Header with the message id of the first delivery, if it had one.
pub const ORIGINAL_ID_HEADER: &str = "Retro-Original-Msg-Id";
/// Default pace, in thousandths of a dead letter per second: slow enough for a person to follow and stop it.
pub const DEFAULT_RATE_MILLI: u32 = 5_000;
/// Maximum pace, in thousandths of a dead letter per second: a tenth of the rate at which a small machine
/// counts.
pub const RATE_MILLI_MAX: u32 = 1_000_000;
/// Default share of failures that stops a batch, in thousandths.
pub const DEFAULT_FAILED_PERMILLE_MAX: u32 = 200;
/// Minimum number of replays on which the share of failures is computed; otherwise the first failure would
/// stop a batch.
pub const FAILED_SHARE_BASE_MIN: u32 = 10;
/// Maximum number of replays of a batch in flight, so that few wait at the broker when no consumer answers.
pub const BATCH_IN_FLIGHT_MAX: u32 = 50;
/// Maximum number of dead letters in one batch. More have to be split, so that a person looks at each batch.
pub const BATCH_DEAD_LETTERS_MAX: u32 = 10_000;
/// Time by which dead letters may be released early, so that a driver that rarely runs still keeps the pace.
const LOOKAHEAD: SignedDuration = SignedDuration::from_secs(1);

/// Result of a replay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "came", rename_all = "snake_case")]
pub enum ReplayOutcome {
    /// The message was handled, and its effects are stored.
    Handled,
    /// The message had been handled before; nothing changed.
    Known,
    /// The message became a dead letter again.
    Failed {
        /// Reason for the new dead letter.
        rejection: Rejection,
        /// Number of attempts.
        attempts: u32,
    },
    /// The broker permanently refuses the message.
    Refused {
        /// Error text of the broker or its client.
        problem: String,
    },
}

impl ReplayOutcome {
    /// Returns whether the dead letter is resolved.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Handled | Self::Known)
    }
}

impl std::fmt::Display for ReplayOutcome {
    /// Writes one sentence without its full stop. It may quote the message where the rejection does.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Handled => f.write_str("it was handled"),
            Self::Known => f.write_str("it was known before, and nothing changed"),
            Self::Failed { rejection, .. } => write!(f, "it failed again: {rejection}"),
            Self::Refused { problem } => write!(f, "the broker does not take it: {problem}"),
        }
    }
}

/// Pace of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayPace {
    /// Number of dead letters that are sent first; the others follow only when all of these succeed. 0 sends no
    /// canary.
    pub canary: u32,
    /// Dead letters per second, in thousandths; at least 1.
    pub rate_milli: u32,
    /// Share of failures that the batch tolerates, in thousandths.
    pub failed_permille_max: u32,
}

impl Default for ReplayPace {
    fn default() -> Self {
        Self { canary: 0, rate_milli: DEFAULT_RATE_MILLI, failed_permille_max: DEFAULT_FAILED_PERMILLE_MAX }
    }
}

impl ReplayPace {
    /// Validates the pace. Fails with the first field that is out of range.
    pub fn validate(&self) -> Result<(), ReplayPaceError> {
        let out_of = |field, value: u32, min, max| ReplayPaceError { field, value, min, max };
        if !(1..=RATE_MILLI_MAX).contains(&self.rate_milli) {
            return Err(out_of("rate_milli", self.rate_milli, 1, RATE_MILLI_MAX));
        }
        if self.failed_permille_max > 1000 {
            return Err(out_of("max_failed_permille", self.failed_permille_max, 0, 1000));
        }
        if self.canary > BATCH_DEAD_LETTERS_MAX {
            return Err(out_of("canary", self.canary, 0, BATCH_DEAD_LETTERS_MAX));
        }
        Ok(())
    }

    /// Returns the time between two dead letters.
    pub fn send_interval(&self) -> SignedDuration {
        SignedDuration::from_micros(1_000_000_000 / i64::from(self.rate_milli.max(1)))
    }
}

/// A pace with a field out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {value}; it must be {min} to {max}")]
pub struct ReplayPaceError {
    /// Name of the field.
    pub field: &'static str,
    /// Rejected value.
    pub value: u32,
    /// Minimum allowed value.
    pub min: u32,
    /// Maximum allowed value.
    pub max: u32,
}

/// Progress of a batch; each of its dead letters is counted in one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BatchProgress {
    /// Not released yet.
    pub waiting: u32,
    /// Released, without a result yet.
    pub under_way: u32,
    /// Handled by this replay or before.
    pub handled: u32,
    /// Dead letter again after the replay.
    pub failed: u32,
    /// Skipped, because another person acted on it first.
    pub skipped: u32,
}

impl BatchProgress {
    /// Returns the number of dead letters in the batch.
    pub const fn total_count(&self) -> u32 {
        self.waiting + self.under_way + self.ended_count()
    }

    /// Returns the number of dead letters with a final result.
    pub const fn ended_count(&self) -> u32 {
        self.handled + self.failed + self.skipped
    }
}

/// Next action of the driver of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchAction {
    /// Release this many dead letters, in order; at least one.
    Release(u32),
    /// Release no dead letter for now.
    Wait,
    /// Release no more dead letters.
    Stop(StopReason),
    /// Every dead letter has a final result.
    Done,
}

/// Reason why a batch stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// A dead letter of the canary failed.
    CanaryFailed {
        /// Number of failures.
        failed: u32,
        /// Size of the canary.
        of: u32,
    },
    /// The share of failures was too large.
    TooManyFailed {
        /// Number of failures.
        failed: u32,
        /// Number of replays that were sent and have ended.
        of: u32,
    },
}

impl std::fmt::Display for StopReason {
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

/// Decides the next action of a batch's driver; `due` is the earliest time for its next dead letter.
pub fn decide_batch_action(
    pace: &ReplayPace,
    progress: &BatchProgress,
    due: Timestamp,
    now: Timestamp,
) -> BatchAction {
    let BatchProgress { waiting, under_way, handled, failed, .. } = *progress;
    let sent = handled + failed;
    // A skipped dead letter proves nothing, so another one takes its place in the canary.
    let first = pace.canary.min(waiting + under_way + sent);
    // While only the canary was sent, every failure belongs to the canary.
    let canary = sent + under_way <= first && first > 0;
    if failed > 0 && canary {
        return BatchAction::Stop(StopReason::CanaryFailed { failed, of: first });
    }
    // Computed in u64, because the fields come from rows and a product of unchecked u32 values could overflow.
    if u64::from(failed) * 1000
        > u64::from(pace.failed_permille_max) * u64::from(sent.max(FAILED_SHARE_BASE_MIN))
    {
        return BatchAction::Stop(StopReason::TooManyFailed { failed, of: sent });
    }
    if waiting == 0 {
        return if under_way == 0 { BatchAction::Done } else { BatchAction::Wait };
    }
    // Nothing except the canary is released until all of the canary was handled.
    let free_slots = if handled < first { first.saturating_sub(sent + under_way) } else { waiting };
    let free_slots = free_slots.min(waiting).min(BATCH_IN_FLIGHT_MAX.saturating_sub(under_way));
    match free_slots.min(count_due(pace, due, now)) {
        0 => BatchAction::Wait,
        letters => BatchAction::Release(letters),
    }
}

/// Returns how many dead letters are due by now, or soon enough.
fn count_due(pace: &ReplayPace, due: Timestamp, now: Timestamp) -> u32 {
    let ahead = now.duration_since(due).saturating_add(LOOKAHEAD);
    if due > now && due.duration_since(now) >= LOOKAHEAD {
        return 0;
    }
    let gaps = ahead.as_micros() / pace.send_interval().as_micros().max(1);
    // Time without a driver is not made up for, because a burst would exceed the pace that the operator set.
    let at_once = (LOOKAHEAD.as_micros() / pace.send_interval().as_micros().max(1)).max(1);
    u32::try_from(gaps.clamp(1, at_once)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
