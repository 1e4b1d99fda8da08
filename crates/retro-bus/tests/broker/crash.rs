use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use retro_bus::{EventPublisher, Subscription};
use retro_events::HandlerOutcome;
use retro_testkit::{InMemoryDeliveries, TestNats};

use crate::world::{Running, Scripted, event, subscription};

/// Enough events that the kills fall between publications and between acknowledgements.
const EVENTS: usize = 4000;

#[tokio::test]
async fn a_broker_that_is_killed_in_the_middle_and_comes_back_loses_no_event_to_its_consumer() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let store = Arc::new(InMemoryDeliveries::default());
    let consumer = Scripted::new(|_| HandlerOutcome::Done);
    // Messages in flight when the broker died are redelivered after the ack wait.
    let to = Subscription { ack_wait: Duration::from_secs(3), ..subscription() };
    let running = Running::subscribed(&bus, consumer.clone(), to, &store);

    let engine = nats.connect_bus("engine").await;
    let emitting = tokio::spawn(async move {
        let mut publisher = EventPublisher::new(engine);
        for number in 0..EVENTS {
            publisher.publish_event(event(format!("run {number}"))).await.unwrap();
        }
        publisher.confirm_all().await.unwrap()
    });
    for share in [EVENTS / 4, EVENTS / 2] {
        consumer.wait_for(share).await;
        let killed = nats.kill_server();
        nats.wait_until_healthy(killed).await;
    }
    assert_eq!(emitting.await.unwrap(), EVENTS);
    consumer.wait(|seen| seen.iter().map(|seen| &seen.text).collect::<HashSet<_>>().len() == EVENTS).await;
    running.stop().await;
    assert!(store.dead_letters().is_empty(), "a crash of the broker is no message's fault");
}
