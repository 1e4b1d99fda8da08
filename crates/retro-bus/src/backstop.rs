//! Looking at the broker's streams every so often: are they still the ones that they were?
//!
//! **The need.** Whatever the broker acknowledged it may lose: its disk is replaced, its data removed, an older copy restored. The
//! streams are made again, empty, and everything goes on as if nothing had been there. What the database says is due must get
//! its message once more, and what an engine was promised and nobody counted must be told.
//!
//! **The design.** A stream is known by the moment at which the broker made it, and by its last position, which never goes
//! back. Another moment, or an earlier end, is another stream: the database then lets the outbox send once more what the one
//! before had, forgets attempts at its positions, which are given anew, and keeps a row for everything that was there at the last
//! look and neither handled nor given up. Messages that wait from one look to the next are remembered by name meanwhile, so
//! that they can be told by name. That goes for what comes from outside, finished runs and what happened at GitHub; of a stream
//! that several take from, whatever the slowest has not acknowledged waits.
//!
//! **What is not known.** Events that came after the last look and went before the next, unhandled: nobody but their emitter
//! knows them. Emitting them again, or delivering them again at GitHub, is harmless. To know them here, every event would have to be written to the database before it
//! is acknowledged, and then events could not be taken while the database is away.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use retro_events::{Delivery, Role, github, run_completed, subject};
use retro_store::broker::{Anew, Feed, Look, StreamSight, WaitingMessage};
use retro_store::{BrokerStore, StoreError};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::consume::read;
use crate::topology::{self, ANNOUNCEMENTS, BODIES, GITHUB, INTAKE, WORK};
use crate::{Bus, BusError};

/// What is told by name at most; the database has them all.
const NAMES_TOLD_MAX: usize = 20;
/// Events named in one look, of those that wait.
const NAMED_PER_LOOK: u64 = 1000;
/// Events that are known by name at most: of a longer queue the positions are told.
const NAMED_MAX: u64 = 10_000;

/// Why a look came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookError {
    /// The broker.
    #[error(transparent)]
    Broker(#[from] BusError),
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The consumer could not say what it has done.
    #[error("{0}")]
    Consumer(String),
}

/// Looks at all streams every `pause` until `stop`, and remembers by name what waits of what came from outside. Any number of
/// processes may.
pub async fn watch_streams(bus: Bus, store: Arc<dyn BrokerStore>, pause: Duration, stop: CancellationToken) {
    let mut watch = Watch { bus, store, queues: [INTAKE, GITHUB].map(Queue::of) };
    loop {
        // A look that waits for its database may be left: whatever it has not committed has not happened.
        match stop.run_until_cancelled(watch.look()).await {
            None => return,
            Some(Ok(())) => {}
            // What is missing is on /readyz.
            Some(Err(problem)) => debug!("the broker's streams could not be looked at: {problem}"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

struct Watch {
    bus: Bus,
    store: Arc<dyn BrokerStore>,
    queues: [Queue; 2],
}

/// A stream of what came from outside and is known to nobody but the broker until it is handled.
struct Queue {
    stream: &'static str,
    /// Whoever takes from it: a message is handled when each of them has acknowledged it.
    takers: Vec<Role>,
    /// The last position at the look before: what is above it has just come.
    seen_to: u64,
}

impl Queue {
    fn of(stream: &'static str) -> Self {
        let takes = |role: &Role| role.durable().is_some_and(|durable| durable.stream == stream);
        Self { stream, takers: Role::ALL.into_iter().filter(takes).collect(), seen_to: 0 }
    }

    /// What a message of it is called.
    fn name(&self, one: &Delivery) -> WaitingMessage {
        let (event, readers) = match subject::parse_github(&one.subject) {
            Ok((_, kind)) => (github::event(one), github::readers(&kind)),
            Err(_) => (run_completed::event(one), &self.takers[..]),
        };
        let readers = readers.iter().map(ToString::to_string).collect();
        WaitingMessage { subject: one.subject.clone(), event, readers }
    }
}

impl Watch {
    async fn look(&mut self) -> Result<(), LookError> {
        let ours = [(WORK, Feed::WakeUps), (ANNOUNCEMENTS, Feed::Announcements), (BODIES, Feed::Nothing)];
        for (stream, feed) in ours {
            look(&self.bus, &*self.store, stream, None, feed).await?;
        }
        for queue in &mut self.queues {
            look_at_queue(&self.bus, &*self.store, queue).await?;
        }
        Ok(())
    }
}

async fn look_at_queue(bus: &Bus, store: &dyn BrokerStore, queue: &mut Queue) -> Result<(), LookError> {
    // The slowest has the say: what one of them has not handled is not handled.
    let mut handled_by_all = u64::MAX;
    for taker in &queue.takers {
        handled_by_all = handled_by_all.min(handled(bus, taker.as_str(), queue.stream).await?);
    }
    let Some((look, last)) = look(bus, store, queue.stream, Some(handled_by_all), Feed::Nothing).await?
    else {
        return Ok(());
    };
    let before = std::mem::replace(&mut queue.seen_to, last);
    if look.anew.is_some() {
        return Ok(());
    }
    name(bus, store, queue, &look, handled_by_all, before).await
}

/// Remembers what messages are called that were there at the look before and still wait.
async fn name(
    bus: &Bus,
    store: &dyn BrokerStore,
    queue: &Queue,
    look: &Look,
    handled: u64,
    before: u64,
) -> Result<(), LookError> {
    let stream = queue.stream;
    let from = handled.max(look.named_to) + 1;
    let to = before.min(from - 1 + NAMED_PER_LOOK).min(handled + NAMED_MAX);
    if from > to {
        return Ok(());
    }
    let batch = read::messages(bus, stream, from, to).await?;
    let named: Vec<(u64, WaitingMessage)> = batch.iter().map(|one| (one.sequence, queue.name(one))).collect();
    info!(stream, "{} events wait, from position {from} to {to}; they are remembered by name", named.len());
    Ok(store.name_waiting(stream, look.number, &named).await?)
}

/// How far a consumer has acknowledged without a gap. One that is not there has acknowledged nothing.
pub(crate) async fn handled(bus: &Bus, consumer: &str, stream: &str) -> Result<u64, BusError> {
    match topology::look_for(bus, consumer, stream).await {
        Ok(found) => Ok(found.cached_info().ack_floor.stream_sequence),
        Err(BusError::Missing(_)) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Looks at one stream; returns its last position as well. `handled` is how far its consumer has acknowledged; `None` where
/// nothing is lost with it. `None` is returned when another process has just found it made anew.
pub(crate) async fn look(
    bus: &Bus,
    store: &dyn BrokerStore,
    stream: &str,
    handled: Option<u64>,
    feed: Feed,
) -> Result<Option<(Look, u64)>, LookError> {
    let asked = bus.ask("STREAM.INFO", stream, bus.jetstream.get_stream(stream).boxed()).await?;
    let found = asked.map_err(|error| BusError::unavailable(format!("stream {stream}"), error))?;
    let info = found.cached_info();
    let made =
        Timestamp::from_nanosecond(info.created.unix_timestamp_nanos()).unwrap_or(Timestamp::UNIX_EPOCH);
    let (first, last) = (info.state.first_sequence, info.state.last_sequence);
    let handled = handled.map_or(last, |handled| handled.min(last));
    let sight = StreamSight { stream: stream.to_owned(), made: made.to_string(), first, last, handled };
    let look = store.look(&sight, feed).await?;
    if let Some(look) = &look {
        tell(stream, look);
    }
    Ok(look.map(|look| (look, last)))
}

fn tell(stream: &str, look: &Look) {
    if let Some(Anew { before, last_seen, fed_again, .. }) = &look.anew {
        warn!(
            stream,
            "the stream {stream} is not the one that it was: the broker made that one at {before}, and it was last seen \
             at {last_seen:.0}. {fed_again} messages of ours are sent once more"
        );
        if stream == BODIES {
            error!(
                stream,
                "bodies in {stream} are gone; the runs that need them are replaced, and their reports say so"
            );
        }
    }
    let lost = look.anew.as_ref().map_or(&look.gone, |anew| &anew.lost);
    for loss in lost.iter().take(NAMES_TOLD_MAX) {
        error!(stream, "lost with the broker: {loss}");
    }
    if lost.len() > NAMES_TOLD_MAX {
        error!(stream, "and {} more; `retro doctor` has them all", lost.len() - NAMES_TOLD_MAX);
    }
}
