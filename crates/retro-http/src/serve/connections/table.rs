//! The open connections of a listener, and which one is closed when there is no place for the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a connection keeps its place whatever it sends: an honest client has sent its request by then, and a burst of
/// honest clients must not evict each other.
const KEPT_FOR: Duration = Duration::from_millis(250);

/// The open connections of a listener. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct ConnectionTable(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    max: usize,
    open: Mutex<Open>,
    /// Rung when a place may have become free.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    last_id: u64,
    connections: HashMap<u64, Entry>,
    /// Whether somebody waits for a place.
    is_waited_for: bool,
}

#[derive(Debug)]
struct Entry {
    state: State,
    evicted: CancellationToken,
}

/// What a connection is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It has no whole request; since this moment it has made no progress.
    AwaitingRequest(Instant),
    /// A whole request is being answered.
    Answering,
}

/// A place in the table. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    table: ConnectionTable,
    id: u64,
    /// Cancelled when the place is given to another.
    pub(super) evicted: CancellationToken,
}

/// What a new connection is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    /// A place is free.
    Free,
    /// It takes the place of this connection.
    Evict(u64),
    /// It waits; until this moment at most, if a connection may be evicted then.
    Wait(Option<Instant>),
}

/// Decides whose place a new connection takes: that of the connection that has been without a whole request longest, if that
/// is long enough.
fn admit(connections: impl ExactSizeIterator<Item = (u64, State)>, max: usize, now: Instant) -> Admission {
    if connections.len() < max {
        return Admission::Free;
    }
    let idle = connections.filter_map(|(id, state)| match state {
        State::AwaitingRequest(since) => Some((since, id)),
        State::Answering => None,
    });
    match idle.min() {
        Some((since, id)) if since + KEPT_FOR <= now => Admission::Evict(id),
        oldest => Admission::Wait(oldest.map(|(since, _)| since + KEPT_FOR)),
    }
}

impl ConnectionTable {
    /// A table of `max` places.
    pub(super) fn new(max: usize) -> Self {
        Self(Arc::new(Shared { max, open: Mutex::default(), changed: Notify::new() }))
    }

    /// Waits for a place; takes it from whoever has been without a whole request longest. One caller at a time.
    pub(super) async fn admit(&self) -> Place {
        loop {
            match self.try_admit(Instant::now()) {
                Ok(place) => return place,
                Err(Some(until)) => {
                    let _ = tokio::time::timeout_at(until, self.0.changed.notified()).await;
                }
                Err(None) => self.0.changed.notified().await,
            }
        }
    }

    fn try_admit(&self, now: Instant) -> Result<Place, Option<Instant>> {
        let mut open = self.open();
        let states = open.connections.iter().map(|(id, entry)| (*id, entry.state));
        match admit(states, self.0.max, now) {
            Admission::Free => {}
            Admission::Evict(id) => {
                if let Some(entry) = open.connections.remove(&id) {
                    entry.evicted.cancel();
                }
            }
            Admission::Wait(until) => {
                open.is_waited_for = true;
                return Err(until);
            }
        }
        open.is_waited_for = false;
        open.last_id += 1;
        let (id, evicted) = (open.last_id, CancellationToken::new());
        let entry = Entry { state: State::AwaitingRequest(now), evicted: evicted.clone() };
        open.connections.insert(id, entry);
        Ok(Place { table: self.clone(), id, evicted })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Marks the connection as being without a whole request from now on.
    pub(super) fn await_request(&self) {
        self.set(State::AwaitingRequest(Instant::now()));
        self.table.0.changed.notify_one();
    }

    /// Marks the connection as having a whole request.
    pub(super) fn answer(&self) {
        self.set(State::Answering);
    }

    /// Returns whether a new connection waits for a place.
    pub(super) fn is_waited_for(&self) -> bool {
        self.table.open().is_waited_for
    }

    fn set(&self, state: State) {
        if let Some(entry) = self.table.open().connections.get_mut(&self.id) {
            entry.state = state;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.table.open().connections.remove(&self.id);
        self.table.0.changed.notify_one();
    }
}

#[cfg(test)]
mod tests;
