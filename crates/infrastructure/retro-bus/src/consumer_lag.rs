//! Reads how far a consumer is: the messages that it has acknowledged, and the number and age of the others.

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::RawMessageErrorKind;
use async_trait::async_trait;
use futures::FutureExt;
use jiff::Timestamp;
use retro_events::{DurableConsumer, StreamProgress, subject};

use crate::{Bus, BusError, topology};

/// Number of messages that a consumer has not acknowledged, and the storage time of the oldest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerLag {
    /// Number of messages that the consumer has not acknowledged, whether or not they were delivered to it.
    pub messages: u64,
    /// Time at which the broker stored the oldest unacknowledged message; `None` if there is none.
    pub oldest: Option<Timestamp>,
}

/// Progress of a durable consumer, as the broker knows it.
#[derive(Debug)]
pub struct ConsumerProgress {
    bus: Bus,
    durable: DurableConsumer,
}

impl ConsumerProgress {
    /// Creates the progress of a consumer that exists, or will.
    pub const fn new(bus: Bus, durable: DurableConsumer) -> Self {
        Self { bus, durable }
    }
}

#[async_trait]
impl StreamProgress for ConsumerProgress {
    /// Sends the broker one small request, for which the role's own user has permission.
    async fn acknowledged_up_to(&self) -> Result<u64, String> {
        let DurableConsumer { name, stream, .. } = self.durable;
        let consumer = topology::load_consumer(&self.bus, name, stream).await;
        Ok(consumer.map_err(|error| error.to_string())?.cached_info().ack_floor.stream_sequence)
    }
}

impl Bus {
    /// Measures how far the consumer of a role is behind. Sends the broker one small request, and a second
    /// one only if there is a backlog. The role's own user has permission for both requests. Fails if the
    /// stream or the consumer does not exist.
    pub async fn measure_lag(&self, durable: DurableConsumer) -> Result<ConsumerLag, BusError> {
        let DurableConsumer { name, stream, prefix, .. } = durable;
        let action = || format!("lag of {name}");
        let consumer = topology::load_consumer(self, name, stream).await?;
        let info = consumer.cached_info();
        let messages = info.num_pending + info.num_ack_pending as u64;
        if messages == 0 {
            return Ok(ConsumerLag { messages, oldest: None });
        }
        // Everything at or below the ack floor is acknowledged, so the next message of this consumer is the
        // oldest unacknowledged one.
        let after = info.ack_floor.stream_sequence + 1;
        let stream_handle = self.jetstream.get_stream_no_info(stream).await;
        let handle = stream_handle.map_err(|error| BusError::unavailable(action(), error))?;
        let lookup = handle.get_first_raw_message_by_subject(subject::all_below(prefix), after).boxed();
        match self.request_jetstream("STREAM.MSG.GET", stream, lookup).await? {
            Ok(message) => {
                let stored_at = Timestamp::from_nanosecond(message.time.unix_timestamp_nanos());
                Ok(ConsumerLag { messages, oldest: stored_at.ok() })
            }
            // The message has been acknowledged since then, or has expired.
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {
                Ok(ConsumerLag { messages, oldest: None })
            }
            Err(error) => Err(BusError::unavailable(action(), error)),
        }
    }

    /// Counts the messages that a durable consumer has not acknowledged, whether or not they were delivered to it.
    /// Fails if the stream or the consumer does not exist, and as soon as the broker refuses the request.
    pub async fn count_unacknowledged(&self, stream: &str, consumer: &str) -> Result<u64, BusError> {
        // One request, so a user needs one right.
        let about = format!("{stream}.{consumer}");
        let found = self.jetstream.get_consumer_from_stream::<pull::Config, _, _>(consumer, stream);
        let found = self.request_jetstream("CONSUMER.INFO", &about, found.boxed()).await?;
        let found = found.map_err(|error| BusError::unavailable(format!("backlog of {consumer}"), error))?;
        let info = found.cached_info();
        Ok(info.num_pending + info.num_ack_pending as u64)
    }
}
