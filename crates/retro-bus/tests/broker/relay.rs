use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use retro_bus::{OutboxPublisher, run_relay, topology};
use retro_core::id::RetrospectiveId;
use retro_core::message::{Message, Notice};
use retro_events::{PublishError, Publisher};
use retro_testkit::{InMemoryOutbox, TestNats};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::world::{key, outside};

fn due(epoch: u64) -> Message {
    Notice::MutationsDue { retrospective: RetrospectiveId::of_epoch(&key(), epoch) }.into_message(&key())
}

/// Stores the messages, but loses the first acknowledgement.
struct LosesTheFirstAnswer {
    inner: OutboxPublisher,
    lost: AtomicBool,
}

#[async_trait]
impl Publisher for LosesTheFirstAnswer {
    async fn publish(&self, messages: &[Message]) -> Result<(), PublishError> {
        self.inner.publish(messages).await?;
        if self.lost.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        Err(PublishError {
            subject: "any".to_owned(),
            reason: "the answer was lost, says the test".to_owned(),
        })
    }
}

#[tokio::test]
async fn the_relay_sends_what_the_outbox_holds_and_a_lost_answer_stores_nothing_twice() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let outbox = Arc::new(InMemoryOutbox::default());
    (1..=300).for_each(|epoch| outbox.push(due(epoch)));
    let publisher =
        Arc::new(LosesTheFirstAnswer { inner: OutboxPublisher::new(bus), lost: AtomicBool::new(false) });
    let (wake, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let relay = tokio::spawn(run_relay(outbox.clone(), publisher, Arc::clone(&wake), stop.clone()));
    outbox.wait_for_sent(300).await;

    // Written while the relay runs: the notification wakes it.
    outbox.push(due(301));
    wake.notify_one();
    outbox.wait_for_sent(301).await;
    stop.cancel();
    relay.await.unwrap();
    let stream = outside(nats.url()).await.get_stream(topology::WORK).await.unwrap();
    assert_eq!(stream.cached_info().state.messages, 301);
}

#[tokio::test]
async fn what_another_process_wrote_is_sent_although_nobody_rings() {
    let nats = TestNats::start().await;
    let publisher = Arc::new(OutboxPublisher::new(nats.connect_bus("test").await));
    let outbox = Arc::new(InMemoryOutbox::default());
    let stop = CancellationToken::new();
    let relay = tokio::spawn(run_relay(outbox.clone(), publisher, Arc::default(), stop.clone()));
    outbox.push(due(1));
    outbox.wait_for_sent(1).await;
    outbox.push(due(2));
    outbox.wait_for_sent(2).await;
    stop.cancel();
    relay.await.unwrap();
}
