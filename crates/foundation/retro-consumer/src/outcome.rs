//! Defines what a consumer answers for a message, and how an error becomes such an answer.

use std::time::Duration;

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::message::Notice;
use retro_store::StoreError;
use retro_telemetry::trace::Span;

/// Delay before a message is handled again if the store failed. Long enough that the messages which wait for
/// an unavailable database do not keep it busy, and short enough that nobody notices after a restart.
pub const STORE_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Outcome of handling one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandlerOutcome {
    /// The effects of the message are stored. The message is acknowledged.
    Done,
    /// The message was handled before, and nothing changed. It is acknowledged.
    Duplicate,
    /// Handling failed, which uses up an attempt. After the last attempt the message becomes a dead letter.
    RetryAfter {
        /// Delay before the next attempt.
        wait: Duration,
        /// Reason for the failure, for the log and the dead letter.
        reason: String,
    },
    /// The message is not at fault, for example if the database is unreachable. No attempt is used up.
    Snooze {
        /// Delay before the message is handled again.
        wait: Duration,
        /// Reason for the delay, for the log.
        reason: String,
    },
    /// The message can never be handled. It is stored completely as a dead letter and then acknowledged.
    DeadLetter(Rejection),
}

impl HandlerOutcome {
    /// Marks the span of a handler as failed, unless the handler finished the message.
    pub fn record_in_span(&self, span: &Span) {
        match self {
            Self::Done | Self::Duplicate => {}
            Self::RetryAfter { .. } => span.set_error("retried"),
            Self::Snooze { .. } => span.set_error("snoozed"),
            Self::DeadLetter(rejection) => span.set_error(rejection.code.as_str()),
        }
    }
}

/// Reason why a message, or an item of a sweep, was not handled. Each reason has one [`HandlerOutcome`].
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// The message can never be handled, and becomes a dead letter.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The store failed. An unavailable database does not use up an attempt, nor does a decision that was not
    /// made because its memories kept changing; any other error does.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Handling failed for another reason, which uses up an attempt.
    #[error("{0}")]
    Failed(String),
}

impl HandlerError {
    /// Creates the error of a consumer that received a notice which is not for it.
    pub fn unexpected_notice(consumer: &str, notice: &Notice) -> Self {
        let detail = format!("the {consumer} was sent {}", notice.kind());
        Rejection::of_field(DeadLetterCode::FieldInvalid, "notice", detail).into()
    }

    /// Creates the error of a message whose field at `path` names something that does not exist.
    pub fn unknown_reference(path: &str, detail: String) -> Self {
        Rejection::of_field(DeadLetterCode::UnknownReference, path, detail).into()
    }
}

impl From<HandlerError> for HandlerOutcome {
    fn from(error: HandlerError) -> Self {
        match error {
            HandlerError::Rejected(rejection) => Self::DeadLetter(rejection),
            HandlerError::Store(problem) => problem.into(),
            HandlerError::Failed(reason) => Self::RetryAfter { wait: STORE_RETRY_DELAY, reason },
        }
    }
}

impl From<StoreError> for HandlerOutcome {
    fn from(problem: StoreError) -> Self {
        let (wait, reason) = (STORE_RETRY_DELAY, problem.to_string());
        match problem {
            StoreError::Unavailable(_) | StoreError::Undecided { .. } => Self::Snooze { wait, reason },
            StoreError::Fenced { .. } | StoreError::Damaged { .. } => Self::RetryAfter { wait, reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unavailable_database_and_changing_memories_cost_no_attempt() {
        let away = HandlerOutcome::from(StoreError::Unavailable("refused".to_owned()));
        let reason = "the database is not available: refused".to_owned();
        assert_eq!(away, HandlerOutcome::Snooze { wait: STORE_RETRY_DELAY, reason });

        let undecided = HandlerOutcome::from(StoreError::Undecided { attempts: 3 });
        let reason = "nothing was decided: the memories to compare changed in each of 3 attempts".to_owned();
        assert_eq!(undecided, HandlerOutcome::Snooze { wait: STORE_RETRY_DELAY, reason });

        let damaged = StoreError::Damaged { place: "runs 7".to_owned(), problem: "no JSON".to_owned() };
        let reason = "runs 7 is damaged: no JSON".to_owned();
        let expected = HandlerOutcome::RetryAfter { wait: STORE_RETRY_DELAY, reason };
        assert_eq!(HandlerOutcome::from(HandlerError::from(damaged)), expected);

        let failed = HandlerOutcome::from(HandlerError::Failed("no answer".to_owned()));
        let expected = HandlerOutcome::RetryAfter { wait: STORE_RETRY_DELAY, reason: "no answer".to_owned() };
        assert_eq!(failed, expected);
    }

    #[test]
    fn a_rejection_becomes_a_dead_letter() {
        let outcome = HandlerOutcome::from(HandlerError::unknown_reference(
            "notice.batch",
            "there is no batch 7".to_owned(),
        ));
        let HandlerOutcome::DeadLetter(rejection) = outcome else { panic!("{outcome:?}") };
        assert_eq!(rejection.code, DeadLetterCode::UnknownReference);
        assert_eq!(rejection.path.as_deref(), Some("notice.batch"));
    }
}
