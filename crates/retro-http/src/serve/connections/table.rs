//! Which connections there are, and which of them has to go when there is no place for the next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a connection has its place for certain, whatever it says: a client that means it has sent its request by then, and
/// a burst of honest ones must not push each other out.
const KEPT_FOR: Duration = Duration::from_millis(250);

/// Every connection of a listener. Clones are the same.
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

/// What a connection is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A request of it is not whole; since when it has brought nothing that counts.
    AwaitingRequest(Instant),
    /// A whole request is being answered.
    Answering,
}

/// A place in the table. Dropping it gives the place back.
#[derive(Debug)]
pub(super) struct Place {
    table: ConnectionTable,
    id: u64,
    /// Cancelled when the place is given to another.
    pub(super) evicted: CancellationToken,
}

/// What comes of asking for a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    /// One is free.
    Free,
    /// That of this connection.
    Evict(u64),
    /// None yet; this is when one may be taken from somebody, if anybody's ever may.
    Wait(Option<Instant>),
}

/// Decides who makes place: whoever has been without a whole request longest, and not too shortly.
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
    /// A request is not whole, and has brought something that counts just now.
    pub(super) fn await_request(&self) {
        self.set(State::AwaitingRequest(Instant::now()));
        self.table.0.changed.notify_one();
    }

    /// A request is whole.
    pub(super) fn answer(&self) {
        self.set(State::Answering);
    }

    /// Returns whether somebody waits for a place.
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
