//! Defines a message as the broker delivers it.

use bytes::Bytes;
use jiff::Timestamp;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::message::Message;
use retro_core::replay::REPLAY_HEADER;
use retro_core::trace::TraceContext;

/// A complete message as delivered by the broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Stream that stores the message.
    pub stream: String,
    /// Subject of the message.
    pub subject: String,
    /// Sequence number of the message in the stream.
    pub sequence: u64,
    /// Headers in order, with names in their original case.
    pub headers: Vec<(String, String)>,
    /// Payload as delivered by the broker.
    pub payload: Bytes,
    /// Number of deliveries to this consumer so far, including this one, as counted by the broker.
    pub delivered: u64,
    /// Time at which the broker stored the message.
    pub stored_at: Timestamp,
}

impl Delivery {
    /// Returns the first header of this name, ignoring case.
    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.headers, name)
    }

    /// Returns the trace context from the headers `traceparent` and `tracestate`; `None` if it cannot be
    /// parsed.
    pub fn trace_context(&self) -> Option<TraceContext> {
        TraceContext::from_headers(self.header("traceparent")?, self.header("tracestate")).ok()
    }

    /// Returns `true` if the message may have been handled before, because the broker redelivered it or an
    /// operator replayed it.
    pub fn is_repeated(&self) -> bool {
        self.delivered > 1 || self.header(REPLAY_HEADER).is_some()
    }

    /// Parses the internal message in this delivery. Fails with a rejection if the delivery is not an
    /// internal message.
    pub fn parse_message(&self) -> Result<Message, Rejection> {
        serde_json::from_slice(&self.payload).map_err(|error| {
            Rejection::of_message(DeadLetterCode::FieldInvalid, format!("not a message of ours: {error}"))
        })
    }
}

/// Returns the first header of this name, ignoring case.
pub(crate) fn find_header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}
