use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use retro_core::id::{DeadLetterId, MessageId};
use retro_core::message::Message;
use retro_store::{
    AttemptFailure, AttemptStart, DeliveryPosition, DeliveryStore, IncomingReplay, NewDeadLetter,
    OutboxStore, Redelivery, Result, StoreError,
};
use tokio::sync::watch;

use crate::TEST_TIMEOUT;

/// In-memory [`DeliveryStore`] with attempts, failures and dead letters.
#[derive(Debug, Default)]
pub struct InMemoryDeliveries {
    attempts: Mutex<HashMap<DeliveryPosition, u32>>,
    failures: Mutex<Vec<(DeliveryPosition, AttemptFailure)>>,
    dead_letters: watch::Sender<Vec<NewDeadLetter>>,
    settled: Mutex<Vec<(IncomingReplay, bool)>>,
    is_unavailable: Mutex<bool>,
    refuses_dead_letters: Mutex<bool>,
}

impl InMemoryDeliveries {
    /// Returns the dead letters in the order in which they were stored.
    pub fn dead_letters(&self) -> Vec<NewDeadLetter> {
        self.dead_letters.borrow().clone()
    }

    /// Waits for at least `count` dead letters and returns them. Panics after [`TEST_TIMEOUT`].
    pub async fn wait_for_dead_letters(&self, count: usize) -> Vec<NewDeadLetter> {
        wait_until(&self.dead_letters, |letters| letters.len() >= count, &format!("{count} dead letters"))
            .await
    }

    /// Returns the ended replays, each with `true` if its event had already been handled.
    pub fn settled_replays(&self) -> Vec<(IncomingReplay, bool)> {
        lock_ignoring_poison(&self.settled).clone()
    }

    /// Returns the number of attempts counted for a message.
    pub fn attempt_count(&self, position: &DeliveryPosition) -> u32 {
        lock_ignoring_poison(&self.attempts).get(position).copied().unwrap_or(0)
    }

    /// Returns the failures of a message in the order in which they were recorded.
    pub fn recorded_failures(&self, position: &DeliveryPosition) -> Vec<AttemptFailure> {
        let failures = lock_ignoring_poison(&self.failures);
        failures.iter().filter(|(at, _)| at == position).map(|(_, failure)| failure.clone()).collect()
    }

    /// Sets whether every call fails with [`StoreError::Unavailable`].
    pub fn set_unavailable(&self, away: bool) {
        *lock_ignoring_poison(&self.is_unavailable) = away;
    }

    /// Sets whether storing a dead letter fails with [`StoreError::Unavailable`]. Other calls still succeed.
    pub fn set_refuses_dead_letters(&self, refuses: bool) {
        *lock_ignoring_poison(&self.refuses_dead_letters) = refuses;
    }

    fn check_available(&self) -> Result<()> {
        if *lock_ignoring_poison(&self.is_unavailable) {
            Err(StoreError::Unavailable("unavailable by order of the test".to_owned()))
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl DeliveryStore for InMemoryDeliveries {
    async fn begin_attempt(&self, message: &Redelivery, attempts_max: u32) -> Result<AttemptStart> {
        self.check_available()?;
        let is_this = |dead_letter: &NewDeadLetter| {
            dead_letter.id() == message.dead_letter_id && dead_letter.stored_at == message.stored_at
        };
        if self.dead_letters.borrow().iter().any(is_this) {
            return Ok(AttemptStart::DeadLettered(message.dead_letter_id));
        }
        let mut attempts = lock_ignoring_poison(&self.attempts);
        let counted = attempts.entry(message.position.clone()).or_default();
        *counted = (*counted + 1).min(attempts_max);
        Ok(if *counted < attempts_max { AttemptStart::Begun(*counted + 1) } else { AttemptStart::Exhausted })
    }

    async fn clear_attempts(&self, position: &DeliveryPosition) -> Result<()> {
        self.check_available()?;
        lock_ignoring_poison(&self.attempts).remove(position);
        Ok(())
    }

    async fn record_failure(&self, position: &DeliveryPosition, failure: &AttemptFailure) -> Result<()> {
        self.check_available()?;
        lock_ignoring_poison(&self.failures).push((position.clone(), failure.clone()));
        Ok(())
    }

    async fn store_dead_letter(&self, dead_letter: &NewDeadLetter) -> Result<DeadLetterId> {
        self.check_available()?;
        if *lock_ignoring_poison(&self.refuses_dead_letters) {
            return Err(StoreError::Unavailable(
                "storing dead letters fails by order of the test".to_owned(),
            ));
        }
        lock_ignoring_poison(&self.attempts).remove(&dead_letter.position);
        self.dead_letters.send_modify(|letters| {
            // Storing the same dead letter again changes nothing, as in the databases.
            if letters.iter().all(|known| known.id() != dead_letter.id()) {
                letters.push(dead_letter.clone());
            }
        });
        Ok(dead_letter.id())
    }

    async fn end_replay(&self, resent: &IncomingReplay, known: bool) -> Result<bool> {
        self.check_available()?;
        lock_ignoring_poison(&self.settled).push((resent.clone(), known));
        Ok(true)
    }
}

/// In-memory [`OutboxStore`] to which a test adds messages.
#[derive(Debug, Default)]
pub struct InMemoryOutbox {
    messages: Mutex<Vec<Message>>,
    sent: watch::Sender<HashSet<MessageId>>,
}

impl InMemoryOutbox {
    /// Adds an unsent message to the outbox.
    pub fn push(&self, message: Message) {
        lock_ignoring_poison(&self.messages).push(message);
    }

    /// Waits until at least `count` messages are marked as sent, and returns their IDs. Panics after
    /// [`TEST_TIMEOUT`].
    pub async fn wait_for_sent(&self, count: usize) -> HashSet<MessageId> {
        wait_until(&self.sent, |sent| sent.len() >= count, &format!("{count} sent messages")).await
    }
}

#[async_trait]
impl OutboxStore for InMemoryOutbox {
    async fn list_unsent_messages(&self, limit: u32) -> Result<Vec<Message>> {
        let sent = self.sent.borrow().clone();
        let unsent = lock_ignoring_poison(&self.messages)
            .iter()
            .filter(|message| !sent.contains(&message.id))
            .cloned()
            .collect();
        Ok(truncate_to(unsent, limit))
    }

    async fn mark_sent(&self, ids: &[MessageId]) -> Result<()> {
        self.sent.send_modify(|sent| sent.extend(ids));
        Ok(())
    }
}

fn truncate_to<T>(mut all: Vec<T>, limit: u32) -> Vec<T> {
    all.truncate(limit as usize);
    all
}

async fn wait_until<T: Clone>(sender: &watch::Sender<T>, is_there: impl Fn(&T) -> bool, what: &str) -> T {
    let mut receiver = sender.subscribe();
    let arrived = tokio::time::timeout(TEST_TIMEOUT, receiver.wait_for(|value| is_there(value))).await;
    match arrived {
        Ok(value) => value.expect("the sender is borrowed here").clone(),
        Err(_) => panic!("{what} did not arrive within {} s", TEST_TIMEOUT.as_secs()),
    }
}

fn lock_ignoring_poison<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
