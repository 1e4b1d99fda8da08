//! How far behind a consumer is.

use async_nats::jetstream::consumer::pull;
use async_nats::jetstream::stream::RawMessageErrorKind;
use futures::FutureExt;
use jiff::Timestamp;
use retro_events::{Durable, subject};

use crate::{Bus, BusError, topology};

/// How far behind a consumer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lag {
    /// Messages it has not answered for: those it has not been sent, and those it holds.
    pub messages: u64,
    /// When the broker stored the oldest of them; `None` when there is none.
    pub oldest: Option<Timestamp>,
}

impl Bus {
    /// How far behind a role's consumer is. Two small questions, which its own user may ask; the second only when it is
    /// behind. Fails when the stream or the consumer is not there.
    pub async fn lag(&self, durable: Durable) -> Result<Lag, BusError> {
        let Durable { name, stream, prefix, .. } = durable;
        let ask = || format!("lag of {name}");
        let consumer = topology::look_for(self, name, stream).await?;
        let info = consumer.cached_info();
        let messages = info.num_pending + info.num_ack_pending as u64;
        if messages == 0 {
            return Ok(Lag { messages, oldest: None });
        }
        // Everything below the floor is answered for, so the next one of ours is the oldest that is not.
        let after = info.ack_floor.stream_sequence + 1;
        let unasked = self.jetstream.get_stream_no_info(stream).await;
        let handle = unasked.map_err(|error| BusError::unavailable(ask(), error))?;
        let asked = handle.get_first_raw_message_by_subject(subject::all_below(prefix), after).boxed();
        match self.ask("STREAM.MSG.GET", stream, asked).await? {
            Ok(message) => {
                let stored_at = Timestamp::from_nanosecond(message.time.unix_timestamp_nanos());
                Ok(Lag { messages, oldest: stored_at.ok() })
            }
            // It was answered for meanwhile, or has grown too old.
            Err(error) if error.kind() == RawMessageErrorKind::NoMessageFound => {
                Ok(Lag { messages, oldest: None })
            }
            Err(error) => Err(BusError::unavailable(ask(), error)),
        }
    }

    /// Messages that a durable consumer has not answered for: those it has not been sent, and those it holds. Fails
    /// when the stream or the consumer is not there.
    pub async fn backlog(&self, stream: &str, consumer: &str) -> Result<u64, BusError> {
        let ask = format!("backlog of {consumer}");
        let stream =
            self.jetstream.get_stream(stream).await.map_err(|error| BusError::unavailable(&ask, error))?;
        let mut consumer: async_nats::jetstream::consumer::Consumer<pull::Config> =
            stream.get_consumer(consumer).await.map_err(|error| BusError::unavailable(&ask, error))?;
        let info = consumer.info().await.map_err(|error| BusError::unavailable(&ask, error))?;
        Ok(info.num_pending + info.num_ack_pending as u64)
    }
}
