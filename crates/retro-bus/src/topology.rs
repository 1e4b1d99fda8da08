//! The streams and consumers that have to exist, and making them so: get, compare, create or update. What an
//! operator added (replicas, placement, compression) is left as it is.
//!
//! Who starts everything in one process makes them as it goes ([`Upkeep::Make`]). In a fleet only one user of the broker
//! may: `retro migrate` makes them, and every role finds them made ([`Upkeep::Look`]). A role that may create a consumer
//! could have the broker push any message of the stream to any subject, past its own permissions.
//!
//! Retention is by limits, never by work queue or interest: those forget a consumed message's dedupe id when the
//! server restarts. A full stream refuses new messages: the default would silently drop the oldest.

mod database;
mod look;
mod make;

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use async_nats::jetstream::stream;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
pub use retro_events::stream::{ANNOUNCEMENTS, BODIES, BODIES_BUCKET, GITHUB, INTAKE, WORK};
use retro_events::{Role, subject};

use self::database::Ownership;

use crate::{Bus, BusError, Subscription};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Two weeks: a stage may be down over a holiday and still lose nothing.
const MESSAGES_AGE_MAX: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// A body outlives the message that names it, and the window that its run waits in.
const BODIES_AGE_MAX: Duration = DAY.saturating_mul(60);
/// The shortest the server takes. The broker's dedupe ignores tenant and subject: at intake only the inbox deduplicates.
const INTAKE_DEDUPE: Duration = Duration::from_millis(100);
/// Longer than a relay retries one message; sent outbox rows are kept longer than this.
const OUR_DEDUPE: Duration = Duration::from_secs(20 * 60);

const MIB: u64 = 1024 * 1024;

/// How large each stream may grow, in bytes. The server sets that much of its storage limit aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamSizes {
    /// Events of engines, kept two weeks.
    pub intake_bytes: u64,
    /// What happened at GitHub, kept two weeks.
    pub github_bytes: u64,
    /// Wake-ups of our own stages.
    pub work_bytes: u64,
    /// Announcements.
    pub announcements_bytes: u64,
    /// Bodies by reference.
    pub bodies_bytes: u64,
}

impl Default for StreamSizes {
    /// Fits a small disk: about 30,000 events of the largest inline size, and as much again in bodies; and 100,000 comments of
    /// 2 KB.
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

/// Whether a process makes streams and consumers what they have to be, or looks whether they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// It makes them.
    Make,
    /// Another one made them, and this one may not.
    Look,
}

/// Makes every stream, and the durable consumer of every role, what it has to be. Done twice, the second changes nothing.
/// `ack_wait` is how long the broker waits for a consumer's answer. Fails with [`BusError::Refused`] when the broker's user
/// may not, and with [`BusError::OtherDatabase`] when they are another database's.
pub async fn ensure(bus: &Bus, ack_wait: Duration) -> Result<(), BusError> {
    make_everything(bus, ack_wait, Ownership::Respected).await
}

/// Like [`ensure`], and makes those of another database this process's own. Whoever still works on the other one stops at
/// its next look.
pub async fn take_over(bus: &Bus, ack_wait: Duration) -> Result<(), BusError> {
    make_everything(bus, ack_wait, Ownership::TakenOver).await
}

async fn make_everything(bus: &Bus, ack_wait: Duration, ownership: Ownership) -> Result<(), BusError> {
    make::streams(bus, ownership).await?;
    for durable in Role::ALL.into_iter().filter_map(Role::durable) {
        let subscription = Subscription { ack_wait, ..Subscription::of(durable, 1) };
        make::consumer(bus, durable.name, &subscription, ownership).await?;
    }
    Ok(())
}

/// Looks for everything that roles need at the broker; returns each thing that is missing or cannot be used, a
/// sentence each that says what to do. Changes nothing.
pub async fn check(bus: &Bus, roles: &[Role]) -> Vec<BusError> {
    look::all(bus, roles).await
}

/// Before working: makes the streams, where that is our part.
pub(crate) async fn prepare(bus: &Bus) -> Result<(), BusError> {
    match bus.upkeep {
        Upkeep::Make => make::streams(bus, Ownership::Respected).await,
        Upkeep::Look => Ok(()),
    }
}

/// The durable consumer of a subscription, made when that is our part. Fails when it is not there or cannot be used.
pub(crate) async fn durable(
    bus: &Bus,
    name: &str,
    subscription: &Subscription,
) -> Result<Consumer<pull::Config>, BusError> {
    match bus.upkeep {
        Upkeep::Make => make::consumer(bus, name, subscription, Ownership::Respected).await,
        Upkeep::Look => look::consumer(bus, name, &subscription.stream).await,
    }
}

/// A durable consumer as it is; nothing is made. Fails with [`BusError::Missing`] when it is not there.
pub(crate) async fn look_for(
    bus: &Bus,
    name: &str,
    stream: &str,
) -> Result<Consumer<pull::Config>, BusError> {
    look::consumer(bus, name, stream).await
}

fn streams(sizes: &StreamSizes) -> [Config; 5] {
    let intake = vec![subject::all_below(subject::RUN_COMPLETED)];
    let work = [subject::RETROSPECTIVE_DUE, subject::INVESTIGATION_DUE, subject::MUTATIONS_DUE];
    let announcements = [subject::MEMORY_CHANGED, subject::REPORT_READY, subject::DEAD_LETTER_STORED];
    let below = |prefixes: &[&str]| prefixes.iter().map(|prefix| subject::all_below(prefix)).collect();
    [
        Config {
            duplicate_window: INTAKE_DEDUPE,
            allow_atomic_publish: true,
            // For the reconciler, which reads beside the consumer.
            allow_direct: true,
            ..stream(INTAKE, "Finished runs, as engines publish them", intake, sizes.intake_bytes)
        },
        Config {
            // As at intake: whether a delivery was seen before is told by the inbox of whoever takes it.
            duplicate_window: INTAKE_DEDUPE,
            allow_direct: true,
            ..stream(
                GITHUB,
                "What happened at GitHub, as the bridge tells it",
                below(&[subject::GITHUB]),
                sizes.github_bytes,
            )
        },
        stream(WORK, "Wake-ups between our own stages; internal", below(&work), sizes.work_bytes),
        stream(
            ANNOUNCEMENTS,
            "Changes of memories, reports, dead letters",
            below(&announcements),
            sizes.announcements_bytes,
        ),
        Config {
            max_age: BODIES_AGE_MAX,
            allow_rollup: true,
            allow_direct: true,
            ..stream(BODIES, "Bodies of runs that are too large for a message", bodies(), sizes.bodies_bytes)
        },
    ]
}

/// The subjects of an object store's bucket, as every NATS client lays them out.
fn bodies() -> Vec<String> {
    vec![format!("$O.{BODIES_BUCKET}.C.>"), format!("$O.{BODIES_BUCKET}.M.>")]
}

fn stream(name: &str, description: &str, subjects: Vec<String>, bytes: u64) -> Config {
    Config {
        name: name.to_owned(),
        description: Some(description.to_owned()),
        subjects,
        retention: RetentionPolicy::Limits,
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        max_age: MESSAGES_AGE_MAX,
        max_bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
        duplicate_window: OUR_DEDUPE,
        num_replicas: 1,
        ..stream::Config::default()
    }
}

fn consumer(name: &str, subscription: &Subscription) -> pull::Config {
    pull::Config {
        durable_name: Some(name.to_owned()),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::Explicit,
        ack_wait: subscription.ack_wait,
        // Without end: attempts are counted in the database, which can also store what is given up.
        max_deliver: -1,
        filter_subjects: subscription.subjects.clone(),
        max_ack_pending: i64::from(subscription.ack_pending_max),
        ..pull::Config::default()
    }
}
