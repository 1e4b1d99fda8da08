//! Defines the traits of a consumer. The loop that pulls messages and calls them is in `retro-bus`.

use async_trait::async_trait;
use retro_events::Delivery;
use retro_telemetry::trace::{Span, start_process_span};

use crate::{EarlierBatch, HandlerError, HandlerOutcome};

/// Handles messages of one kind.
#[async_trait]
pub trait Consumer: Send + Sync + 'static {
    /// Returns the name of the durable consumer at the broker, which also identifies it in the inbox, the attempts
    /// and the dead letters.
    fn name(&self) -> &'static str;

    /// Handles a batch and returns one outcome for each message, in order. All effects must be committed
    /// before this function returns. A panic costs each message of the batch an attempt.
    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome>;

    /// Handles a batch like [`handle`](Self::handle), but may be called while earlier batches are still being
    /// handled. Whatever depends on the order of the batches, and every effect, must wait until `earlier` has ended.
    async fn handle_in_order(&self, batch: &[Delivery], earlier: &EarlierBatch) -> Vec<HandlerOutcome> {
        earlier.wait_until_ended().await;
        self.handle(batch).await
    }
}

/// A consumer that can determine which messages it has not processed.
#[async_trait]
pub trait Reconcilable: Consumer {
    /// Returns the indexes of the messages that this consumer has not processed, in order. Unreadable
    /// messages are included. Fails with an explanation if this cannot be determined now.
    async fn find_unprocessed(&self, batch: &[Delivery]) -> Result<Vec<usize>, String>;
}

/// A consumer that handles its messages one after another, each within a span and with a commit of its own.
#[async_trait]
pub trait MessageHandler: Send + Sync + 'static {
    /// Returns the name of the consumer; see [`Consumer::name`].
    fn name(&self) -> &'static str;

    /// Returns the subject of the messages without tenant and workflow, for their spans.
    fn subject(&self) -> &'static str;

    /// Handles one message within `span`. All effects must be committed before this function returns.
    async fn handle_message(&self, delivery: &Delivery, span: &Span) -> Result<HandlerOutcome, HandlerError>;
}

#[async_trait]
impl<H: MessageHandler> Consumer for H {
    fn name(&self) -> &'static str {
        MessageHandler::name(self)
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        let mut outcomes = Vec::with_capacity(batch.len());
        for delivery in batch {
            let span = start_process_span(delivery, MessageHandler::name(self), self.subject());
            let handled = span.instrument(self.handle_message(delivery, &span)).await;
            let outcome = handled.unwrap_or_else(HandlerOutcome::from);
            outcome.record_in_span(&span);
            outcomes.push(outcome);
        }
        outcomes
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use retro_core::dead_letter::{DeadLetterCode, Rejection};
    use retro_store::StoreError;

    use super::*;
    use crate::STORE_RETRY_DELAY;

    /// Answers each message by its payload.
    struct ScriptedHandler;

    #[async_trait]
    impl MessageHandler for ScriptedHandler {
        fn name(&self) -> &'static str {
            "scripted"
        }

        fn subject(&self) -> &'static str {
            "retro.tests"
        }

        async fn handle_message(
            &self,
            delivery: &Delivery,
            _: &Span,
        ) -> Result<HandlerOutcome, HandlerError> {
            match &delivery.payload[..] {
                b"done" => Ok(HandlerOutcome::Done),
                b"away" => Err(StoreError::Unavailable("refused".to_owned()).into()),
                _ => Err(Rejection::of_message(DeadLetterCode::NotJson, "no").into()),
            }
        }
    }

    fn delivery(payload: &'static str) -> Delivery {
        Delivery {
            stream: "TESTS".to_owned(),
            subject: "retro.tests.acme".to_owned(),
            sequence: 1,
            headers: Vec::new(),
            payload: payload.into(),
            delivered: 1,
            stored_at: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn every_message_of_a_batch_gets_its_own_outcome() {
        let batch = ["done", "away", "bad", "done"].map(delivery);
        let outcomes = ScriptedHandler.handle(&batch).now_or_never().expect("nothing waits");
        let reason = "the database is not available: refused".to_owned();
        assert_eq!(outcomes[0], HandlerOutcome::Done);
        assert_eq!(outcomes[1], HandlerOutcome::Snooze { wait: STORE_RETRY_DELAY, reason });
        assert!(matches!(&outcomes[2], HandlerOutcome::DeadLetter(rejection) if rejection.detail == "no"));
        assert_eq!(outcomes[3..], [HandlerOutcome::Done]);
        assert_eq!(Consumer::name(&ScriptedHandler), "scripted");
    }
}
