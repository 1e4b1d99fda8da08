//! Defines the messages that a consumer receives, and the limits for handling them.

use std::time::Duration;

use retro_consumer::Watchdog;
use retro_events::{DurableConsumer, subject};
use retro_fault::Label;

/// Maximum number of attempts to handle a message. A message that is snoozed for a temporary problem does not use up an
/// attempt, so five failures are not a coincidence.
pub const ATTEMPTS_MAX: u32 = 5;
/// Maximum number of unacknowledged messages of a consumer, including deferred ones. Large enough for several
/// batches and many deferred messages, so that deferred messages do not block the others.
const ACK_PENDING_MAX: u32 = 4096;
/// Time that a message may stay unacknowledged before it is redelivered. Far longer than handling takes, and
/// short enough to wait for after a crash.
pub const ACK_WAIT: Duration = Duration::from_secs(30);
/// Timeout for a handler. A handler normally takes milliseconds; the timeout ends one that hangs.
const HANDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Wait after the first failure for which the handler gave no delay, such as a panic. Doubles with each
/// failure.
const RETRY_WAIT_MIN: Duration = Duration::from_secs(1);

/// Messages that a consumer receives, and limits for handling them.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// Name of the stream to read; see [`topology`](crate::topology).
    pub stream: String,
    /// Fault label for the acknowledgement of a message of this subscription.
    pub ack_label: Label,
    /// Subjects to read from the stream, which may contain wildcards.
    pub subjects: Vec<String>,
    /// Maximum number of messages passed to the handler at once.
    pub batch_max: usize,
    /// Number of failed attempts after which a message becomes a dead letter.
    pub attempts_max: u32,
    /// Wait after the first failure for which the handler gave no delay. Doubles with each failure, up to one
    /// minute.
    pub retry_wait_min: Duration,
    /// Maximum number of delivered but unacknowledged messages. The broker delivers no more until some are
    /// acknowledged.
    pub ack_pending_max: u32,
    /// Time that the broker waits for an acknowledgement or a progress report before it redelivers a message.
    pub ack_wait: Duration,
    /// Timeout for the handler. A handler that exceeds it is cancelled, which counts as an attempt.
    pub handle_timeout: Duration,
    /// Watchdog that ends the process if a handler cannot be cancelled.
    pub watchdog: Watchdog,
}

impl Subscription {
    /// Creates the subscription of a role's durable consumer with the default limits. A batch has at most
    /// `batch_max` messages.
    pub fn for_durable(durable: DurableConsumer, batch_max: usize) -> Self {
        Self::new(durable.stream, &[&subject::all_below(durable.prefix)], batch_max, durable.ack_label)
    }

    /// Creates a subscription to subjects of a stream with the default limits. A batch has at most `batch_max`
    /// messages.
    pub fn new(stream: impl Into<String>, subjects: &[&str], batch_max: usize, acknowledging: Label) -> Self {
        Self {
            stream: stream.into(),
            ack_label: acknowledging,
            subjects: subjects.iter().map(|subject| (*subject).to_owned()).collect(),
            // A batch of 0 messages would never fetch any.
            batch_max: batch_max.max(1),
            attempts_max: ATTEMPTS_MAX,
            retry_wait_min: RETRY_WAIT_MIN,
            ack_pending_max: ACK_PENDING_MAX,
            ack_wait: ACK_WAIT,
            handle_timeout: HANDLE_TIMEOUT,
            watchdog: Watchdog::default(),
        }
    }
}
