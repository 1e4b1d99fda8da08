//! Rows of `streams` and `losses`.

use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;

use retro_core::id::EventKey;
use retro_core::steer::Act;
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

/// A stream as it was last seen.
#[derive(Debug)]
pub struct StreamRow {
    /// What the decision is told.
    pub known: KnownStream,
    /// When it was first seen, Unix time in milliseconds.
    pub found_ms: i64,
    /// When it was last seen.
    pub last_seen: jiff::Timestamp,
}

impl StreamRow {
    /// A loss of this stream.
    pub fn loss(
        &self,
        stream: &str,
        positions: RangeInclusive<u64>,
        message: Option<WaitingMessage>,
    ) -> Loss {
        Loss { stream: stream.to_owned(), number: self.known.number, positions, message }
    }
}

impl StreamRecord {
    /// What it says.
    pub fn read(self) -> Result<StreamRow> {
        let place = at("streams", &self.stream);
        Ok(StreamRow {
            known: KnownStream {
                number: place.unsigned(self.number)?,
                made: self.made,
                first: place.unsigned(self.first)?,
                seen_to: place.unsigned(self.seen_to)?,
                anchor: self.anchor,
                handled_to: place.unsigned(self.handled_to)?,
                suspected: self.suspected_ms.map(|moment| place.unsigned(moment)).transpose()?,
            },
            found_ms: self.found_ms,
            last_seen: place.millis(self.seen_ms)?,
        })
    }
}

/// A row of `waiting`: the position, and what the message is called.
pub fn waiting(row: &(i64, String)) -> Result<(u64, WaitingMessage)> {
    let place = at("waiting.message", row.0);
    Ok((place.unsigned(row.0)?, place.json(&row.1)?))
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
    /// What it says.
    pub fn read(self) -> Result<Loss> {
        let place = at("losses", format!("{}/{}/{}", self.stream, self.number, self.first_sequence));
        let message = self.message.as_deref().map(|message| place.json(message)).transpose()?;
        Ok(Loss {
            number: place.unsigned(self.number)?,
            positions: place.unsigned(self.first_sequence)?..=place.unsigned(self.last_sequence)?,
            stream: self.stream,
            message,
        })
    }
}

/// A row of `losses` that somebody has closed.
#[derive(Debug, sqlx::FromRow)]
pub struct ClosedLossRecord {
    #[sqlx(flatten)]
    loss: LossRecord,
    closed_by: String,
    closed_reason: String,
    closed_at: String,
}

impl ClosedLossRecord {
    /// What it says.
    pub fn read(self) -> Result<ClosedLoss> {
        let loss = self.loss.read()?;
        let at = at("losses", loss.key()).parse(&self.closed_at)?;
        Ok(ClosedLoss { loss, act: Act { by: self.closed_by, reason: self.closed_reason, at } })
    }
}

/// What is lost with a stream: of the messages known by name those that were not `handled`, and every position that is
/// neither named nor handled, as ranges.
pub fn losses(
    stream: &str,
    row: &StreamRow,
    waiting: Vec<(u64, WaitingMessage)>,
    handled: &[u64],
) -> Vec<Loss> {
    let mut known: Vec<u64> =
        waiting.iter().map(|(position, _)| *position).chain(handled.iter().copied()).collect();
    known.sort_unstable();
    let unnamed = retro_core::stream::lost(&row.known, known)
        .into_iter()
        .map(|positions| row.loss(stream, positions, None));
    let named = waiting.into_iter().filter(|(position, _)| !handled.contains(position));
    let mut losses: Vec<Loss> = named
        .map(|(position, message)| row.loss(stream, position..=position, Some(message)))
        .chain(unnamed)
        .collect();
    losses.sort_by_key(|loss| *loss.positions.start());
    losses
}

/// Which of some messages were handled, as the inboxes of everybody who reads them tell, one after the other.
pub struct Account<'a> {
    messages: Vec<&'a WaitingMessage>,
    handled: Vec<bool>,
}

impl<'a> Account<'a> {
    /// Of these messages. One whose event cannot be read is in nobody's inbox.
    pub fn of(messages: impl IntoIterator<Item = &'a WaitingMessage>) -> Self {
        let messages: Vec<_> = messages.into_iter().collect();
        let handled =
            messages.iter().map(|message| message.event.is_some() && !message.readers.is_empty()).collect();
        Self { messages, handled }
    }

    /// Whose inboxes are to be asked.
    pub fn readers(&self) -> BTreeSet<&'a str> {
        self.messages.iter().flat_map(|message| &message.readers).map(String::as_str).collect()
    }

    /// The events that one inbox is to be asked for.
    pub fn asked(&self, reader: &str) -> Vec<&'a EventKey> {
        self.read_by(reader).into_iter().filter_map(|place| self.messages[place].event.as_ref()).collect()
    }

    /// That inbox holds those of the [`asked`](Self::asked) events at these places. Fails for a place that was not asked for.
    pub fn seen(&mut self, reader: &str, found: impl IntoIterator<Item = i64>) -> Result<()> {
        let asked = self.read_by(reader);
        let mut seen = HashSet::new();
        for place in found {
            let of = at("inbox", format!("{reader}/{place}"));
            let nth: usize = of.unsigned(place)?;
            seen.insert(*asked.get(nth).ok_or_else(|| of.damaged("nobody asked for it"))?);
        }
        for place in asked {
            self.handled[place] &= seen.contains(&place);
        }
        Ok(())
    }

    /// For each message, in their order, whether everybody who reads it remembers its event.
    pub fn handled(self) -> Vec<bool> {
        self.handled
    }

    fn read_by(&self, reader: &str) -> Vec<usize> {
        let reads = |message: &WaitingMessage| {
            message.event.is_some() && message.readers.iter().any(|one| one == reader)
        };
        (0..self.messages.len()).filter(|place| reads(self.messages[*place])).collect()
    }
}
