use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use retro_core::id::{DeadLetterId, MessageId};
use retro_core::message::Message;
use retro_store::{
    AttemptStart, DeliveryStore, Failure, NewDeadLetter, OutboxStore, Position, Redelivery, Resent, Result,
    StoreError,
};
use tokio::sync::watch;

use crate::PATIENCE;

/// Attempts and dead letters in memory.
#[derive(Debug, Default)]
pub struct MemoryDeliveries {
    attempts: Mutex<HashMap<Position, u32>>,
    failures: Mutex<Vec<(Position, Failure)>>,
    letters: watch::Sender<Vec<NewDeadLetter>>,
    settled: Mutex<Vec<(Resent, bool)>>,
    away: Mutex<bool>,
    refuses_letters: Mutex<bool>,
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

    /// From now on no dead letter can be stored, or again it can; all else goes on.
    pub fn set_refuses_letters(&self, refuses: bool) {
        *locked(&self.refuses_letters) = refuses;
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
    async fn begin_attempt(&self, message: &Redelivery, attempts_max: u32) -> Result<AttemptStart> {
        self.check()?;
        let is_this =
            |letter: &NewDeadLetter| letter.id() == message.letter && letter.stored_at == message.stored_at;
        if self.letters.borrow().iter().any(is_this) {
            return Ok(AttemptStart::DeadLettered(message.letter));
        }
        let mut attempts = locked(&self.attempts);
        let counted = attempts.entry(message.position.clone()).or_default();
        *counted = (*counted + 1).min(attempts_max);
        Ok(if *counted < attempts_max { AttemptStart::Begun(*counted + 1) } else { AttemptStart::Exhausted })
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
        if *locked(&self.refuses_letters) {
            return Err(StoreError::Unavailable("no dead letter can be stored, says the test".to_owned()));
        }
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
    let arrived = tokio::time::timeout(PATIENCE, receiver.wait_for(|value| is_there(value))).await;
    match arrived {
        Ok(value) => value.expect("the sender is borrowed here").clone(),
        Err(_) => panic!("{what} did not arrive within {} s", PATIENCE.as_secs()),
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
