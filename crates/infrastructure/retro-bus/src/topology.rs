//! Defines the required streams and durable consumers, and provisions them: get, compare, create or update. Settings
//! that an operator added (more replicas, placement, compression) are kept.
//!
//! A single process provisions them at its start ([`TopologyMode::Provision`]). In a fleet only one user of
//! the broker may do so: `retro migrate` provisions them, and every role only verifies that they exist
//! ([`TopologyMode::Verify`]). A role that could create a consumer could bypass its own permissions and make
//! the broker push any message of the stream to any subject.
//!
//! Retention is by limits, never by work queue or interest: with these two, a broker that restarts forgets
//! the deduplication ids of consumed messages. A full stream rejects new messages; with the default it would
//! silently drop the oldest.

mod configuration;
mod database;
mod provision;
mod settings;
mod verify;

use std::time::Duration;

use async_nats::jetstream::consumer::{Consumer, pull};
use retro_events::Role;
pub use retro_events::stream::{ANNOUNCEMENTS, BODIES, BODIES_BUCKET, GITHUB, INTAKE, WORK};

use self::database::Ownership;
pub use self::settings::{StreamSizes, TopologyMode};

use crate::{Bus, BusError, Subscription};

/// Creates or updates every stream and the durable consumer of every role. Idempotent. `ack_wait` is the time
/// that the broker waits for an acknowledgement. Fails with [`BusError::Refused`] if the broker's user lacks
/// the permission, and with [`BusError::OtherDatabase`] if a stream or consumer belongs to another database.
pub async fn ensure_topology(bus: &Bus, ack_wait: Duration) -> Result<(), BusError> {
    provision_all(bus, ack_wait, Ownership::Respected).await
}

/// Creates or updates everything like [`ensure_topology`], but also takes over streams and consumers of
/// another database. Processes that still use the other database stop at their next check.
pub async fn take_over(bus: &Bus, ack_wait: Duration) -> Result<(), BusError> {
    provision_all(bus, ack_wait, Ownership::TakenOver).await
}

async fn provision_all(bus: &Bus, ack_wait: Duration, ownership: Ownership) -> Result<(), BusError> {
    provision::provision_streams(bus, ownership).await?;
    for durable in Role::ALL.iter().filter_map(|role| role.durable_consumer()) {
        let subscription = Subscription { ack_wait, ..Subscription::for_durable(durable, 1) };
        provision::provision_consumer(bus, durable.name, &subscription, ownership).await?;
    }
    Ok(())
}

/// Checks everything that the roles need at the broker without changing anything. Returns one error, with its
/// remedy, for each stream or consumer that is missing or unusable.
pub async fn find_problems(bus: &Bus, roles: &[Role]) -> Vec<BusError> {
    verify::find_problems(bus, roles).await
}

/// Creates or updates the streams if this process provisions them.
pub(crate) async fn prepare_streams(bus: &Bus) -> Result<(), BusError> {
    match bus.topology_mode {
        TopologyMode::Provision => provision::provision_streams(bus, Ownership::Respected).await,
        TopologyMode::Verify => Ok(()),
    }
}

/// Returns the durable consumer of a subscription. If this process provisions consumers, the consumer is created or
/// updated first. Fails if it does not exist or cannot be used.
pub(crate) async fn prepare_consumer(
    bus: &Bus,
    name: &str,
    subscription: &Subscription,
) -> Result<Consumer<pull::Config>, BusError> {
    match bus.topology_mode {
        TopologyMode::Provision => {
            provision::provision_consumer(bus, name, subscription, Ownership::Respected).await
        }
        TopologyMode::Verify => verify::load_consumer(bus, name, &subscription.stream).await,
    }
}

/// Returns a durable consumer without creating it. Fails with [`BusError::Missing`] if it does not exist.
pub(crate) async fn load_consumer(
    bus: &Bus,
    name: &str,
    stream: &str,
) -> Result<Consumer<pull::Config>, BusError> {
    verify::load_consumer(bus, name, stream).await
}
