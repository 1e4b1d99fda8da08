use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use retro_bus::{ACK_WAIT, OutboxPublisher, announce_outbox, listen_for_outbox, run_relay, topology};
use retro_core::id::RetrospectiveId;
use retro_core::message::{Message, Notice};
use retro_events::{PublishError, Publisher};
use retro_testkit::{InMemoryOutbox, TEST_TIMEOUT, TestNats};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::world::{connect_directly, key};

fn mutations_due(epoch: u64) -> Message {
    Notice::MutationsDue { retrospective: RetrospectiveId::of_epoch(&key(), epoch) }.into_message(&key())
}

/// A publisher that stores the messages but loses the first acknowledgement.
struct LosesFirstAck {
    inner: OutboxPublisher,
    lost: AtomicBool,
}

#[async_trait]
impl Publisher for LosesFirstAck {
    async fn wait_until_ready(&self) {
        self.inner.wait_until_ready().await;
    }

    async fn publish(&self, messages: &[Message]) -> Result<(), PublishError> {
        self.inner.publish(messages).await?;
        if self.lost.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        Err(PublishError {
            subject: "any".to_owned(),
            reason: "the test dropped the acknowledgement".to_owned(),
        })
    }
}

#[tokio::test]
async fn the_relay_publishes_the_outbox_and_a_lost_ack_stores_nothing_twice() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let outbox = Arc::new(InMemoryOutbox::default());
    (1..=300).for_each(|epoch| outbox.push(mutations_due(epoch)));
    let publisher =
        Arc::new(LosesFirstAck { inner: OutboxPublisher::new(bus), lost: AtomicBool::new(false) });
    let (wake, stop) = (Arc::new(Notify::new()), CancellationToken::new());
    let relay = tokio::spawn(run_relay(outbox.clone(), publisher, Arc::clone(&wake), stop.clone()));
    outbox.wait_for_sent(300).await;

    // Written while the relay runs: the notification wakes it.
    outbox.push(mutations_due(301));
    wake.notify_one();
    outbox.wait_for_sent(301).await;
    stop.cancel();
    relay.await.unwrap();
    let stream = connect_directly(nats.url()).await.get_stream(topology::WORK).await.unwrap();
    assert_eq!(stream.cached_info().state.messages, 301);
}

#[tokio::test]
async fn a_lost_connection_ends_the_wait_for_an_ack_and_the_next_attempt_waits_for_the_broker() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let (publisher, messages) = (OutboxPublisher::new(bus.clone()), [mutations_due(1)]);
    // A server that is stopped receives the message and never answers.
    let server = Pid::from_raw(i32::try_from(nats.pid().unwrap()).unwrap());
    kill(server, Signal::SIGSTOP).unwrap();
    // Its threads go on for a moment, and one of them might answer.
    waitid(Id::Pid(server), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT).unwrap();
    let mut publishing = pin!(publisher.publish(&messages));
    assert!(futures::poll!(&mut publishing).is_pending());
    bus.flush(TEST_TIMEOUT).await.unwrap();
    let killed = nats.kill_server();
    let lost = publishing.await.unwrap_err();
    assert!(lost.reason.contains("the connection was lost"), "{lost}");

    publisher.wait_until_ready().await;
    nats.wait_until_healthy(killed).await;
    publisher.publish(&messages).await.unwrap();
    let stream = connect_directly(nats.url()).await.get_stream(topology::WORK).await.unwrap();
    assert_eq!(stream.cached_info().state.messages, 1);
}

#[tokio::test]
async fn messages_of_another_process_are_sent_without_a_notification() {
    let nats = TestNats::start().await;
    let publisher = Arc::new(OutboxPublisher::new(nats.connect_bus("test").await));
    let outbox = Arc::new(InMemoryOutbox::default());
    let stop = CancellationToken::new();
    let relay = tokio::spawn(run_relay(outbox.clone(), publisher, Arc::default(), stop.clone()));
    outbox.push(mutations_due(1));
    outbox.wait_for_sent(1).await;
    outbox.push(mutations_due(2));
    outbox.wait_for_sent(2).await;
    stop.cancel();
    relay.await.unwrap();
}

#[tokio::test]
async fn a_process_without_a_relay_wakes_the_relay_of_another() {
    let nats = TestNats::start().await;
    let (writing, relaying) = (nats.connect_bus("counter").await, nats.connect_bus("relay").await);
    let (written, wake, stop) = (Arc::new(Notify::new()), Arc::new(Notify::new()), CancellationToken::new());
    let mut listening = pin!(listen_for_outbox(relaying.clone(), Arc::clone(&wake), stop.clone()));
    assert!(futures::poll!(&mut listening).is_pending());
    // The broker has the subscription when it has answered a request that the client sent after it.
    topology::ensure_topology(&relaying, ACK_WAIT).await.unwrap();
    let announcing = tokio::spawn(announce_outbox(writing, Arc::clone(&written), stop.clone()));
    written.notify_one();
    let woken = async {
        tokio::select! {
            () = wake.notified() => {}
            () = &mut listening => panic!("the relay stopped listening"),
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, woken).await.expect("the relay is woken");
    stop.cancel();
    listening.await;
    announcing.await.unwrap();
}
