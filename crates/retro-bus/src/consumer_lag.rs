//! Measures consumer lag: the number and age of unacknowledged messages.

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::RawMessageErrorKind;
use futures::FutureExt;
use jiff::Timestamp;
use retro_events::{DurableConsumer, subject};

use crate::{Bus, BusError, topology};

/// Number of messages that a consumer has not acknowledged, and the age of the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerLag {
    /// Number of messages that the consumer has not acknowledged, whether or not they were delivered to it.
    pub messages: u64,
    /// Time when the broker stored the oldest unacknowledged message. `None` if there is no such message.
    pub oldest: Option<Timestamp>,
}

impl Bus {
    /// Measures how far the consumer of a role is behind. Sends the broker one small request, and a second one only if
    /// there is a backlog. The role's own user has permission for both. Fails when the stream or the consumer does not
    /// exist.
    pub async fn measure_lag(&self, durable: DurableConsumer) -> Result<ConsumerLag, BusError> {
        let DurableConsumer { name, stream, prefix, .. } = durable;
        let ask = || format!("lag of {name}");
        let consumer = topology::load_consumer(self, name, stream).await?;
        let info = consumer.cached_info();
        let messages = info.num_pending + info.num_ack_pending as u64;
        if messages == 0 {
            return Ok(ConsumerLag { messages, oldest: None });
        }
        // Everything at or below the ack floor is acknowledged, so the next message of ours is the oldest one
        // that is not.
        let after = info.ack_floor.stream_sequence + 1;
        let unasked = self.jetstream.get_stream_no_info(stream).await;
        let handle = unasked.map_err(|error| BusError::unavailable(ask(), error))?;
        let asked = handle.get_first_raw_message_by_subject(subject::all_below(prefix), after).boxed();
        match self.request_jetstream("STREAM.MSG.GET", stream, asked).await? {
            Ok(message) => {
                let stored_at = Timestamp::from_nanosecond(message.time.unix_timestamp_nanos());
                Ok(ConsumerLag { messages, oldest: stored_at.ok() })
            }
            // The message has been acknowledged since then, or has expired.
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {
                Ok(ConsumerLag { messages, oldest: None })
            }
            Err(error) => Err(BusError::unavailable(ask(), error)),
        }
    }

    /// Counts the messages that a durable consumer has not acknowledged, whether or not they were delivered to it.
    /// Fails when the stream or the consumer does not exist.
    pub async fn count_unacknowledged(&self, stream: &str, consumer: &str) -> Result<u64, BusError> {
        let ask = format!("backlog of {consumer}");
        let stream =
            self.jetstream.get_stream(stream).await.map_err(|error| BusError::unavailable(&ask, error))?;
        let mut consumer: async_nats::jetstream::consumer::Consumer<pull::Config> =
            stream.get_consumer(consumer).await.map_err(|error| BusError::unavailable(&ask, error))?;
        let info = consumer.info().await.map_err(|error| BusError::unavailable(&ask, error))?;
        Ok(info.num_pending + info.num_ack_pending as u64)
    }
}
