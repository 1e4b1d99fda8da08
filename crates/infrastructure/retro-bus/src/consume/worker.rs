//! A consumer at work: its connection, its store and its deferred messages.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use retro_consumer::Consumer;
use retro_events::Delivery;
use retro_store::{DeliveryPosition, DeliveryStore};

use super::subscription::Subscription;
use crate::Bus;

/// A consumer with its connection and its store.
pub(super) struct Worker {
    pub(super) bus: Bus,
    pub(super) consumer: Arc<dyn Consumer>,
    pub(super) subscription: Subscription,
    pub(super) store: Arc<dyn DeliveryStore>,
    /// Deferred messages by stream position, at most as many as may be pending. Deferring does not use up an
    /// attempt.
    pub(super) deferred: Mutex<HashMap<u64, Deferral>>,
}

/// Way of handling a deferred message when it is redelivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Deferral {
    /// The message is handled in a batch, as if delivered for the first time. Its handler returned an
    /// outcome, so the message does not crash it.
    Snoozed,
    /// The message is handled alone, like any redelivered message, because it may crash its handler.
    Suspect,
}

impl Worker {
    /// Returns `true` if the message is handled in a batch, and `false` if it is handled alone.
    pub(super) fn is_fresh(&self, delivery: &Delivery) -> bool {
        // Removed in any case: an entry applies only to the next delivery.
        let put_off = self.lock_deferred().remove(&delivery.sequence);
        delivery.delivered <= 1 || put_off == Some(Deferral::Snoozed)
    }

    /// Locks the deferred messages.
    pub(super) fn lock_deferred(&self) -> MutexGuard<'_, HashMap<u64, Deferral>> {
        self.deferred.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the position of a message for the store.
    pub(super) fn position_of(&self, delivery: &Delivery) -> DeliveryPosition {
        DeliveryPosition {
            consumer: self.consumer.name().to_owned(),
            stream: delivery.stream.clone(),
            sequence: delivery.sequence,
        }
    }
}
