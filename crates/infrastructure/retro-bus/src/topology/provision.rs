//! Provisions streams and consumers: gets and compares them, and then creates or updates them.

use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, pull};
use async_nats::jetstream::context::{ConsumerInfoErrorKind, CreateStreamErrorKind, GetStreamErrorKind};
use async_nats::jetstream::stream::Config;
use futures::FutureExt;
use tracing::info;

use super::configuration::{consumer_config, stream_configs};
use super::database::{self, Ownership};
use crate::broker_calls::{create_consumer, update_consumer};
use crate::error_codes::{is_servers_missing, is_storage_full};
use crate::{Bus, BusError, Subscription};

const MIB: i64 = 1024 * 1024;

/// Creates or updates every stream.
pub(super) async fn provision_streams(bus: &Bus, ownership: Ownership) -> Result<(), BusError> {
    for wanted in stream_configs(&bus.sizes, bus.replicas) {
        provision_stream(bus, wanted, ownership).await?;
    }
    Ok(())
}

/// Creates or updates the durable consumer of a subscription, and returns it.
pub(super) async fn provision_consumer(
    bus: &Bus,
    name: &str,
    subscription: &Subscription,
    ownership: Ownership,
) -> Result<Consumer<pull::Config>, BusError> {
    let mut wanted = consumer_config(name, subscription);
    let action = format!("consumer {name} of stream {}", subscription.stream);
    let stream = bus.jetstream.get_stream_no_info(&subscription.stream).await;
    let stream = stream.map_err(|error| BusError::unavailable(&action, error))?;
    let tail = format!("{}.{name}", subscription.stream);
    let found = bus.request_jetstream("CONSUMER.INFO", &tail, stream.consumer_info(name).boxed()).await?;
    let metadata = found.as_ref().map(|info| info.config.metadata.clone()).unwrap_or_default();
    wanted.metadata = database::claim_metadata(bus, &action, metadata, ownership)?;
    match found {
        Ok(info) if !needs_update(&info.config, &wanted) => {}
        // The broker would refuse the update with an error that does not name the remedy.
        Ok(info)
            if info.config.ack_policy != AckPolicy::Explicit || info.config.deliver_subject.is_some() =>
        {
            let problem = "it is not a pull consumer with explicit acks; delete it at the broker".to_owned();
            return Err(BusError::Unusable { name: action, problem });
        }
        Ok(_) => {
            let updated = bus
                .request_jetstream("CONSUMER.CREATE", &tail, update_consumer(&stream, wanted).boxed())
                .await?;
            updated.map_err(|error| BusError::unavailable(&action, error))?;
            info!(consumer = name, "updated the consumer {name} of stream {}", subscription.stream);
        }
        Err(error) if matches!(error.kind(), ConsumerInfoErrorKind::NotFound) => {
            let created = bus
                .request_jetstream("CONSUMER.CREATE", &tail, create_consumer(&stream, wanted).boxed())
                .await?;
            created.map_err(|error| BusError::unavailable(&action, error))?;
            info!(consumer = name, "created the consumer {name} of stream {}", subscription.stream);
        }
        Err(error) => return Err(BusError::unavailable(action, error)),
    }
    let made = bus.request_jetstream("CONSUMER.INFO", &tail, stream.get_consumer(name).boxed()).await?;
    made.map_err(|error| BusError::unavailable(action, error))
}

async fn provision_stream(bus: &Bus, mut wanted: Config, ownership: Ownership) -> Result<(), BusError> {
    let (name, size) = (wanted.name.clone(), wanted.max_bytes);
    let replicas = wanted.num_replicas;
    let (found, held) =
        match bus.request_jetstream("STREAM.INFO", &name, bus.jetstream.get_stream(&name).boxed()).await? {
            Ok(stream) => {
                let info = stream.cached_info();
                (info.config.clone(), info.state.bytes)
            }
            Err(error) if is_not_found(&error.kind()) => {
                wanted.metadata =
                    database::claim_metadata(bus, &format!("stream {name}"), wanted.metadata, ownership)?;
                let created =
                    bus.request_jetstream("STREAM.CREATE", &name, bus.add_stream(wanted).boxed()).await?;
                created
                    .map_err(|error| create_stream_error(&name, (size, replicas), &error.kind(), &error))?;
                info!(stream = name, "created the stream {name}");
                return Ok(());
            }
            Err(error) => return Err(BusError::unavailable(format!("stream {name}"), error)),
        };
    if found.retention != wanted.retention || found.storage != wanted.storage {
        let problem =
            "retention and storage cannot be changed: they must be limits and file; copy its messages and \
                       delete it there"
                .to_owned();
        return Err(BusError::Unusable { name: format!("stream {name}"), problem });
    }
    wanted.metadata =
        database::claim_metadata(bus, &format!("stream {name}"), found.metadata.clone(), ownership)?;
    // An unlimited stream has the limit -1.
    if size != found.max_bytes && held > u64::try_from(size).unwrap_or(0) {
        return Err(BusError::Unusable {
            name: format!("stream {name}"),
            problem: describe_too_small(held, size),
        });
    }
    let merged = merge_config(&found, wanted);
    if merged != found {
        let updated =
            bus.request_jetstream("STREAM.UPDATE", &name, bus.reconfigure_stream(merged).boxed()).await?;
        updated.map_err(|error| create_stream_error(&name, (size, replicas), &error.kind(), &error))?;
        info!(stream = name, "updated the stream {name}");
    }
    Ok(())
}

/// Explains why a stream of these bytes and replicas could not be created or updated. The broker's own message does not
/// say that the disk is too small or that servers are missing.
fn create_stream_error(
    name: &str,
    (bytes, replicas): (i64, usize),
    kind: &CreateStreamErrorKind,
    error: &dyn std::fmt::Display,
) -> BusError {
    let code = match kind {
        CreateStreamErrorKind::JetStream(answer) => Some(answer.error_code()),
        _ => None,
    };
    if replicas > 1 && code.is_some_and(is_servers_missing) {
        let problem = format!(
            "nats_replicas asks for {replicas} servers that store it, and the broker has fewer ({error}): set nats_replicas \
             to 1 for a single server, or name a cluster of at least {replicas} in nats_url"
        );
        return BusError::Unusable { name: format!("stream {name}"), problem };
    }
    if !code.is_some_and(is_storage_full) {
        return BusError::unavailable(format!("make stream {name}"), error);
    }
    let problem = format!(
        "it reserves {} MiB, which the disk of the broker's `store_dir` does not have ({error}): free space there or use a \
         larger one, or set a smaller `streams_mib`; `jetstream.max_file_store` in the broker's configuration may be the \
         limit, too",
        bytes / MIB
    );
    BusError::Unusable { name: format!("stream {name}"), problem }
}

/// Explains why a stream is not made smaller.
fn describe_too_small(held: u64, bytes: i64) -> String {
    let held = held.div_ceil(MIB.unsigned_abs());
    format!("it holds {held} MiB and would be limited to {} MiB: set a larger `streams_mib`", bytes / MIB)
}

/// Returns the existing configuration with the program's settings replaced and all others kept.
fn merge_config(found: &Config, wanted: Config) -> Config {
    Config {
        subjects: wanted.subjects,
        discard: wanted.discard,
        max_age: wanted.max_age,
        max_bytes: wanted.max_bytes,
        duplicate_window: wanted.duplicate_window,
        allow_direct: wanted.allow_direct,
        allow_rollup: wanted.allow_rollup,
        allow_atomic_publish: wanted.allow_atomic_publish,
        description: wanted.description,
        metadata: wanted.metadata,
        // Never fewer: an operator may have set a larger number, and a smaller one gives up safety.
        num_replicas: wanted.num_replicas.max(found.num_replicas),
        ..found.clone()
    }
}

fn needs_update(found: &async_nats::jetstream::consumer::Config, wanted: &pull::Config) -> bool {
    let mut filters = found.filter_subjects.clone();
    if !found.filter_subject.is_empty() {
        filters.push(found.filter_subject.clone());
    }
    filters != wanted.filter_subjects
        || found.ack_policy != wanted.ack_policy
        || found.ack_wait != wanted.ack_wait
        || found.max_deliver != wanted.max_deliver
        || found.max_ack_pending != wanted.max_ack_pending
        || !found.backoff.is_empty()
        || found.deliver_subject.is_some()
        || found.metadata != wanted.metadata
}

fn is_not_found(kind: &GetStreamErrorKind) -> bool {
    matches!(kind, GetStreamErrorKind::JetStream(error) if error.error_code() == ErrorCode::STREAM_NOT_FOUND)
}
