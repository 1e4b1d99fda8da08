//! Verifies streams and consumers with the permissions of a role, which may query only its own consumer.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::context::GetStreamErrorKind;
use async_nats::jetstream::stream::ConsumerErrorKind;
use futures::FutureExt;
use futures::future::join_all;
use retro_events::Role;

use super::database;
use crate::{Bus, BusError};

/// Checks everything that the roles need, concurrently, and returns the problems.
pub(super) async fn find_problems(bus: &Bus, roles: &[Role]) -> Vec<BusError> {
    let mut names: Vec<_> = roles.iter().flat_map(|role| role.required_streams()).collect();
    names.sort_unstable();
    names.dedup();
    let streams = join_all(names.into_iter().map(|name| check_stream(bus, name))).await;
    let durables = roles.iter().filter_map(|role| role.durable_consumer());
    let consumers = join_all(durables.map(|one| load_consumer(bus, one.name, one.stream))).await;
    let missing = streams.into_iter().chain(consumers.into_iter().map(|found| found.map(drop)));
    missing.filter_map(Result::err).collect()
}

async fn check_stream(bus: &Bus, name: &str) -> Result<(), BusError> {
    match bus.request_jetstream("STREAM.INFO", name, bus.jetstream.get_stream(name).boxed()).await? {
        Ok(found) => {
            database::check_database(bus, &format!("stream {name}"), &found.cached_info().config.metadata)
        }
        Err(error) => Err(match error.kind() {
            GetStreamErrorKind::JetStream(problem) if problem.error_code() == ErrorCode::STREAM_NOT_FOUND => {
                BusError::Missing(format!("stream {name}"))
            }
            _ => BusError::unavailable(format!("stream {name}"), error),
        }),
    }
}

/// Returns the durable consumer of a stream.
pub(super) async fn load_consumer(
    bus: &Bus,
    name: &str,
    stream: &str,
) -> Result<Consumer<pull::Config>, BusError> {
    let action = format!("consumer {name} of stream {stream}");
    let lookup = bus.jetstream.get_consumer_from_stream(name, stream).boxed();
    match bus.request_jetstream("CONSUMER.INFO", &format!("{stream}.{name}"), lookup).await? {
        Ok(found) => {
            database::check_database(bus, &action, &found.cached_info().config.metadata)?;
            check_usable(found, action)
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

/// Fails unless the consumer is a pull consumer with explicit acknowledgements. Its limits are not compared,
/// because an older or newer release may have created it with other limits and works with the same consumer.
fn check_usable(found: Consumer<pull::Config>, name: String) -> Result<Consumer<pull::Config>, BusError> {
    let config = &found.cached_info().config;
    if config.ack_policy == AckPolicy::Explicit && config.deliver_subject.is_none() {
        return Ok(found);
    }
    let problem = "it is not a pull consumer with explicit acks; delete it at the broker".to_owned();
    Err(BusError::Unusable { name, problem })
}
