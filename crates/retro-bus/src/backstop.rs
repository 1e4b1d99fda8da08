//! Looking at the broker's streams every so often: are they still the ones that they were?
//!
//! **The need.** Whatever the broker acknowledged it may lose: its disk is replaced, its data removed, an older copy restored. The
//! streams are made again, empty, and everything goes on as if nothing had been there. What the database says is due must get
//! its message once more, and what an engine was promised and nobody counted must be told.
//!
//! **The design.** A stream is known by the moment at which the broker made it, by its last position, which never goes
//! back, and by when the message there was stored, which never changes. Whatever differs is another stream: the database then
//! lets the outbox send once more what the one before had, forgets attempts at its positions, which are given anew, and keeps a
//! row for everything that was there at the last look and neither handled nor given up. Messages that wait from one look to
//! the next are remembered by name meanwhile, so that they can be told by name. That goes for what comes from outside, finished
//! runs and what happened at GitHub; of a stream that several take from, whatever the slowest has not acknowledged waits.
//!
//! **No alarm without proof.** Several processes look, and each may be held up for any time between the broker's answer and the
//! transaction that stores it: the database restarts, the process stands still. So a look first reads what the database
//! remembers, then asks the broker, and is judged against what it had read; what others have stored since makes it stale, and
//! it is thrown away (`retro_core::stream::judge_sight`). One look only raises a suspicion. A second one, begun after the
//! first was stored, confirms or clears it. The same goes for names: they are stored when a second look has recognized the
//! stream that they were read from; and for what is missing at the front of a stream.
//!
//! **What is not known.** Events that came after the last look and went before the next, unhandled: nobody but their emitter
//! knows them. Emitting them again, or delivering them again at GitHub, is harmless. To know them here, every event would have to be written to the database before it
//! is acknowledged, and then events could not be taken while the database is away.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use retro_events::{Delivery, Role, github, run_completed, subject};
use retro_store::broker::{Anew, Feed, KnownStream, Look, Loss, StreamSight, WaitingMessage};
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
/// A stale look is repeated at once, so often: more processes than this are seldom quicker in a row, and the next pass comes.
const LOOKS_MAX: usize = 3;
/// A suspicion is confirmed or cleared this soon: not at once, so that it is another moment of the broker's, too.
const SECOND_LOOK_AFTER: Duration = Duration::from_secs(1);

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
        let rest = match stop.run_until_cancelled(watch.look()).await {
            None => return,
            Some(Ok(LookResult::Settled)) => pause,
            Some(Ok(LookResult::Suspected)) => pause.min(SECOND_LOOK_AFTER),
            // What is missing is on /readyz.
            Some(Err(problem)) => {
                debug!("the broker's streams could not be looked at: {problem}");
                pause
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(rest) => {}
        }
    }
}

/// Whether a look at all streams left a suspicion.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookResult {
    Settled,
    Suspected,
}

struct Watch {
    bus: Bus,
    store: Arc<dyn BrokerStore>,
    queues: [Queue; 2],
}

/// What a message of a stream is called, whose readers are `takers`.
fn message_name(one: &Delivery, takers: &[&str]) -> WaitingMessage {
    let (event, readers) = match subject::parse_github(&one.subject) {
        Ok((_, kind)) => {
            (github::event(one), github::readers(&kind).iter().map(ToString::to_string).collect())
        }
        Err(_) => (run_completed::event(one), takers.iter().map(ToString::to_string).collect()),
    };
    WaitingMessage { subject: one.subject.clone(), event, readers }
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

    fn taker_names(&self) -> Vec<&'static str> {
        self.takers.iter().map(|taker| taker.as_str()).collect()
    }
}

impl Watch {
    async fn look(&mut self) -> Result<LookResult, LookError> {
        let ours = [(WORK, Feed::WakeUps), (ANNOUNCEMENTS, Feed::Announcements), (BODIES, Feed::Nothing)];
        let mut result = LookResult::Settled;
        for (stream, feed) in ours {
            let seen = look(&self.bus, &*self.store, stream, &[], feed).await?;
            if seen.look == Look::Suspected {
                result = LookResult::Suspected;
            }
        }
        for queue in &mut self.queues {
            if look_at_queue(&self.bus, &*self.store, queue).await? == Look::Suspected {
                result = LookResult::Suspected;
            }
        }
        Ok(result)
    }
}

async fn look_at_queue(bus: &Bus, store: &dyn BrokerStore, queue: &mut Queue) -> Result<Look, LookError> {
    let seen = look(bus, store, queue.stream, &queue.taker_names(), Feed::Nothing).await?;
    match seen.look {
        Look::Recognized { .. } => {
            let before = std::mem::replace(&mut queue.seen_to, seen.last);
            name_waiting(bus, store, queue, &seen, before).await?;
        }
        Look::Replaced { .. } => queue.seen_to = seen.last,
        Look::Suspected | Look::Stale => {}
    }
    Ok(seen.look)
}

/// Remembers what messages are called that were there at the look before and still wait.
async fn name_waiting(
    bus: &Bus,
    store: &dyn BrokerStore,
    queue: &Queue,
    seen: &Seen,
    before: u64,
) -> Result<(), LookError> {
    let Look::Recognized { number, named_to, .. } = seen.look else { return Ok(()) };
    let stream = queue.stream;
    let from = seen.handled.max(named_to) + 1;
    let to = before.min(from - 1 + NAMED_PER_LOOK).min(seen.handled + NAMED_MAX);
    if from > to {
        return Ok(());
    }
    let batch = read::messages(bus, stream, from, to).await?;
    let takers = queue.taker_names();
    let name = |one: &Delivery| (one.sequence, message_name(one, &takers));
    let named: Vec<(u64, WaitingMessage)> = batch.iter().map(name).collect();
    // The stream may have been replaced between the look and the reading: then these are another one's names.
    let again = look(bus, store, stream, &takers, Feed::Nothing).await?;
    if !matches!(again.look, Look::Recognized { number: same, .. } if same == number) {
        return Ok(());
    }
    info!(stream, "{} events wait, from position {from} to {to}; they are remembered by name", named.len());
    Ok(store.name_waiting(stream, number, &named).await?)
}

/// How far a consumer has acknowledged without a gap. One that is not there has acknowledged nothing.
async fn load_ack_floor(bus: &Bus, consumer: &str, stream: &str) -> Result<u64, BusError> {
    match topology::look_for(bus, consumer, stream).await {
        Ok(found) => Ok(found.cached_info().ack_floor.stream_sequence),
        Err(BusError::Missing(_)) => Ok(0),
        Err(error) => Err(error),
    }
}

/// What one look at one stream has shown.
pub(crate) struct Seen {
    /// What follows from it.
    pub(crate) look: Look,
    /// The stream's last position.
    pub(crate) last: u64,
    /// Everything up to here was acknowledged by each of its consumers.
    pub(crate) handled: u64,
}

/// Looks at one stream. `takers` are the consumers that have to handle what is in it; without any, nothing is lost with it.
/// Fails when broker or database cannot be asked.
pub(crate) async fn look(
    bus: &Bus,
    store: &dyn BrokerStore,
    stream: &str,
    takers: &[&str],
    feed: Feed,
) -> Result<Seen, LookError> {
    let mut seen = look_once(bus, store, stream, takers, feed).await?;
    for _ in 1..LOOKS_MAX {
        if seen.look != Look::Stale {
            break;
        }
        seen = look_once(bus, store, stream, takers, feed).await?;
    }
    report_look(stream, &seen.look);
    Ok(seen)
}

async fn look_once(
    bus: &Bus,
    store: &dyn BrokerStore,
    stream: &str,
    takers: &[&str],
    feed: Feed,
) -> Result<Seen, LookError> {
    // First of all: the broker's answers are judged against what was known before it was asked.
    let known_before = store.load_stream(stream).await?;
    let asked = load_state(bus, stream).await?;
    // The slowest has the say: what one of them has not handled is not handled.
    let mut handled_by_all = u64::MAX;
    for taker in takers {
        handled_by_all = handled_by_all.min(load_ack_floor(bus, taker, stream).await?);
    }
    // Acknowledgements of one stream say nothing about another that was made between the two questions.
    let state = if takers.is_empty() { asked.clone() } else { load_state(bus, stream).await? };
    let handled = handled_by_all.min(state.last);
    if state.made != asked.made || state.last < asked.last {
        return Ok(Seen { look: Look::Stale, last: state.last, handled });
    }
    let (anchor_before, anchor) = match takers {
        // Nobody may read what is not taken from outside, and nothing is lost with it.
        [] => (None, None),
        // Without them a stream is known by the rest.
        _ => read_anchors(bus, stream, known_before.as_ref(), &state).await.unwrap_or_else(|problem| {
            debug!(stream, "the end of the stream could not be read: {problem}");
            (None, None)
        }),
    };
    let held = match &known_before {
        Some(known) if known.suspected.is_some() && !takers.is_empty() => {
            read_held(bus, stream, takers, handled, state.last).await?
        }
        _ => Vec::new(),
    };
    let StreamState { made, first, last } = state;
    let stream = stream.to_owned();
    let sight = StreamSight { stream, known_before, made, first, last, anchor, anchor_before, handled };
    Ok(Seen { look: store.record_sight(&sight, &held, feed).await?, last, handled })
}

/// What waits in a stream that is suspected to stand in the place of another: it is not lost with that one. Of more than
/// [`NAMED_PER_LOOK`] the rest is told as lost until it is handled.
async fn read_held(
    bus: &Bus,
    stream: &str,
    takers: &[&str],
    handled: u64,
    last: u64,
) -> Result<Vec<(u64, WaitingMessage)>, BusError> {
    let batch = read::messages(bus, stream, handled + 1, last.min(handled + NAMED_PER_LOOK)).await?;
    Ok(batch.iter().map(|one| (one.sequence, message_name(one, takers))).collect())
}

/// A stream as the broker tells it.
#[derive(Clone)]
struct StreamState {
    made: String,
    first: u64,
    last: u64,
}

async fn load_state(bus: &Bus, stream: &str) -> Result<StreamState, BusError> {
    let asked = bus.ask("STREAM.INFO", stream, bus.jetstream.get_stream(stream).boxed()).await?;
    let found = asked.map_err(|error| BusError::unavailable(format!("stream {stream}"), error))?;
    let info = found.cached_info();
    let made =
        Timestamp::from_nanosecond(info.created.unix_timestamp_nanos()).unwrap_or(Timestamp::UNIX_EPOCH);
    let (first, last) = (info.state.first_sequence, info.state.last_sequence);
    Ok(StreamState { made: made.to_string(), first, last })
}

/// When the broker stored the message at the end that was known, and the one at the present end.
async fn read_anchors(
    bus: &Bus,
    stream: &str,
    known: Option<&KnownStream>,
    state: &StreamState,
) -> Result<(Option<String>, Option<String>), BusError> {
    let before = match known {
        Some(known) => read_anchor(bus, stream, state, known.seen_to).await?,
        None => None,
    };
    let unchanged = known.is_some_and(|known| known.seen_to == state.last);
    let now = if unchanged { before.clone() } else { read_anchor(bus, stream, state, state.last).await? };
    Ok((before, now))
}

/// When the broker stored the message at a position; `None` where it holds none.
async fn read_anchor(
    bus: &Bus,
    stream: &str,
    state: &StreamState,
    position: u64,
) -> Result<Option<String>, BusError> {
    if position == 0 || !(state.first..=state.last).contains(&position) {
        return Ok(None);
    }
    let found = read::messages(bus, stream, position, position).await?;
    // A message without a readable time shows nothing.
    let stored = found.first().map(|one| one.stored_at).filter(|moment| *moment != Timestamp::UNIX_EPOCH);
    Ok(stored.map(|moment| moment.to_string()))
}

fn report_look(stream: &str, look: &Look) {
    match look {
        Look::Recognized { gone, .. } => report_losses(stream, gone),
        Look::Suspected => {
            debug!(stream, "the stream {stream} looks like another one; it is looked at once more")
        }
        Look::Replaced { anew, .. } => {
            report_replaced(stream, anew);
            report_losses(stream, &anew.lost);
        }
        Look::Stale => {}
    }
}

fn report_replaced(stream: &str, Anew { before, last_seen, fed_again, .. }: &Anew) {
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

fn report_losses(stream: &str, lost: &[Loss]) {
    for loss in lost.iter().take(NAMES_TOLD_MAX) {
        error!(stream, "lost with the broker: {loss}");
    }
    if lost.len() > NAMES_TOLD_MAX {
        error!(stream, "and {} more; `retro losses list` has them all", lost.len() - NAMES_TOLD_MAX);
    }
}
