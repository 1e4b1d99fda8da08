//! Replays dead letters: the result of one replay, and the pace of a batch.
//!
//! **One dead letter.** A dead letter is published with a new delivery id, so the broker does not drop it,
//! and with its old identity, so the inbox still recognises it. It takes effect only once, however often it
//! is replayed.
//!
//! **A batch.** The first few dead letters are the canary, and each of them has to succeed. The others are
//! sent at a fixed pace while the share of failures stays low. The process that drives the batch calls
//! [`decide_batch_action`] repeatedly with the current progress. That function keeps no state, so any process
//! may drive the batch, and a crashed driver can be replaced at any time.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::attribution::Attribution;
use crate::dead_letter::Rejection;
use crate::id::{DeadLetterId, ReplayBatchId, Tenant, derive_uuid};

/// Message header that contains the id of the replay.
pub const REPLAY_HEADER: &str = "Retro-Replay";
/// Message header that contains the message id of the first delivery. Omitted if the message had no id.
pub const ORIGINAL_ID_HEADER: &str = "Retro-Original-Msg-Id";
/// Default pace, in thousandths of a dead letter per second: slow enough for an operator to watch and stop a
/// batch.
pub const DEFAULT_RATE_MILLI: u32 = 5_000;
/// Maximum pace, in thousandths of a dead letter per second: a tenth of the rate at which a small machine
/// counts runs.
pub const RATE_MILLI_MAX: u32 = 1_000_000;
/// Default maximum share of failures in a batch before it stops, in thousandths.
pub const DEFAULT_FAILED_PERMILLE_MAX: u32 = 200;
/// Minimum divisor when the share of failures is computed. Without it, the first failure would stop a small
/// batch.
pub const FAILED_SHARE_BASE_MIN: u32 = 10;
/// Maximum number of replays of one batch in flight. Limits the backlog at the broker while no consumer is
/// running.
pub const BATCH_IN_FLIGHT_MAX: u32 = 50;
/// Maximum number of dead letters in one batch. More have to be split into several batches, so an operator
/// looks at each.
pub const BATCH_DEAD_LETTERS_MAX: u32 = 10_000;
/// Time by which dead letters may be released before they are due, so that a driver that rarely runs still
/// keeps the pace.
const LOOKAHEAD: SignedDuration = SignedDuration::from_secs(1);

/// Result of replaying one dead letter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum ReplayOutcome {
    /// The message was handled, and its effects are stored.
    Handled,
    /// The message had been handled earlier, so the replay changed nothing.
    Known,
    /// The message became a dead letter again.
    Failed {
        /// Reason why the message became a dead letter again.
        rejection: Rejection,
        /// Number of attempts at handling the replayed message.
        attempts: u32,
    },
    /// The broker permanently refused the message.
    Refused {
        /// Error text from the broker or its client.
        error: String,
    },
}

impl ReplayOutcome {
    /// Returns `true` if the replay resolved the dead letter.
    pub const fn is_success(&self) -> bool {
        matches!(self, Self::Handled | Self::Known)
    }
}

impl std::fmt::Display for ReplayOutcome {
    /// Writes one sentence without a full stop. The sentence may quote the message if the rejection does.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Handled => f.write_str("it was handled"),
            Self::Known => f.write_str("it was known before, and nothing changed"),
            Self::Failed { rejection, .. } => write!(f, "it failed again: {rejection}"),
            Self::Refused { error } => write!(f, "the broker rejected it: {error}"),
        }
    }
}

impl ReplayBatchId {
    /// Returns the id of the batch that replays these dead letters, in this order, with this attribution.
    pub fn of_dead_letters<'a>(
        tenant: &Tenant,
        attribution: &Attribution,
        dead_letters: impl Iterator<Item = &'a DeadLetterId>,
    ) -> Self {
        let dead_letters: Vec<String> = dead_letters.map(ToString::to_string).collect();
        let at = attribution.at.to_string();
        Self(derive_uuid(
            "replay_batch",
            &[tenant.as_str(), &attribution.by, &attribution.reason, &at, &dead_letters.join(",")],
        ))
    }
}

/// Pace at which a batch of dead letters is replayed, with the limits on failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayPace {
    /// Number of dead letters that are sent first. The others follow only if all of these have succeeded; 0
    /// means no canary.
    pub canary: u32,
    /// Number of dead letters to send per second, in thousandths; at least 1.
    pub rate_milli: u32,
    /// Maximum share of failures that the batch tolerates, in thousandths.
    pub failed_permille_max: u32,
}

impl Default for ReplayPace {
    fn default() -> Self {
        Self { canary: 0, rate_milli: DEFAULT_RATE_MILLI, failed_permille_max: DEFAULT_FAILED_PERMILLE_MAX }
    }
}

impl ReplayPace {
    /// Checks that every field is in range. Fails with the first field that is not.
    pub fn validate(&self) -> Result<(), ReplayPaceError> {
        let out_of = |field, value: u32, min, max| ReplayPaceError { field, value, min, max };
        if !(1..=RATE_MILLI_MAX).contains(&self.rate_milli) {
            return Err(out_of("rate_milli", self.rate_milli, 1, RATE_MILLI_MAX));
        }
        if self.failed_permille_max > 1000 {
            return Err(out_of("failed_permille_max", self.failed_permille_max, 0, 1000));
        }
        if self.canary > BATCH_DEAD_LETTERS_MAX {
            return Err(out_of("canary", self.canary, 0, BATCH_DEAD_LETTERS_MAX));
        }
        Ok(())
    }

    /// Returns the time between sending two dead letters.
    pub fn send_interval(&self) -> SignedDuration {
        SignedDuration::from_micros(1_000_000_000 / i64::from(self.rate_milli.max(1)))
    }
}

/// Error for a pace field that is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {value}; it must be {min} to {max}")]
pub struct ReplayPaceError {
    /// Name of the field.
    pub field: &'static str,
    /// Value that is out of range.
    pub value: u32,
    /// Minimum allowed value.
    pub min: u32,
    /// Maximum allowed value.
    pub max: u32,
}

/// Progress of a batch. Each dead letter of the batch is counted in exactly one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BatchProgress {
    /// Number of dead letters that have not been released yet.
    pub waiting: u32,
    /// Number of dead letters that were released and have no result yet.
    pub under_way: u32,
    /// Number of dead letters whose messages were handled, by this replay or earlier.
    pub handled: u32,
    /// Number of dead letters whose replays failed or were refused.
    pub failed: u32,
    /// Number of dead letters that were skipped, because another operator acted on them first.
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

/// Next action for the process that drives a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchAction {
    /// The driver releases this many dead letters, in order; at least one.
    Release(u32),
    /// The driver releases no dead letter for now.
    Wait,
    /// The driver stops the batch and releases no more dead letters.
    Stop(StopReason),
    /// Every dead letter has a final result, so the batch has ended.
    Done,
}

/// Reason why a batch is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// A replay of the canary failed.
    CanaryFailed {
        /// Number of failures in the canary.
        failed: u32,
        /// Number of dead letters in the canary.
        of: u32,
    },
    /// The share of failures exceeded its maximum.
    TooManyFailed {
        /// Number of replays that failed.
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

/// Decides the next action for the process that drives a batch; `due` is the time at which the next dead
/// letter may be sent.
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
    // Computed in u64, because the fields come from rows and a product of unchecked u32 values could
    // overflow.
    if u64::from(failed) * 1000
        > u64::from(pace.failed_permille_max) * u64::from(sent.max(FAILED_SHARE_BASE_MIN))
    {
        return BatchAction::Stop(StopReason::TooManyFailed { failed, of: sent });
    }
    if waiting == 0 {
        return if under_way == 0 { BatchAction::Done } else { BatchAction::Wait };
    }
    // Until all of the canary was handled, nothing else is released.
    let free_slots = if handled < first { first.saturating_sub(sent + under_way) } else { waiting };
    let free_slots = free_slots.min(waiting).min(BATCH_IN_FLIGHT_MAX.saturating_sub(under_way));
    match free_slots.min(count_due(pace, due, now)) {
        0 => BatchAction::Wait,
        count => BatchAction::Release(count),
    }
}

/// Returns how many dead letters may be released now: those that are due, or will be within [`LOOKAHEAD`].
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
