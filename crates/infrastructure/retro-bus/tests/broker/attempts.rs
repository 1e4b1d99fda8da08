//! Tests attempts: a message becomes a dead letter after its last attempt, whatever crashes, and is not
//! handled after that.

use std::sync::Arc;

use async_nats::Subscriber;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::PullConsumer;
use futures::StreamExt;
use jiff::Timestamp;
use retro_bus::{ATTEMPTS_MAX, Bus, topology};
use retro_consumer::HandlerOutcome;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_store::{AttemptStart, DeliveryStore, NewDeadLetter, Redelivery};
use retro_testkit::{InMemoryDeliveries, TestNats};

use crate::consume::{position, wait_until_acknowledged};
use crate::world::{
    RunningConsumer, ScriptedConsumer, connect_directly, event, payload_text, publish_events,
    subscribe_to_replies,
};

/// Fetches messages without acknowledging them, so that the next delivery of each is not the first. Returns
/// the time at which the broker stored each message.
async fn fetch_without_acknowledging(nats: &TestNats, bus: &Bus, texts: &[&str]) -> Vec<Timestamp> {
    // The durable consumer has to exist before messages can be fetched from it.
    let consumer = ScriptedConsumer::new(|_| HandlerOutcome::Done);
    let running = RunningConsumer::start(bus, consumer.clone(), &Arc::default());
    publish_events(bus, ["first".to_owned()]).await;
    consumer.wait_for_messages(1).await;
    running.stop().await;

    publish_events(bus, texts.iter().map(|&text| text.to_owned())).await;
    let durable: PullConsumer = connect_directly(nats.url())
        .await
        .get_consumer_from_stream("scripted", topology::INTAKE)
        .await
        .unwrap();
    let mut stored_at = Vec::new();
    while stored_at.len() < texts.len() {
        let wanted = durable.fetch().max_messages(texts.len() - stored_at.len());
        let mut messages = wanted.messages().await.unwrap();
        while let Some(message) = messages.next().await {
            let message = message.unwrap();
            let published = message.info().unwrap().published;
            stored_at.push(Timestamp::from_nanosecond(published.unix_timestamp_nanos()).unwrap());
            message.ack_with(AckKind::Nak(None)).await.unwrap();
        }
    }
    stored_at
}

async fn wait_for_naks(answers: &mut Subscriber, times: usize) {
    for _ in 0..times {
        while !answers.next().await.unwrap().payload.starts_with(b"-NAK") {}
    }
}

#[tokio::test]
async fn a_message_that_killed_the_process_on_every_attempt_is_dead_lettered_unhandled() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let stored_at = fetch_without_acknowledging(&nats, &bus, &["killer", "harmless"]).await;
    let store = Arc::new(InMemoryDeliveries::default());
    // The first attempt was the uncounted one; the next four were counted before the handler ran, which never
    // returned.
    let killer = Redelivery::new(position(2), b"killer", stored_at[0]);
    for attempt in 2..=ATTEMPTS_MAX {
        let begun = store.begin_attempt(&killer, ATTEMPTS_MAX).await.unwrap();
        assert_eq!(begun, AttemptStart::Begun(attempt));
    }
    // Processes that died because of another message before they could dead-letter this message.
    for _ in 0..3 {
        let begun = store.begin_attempt(&killer, ATTEMPTS_MAX).await.unwrap();
        assert_eq!(begun, AttemptStart::Exhausted);
    }

    let consumer = ScriptedConsumer::new(|_| HandlerOutcome::Done);
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    let dead_letters = store.wait_for_dead_letters(1).await;
    let seen = consumer.wait_for_messages(1).await;
    running.stop().await;
    assert_eq!(
        (dead_letters[0].payload.as_slice(), dead_letters[0].attempts),
        (b"killer".as_slice(), ATTEMPTS_MAX)
    );
    assert_eq!(dead_letters[0].rejection.code, DeadLetterCode::HandlerPanicked);
    assert_eq!(seen.iter().map(|seen| seen.text.as_str()).collect::<Vec<_>>(), ["harmless"]);
}

#[tokio::test]
async fn a_redelivered_dead_letter_is_acknowledged_and_not_handled() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let stored_at = fetch_without_acknowledging(&nats, &bus, &["killer", "harmless"]).await;
    let store = Arc::new(InMemoryDeliveries::default());
    let dead_letter = NewDeadLetter {
        position: position(2),
        tenant: None,
        workflow: None,
        subject: event("killer").subject,
        headers: Vec::new(),
        payload: b"killer".to_vec(),
        rejection: Rejection::of_message(DeadLetterCode::HandlerPanicked, "it did not answer"),
        attempts: ATTEMPTS_MAX,
        stored_at: stored_at[0],
    };
    // The process died between storing the dead letter and acknowledging it.
    store.store_dead_letter(&dead_letter).await.unwrap();

    let consumer = ScriptedConsumer::new(|delivery| {
        assert_ne!(payload_text(delivery), "killer", "a dead letter is handled again");
        HandlerOutcome::Done
    });
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    consumer.wait_for_messages(1).await;
    wait_until_acknowledged(&nats).await;
    running.stop().await;
    assert_eq!(consumer.seen().iter().map(|seen| seen.text.as_str()).collect::<Vec<_>>(), ["harmless"]);
    assert_eq!((store.dead_letters(), store.attempt_count(&position(2))), (vec![dead_letter], 0));
}

#[tokio::test]
async fn a_redelivery_is_not_handled_until_its_attempt_is_counted() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    fetch_without_acknowledging(&nats, &bus, &["suspect"]).await;
    let mut answers = subscribe_to_replies(&nats).await;
    let store = Arc::new(InMemoryDeliveries::default());
    store.set_unavailable(true);
    let counted = Arc::clone(&store);
    let consumer = ScriptedConsumer::new(move |_| {
        assert_eq!(counted.attempt_count(&position(2)), 1, "it is handled before its attempt is counted");
        HandlerOutcome::Done
    });
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    wait_for_naks(&mut answers, 1).await;
    assert_eq!(consumer.seen(), []);
    store.set_unavailable(false);
    consumer.wait_for_messages(1).await;
    wait_until_acknowledged(&nats).await;
    running.stop().await;
    assert_eq!((consumer.seen().len(), store.dead_letters().len()), (1, 0));
}

#[tokio::test]
async fn a_message_is_not_handled_again_while_its_dead_letter_cannot_be_stored() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, ["poison".to_owned()]).await;
    let mut answers = subscribe_to_replies(&nats).await;
    let store = Arc::new(InMemoryDeliveries::default());
    store.set_refuses_dead_letters(true);
    let consumer = ScriptedConsumer::new(|_| panic!("the handler panics on purpose"));
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    // Four retries. The fifth attempt was the last, and storing its dead letter fails twice.
    wait_for_naks(&mut answers, 4 + 2).await;
    store.set_refuses_dead_letters(false);
    let dead_letters = store.wait_for_dead_letters(1).await;
    wait_until_acknowledged(&nats).await;
    running.stop().await;
    assert_eq!(
        (dead_letters[0].attempts, dead_letters[0].rejection.code),
        (ATTEMPTS_MAX, DeadLetterCode::HandlerPanicked)
    );
    assert_eq!(consumer.seen().len(), 5);
}
