//! Looking whether streams and consumers are there, with the rights of a role: to ask about its own, and nothing else.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::ConsumerErrorKind;
use futures::FutureExt;
use futures::future::join_all;
use retro_events::Role;

use super::database;
use crate::{Bus, BusError};

/// Looks at everything that roles need, all at once.
pub(super) async fn all(bus: &Bus, roles: &[Role]) -> Vec<BusError> {
    let mut names: Vec<_> = roles.iter().flat_map(|role| role.streams()).collect();
    names.sort_unstable();
    names.dedup();
    let streams = join_all(names.into_iter().map(|name| stream(bus, name))).await;
    let durables = roles.iter().filter_map(|role| role.durable());
    let consumers = join_all(durables.map(|one| consumer(bus, one.name, one.stream))).await;
    let missing = streams.into_iter().chain(consumers.into_iter().map(|found| found.map(drop)));
    missing.filter_map(Result::err).collect()
}

async fn stream(bus: &Bus, name: &str) -> Result<(), BusError> {
    match bus.ask("STREAM.INFO", name, bus.jetstream.get_stream(name).boxed()).await? {
        Ok(found) => database::check(bus, &format!("stream {name}"), &found.cached_info().config.metadata),
        Err(error) => Err(match error.kind() {
            GetStreamErrorKind::JetStream(problem) if problem.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                BusError::Missing(format!("stream {name}"))
            }
            _ => BusError::unavailable(format!("stream {name}"), error),
        }),
    }
}

/// The durable consumer of a stream.
pub(super) async fn consumer(
    bus: &Bus,
    name: &str,
    stream: &str,
) -> Result<Consumer<pull::Config>, BusError> {
    let action = format!("consumer {name} of stream {stream}");
    let asked = bus.jetstream.get_consumer_from_stream(name, stream).boxed();
    match bus.ask("CONSUMER.INFO", &format!("{stream}.{name}"), asked).await? {
        Ok(found) => {
            database::check(bus, &action, &found.cached_info().config.metadata)?;
            usable(found, action)
        }
        Err(error) => Err(match error.kind() {
            ConsumerErrorKind::JetStream(problem)
                if [ErrorCode::STREAM_NOT_FOUND, ErrorCode::CONSUMER_NOT_FOUND]
                    .contains(&problem.error_code()) =>
            {
                BusError::Missing(action)
            }
            _ => BusError::unavailable(action, error),
        }),
    }
}

/// An older or newer release may have made it with other bounds, which both can work with; acks must be explicit.
fn usable(found: Consumer<pull::Config>, name: String) -> Result<Consumer<pull::Config>, BusError> {
    let config = &found.cached_info().config;
    if config.ack_policy == AckPolicy::Explicit && config.deliver_subject.is_none() {
        return Ok(found);
    }
    let problem = "it is not a pull consumer with explicit acks; delete it there".to_owned();
    Err(BusError::Unusable { name, problem })
}
