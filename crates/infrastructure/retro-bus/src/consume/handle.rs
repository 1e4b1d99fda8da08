//! Runs the handler in isolation, so that its failures do not stop the consumer.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Subject;
use retro_consumer::{EarlierBatch, HandlerOutcome, Panicked, STORE_RETRY_DELAY, Watch};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_events::Delivery;
use retro_store::{AttemptStart, Redelivery};
use strum::IntoStaticStr;
use tokio::task::JoinError;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::{Instrument, Span, debug, error, info_span};

use super::MESSAGING_SYSTEM;
use super::acknowledge::PendingAcks;
use super::pull::Incoming;
use super::worker::Worker;

/// Result of running the handler on a batch.
enum HandlerRun {
    /// The handler returned one outcome for each message.
    Completed(Vec<HandlerOutcome>),
    /// The handler panicked, hung, or did not return exactly one outcome per message.
    Failed { how: FailureKind, reason: String },
}

/// Kind of handler failure, used as a metric label.
#[derive(Debug, Clone, Copy, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
enum FailureKind {
    Panic,
    Timeout,
    Miscounted,
}

impl HandlerRun {
    fn from_join(joined: Result<Vec<HandlerOutcome>, JoinError>, messages: usize) -> Self {
        match joined {
            Ok(verdicts) if verdicts.len() == messages => Self::Completed(verdicts),
            Ok(verdicts) => {
                let reason = format!("it answered {} times for {messages} messages", verdicts.len());
                Self::Failed { how: FailureKind::Miscounted, reason }
            }
            // The panic's text may quote the message, so it stays in the process's own log.
            Err(_) => Self::Failed { how: FailureKind::Panic, reason: Panicked.to_string() },
        }
    }
}

impl Worker {
    /// Handles messages delivered for the first time as one batch. If the handler fails on a batch of several
    /// messages, returns the messages, to be handled alone.
    pub(super) async fn handle_together(
        &self,
        batch: Vec<Incoming>,
        earlier: &EarlierBatch,
        acks: &mut PendingAcks<'_>,
    ) -> Vec<Incoming> {
        match self.run_handler(&batch, earlier).await {
            HandlerRun::Completed(verdicts) => {
                for (one, verdict) in batch.iter().zip(verdicts) {
                    self.apply_outcome(one, verdict, 1, acks).await;
                }
                Vec::new()
            }
            HandlerRun::Failed { reason, .. } if batch.len() > 1 => {
                let name = self.consumer.name();
                error!(
                    consumer = name,
                    messages = batch.len(),
                    "{name} failed on a batch; each message is handled alone: {reason}"
                );
                batch
            }
            HandlerRun::Failed { reason, .. } => {
                for one in &batch {
                    self.retry_or_dead_letter(one, &reason, 1, acks).await;
                }
                Vec::new()
            }
        }
    }

    /// Counts the attempt at a redelivered message, then handles the message alone.
    pub(super) async fn handle_alone(&self, one: Incoming, acks: &mut PendingAcks<'_>) {
        let Delivery { sequence, payload, stored_at, .. } = &one.delivery;
        let message = Redelivery::new(self.position_of(&one.delivery), payload, *stored_at);
        let attempt = match self.store.begin_attempt(&message, self.subscription.attempts_max).await {
            Ok(AttemptStart::Begun(attempt)) => attempt,
            Ok(AttemptStart::Exhausted) => return self.dead_letter_exhausted(&one, acks).await,
            Ok(AttemptStart::DeadLettered(dead_letter)) => {
                debug!(sequence, "message {sequence} is already dead letter {dead_letter}");
                return self.acknowledge_dead_letter(&one, acks).await;
            }
            // Still a suspect: in a batch, it could take its neighbours down.
            Err(error) => return self.defer_suspect(&one, STORE_RETRY_DELAY, &error.to_string()).await,
        };
        retro_telemetry::metrics::ATTEMPTS_BEGUN.add(1, [self.consumer.name()]);
        let batch = [one];
        match self.run_handler(&batch, &EarlierBatch::none()).await {
            HandlerRun::Completed(verdicts) => {
                for (one, verdict) in batch.iter().zip(verdicts) {
                    if matches!(verdict, HandlerOutcome::Done | HandlerOutcome::Duplicate) {
                        self.forget_attempts(&one.delivery).await;
                    }
                    self.apply_outcome(one, verdict, attempt, acks).await;
                }
            }
            HandlerRun::Failed { reason, .. } => {
                self.retry_or_dead_letter(&batch[0], &reason, attempt, acks).await
            }
        }
    }

    /// Dead-letters a message whose attempts are used up, because the process died in the last one.
    async fn dead_letter_exhausted(&self, one: &Incoming, acks: &mut PendingAcks<'_>) {
        let attempts_max = self.subscription.attempts_max;
        let detail =
            format!("{} did not live to answer for it in {attempts_max} attempts", self.consumer.name());
        self.store_dead_letter(
            one,
            Rejection::of_message(DeadLetterCode::HandlerPanicked, detail),
            attempts_max,
            acks,
        )
        .await;
    }

    /// Deletes the attempts of a handled message. From now on it is redelivered only if its acknowledgement
    /// is lost, which may happen more often than a message may fail. With its attempts kept, a handled
    /// message could become a dead letter.
    async fn forget_attempts(&self, delivery: &Delivery) {
        if let Err(error) = self.store.clear_attempts(&self.position_of(delivery)).await {
            debug!("the attempts of a handled message were not deleted: {error}");
        }
    }

    /// Runs the handler and records its metrics.
    async fn run_handler(&self, batch: &[Incoming], earlier: &EarlierBatch) -> HandlerRun {
        let name = self.consumer.name();
        let began = Instant::now();
        let outcome = self.run_in_task(batch, earlier).await;
        retro_telemetry::metrics::PROCESS_DURATION
            .record(began.elapsed().as_secs_f64(), [MESSAGING_SYSTEM, "process", name]);
        retro_telemetry::metrics::BATCH_SIZE.record(batch.len() as f64, [name]);
        if let HandlerRun::Failed { how, .. } = &outcome {
            retro_telemetry::metrics::HANDLER_FAILURES.add(1, [name, how.into()]);
        }
        outcome
    }

    /// Runs the handler in a separate task, so that a panic ends the task and not the consumer.
    async fn run_in_task(&self, batch: &[Incoming], earlier: &EarlierBatch) -> HandlerRun {
        let deliveries: Vec<Delivery> = batch.iter().map(|one| one.delivery.clone()).collect();
        let span = self.handler_span(&deliveries);
        let consumer = Arc::clone(&self.consumer);
        let watch = self.watch_handler(&deliveries, earlier);
        let own_earlier = earlier.clone();
        let mut task = tokio::spawn(
            async move {
                // Dropped with the task, however it ends.
                let _watch = watch;
                for delivery in &deliveries {
                    retro_fault::apply_poison(consumer.name(), &delivery.payload);
                }
                consumer.handle_in_order(&deliveries, &own_earlier).await
            }
            .instrument(span),
        );
        // A third of the ack wait, so that one report may be late.
        let every = self.subscription.ack_wait / 3;
        let mut progress = tokio::time::interval_at(Instant::now() + every, every);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // Begins when the earlier batch has ended, which may take long and must not cost this one an attempt.
        let deadline = async {
            earlier.wait_until_ended().await;
            tokio::time::sleep(self.subscription.handle_timeout).await;
        };
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                joined = &mut task => return HandlerRun::from_join(joined, batch.len()),
                _ = progress.tick() => self.report_progress(batch.iter().filter_map(|one| one.reply.as_ref())).await,
                () = &mut deadline => {
                    task.abort();
                    // If the task ignores the abort, this waits and starts nothing else; the watchdog ends the
                    // process.
                    return match task.await {
                        Err(ended) if ended.is_cancelled() => {
                            let reason = format!("it took longer than {:?}", self.subscription.handle_timeout);
                            HandlerRun::Failed { how: FailureKind::Timeout, reason }
                        }
                        joined => HandlerRun::from_join(joined, batch.len()),
                    };
                }
            }
        }
    }

    fn watch_handler(&self, deliveries: &[Delivery], earlier: &EarlierBatch) -> Watch {
        let at = |delivery: Option<&Delivery>| delivery.map_or(0, |delivery| delivery.sequence);
        let (name, first, last) = (self.consumer.name(), at(deliveries.first()), at(deliveries.last()));
        let messages =
            if first == last { format!("message {first}") } else { format!("messages {first} to {last}") };
        let what = format!("the {name}'s work on {messages} of {}", self.subscription.stream);
        // A batch that is prepared early waits for one other at most.
        let batches = if earlier.has_ended() { 1 } else { 2 };
        self.subscription.watchdog.watch(what, batches * self.subscription.handle_timeout)
    }

    fn handler_span(&self, deliveries: &[Delivery]) -> Span {
        let first = deliveries.first();
        let field = |name| first.and_then(|delivery| delivery.header(name)).map(str::to_owned);
        info_span!(
            "handle",
            consumer = self.consumer.name(),
            stream = self.subscription.stream,
            messages = deliveries.len(),
            sequence.first = first.map(|delivery| delivery.sequence),
            sequence.last = deliveries.last().map(|delivery| delivery.sequence),
            link.traceparent = field("traceparent"),
        )
    }

    async fn retry_or_dead_letter(
        &self,
        one: &Incoming,
        reason: &str,
        attempt: u32,
        acks: &mut PendingAcks<'_>,
    ) {
        let name = self.consumer.name();
        let Delivery { subject, sequence, .. } = &one.delivery;
        error!(consumer = name, subject, sequence, attempt, "{name} failed on message {sequence}: {reason}");
        if attempt >= self.subscription.attempts_max {
            let detail = format!("{name} broke in each of {attempt} attempts; the last time {reason}");
            self.store_dead_letter(
                one,
                Rejection::of_message(DeadLetterCode::HandlerPanicked, detail),
                attempt,
                acks,
            )
            .await;
        } else {
            self.record_failure(one, attempt, reason).await;
            let wait = crate::backoff::exponential_wait(
                self.subscription.retry_wait_min,
                attempt,
                Duration::from_secs(60),
            );
            self.retry_later(&one.reply, wait).await;
        }
    }

    async fn report_progress(&self, replies: impl Iterator<Item = &Subject>) {
        for reply in replies {
            super::acknowledge::wait_until_buffered(self.bus.report_progress(reply.clone())).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_failures_never_change() {
        let labels: [&str; 3] =
            [FailureKind::Panic, FailureKind::Timeout, FailureKind::Miscounted].map(Into::into);
        assert_eq!(labels, ["panic", "timeout", "miscounted"]);
    }
}
