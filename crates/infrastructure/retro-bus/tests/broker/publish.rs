use retro_bus::{EventPublisher, OutboxPublisher, OutgoingEvent, topology};
use retro_core::id::RetrospectiveId;
use retro_core::message::{Message, Notice};
use retro_events::Publisher;
use retro_testkit::TestNats;

use crate::world::{connect_directly, event, key};

fn retrospective_due(epoch: u64) -> Message {
    Notice::RetrospectiveDue { retrospective: RetrospectiveId::of_epoch(&key(), epoch) }.into_message(&key())
}

async fn count_stored(nats: &TestNats, stream: &str) -> u64 {
    connect_directly(nats.url()).await.get_stream(stream).await.unwrap().cached_info().state.messages
}

#[tokio::test]
async fn a_message_published_twice_under_one_id_is_stored_once() {
    let nats = TestNats::start().await;
    let publisher = OutboxPublisher::new(nats.connect_bus("test").await);
    let messages: Vec<Message> = (1..=600).map(retrospective_due).collect();
    publisher.publish(&messages).await.unwrap();
    publisher.publish(&messages[..10]).await.unwrap();
    assert_eq!(count_stored(&nats, topology::WORK).await, 600);

    let stream = connect_directly(nats.url()).await.get_stream(topology::WORK).await.unwrap();
    let first = stream.get_raw_message(1).await.unwrap();
    assert_eq!(first.subject.as_str(), "retro.work.retrospective.due.acme.fix=20ci");
    assert_eq!(serde_json::from_slice::<Message>(&first.payload).unwrap(), messages[0]);
}

#[tokio::test]
async fn lost_streams_are_recreated_for_the_next_attempt() {
    let nats = TestNats::start().await;
    let publisher = OutboxPublisher::new(nats.connect_bus("test").await);
    connect_directly(nats.url()).await.delete_stream(topology::WORK).await.unwrap();
    let error = publisher.publish(&[retrospective_due(1)]).await.unwrap_err();
    assert!(error.to_string().contains("retro.work.retrospective.due.acme"), "{error}");
    publisher.publish(&[retrospective_due(1)]).await.unwrap();
    assert_eq!(count_stored(&nats, topology::WORK).await, 1);
}

#[tokio::test]
async fn events_are_stored_in_order_and_the_broker_does_not_deduplicate_them() {
    let nats = TestNats::start().await;
    let mut publisher = EventPublisher::new(nats.connect_bus("test").await);
    let mut acknowledged = 0;
    for number in 0..700 {
        acknowledged = publisher.publish_event(event(format!("run {}", number % 650))).await.unwrap();
    }
    assert!((700 - 256..700).contains(&acknowledged), "{acknowledged}");
    assert_eq!(publisher.confirm_all().await.unwrap(), 700);
    assert_eq!(count_stored(&nats, topology::INTAKE).await, 700);
    let stream = connect_directly(nats.url()).await.get_stream(topology::INTAKE).await.unwrap();
    assert_eq!(stream.get_raw_message(300).await.unwrap().payload.as_ref(), b"run 299");
}

#[tokio::test]
async fn an_invalid_event_is_refused_with_the_reason() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let mut publisher = EventPublisher::new(bus.clone());
    let error = publisher.publish_event(event("x".repeat(2 * 1024 * 1024))).await.unwrap_err();
    assert!(error.to_string().contains("payload"), "{error}");
    let headers = vec![("ce-subject".to_owned(), "two\r\nlines".to_owned())];
    let error = publisher.publish_event(OutgoingEvent { headers, ..event("x") }).await.unwrap_err();
    assert!(error.to_string().contains("ce-subject"), "{error}");
    assert_eq!(count_stored(&nats, topology::INTAKE).await, 0);
}
