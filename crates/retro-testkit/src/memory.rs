use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use retro_core::id::{DeadLetterId, MessageId};
use retro_core::message::Message;
use retro_store::{DeliveryStore, Failure, NewDeadLetter, OutboxStore, Position, Resent, Result, StoreError};
use tokio::sync::watch;

/// What is expected arrives within this, or the test fails and says what is there.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// Attempts and dead letters in memory.
#[derive(Debug, Default)]
pub struct MemoryDeliveries {
    attempts: Mutex<HashMap<Position, u32>>,
    failures: Mutex<Vec<(Position, Failure)>>,
    letters: watch::Sender<Vec<NewDeadLetter>>,
    settled: Mutex<Vec<(Resent, bool)>>,
    away: Mutex<bool>,
}

impl MemoryDeliveries {
    /// The dead letters so far, in the order in which they came.
    pub fn letters(&self) -> Vec<NewDeadLetter> {
        self.letters.borrow().clone()
    }

    /// Waits for at least `count` dead letters. Panics with what is there when they do not come.
    pub async fn wait_for_letters(&self, count: usize) -> Vec<NewDeadLetter> {
        wait(&self.letters, |letters| letters.len() >= count, &format!("{count} dead letters")).await
    }

    /// The replays that were handled, and of each whether it had been handled before.
    pub fn settled(&self) -> Vec<(Resent, bool)> {
        locked(&self.settled).clone()
    }

    /// How many attempts were counted at a message.
    pub fn attempts(&self, position: &Position) -> u32 {
        locked(&self.attempts).get(position).copied().unwrap_or(0)
    }

    /// What was noted of failed attempts at a message, in order.
    pub fn failures(&self, position: &Position) -> Vec<Failure> {
        let failures = locked(&self.failures);
        failures.iter().filter(|(at, _)| at == position).map(|(_, failure)| failure.clone()).collect()
    }

    /// From now on it answers that it is away, or that it is back.
    pub fn set_away(&self, away: bool) {
        *locked(&self.away) = away;
    }

    fn check(&self) -> Result<()> {
        if *locked(&self.away) {
            Err(StoreError::Unavailable("away, says the test".to_owned()))
        } else {
            Ok(())
        }
    }
}

#[async_trait]
impl DeliveryStore for MemoryDeliveries {
    async fn begin_attempt(&self, position: &Position) -> Result<u32> {
        self.check()?;
        let mut attempts = locked(&self.attempts);
        let count = attempts.entry(position.clone()).or_default();
        *count += 1;
        Ok(*count)
    }

    async fn forget_attempts(&self, position: &Position) -> Result<()> {
        self.check()?;
        locked(&self.attempts).remove(position);
        Ok(())
    }

    async fn note_failure(&self, position: &Position, failure: &Failure) -> Result<()> {
        self.check()?;
        locked(&self.failures).push((position.clone(), failure.clone()));
        Ok(())
    }

    async fn bury(&self, letter: &NewDeadLetter) -> Result<DeadLetterId> {
        self.check()?;
        locked(&self.attempts).remove(&letter.position);
        self.letters.send_modify(|letters| {
            if letters.iter().all(|known| known.id() != letter.id()) {
                letters.push(letter.clone());
            }
        });
        Ok(letter.id())
    }

    async fn settle(&self, resent: &Resent, known: bool) -> Result<bool> {
        self.check()?;
        locked(&self.settled).push((resent.clone(), known));
        Ok(true)
    }
}

/// An outbox in memory.
#[derive(Debug, Default)]
pub struct MemoryOutbox {
    messages: Mutex<Vec<Message>>,
    sent: watch::Sender<HashSet<MessageId>>,
}

impl MemoryOutbox {
    /// Puts a message into the outbox.
    pub fn push(&self, message: Message) {
        locked(&self.messages).push(message);
    }

    /// Waits until at least `count` messages are marked as sent.
    pub async fn wait_for_sent(&self, count: usize) -> HashSet<MessageId> {
        wait(&self.sent, |sent| sent.len() >= count, &format!("{count} sent messages")).await
    }
}

#[async_trait]
impl OutboxStore for MemoryOutbox {
    async fn unsent(&self, limit: u32) -> Result<Vec<Message>> {
        let sent = self.sent.borrow().clone();
        let unsent =
            locked(&self.messages).iter().filter(|message| !sent.contains(&message.id)).cloned().collect();
        Ok(truncated(unsent, limit))
    }

    async fn mark_sent(&self, ids: &[MessageId]) -> Result<()> {
        self.sent.send_modify(|sent| sent.extend(ids));
        Ok(())
    }
}

fn truncated<T>(mut all: Vec<T>, limit: u32) -> Vec<T> {
    all.truncate(limit as usize);
    all
}

async fn wait<T: Clone>(sender: &watch::Sender<T>, is_there: impl Fn(&T) -> bool, what: &str) -> T {
    let mut receiver = sender.subscribe();
    let arrived = tokio::time::timeout(ARRIVES_WITHIN, receiver.wait_for(|value| is_there(value))).await;
    match arrived {
        Ok(value) => value.expect("the sender is borrowed here").clone(),
        Err(_) => panic!("{what} did not arrive within {} s", ARRIVES_WITHIN.as_secs()),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
