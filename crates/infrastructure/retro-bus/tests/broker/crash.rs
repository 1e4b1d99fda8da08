use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use retro_bus::{EventPublisher, Subscription};
use retro_consumer::HandlerOutcome;
use retro_testkit::{InMemoryDeliveries, TestNats};

use crate::world::{RunningConsumer, ScriptedConsumer, event, subscription};

/// Enough events that the kills fall between publications and between acknowledgements.
const EVENTS: usize = 4000;

#[tokio::test]
async fn no_event_is_lost_when_the_broker_is_killed_and_restarted() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let store = Arc::new(InMemoryDeliveries::default());
    let consumer = ScriptedConsumer::new(|_| HandlerOutcome::Done);
    // Messages in flight when the broker died are redelivered after the ack wait.
    let to = Subscription { ack_wait: Duration::from_secs(3), ..subscription() };
    let running = RunningConsumer::start_with(&bus, consumer.clone(), to, &store);

    let engine = nats.connect_bus("engine").await;
    let emitting = tokio::spawn(async move {
        let mut publisher = EventPublisher::new(engine);
        for number in 0..EVENTS {
            publisher.publish_event(event(format!("run {number}"))).await.unwrap();
        }
        publisher.confirm_all().await.unwrap()
    });
    for share in [EVENTS / 4, EVENTS / 2] {
        consumer.wait_for_messages(share).await;
        let killed = nats.kill_server();
        nats.wait_until_healthy(killed).await;
    }
    assert_eq!(emitting.await.unwrap(), EVENTS);
    consumer
        .wait_until(|seen| seen.iter().map(|seen| &seen.text).collect::<HashSet<_>>().len() == EVENTS)
        .await;
    running.stop().await;
    assert!(store.dead_letters().is_empty(), "a crash of the broker is no message's fault");
}
