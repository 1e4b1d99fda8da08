//! Running the handler so that nothing it does reaches the loop.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Subject;
use retro_core::dead_letter::{Code, Rejection};
use retro_events::{Delivery, Verdict};
use retro_store::{AttemptStart, Redelivery};
use retro_watchdog::{Panicked, Watch};
use tokio::task::JoinError;
use tokio::time::{Instant, MissedTickBehavior};
use tracing::{Instrument, Span, debug, error, info_span};

use super::answer::Acks;
use super::pull::Incoming;
use super::{SYSTEM, Worker};

/// How long a message is put off when its attempt could not be counted.
const STORE_AWAY: Duration = Duration::from_secs(2);

/// What came of running the handler.
enum Outcome {
    /// One verdict for each message.
    Answered(Vec<Verdict>),
    /// It panicked, hung or answered for another number of messages.
    Broke { how: How, reason: String },
}

/// How a handler breaks, as it is measured.
#[derive(Debug, Clone, Copy)]
enum How {
    Panic,
    Timeout,
    Miscounted,
}

impl How {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Timeout => "timeout",
            Self::Miscounted => "miscounted",
        }
    }
}

impl Outcome {
    fn of(joined: Result<Vec<Verdict>, JoinError>, messages: usize) -> Self {
        match joined {
            Ok(verdicts) if verdicts.len() == messages => Self::Answered(verdicts),
            Ok(verdicts) => {
                let reason = format!("it answered {} times for {messages} messages", verdicts.len());
                Self::Broke { how: How::Miscounted, reason }
            }
            // The panic's text may quote the message, so it stays in the process's own log.
            Err(_) => Self::Broke { how: How::Panic, reason: Panicked.to_string() },
        }
    }
}

impl Worker {
    /// Hands over messages that come for the first time. Returns them when the handler broke.
    pub(super) async fn handle_together(&self, batch: Vec<Incoming>, acks: &mut Acks<'_>) -> Vec<Incoming> {
        match self.run(&batch).await {
            Outcome::Answered(verdicts) => {
                for (one, verdict) in batch.iter().zip(verdicts) {
                    self.answer(one, verdict, 1, acks).await;
                }
                Vec::new()
            }
            Outcome::Broke { reason, .. } if batch.len() > 1 => {
                let name = self.consumer.name();
                error!(
                    consumer = name,
                    messages = batch.len(),
                    "{name} broke on a batch; each message goes alone: {reason}"
                );
                batch
            }
            Outcome::Broke { reason, .. } => {
                for one in &batch {
                    self.broke(one, &reason, 1, acks).await;
                }
                Vec::new()
            }
        }
    }

    /// Handles a message that was delivered before, after counting the attempt.
    pub(super) async fn handle_alone(&self, one: Incoming, acks: &mut Acks<'_>) {
        let Delivery { sequence, payload, stored_at, .. } = &one.delivery;
        let message = Redelivery::new(self.position(&one.delivery), payload, *stored_at);
        let attempt = match self.store.begin_attempt(&message, self.subscription.attempts_max).await {
            Ok(AttemptStart::Begun(attempt)) => attempt,
            Ok(AttemptStart::Exhausted) => return self.give_up(&one, acks).await,
            Ok(AttemptStart::DeadLettered(letter)) => {
                debug!(sequence, "message {sequence} is dead letter {letter} already");
                return self.acknowledge_dead_letter(&one, acks).await;
            }
            // Still a suspect: handled together, it could take its neighbours along.
            Err(error) => return self.put_off_suspect(&one, STORE_AWAY, &error.to_string()).await,
        };
        retro_meter::ATTEMPTS.add(1, [self.consumer.name()]);
        let batch = [one];
        match self.run(&batch).await {
            Outcome::Answered(verdicts) => {
                for (one, verdict) in batch.iter().zip(verdicts) {
                    if matches!(verdict, Verdict::Done | Verdict::Known) {
                        self.forget_attempts(&one.delivery).await;
                    }
                    self.answer(one, verdict, attempt, acks).await;
                }
            }
            Outcome::Broke { reason, .. } => self.broke(&batch[0], &reason, attempt, acks).await,
        }
    }

    /// Dead-letters a message whose last attempt left no answer.
    async fn give_up(&self, one: &Incoming, acks: &mut Acks<'_>) {
        let attempts_max = self.subscription.attempts_max;
        let detail =
            format!("{} did not live to answer for it in {attempts_max} attempts", self.consumer.name());
        self.bury(one, Rejection::whole(Code::HandlerPanicked, detail), attempts_max, acks).await;
    }

    /// A message that was handled and comes again has not failed: its acknowledgement was lost, and may be lost more often
    /// than a message may fail. Without this it would end as a dead letter, though all of it was done.
    async fn forget_attempts(&self, delivery: &Delivery) {
        if let Err(error) = self.store.forget_attempts(&self.position(delivery)).await {
            debug!("the attempts at a message that was handled still count: {error}");
        }
    }

    /// Runs the handler, and measures it.
    async fn run(&self, batch: &[Incoming]) -> Outcome {
        let name = self.consumer.name();
        let began = Instant::now();
        let outcome = self.run_apart(batch).await;
        retro_meter::PROCESS_DURATION.record(began.elapsed().as_secs_f64(), [SYSTEM, "process", name]);
        retro_meter::BATCH_SIZE.record(batch.len() as f64, [name]);
        if let Outcome::Broke { how, .. } = &outcome {
            retro_meter::BROKE.add(1, [name, how.as_str()]);
        }
        outcome
    }

    /// Runs the handler in a task of its own: a panic ends the task, not the loop.
    async fn run_apart(&self, batch: &[Incoming]) -> Outcome {
        let deliveries: Vec<Delivery> = batch.iter().map(|one| one.delivery.clone()).collect();
        let span = self.span(&deliveries);
        let consumer = Arc::clone(&self.consumer);
        let watch = self.watch(&deliveries);
        let mut task = tokio::spawn(
            async move {
                // Dropped with the task, however it ends.
                let _watch = watch;
                for delivery in &deliveries {
                    retro_fault::poison(consumer.name(), &delivery.payload);
                }
                consumer.handle(&deliveries).await
            }
            .instrument(span),
        );
        // A third of the broker's patience, so that one report may be late.
        let every = self.subscription.ack_wait / 3;
        let mut progress = tokio::time::interval_at(Instant::now() + every, every);
        progress.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let deadline = tokio::time::sleep(self.subscription.handle_max);
        tokio::pin!(deadline);
        loop {
            tokio::select! {
                joined = &mut task => return Outcome::of(joined, batch.len()),
                _ = progress.tick() => self.report_progress(batch.iter().filter_map(|one| one.reply.as_ref())).await,
                () = &mut deadline => {
                    task.abort();
                    // Nothing else is begun beside one that goes on regardless: the watchdog ends the process.
                    return match task.await {
                        Err(ended) if ended.is_cancelled() => {
                            let reason = format!("it took longer than {:?}", self.subscription.handle_max);
                            Outcome::Broke { how: How::Timeout, reason }
                        }
                        joined => Outcome::of(joined, batch.len()),
                    };
                }
            }
        }
    }

    fn watch(&self, deliveries: &[Delivery]) -> Watch {
        let at = |delivery: Option<&Delivery>| delivery.map_or(0, |delivery| delivery.sequence);
        let (name, first, last) = (self.consumer.name(), at(deliveries.first()), at(deliveries.last()));
        let messages =
            if first == last { format!("message {first}") } else { format!("messages {first} to {last}") };
        let what = format!("the {name}'s work on {messages} of {}", self.subscription.stream);
        self.subscription.watchdog.watch(what, self.subscription.handle_max)
    }

    fn span(&self, deliveries: &[Delivery]) -> Span {
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

    async fn broke(&self, one: &Incoming, reason: &str, attempt: u32, acks: &mut Acks<'_>) {
        let name = self.consumer.name();
        let Delivery { subject, sequence, .. } = &one.delivery;
        error!(consumer = name, subject, sequence, attempt, "{name} broke on message {sequence}: {reason}");
        if attempt >= self.subscription.attempts_max {
            let detail = format!("{name} broke in each of {attempt} attempts; the last time {reason}");
            self.bury(one, Rejection::whole(Code::HandlerPanicked, detail), attempt, acks).await;
        } else {
            self.note_failure(one, attempt, reason).await;
            let wait =
                crate::backoff::doubled(self.subscription.retry_first, attempt, Duration::from_secs(60));
            self.try_again(&one.reply, wait).await;
        }
    }

    async fn report_progress(&self, replies: impl Iterator<Item = &Subject>) {
        for reply in replies {
            super::answer::taken(self.bus.report_progress(reply.clone())).await;
        }
    }
}
