//! Wakes the relay of another process when a transaction has written messages, and a gateway when memories have changed.
//!
//! A run causes about a dozen messages, one after another, each by a process of its own in a fleet. If each waited for
//! the relay's next poll, a memory would come a second later. So a process without a relay says on a subject that there
//! is something to send, and the relay listens. Nothing is stored and nothing is lost with such a message: without it,
//! the relay polls. The gateway listens to what the relay announces.

use std::sync::Arc;

use async_nats::Subscriber;
use futures::StreamExt as _;
use retro_core::id::WorkflowKey;
use retro_events::subject::{MEMORY_CHANGED, OUTBOX_WRITTEN, all_below, parse_owner};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::Bus;

/// Tells the relay of another process whenever `written` is notified, until `stop` is cancelled. Several notifications
/// in quick succession may be one message.
pub async fn announce_outbox(bus: Bus, written: Arc<Notify>, stop: CancellationToken) {
    while stop.run_until_cancelled(written.notified()).await.is_some() {
        // The broker's users may be those of an earlier version; then the relay polls.
        if bus.violations.is_refused(OUTBOX_WRITTEN) || !bus.is_connected() {
            continue;
        }
        // Cancelled too, because a full buffer of the client makes this wait.
        let woken = stop.run_until_cancelled(bus.wake_relay(OUTBOX_WRITTEN.into())).await;
        if let Some(Err(error)) = woken {
            debug!("the relay was not woken and polls: {error}");
        }
    }
}

/// Notifies `wake` whenever another process announces messages, until `stop` is cancelled. Without permission to
/// subscribe nothing arrives, and the relay polls.
pub async fn listen_for_outbox(bus: Bus, wake: Arc<Notify>, stop: CancellationToken) {
    for_each_message(&bus, OUTBOX_WRITTEN.to_owned(), |_| wake.notify_one(), &stop).await;
}

/// Calls `changed` with the workflow or rule scope whenever changed memories are announced, until `stop` is cancelled.
/// Without permission to subscribe nothing arrives, and the gateway finds changes a little later.
pub async fn listen_for_memory_changes(
    bus: Bus,
    changed: impl Fn(WorkflowKey) + Send,
    stop: CancellationToken,
) {
    let note = |subject: &str| {
        if let (Some(tenant), Some(workflow)) = parse_owner(subject) {
            changed(WorkflowKey { tenant, workflow });
        }
    };
    for_each_message(&bus, all_below(MEMORY_CHANGED), note, &stop).await;
}

/// Calls `take` with the subject of each message, until `stop` is cancelled.
async fn for_each_message(bus: &Bus, subject: String, take: impl Fn(&str), stop: &CancellationToken) {
    let mut announced: Subscriber = match bus.client.subscribe(subject.clone()).await {
        Ok(announced) => announced,
        Err(error) => return debug!("no announcement of {subject} arrives: {error}"),
    };
    // The client subscribes again after each reconnection.
    while let Some(Some(message)) = stop.run_until_cancelled(announced.next()).await {
        take(&message.subject);
    }
}
