//! Checks periodically that the broker's streams have not been replaced since the last check.
//!
//! **The need.** A broker may lose messages that it acknowledged, because its disk is replaced, its data is deleted, or
//! an older backup is restored. The streams are then created again without messages, and nothing else would detect
//! that. Work that is due according to the database must be announced again, and acknowledged events that nobody
//! counted must be reported.
//!
//! **The design.** Three facts identify a stream: the time at which the broker created it, its last position,
//! which never decreases, and the time at which the message at that position was stored, which never changes.
//! If any of them differs, it is another stream. The database then makes the outbox resend the messages of
//! the previous stream and deletes the attempts at its positions, because positions are assigned anew. It
//! records a loss for every message that was there at the last check and was neither handled nor
//! dead-lettered. Messages that are still waiting at the next check are recorded by name, so that a loss can
//! be reported by name. This covers the messages from outside: finished runs and GitHub events. In a stream
//! with several consumers, a message waits until the slowest one has acknowledged it.
//!
//! **No alarm without proof.** Several processes check the streams. Each may be delayed between the broker's answer and
//! the transaction that stores it, for example because the database restarts or the process is suspended. So a check
//! first reads the stored state from the database, then queries the broker, and compares the two. If another process
//! has stored something since, the check is stale and is discarded (`retro_core::stream::judge_observation`). A single
//! check only raises a suspicion; a second one, which begins after the first was stored, confirms or clears it. The
//! same holds for names, which are stored once a second check has recognized the stream from which they were read, and
//! for messages that are missing at the front of a stream.
//!
//! **Limits.** Events that arrived after the last check and were lost before they were handled are known only to their
//! emitters. Emitting them again, or redelivering them at GitHub, is harmless. To detect them here, every event would
//! have to be written to the database before it is acknowledged, and intake would stop whenever the database is
//! unreachable.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use retro_events::{Delivery, Role, github, run_completed, subject};
use retro_store::broker::{
    KnownStream, Loss, RepublishScope, StreamCheck, StreamObservation, StreamReplacement, WaitingMessage,
};
use retro_store::{BrokerStore, StoreError};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use crate::consume::direct_get;
use crate::topology::{self, ANNOUNCEMENTS, BODIES, GITHUB, INTAKE, WORK};
use crate::{Bus, BusError};

/// Maximum number of losses to log by name; the database contains all of them.
const LOSSES_LOGGED_MAX: usize = 20;
/// Maximum number of waiting events to record by name in one check.
const NAMED_PER_CHECK: u64 = 1000;
/// Maximum number of waiting events known by name. Of the other events in a longer queue, only the positions
/// are reported.
const NAMED_MESSAGES_MAX: u64 = 10_000;
/// Maximum number of attempts at a check that other processes make stale. A check is rarely overtaken this
/// many times in a row, and the next pass follows anyway.
const CHECK_ATTEMPTS_MAX: usize = 3;
/// Delay before a suspicion is checked again, so that a momentary state of the broker confirms nothing.
const RECHECK_AFTER: Duration = Duration::from_secs(1);

/// Failure to check a stream.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamCheckError {
    /// The broker could not be queried.
    #[error(transparent)]
    Broker(#[from] BusError),
    /// The database could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The consumer could not determine which messages it has processed.
    #[error("{0}")]
    Consumer(String),
}

/// Checks all streams every `pause` until `stop` is cancelled, and records the names of external messages
/// that keep waiting. Any number of processes may run this function.
pub async fn watch_streams(bus: Bus, store: Arc<dyn BrokerStore>, pause: Duration, stop: CancellationToken) {
    let mut watch =
        StreamWatcher { bus, store, external_streams: [INTAKE, GITHUB].map(ExternalStream::for_stream) };
    loop {
        // Cancelling here is safe, because an uncommitted check has no effect.
        let rest = match stop.run_until_cancelled(watch.check_streams()).await {
            None => return,
            Some(Ok(PassResult::Conclusive)) => pause,
            Some(Ok(PassResult::Suspected)) => pause.min(RECHECK_AFTER),
            // `/readyz` reports a missing broker or database, so a debug line is enough here.
            Some(Err(problem)) => {
                debug!("the broker's streams could not be checked: {problem}");
                pause
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(rest) => {}
        }
    }
}

/// Result of one pass over all streams.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PassResult {
    Conclusive,
    Suspected,
}

struct StreamWatcher {
    bus: Bus,
    store: Arc<dyn BrokerStore>,
    external_streams: [ExternalStream; 2],
}

/// Returns the identity of a waiting message: its event, and the consumers that still have to handle it. `takers` are
/// the names of the consumers of the stream.
fn to_waiting_message(one: &Delivery, takers: &[&str]) -> WaitingMessage {
    let (event, consumers) = match subject::parse_github(&one.subject) {
        Ok((_, kind)) => (
            github::parse_event_key(one),
            github::consuming_roles(&kind).iter().map(ToString::to_string).collect(),
        ),
        Err(_) => (run_completed::parse_event_key(one), takers.iter().map(ToString::to_string).collect()),
    };
    WaitingMessage { subject: one.subject.clone(), event, consumers }
}

/// A stream of messages from outside. Until they are handled, only the broker has them.
struct ExternalStream {
    stream: &'static str,
    /// Consumers of the stream. A message counts as handled when all of them have acknowledged it.
    consumers: Vec<Role>,
    /// Last position at the previous check. Messages above this position have arrived since.
    last_checked: u64,
}

impl ExternalStream {
    fn for_stream(stream: &'static str) -> Self {
        let takes = |role: &Role| role.durable_consumer().is_some_and(|durable| durable.stream == stream);
        Self { stream, consumers: Role::ALL.iter().copied().filter(takes).collect(), last_checked: 0 }
    }

    fn consumer_names(&self) -> Vec<&'static str> {
        self.consumers.iter().map(|taker| taker.as_str()).collect()
    }
}

impl StreamWatcher {
    async fn check_streams(&mut self) -> Result<PassResult, StreamCheckError> {
        let ours = [
            (WORK, RepublishScope::WakeUps),
            (ANNOUNCEMENTS, RepublishScope::Announcements),
            (BODIES, RepublishScope::Nothing),
        ];
        let mut result = PassResult::Conclusive;
        for (stream, feed) in ours {
            let seen = check_stream(&self.bus, &*self.store, stream, &[], feed).await?;
            if seen.check == StreamCheck::Suspected {
                result = PassResult::Suspected;
            }
        }
        for queue in &mut self.external_streams {
            if check_external_stream(&self.bus, &*self.store, queue).await? == StreamCheck::Suspected {
                result = PassResult::Suspected;
            }
        }
        Ok(result)
    }
}

async fn check_external_stream(
    bus: &Bus,
    store: &dyn BrokerStore,
    queue: &mut ExternalStream,
) -> Result<StreamCheck, StreamCheckError> {
    let seen =
        check_stream(bus, store, queue.stream, &queue.consumer_names(), RepublishScope::Nothing).await?;
    match seen.check {
        StreamCheck::Recognized { .. } => {
            // Only messages that existed at the previous check are named; newer ones are usually handled
            // soon.
            let before = std::mem::replace(&mut queue.last_checked, seen.last);
            record_waiting_messages(bus, store, queue, &seen, before).await?;
        }
        StreamCheck::Replaced { .. } => queue.last_checked = seen.last,
        StreamCheck::Suspected | StreamCheck::Stale => {}
    }
    Ok(seen.check)
}

/// Records the names of messages that existed at the previous check and are still waiting.
async fn record_waiting_messages(
    bus: &Bus,
    store: &dyn BrokerStore,
    queue: &ExternalStream,
    seen: &CheckedStream,
    before: u64,
) -> Result<(), StreamCheckError> {
    let StreamCheck::Recognized { number, named_up_to: named_to, .. } = seen.check else { return Ok(()) };
    let stream = queue.stream;
    let from = seen.handled.max(named_to) + 1;
    let to = before.min(from - 1 + NAMED_PER_CHECK).min(seen.handled + NAMED_MESSAGES_MAX);
    if from > to {
        return Ok(());
    }
    let batch = direct_get::read_messages(bus, stream, from, to).await?;
    let takers = queue.consumer_names();
    let name = |one: &Delivery| (one.sequence, to_waiting_message(one, &takers));
    let named: Vec<(u64, WaitingMessage)> = batch.iter().map(name).collect();
    // If the stream was replaced between the check and the read, these names belong to another stream.
    let again = check_stream(bus, store, stream, &takers, RepublishScope::Nothing).await?;
    if !matches!(again.check, StreamCheck::Recognized { number: same, .. } if same == number) {
        return Ok(());
    }
    info!(stream, "{} events wait, from position {from} to {to}; they are recorded by name", named.len());
    Ok(store.record_waiting_messages(stream, number, &named).await?)
}

/// Returns the position up to which a consumer has acknowledged every message; 0 if the consumer does not exist.
async fn load_ack_floor(bus: &Bus, consumer: &str, stream: &str) -> Result<u64, BusError> {
    match topology::load_consumer(bus, consumer, stream).await {
        Ok(found) => Ok(found.cached_info().ack_floor.stream_sequence),
        Err(BusError::Missing(_)) => Ok(0),
        Err(error) => Err(error),
    }
}

/// Result of checking one stream.
pub(crate) struct CheckedStream {
    /// Result of comparing the stream with its stored state.
    pub(crate) check: StreamCheck,
    /// Position of the last message in the stream.
    pub(crate) last: u64,
    /// Position up to which every consumer of the stream has acknowledged all messages.
    pub(crate) handled: u64,
}

/// Checks one stream. `consumers` are the consumers that have to handle its messages; if there are none, no losses are
/// recorded. Fails if the broker or the database cannot be queried.
pub(crate) async fn check_stream(
    bus: &Bus,
    store: &dyn BrokerStore,
    stream: &str,
    consumers: &[&str],
    feed: RepublishScope,
) -> Result<CheckedStream, StreamCheckError> {
    let mut seen = check_stream_once(bus, store, stream, consumers, feed).await?;
    for _ in 1..CHECK_ATTEMPTS_MAX {
        if seen.check != StreamCheck::Stale {
            break;
        }
        seen = check_stream_once(bus, store, stream, consumers, feed).await?;
    }
    log_stream_check(stream, &seen.check);
    Ok(seen)
}

async fn check_stream_once(
    bus: &Bus,
    store: &dyn BrokerStore,
    stream: &str,
    consumers: &[&str],
    feed: RepublishScope,
) -> Result<CheckedStream, StreamCheckError> {
    // This read must come first: the broker's state is judged against what was known before the query.
    let known_before = store.load_stream(stream).await?;
    let before = read_stream_state(bus, stream).await?;
    // The slowest consumer decides: a message is handled only when all of them have handled it.
    let mut handled_by_all = u64::MAX;
    for taker in consumers {
        handled_by_all = handled_by_all.min(load_ack_floor(bus, taker, stream).await?);
    }
    // The stream may have been recreated between the two questions; acknowledgements of the old one say nothing
    // about the new one.
    let state = if consumers.is_empty() { before.clone() } else { read_stream_state(bus, stream).await? };
    let handled = handled_by_all.min(state.last);
    if state.created_at != before.created_at || state.last < before.last {
        return Ok(CheckedStream { check: StreamCheck::Stale, last: state.last, handled });
    }
    let (anchor_before, anchor) = match consumers {
        // No user may read a stream without consumers, and nothing is lost with it.
        [] => (None, None),
        // Without the anchors a stream is still identified by its creation time and positions.
        _ => read_anchors(bus, stream, known_before.as_ref(), &state).await.unwrap_or_else(|problem| {
            debug!(stream, "the end of the stream could not be read: {problem}");
            (None, None)
        }),
    };
    // Read only to confirm a suspicion, because there may be many messages.
    let held = match &known_before {
        Some(known) if known.suspected.is_some() && !consumers.is_empty() => {
            read_waiting_messages(bus, stream, consumers, handled, state.last).await?
        }
        _ => Vec::new(),
    };
    let StreamState { created_at: made, first, last } = state;
    let stream = stream.to_owned();
    let sight = StreamObservation {
        stream,
        known_before,
        created: made,
        first,
        last,
        anchor,
        anchor_before,
        handled,
    };
    Ok(CheckedStream { check: store.record_observation(&sight, &held, feed).await?, last, handled })
}

/// Reads the waiting messages of a stream that may have replaced another one, because these messages were not lost with
/// the old stream. At most [`NAMED_PER_CHECK`] messages are read; later ones are reported as lost until they are
/// handled.
async fn read_waiting_messages(
    bus: &Bus,
    stream: &str,
    consumers: &[&str],
    handled: u64,
    last: u64,
) -> Result<Vec<(u64, WaitingMessage)>, BusError> {
    let batch =
        direct_get::read_messages(bus, stream, handled + 1, last.min(handled + NAMED_PER_CHECK)).await?;
    Ok(batch.iter().map(|one| (one.sequence, to_waiting_message(one, consumers))).collect())
}

/// State of a stream as the broker reports it.
#[derive(Clone)]
struct StreamState {
    created_at: String,
    first: u64,
    last: u64,
}

async fn read_stream_state(bus: &Bus, stream: &str) -> Result<StreamState, BusError> {
    let response =
        bus.request_jetstream("STREAM.INFO", stream, bus.jetstream.get_stream(stream).boxed()).await?;
    let found = response.map_err(|error| BusError::unavailable(format!("stream {stream}"), error))?;
    let info = found.cached_info();
    let made =
        Timestamp::from_nanosecond(info.created.unix_timestamp_nanos()).unwrap_or(Timestamp::UNIX_EPOCH);
    let (first, last) = (info.state.first_sequence, info.state.last_sequence);
    Ok(StreamState { created_at: made.to_string(), first, last })
}

/// Returns the storage times of two messages: the one at the last known position, and the one at the current
/// end.
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

/// Returns the time at which the broker stored the message at a position; `None` if there is no message or
/// its time is unknown.
async fn read_anchor(
    bus: &Bus,
    stream: &str,
    state: &StreamState,
    position: u64,
) -> Result<Option<String>, BusError> {
    if position == 0 || !(state.first..=state.last).contains(&position) {
        return Ok(None);
    }
    let found = direct_get::read_messages(bus, stream, position, position).await?;
    // The epoch means that the time could not be parsed, so it identifies nothing.
    let stored = found.first().map(|one| one.stored_at).filter(|moment| *moment != Timestamp::UNIX_EPOCH);
    Ok(stored.map(|moment| moment.to_string()))
}

fn log_stream_check(stream: &str, look: &StreamCheck) {
    match look {
        StreamCheck::Recognized { lost: gone, .. } => log_losses(stream, gone),
        StreamCheck::Suspected => {
            debug!(stream, "the stream {stream} looks like another one; it is checked again")
        }
        StreamCheck::Replaced { replacement: anew, .. } => {
            log_replaced_stream(stream, anew);
            log_losses(stream, &anew.lost);
        }
        StreamCheck::Stale => {}
    }
}

fn log_replaced_stream(
    stream: &str,
    StreamReplacement { previous_created_at: before, last_seen, republished: fed_again, .. }: &StreamReplacement,
) {
    warn!(
        stream,
        "the stream {stream} was replaced: the broker created the previous one at {before}, and it was last seen \
         at {last_seen:.0}. {fed_again} internal messages are sent again"
    );
    if stream == BODIES {
        error!(
            stream,
            "bodies in {stream} are lost; runs that need them are replaced in their samples, which their reports state"
        );
    }
}

fn log_losses(stream: &str, lost: &[Loss]) {
    for loss in lost.iter().take(LOSSES_LOGGED_MAX) {
        error!(stream, "lost with the broker: {loss}");
    }
    if lost.len() > LOSSES_LOGGED_MAX {
        error!(stream, "and {} more; `retro losses list` has them all", lost.len() - LOSSES_LOGGED_MAX);
    }
}
