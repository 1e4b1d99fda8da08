//! Converts the rows of `streams`, `waiting` and `losses`.

use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;

use retro_core::cancel::Attribution;
use retro_core::id::EventKey;
use retro_core::stream::KnownStream;
use retro_store::Result;
use retro_store::broker::{ClosedLoss, Loss, WaitingMessage};

use crate::at;

/// A row of `streams`.
#[derive(Debug, sqlx::FromRow)]
pub struct StreamRecord {
    stream: String,
    number: i64,
    made: String,
    first: i64,
    seen_to: i64,
    anchor: Option<String>,
    handled_to: i64,
    suspected_ms: Option<i64>,
    found_ms: i64,
    seen_ms: i64,
}

/// State of a stream as of its last check.
#[derive(Debug)]
pub struct StreamRow {
    /// State of the stream that the next check is compared with.
    pub known: KnownStream,
    /// Time of the first check of this stream, in Unix milliseconds.
    pub found_ms: i64,
    /// Time of the last check of this stream.
    pub last_seen: jiff::Timestamp,
}

impl StreamRow {
    /// Builds the record of a loss in this stream.
    pub fn build_loss(
        &self,
        stream: &str,
        positions: RangeInclusive<u64>,
        message: Option<WaitingMessage>,
    ) -> Loss {
        Loss { stream: stream.to_owned(), number: self.known.number, positions, message }
    }
}

impl StreamRecord {
    /// Converts the row. Fails on a damaged value.
    pub fn into_stream_row(self) -> Result<StreamRow> {
        let place = at("streams", &self.stream);
        Ok(StreamRow {
            known: KnownStream {
                number: place.parse_unsigned(self.number)?,
                created: self.made,
                first: place.parse_unsigned(self.first)?,
                seen_to: place.parse_unsigned(self.seen_to)?,
                anchor: self.anchor,
                handled_to: place.parse_unsigned(self.handled_to)?,
                suspected: self.suspected_ms.map(|moment| place.parse_unsigned(moment)).transpose()?,
            },
            found_ms: self.found_ms,
            last_seen: place.parse_millis(self.seen_ms)?,
        })
    }
}

/// Parses a row of `waiting` into the position in the stream and the message.
pub fn waiting_from_row(row: &(i64, String)) -> Result<(u64, WaitingMessage)> {
    let place = at("waiting.message", row.0);
    Ok((place.parse_unsigned(row.0)?, place.parse_json(&row.1)?))
}

/// A row of `losses`.
#[derive(Debug, sqlx::FromRow)]
pub struct LossRecord {
    stream: String,
    number: i64,
    first_sequence: i64,
    last_sequence: i64,
    message: Option<String>,
}

impl LossRecord {
    /// Converts the row. Fails on a damaged value.
    pub fn into_loss(self) -> Result<Loss> {
        let place = at("losses", format!("{}/{}/{}", self.stream, self.number, self.first_sequence));
        let message = self.message.as_deref().map(|message| place.parse_json(message)).transpose()?;
        Ok(Loss {
            number: place.parse_unsigned(self.number)?,
            positions: place.parse_unsigned(self.first_sequence)?
                ..=place.parse_unsigned(self.last_sequence)?,
            stream: self.stream,
            message,
        })
    }
}

/// A row of `losses` that an operator has closed.
#[derive(Debug, sqlx::FromRow)]
pub struct ClosedLossRecord {
    #[sqlx(flatten)]
    loss: LossRecord,
    closed_by: String,
    closed_reason: String,
    closed_at: String,
}

impl ClosedLossRecord {
    /// Converts the row. Fails on a damaged value.
    pub fn into_closed_loss(self) -> Result<ClosedLoss> {
        let loss = self.loss.into_loss()?;
        let at = at("losses", loss.key()).parse(&self.closed_at)?;
        Ok(ClosedLoss { loss, act: Attribution { by: self.closed_by, reason: self.closed_reason, at } })
    }
}

/// Computes the losses of a stream: the pending messages that are not in `handled`, and every range of positions that
/// are neither pending nor handled.
pub fn compute_losses(
    stream: &str,
    row: &StreamRow,
    waiting: Vec<(u64, WaitingMessage)>,
    handled: &[u64],
) -> Vec<Loss> {
    let mut known: Vec<u64> =
        waiting.iter().map(|(position, _)| *position).chain(handled.iter().copied()).collect();
    known.sort_unstable();
    let unnamed = retro_core::stream::lost_ranges(&row.known, known)
        .into_iter()
        .map(|positions| row.build_loss(stream, positions, None));
    let named = waiting.into_iter().filter(|(position, _)| !handled.contains(position));
    let mut losses: Vec<Loss> = named
        .map(|(position, message)| row.build_loss(stream, position..=position, Some(message)))
        .chain(unnamed)
        .collect();
    losses.sort_by_key(|loss| *loss.positions.start());
    losses
}

/// Determines which messages were handled, by looking them up in the inbox of each of their consumers.
pub struct InboxCheck<'a> {
    messages: Vec<&'a WaitingMessage>,
    handled: Vec<bool>,
}

impl<'a> InboxCheck<'a> {
    /// Starts the check for these messages. A message whose event is unknown cannot be looked up and counts as not
    /// handled.
    pub fn new(messages: impl IntoIterator<Item = &'a WaitingMessage>) -> Self {
        let messages: Vec<_> = messages.into_iter().collect();
        let handled =
            messages.iter().map(|message| message.event.is_some() && !message.readers.is_empty()).collect();
        Self { messages, handled }
    }

    /// Returns the consumers whose inboxes have to be queried.
    pub fn distinct_readers(&self) -> BTreeSet<&'a str> {
        self.messages.iter().flat_map(|message| &message.readers).map(String::as_str).collect()
    }

    /// Returns the events to look up in the inbox of one consumer.
    pub fn events_read_by(&self, reader: &str) -> Vec<&'a EventKey> {
        self.indices_read_by(reader)
            .into_iter()
            .filter_map(|place| self.messages[place].event.as_ref())
            .collect()
    }

    /// Records which events are in a consumer's inbox, as indexes in the list that
    /// [`events_read_by`](Self::events_read_by) returned. Fails on an index out of range.
    pub fn record_found(&mut self, reader: &str, found: impl IntoIterator<Item = i64>) -> Result<()> {
        let asked = self.indices_read_by(reader);
        let mut seen = HashSet::new();
        for place in found {
            let of = at("inbox", format!("{reader}/{place}"));
            let nth: usize = of.parse_unsigned(place)?;
            seen.insert(*asked.get(nth).ok_or_else(|| of.damaged_error("it was not requested"))?);
        }
        for place in asked {
            self.handled[place] &= seen.contains(&place);
        }
        Ok(())
    }

    /// Returns for each message, in the order given to [`new`](Self::new), whether all of its consumers have handled
    /// its event.
    pub fn into_handled(self) -> Vec<bool> {
        self.handled
    }

    fn indices_read_by(&self, reader: &str) -> Vec<usize> {
        let reads = |message: &WaitingMessage| {
            message.event.is_some() && message.readers.iter().any(|one| one == reader)
        };
        (0..self.messages.len()).filter(|place| reads(self.messages[*place])).collect()
    }
}
