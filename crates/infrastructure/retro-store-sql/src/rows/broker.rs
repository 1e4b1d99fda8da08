//! Converts rows of `streams`, `stream_pending` and `stream_losses`, and computes losses.

use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;

use retro_core::attribution::Attribution;
use retro_core::id::EventKey;
use retro_core::stream::KnownStream;
use retro_store::Result;
use retro_store::broker::{ClosedLoss, Loss, WaitingMessage};

use crate::at;

/// Row of `streams`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct StreamRecord {
    stream: String,
    incarnation: i64,
    created_at: String,
    first_sequence: i64,
    last_sequence: i64,
    last_stored_at: Option<String>,
    ack_floor: i64,
    suspected_ms: Option<i64>,
    first_seen_ms: i64,
    last_seen_ms: i64,
}

/// Converted row of `streams`.
#[derive(Debug)]
pub(crate) struct StreamRow {
    /// State with which the next observation is compared.
    pub(crate) known: KnownStream,
    /// Time of the first check of the stream, in Unix milliseconds.
    pub(crate) found_ms: i64,
    /// Time of the last check of the stream.
    pub(crate) last_seen: jiff::Timestamp,
}

impl StreamRow {
    /// Builds a loss in this incarnation of the stream.
    pub(crate) fn build_loss(
        &self,
        stream: &str,
        positions: RangeInclusive<u64>,
        message: Option<WaitingMessage>,
    ) -> Loss {
        Loss { stream: stream.to_owned(), incarnation: self.known.number, positions, message }
    }
}

impl StreamRecord {
    /// Converts the row to a [`StreamRow`]. Fails if a value is damaged.
    pub(crate) fn into_stream_row(self) -> Result<StreamRow> {
        let place = at("streams", &self.stream);
        Ok(StreamRow {
            known: KnownStream {
                number: place.parse_unsigned(self.incarnation)?,
                created: self.created_at,
                first: place.parse_unsigned(self.first_sequence)?,
                seen_to: place.parse_unsigned(self.last_sequence)?,
                anchor: self.last_stored_at,
                handled_to: place.parse_unsigned(self.ack_floor)?,
                suspected: self.suspected_ms.map(|moment| place.parse_unsigned(moment)).transpose()?,
            },
            found_ms: self.first_seen_ms,
            last_seen: place.parse_millis(self.last_seen_ms)?,
        })
    }
}

/// Converts a row of `stream_pending` to the position and identity of a message.
pub(crate) fn waiting_from_row(row: &(i64, String)) -> Result<(u64, WaitingMessage)> {
    let place = at("stream_pending.message", row.0);
    Ok((place.parse_unsigned(row.0)?, place.parse_json(&row.1)?))
}

/// Row of `stream_losses`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct LossRecord {
    stream: String,
    incarnation: i64,
    first_sequence: i64,
    last_sequence: i64,
    message: Option<String>,
}

impl LossRecord {
    /// Converts the row to a [`Loss`]. Fails if a value is damaged.
    pub(crate) fn into_loss(self) -> Result<Loss> {
        let place =
            at("stream_losses", format!("{}/{}/{}", self.stream, self.incarnation, self.first_sequence));
        let message = self.message.as_deref().map(|message| place.parse_json(message)).transpose()?;
        Ok(Loss {
            incarnation: place.parse_unsigned(self.incarnation)?,
            positions: place.parse_unsigned(self.first_sequence)?
                ..=place.parse_unsigned(self.last_sequence)?,
            stream: self.stream,
            message,
        })
    }
}

/// Row of `stream_losses` that was closed by an operator.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct ClosedLossRecord {
    #[sqlx(flatten)]
    loss: LossRecord,
    closed_by: String,
    closed_reason: String,
    closed_at: String,
}

impl ClosedLossRecord {
    /// Converts the row to a [`ClosedLoss`]. Fails if a value is damaged.
    pub(crate) fn into_closed_loss(self) -> Result<ClosedLoss> {
        let loss = self.loss.into_loss()?;
        let at = at("stream_losses", loss.key()).parse(&self.closed_at)?;
        Ok(ClosedLoss {
            loss,
            act: Attribution { by: self.closed_by, with_token: None, reason: self.closed_reason, at },
        })
    }
}

/// Computes the losses of a stream, sorted by position: pending messages that are not in `handled`, and
/// ranges of positions that are neither pending nor handled.
pub(crate) fn compute_losses(
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

/// Collects inbox lookups per consumer to determine which messages were handled.
pub(crate) struct InboxCheck<'a> {
    messages: Vec<&'a WaitingMessage>,
    handled: Vec<bool>,
}

impl<'a> InboxCheck<'a> {
    /// Starts the check of `messages`. A message whose event is unknown cannot be looked up and counts as
    /// unhandled.
    pub(crate) fn new(messages: impl IntoIterator<Item = &'a WaitingMessage>) -> Self {
        let messages: Vec<_> = messages.into_iter().collect();
        let handled =
            // A message without consumers counts as unhandled: no lookup would clear its flag, and its loss
            // would be hidden.
            messages.iter().map(|message| message.event.is_some() && !message.consumers.is_empty()).collect();
        Self { messages, handled }
    }

    /// Returns the consumers whose inboxes must be queried.
    pub(crate) fn distinct_readers(&self) -> BTreeSet<&'a str> {
        self.messages.iter().flat_map(|message| &message.consumers).map(String::as_str).collect()
    }

    /// Returns the events to look up in the inbox of a consumer.
    pub(crate) fn events_read_by(&self, reader: &str) -> Vec<&'a EventKey> {
        self.indices_read_by(reader)
            .into_iter()
            .filter_map(|place| self.messages[place].event.as_ref())
            .collect()
    }

    /// Records the events found in a consumer's inbox, as indices into
    /// [`events_read_by`](Self::events_read_by). Fails if an index is out of range.
    pub(crate) fn record_found(&mut self, reader: &str, found: impl IntoIterator<Item = i64>) -> Result<()> {
        let requested = self.indices_read_by(reader);
        let mut seen = HashSet::new();
        for place in found {
            let of = at("inbox", format!("{reader}/{place}"));
            let nth: usize = of.parse_unsigned(place)?;
            seen.insert(*requested.get(nth).ok_or_else(|| of.damaged_error("it was not requested"))?);
        }
        for place in requested {
            self.handled[place] &= seen.contains(&place);
        }
        Ok(())
    }

    /// Returns `true` for each message, in the order given to [`new`](Self::new), whose event was handled by
    /// all of its consumers.
    pub(crate) fn into_handled(self) -> Vec<bool> {
        self.handled
    }

    fn indices_read_by(&self, reader: &str) -> Vec<usize> {
        let reads = |message: &WaitingMessage| {
            message.event.is_some() && message.consumers.iter().any(|one| one == reader)
        };
        (0..self.messages.len()).filter(|place| reads(self.messages[*place])).collect()
    }
}
