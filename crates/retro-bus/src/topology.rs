//! Defines the required streams and durable consumers, and provisions them: get, compare, create or update. Settings
//! that an operator added (replicas, placement, compression) are kept.
//!
//! A single process provisions them at its start ([`TopologyMode::Provision`]). In a fleet only one user of
//! the broker may do so: `retro migrate` provisions them, and every role only verifies that they exist
//! ([`TopologyMode::Verify`]). A role that could create a consumer could bypass its own permissions and make
//! the broker push any message of the stream to any subject.
//!
//! Retention is by limits, never by work queue or interest: with these two, a broker that restarts forgets
//! the deduplication ids of consumed messages. A full stream rejects new messages; with the default it would
//! silently drop the oldest.

mod database;
mod provision;
mod verify;

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use async_nats::jetstream::stream;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
pub use retro_events::stream::{ANNOUNCEMENTS, BODIES, BODIES_BUCKET, GITHUB, INTAKE, WORK};
use retro_events::{Role, subject};

use self::database::Ownership;

use crate::{Bus, BusError, Subscription};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum age of messages: two weeks, so none are lost if a stage is down over a holiday.
const MESSAGES_AGE_MAX: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// Maximum age of bodies. A body must be kept longer than the message that refers to it, and as long as its run waits
/// for its window to fill.
const BODIES_AGE_MAX: Duration = DAY.saturating_mul(60);
/// Deduplication window of the intake and GitHub streams, the shortest that the server accepts. The broker's
/// deduplication ignores tenant and subject, so incoming events are deduplicated only by the inbox.
const INTAKE_DEDUPE_WINDOW: Duration = Duration::from_millis(100);
/// Deduplication window of internal messages: longer than the relay retries a message, and shorter than sent
/// outbox rows are kept.
const INTERNAL_DEDUPE_WINDOW: Duration = Duration::from_secs(20 * 60);

const MIB: u64 = 1024 * 1024;

/// Maximum size of each stream, in bytes. The server reserves this much of its storage limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSizes {
    /// Size of the intake stream, which keeps the events of finished runs for two weeks.
    pub intake_bytes: u64,
    /// Size of the GitHub stream, which keeps events for two weeks.
    pub github_bytes: u64,
    /// Size of the stream of wake-ups between internal stages.
    pub work_bytes: u64,
    /// Size of the stream that announces changes, reports and dead letters.
    pub announcements_bytes: u64,
    /// Size of the object store for run bodies that are too large for a message.
    pub bodies_bytes: u64,
}

impl Default for StreamSizes {
    /// Returns sizes for a small disk, with space for about 30,000 events of the largest inline size, for the
    /// same amount of bodies, and for 100,000 GitHub comments of 2 KB.
    fn default() -> Self {
        Self {
            intake_bytes: 2048 * MIB,
            github_bytes: 256 * MIB,
            work_bytes: 256 * MIB,
            announcements_bytes: 256 * MIB,
            bodies_bytes: 2048 * MIB,
        }
    }
}

/// Mode of a process: it provisions streams and consumers, or only verifies them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyMode {
    /// The process creates and updates streams and consumers.
    Provision,
    /// The process expects streams and consumers to exist. Another process provisions them, and this one has no
    /// permission to do so.
    Verify,
}

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
    for durable in Role::ALL.into_iter().filter_map(Role::durable_consumer) {
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

fn stream_configs(sizes: &StreamSizes) -> [Config; 5] {
    let intake = vec![subject::all_below(subject::RUN_COMPLETED)];
    let work = [subject::RETROSPECTIVE_DUE, subject::INVESTIGATION_DUE, subject::MUTATIONS_DUE];
    let announcements = [subject::MEMORY_CHANGED, subject::REPORT_READY, subject::DEAD_LETTER_STORED];
    let below = |prefixes: &[&str]| prefixes.iter().map(|prefix| subject::all_below(prefix)).collect();
    [
        Config {
            duplicate_window: INTAKE_DEDUPE_WINDOW,
            allow_atomic_publish: true,
            // The reconciler reads directly, past the consumer.
            allow_direct: true,
            ..stream_config(INTAKE, "Finished runs, as engines publish them", intake, sizes.intake_bytes)
        },
        Config {
            // As at intake: the inbox of each consumer recognizes repeated deliveries.
            duplicate_window: INTAKE_DEDUPE_WINDOW,
            allow_direct: true,
            ..stream_config(
                GITHUB,
                "What happened at GitHub, as the bridge tells it",
                below(&[subject::GITHUB]),
                sizes.github_bytes,
            )
        },
        stream_config(WORK, "Wake-ups between our own stages; internal", below(&work), sizes.work_bytes),
        stream_config(
            ANNOUNCEMENTS,
            "Changes of memories, reports, dead letters",
            below(&announcements),
            sizes.announcements_bytes,
        ),
        Config {
            max_age: BODIES_AGE_MAX,
            // Object stores need rollup to replace an object's entry.
            allow_rollup: true,
            allow_direct: true,
            ..stream_config(
                BODIES,
                "Bodies of runs that are too large for a message",
                body_subjects(),
                sizes.bodies_bytes,
            )
        },
    ]
}

/// Returns the subjects of an object store's bucket, in the layout that all NATS clients use.
fn body_subjects() -> Vec<String> {
    vec![format!("$O.{BODIES_BUCKET}.C.>"), format!("$O.{BODIES_BUCKET}.M.>")]
}

fn stream_config(name: &str, description: &str, subjects: Vec<String>, bytes: u64) -> Config {
    Config {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        subjects,
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        // A full stream must reject new messages; the default drops the oldest.
        discard: DiscardPolicy::New,
        max_age: MESSAGES_AGE_MAX,
        max_bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
        duplicate_window: INTERNAL_DEDUPE_WINDOW,
        // Only for a new stream: `merge_config` keeps the number that an operator has set.
        num_replicas: 1,
        ..stream::Config::default()
    }
}

fn consumer_config(name: &str, subscription: &Subscription) -> pull::Config {
    pull::Config {
        durable_name: Some(name.to_owned()),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::Explicit,
        ack_wait: subscription.ack_wait,
        // Unlimited: attempts are counted in the database, which can also store dead letters.
        max_deliver: -1,
        filter_subjects: subscription.subjects.clone(),
        max_ack_pending: i64::from(subscription.ack_pending_max),
        ..pull::Config::default()
    }
}
