//! Builds the configuration of every stream and durable consumer.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use async_nats::jetstream::stream;
use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use retro_events::stream::{ANNOUNCEMENTS, BODIES, BODIES_BUCKET, GITHUB, INTAKE, WORK};
use retro_events::subject;

use super::settings::StreamSizes;
use crate::Subscription;

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

/// Returns the configuration of every stream, each stored by this many servers.
pub(super) fn stream_configs(sizes: &StreamSizes, replicas: u8) -> [Config; 5] {
    let intake = vec![subject::all_below(subject::RUN_COMPLETED)];
    let work = [subject::RETROSPECTIVE_DUE, subject::INVESTIGATION_DUE, subject::MUTATIONS_DUE];
    let announcements = [subject::MEMORY_CHANGED, subject::REPORT_READY, subject::DEAD_LETTER_STORED];
    let below = |prefixes: &[&str]| prefixes.iter().map(|prefix| subject::all_below(prefix)).collect();
    let all = [
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
    ];
    all.map(|config| Config { num_replicas: usize::from(replicas), ..config })
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
        ..stream::Config::default()
    }
}

/// Returns the configuration of the durable consumer of a subscription.
pub(super) fn consumer_config(name: &str, subscription: &Subscription) -> pull::Config {
    pull::Config {
        durable_name: Some(name.to_owned()),
        deliver_policy: DeliverPolicy::All,
        ack_policy: AckPolicy::Explicit,
        ack_wait: subscription.ack_wait,
        // Unlimited: attempts are counted in the database, which can also store dead letters.
        max_deliver: -1,
        filter_subjects: subscription.subjects.clone(),
        max_ack_pending: i64::from(subscription.ack_pending_max),
        // As many as the stream has, also after that number changed.
        num_replicas: 0,
        ..pull::Config::default()
    }
}
