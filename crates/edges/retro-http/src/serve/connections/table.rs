//! Tracks a listener's open connections and decides which one to close if a new one finds no free slot.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Time for which a connection keeps its slot without making progress. A well-behaved client sends its
/// request within this time, so the clients of a burst do not evict each other.
const EVICTION_GRACE: Duration = Duration::from_millis(250);

/// The open connections of a listener. Clones share the table.
#[derive(Debug, Clone)]
pub(super) struct ConnectionTable(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max: usize,
    open: Mutex<TableState>,
    /// Notified if a slot may have become free.
    changed: Notify,
}

#[derive(Debug, Default)]
struct TableState {
    last_id: u64,
    connections: HashMap<u64, Entry>,
    /// `true` while a new connection waits for a slot.
    has_waiter: bool,
}

#[derive(Debug)]
struct Entry {
    state: ConnectionState,
    evicted: CancellationToken,
}

/// State of a connection: awaiting a request or being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConnectionState {
    /// No complete request has arrived yet. Contains the time of the last progress.
    AwaitingRequest(Instant),
    /// A complete request is being answered.
    Answering,
}

/// A slot in the table. Dropping it frees the slot.
#[derive(Debug)]
pub(super) struct Slot {
    table: ConnectionTable,
    id: u64,
    /// Cancelled when the slot is given to another connection.
    pub(super) evicted: CancellationToken,
}

/// Decision about a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    /// A slot is free for the new connection.
    Free,
    /// No slot is free; the new connection takes the slot of the connection with this id.
    Evict(u64),
    /// No slot is free; the new connection waits. Contains the time at which a connection may be evicted, or
    /// `None` if every connection is being answered.
    Wait(Option<Instant>),
}

/// Decides if a new connection gets a slot. If none is free, it takes the slot of the connection that has
/// gone longest without a complete request, but not before [`EVICTION_GRACE`] has passed.
fn decide_admission(
    connections: impl ExactSizeIterator<Item = (u64, ConnectionState)>,
    max: usize,
    now: Instant,
) -> Admission {
    if connections.len() < max {
        return Admission::Free;
    }
    let idle = connections.filter_map(|(id, state)| match state {
        ConnectionState::AwaitingRequest(since) => Some((since, id)),
        ConnectionState::Answering => None,
    });
    match idle.min() {
        Some((since, id)) if since + EVICTION_GRACE <= now => Admission::Evict(id),
        oldest => Admission::Wait(oldest.map(|(since, _)| since + EVICTION_GRACE)),
    }
}

impl ConnectionTable {
    /// Creates a table with `max` slots.
    pub(super) fn new(max: usize) -> Self {
        Self(Arc::new(Shared { max, open: Mutex::default(), changed: Notify::new() }))
    }

    /// Waits for a free slot, or takes the slot of the connection that has gone longest without a complete
    /// request. Only one task may call this at a time.
    pub(super) async fn wait_for_slot(&self) -> Slot {
        loop {
            match self.try_admit(Instant::now()) {
                Ok(place) => return place,
                Err(Some(until)) => {
                    // `notify_one` stores a permit, so a slot freed between the check above and this wait is
                    // not missed.
                    let _ = tokio::time::timeout_at(until, self.0.changed.notified()).await;
                }
                Err(None) => self.0.changed.notified().await,
            }
        }
    }

    fn try_admit(&self, now: Instant) -> Result<Slot, Option<Instant>> {
        let mut open = self.lock_state();
        let states = open.connections.iter().map(|(id, entry)| (*id, entry.state));
        match decide_admission(states, self.0.max, now) {
            Admission::Free => {}
            Admission::Evict(id) => {
                if let Some(entry) = open.connections.remove(&id) {
                    // The evicted connection drops its `Slot` later. Ids are never reused, so that drop
                    // removes nothing.
                    entry.evicted.cancel();
                }
            }
            Admission::Wait(until) => {
                open.has_waiter = true;
                return Err(until);
            }
        }
        open.has_waiter = false;
        open.last_id += 1;
        let (id, evicted) = (open.last_id, CancellationToken::new());
        let entry = Entry { state: ConnectionState::AwaitingRequest(now), evicted: evicted.clone() };
        open.connections.insert(id, entry);
        Ok(Slot { table: self.clone(), id, evicted })
    }

    fn lock_state(&self) -> MutexGuard<'_, TableState> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Marks the connection as awaiting a complete request from now on.
    pub(super) fn mark_awaiting_request(&self) {
        self.set_state(ConnectionState::AwaitingRequest(Instant::now()));
        self.table.0.changed.notify_one();
    }

    /// Marks the request as complete, so the connection is not evicted while it is answered.
    pub(super) fn mark_answering(&self) {
        self.set_state(ConnectionState::Answering);
    }

    /// Returns `true` if a new connection is waiting for a slot.
    pub(super) fn has_waiter(&self) -> bool {
        self.table.lock_state().has_waiter
    }

    fn set_state(&self, state: ConnectionState) {
        if let Some(entry) = self.table.lock_state().connections.get_mut(&self.id) {
            entry.state = state;
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.table.lock_state().connections.remove(&self.id);
        self.table.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests;
