//! Tests confirmed publishing, one by one and in atomic batches.

use retro_bus::{BusConfig, NatsIntakePublisher, StreamSizes, topology};
use retro_core::id::WorkflowKey;
use retro_events::{INTAKE_EVENTS_MAX, IntakeError, IntakePublisher, ValidatedEvent};
use retro_testkit::TestNats;

use crate::world::{connect_directly, key};

fn event(text: impl Into<String>) -> ValidatedEvent {
    ValidatedEvent { key: key(), payload: text.into().into() }
}

fn numbered_events(count: usize) -> Vec<ValidatedEvent> {
    (0..count).map(|number| event(format!("run {number}"))).collect()
}

async fn count_stored(nats: &TestNats) -> u64 {
    let stream = connect_directly(nats.url()).await.get_stream(topology::INTAKE).await.unwrap();
    stream.cached_info().state.messages
}

#[tokio::test]
async fn one_event_and_the_largest_batch_are_stored_in_order_and_are_not_deduplicated() {
    let nats = TestNats::start().await;
    let intake = NatsIntakePublisher::new(nats.connect_bus("test").await);
    intake.publish_events(&[event("alone")]).await.unwrap();
    let mut batch = numbered_events(INTAKE_EVENTS_MAX);
    let other = WorkflowKey { workflow: "other".parse().unwrap(), ..key() };
    batch[1].key = other;
    intake.publish_events(&batch).await.unwrap();
    intake.publish_events(&batch[..2]).await.unwrap();
    intake.publish_events(&[]).await.unwrap();
    assert_eq!(count_stored(&nats).await, 1 + INTAKE_EVENTS_MAX as u64 + 2);
    let stream = connect_directly(nats.url()).await.get_stream(topology::INTAKE).await.unwrap();
    let message = stream.get_raw_message(3).await.unwrap();
    assert_eq!(message.payload.as_ref(), b"run 1");
    assert_eq!(message.subject.as_str(), "retro.run.completed.acme.other");
    assert!(message.headers.get("Nats-Msg-Id").is_none());
    let last = stream.get_raw_message(1 + INTAKE_EVENTS_MAX as u64).await.unwrap();
    assert_eq!(last.payload.as_ref(), b"run 999");
}

#[tokio::test]
async fn a_batch_above_the_limit_is_not_stored_even_in_part() {
    let nats = TestNats::start().await;
    let intake = NatsIntakePublisher::new(nats.connect_bus("test").await);
    let error = intake.publish_events(&numbered_events(INTAKE_EVENTS_MAX + 1)).await.unwrap_err();
    assert!(matches!(error, IntakeError::Unavailable(_)), "{error}");
    assert_eq!(count_stored(&nats).await, 0);
}

#[tokio::test]
async fn a_full_stream_is_reported_and_stores_a_batch_completely_or_not_at_all() {
    let nats = TestNats::start().await;
    let mut config = nats.bus_config("test");
    config.sizes = StreamSizes { intake_bytes: 64 * 1024, ..config.sizes };
    let bus = nats.connect_bus_with(config).await;
    let intake = NatsIntakePublisher::new(bus);
    let large = || event("x".repeat(20 * 1024));
    intake.publish_events(&[large(), large()]).await.unwrap();
    for too_much in [vec![large(), large()], vec![large(); 4], vec![event("y".repeat(40 * 1024))]] {
        let error = intake.publish_events(&too_much).await.unwrap_err();
        assert!(matches!(error, IntakeError::Full(_)), "{error:?}");
    }
    assert_eq!(count_stored(&nats).await, 2);
    intake.publish_events(&[event("small")]).await.unwrap();
}

#[tokio::test]
async fn many_batches_at_once_are_all_stored() {
    let nats = TestNats::start().await;
    let intake = NatsIntakePublisher::new(nats.connect_bus("test").await);
    let batches: Vec<_> = (0..60)
        .map(|_| {
            let intake = intake.clone();
            tokio::spawn(async move { intake.publish_events(&numbered_events(20)).await })
        })
        .collect();
    for batch in batches {
        batch.await.unwrap().unwrap();
    }
    assert_eq!(count_stored(&nats).await, 60 * 20);
}

#[tokio::test]
async fn a_missing_stream_or_connection_is_reported_as_unavailable() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let intake = NatsIntakePublisher::new(bus);
    connect_directly(nats.url()).await.delete_stream(topology::INTAKE).await.unwrap();
    for events in [numbered_events(1), numbered_events(3)] {
        let error = intake.publish_events(&events).await.unwrap_err();
        assert_eq!(error, IntakeError::Unavailable("no stream stores events".to_owned()));
    }
    let nowhere = retro_bus::Bus::connect(BusConfig::new("nats://127.0.0.1:1", "test")).await.unwrap();
    let error = NatsIntakePublisher::new(nowhere).publish_events(&numbered_events(1)).await.unwrap_err();
    assert_eq!(error, IntakeError::Unavailable("not connected".to_owned()));
}
