//! Attempts: a message becomes a dead letter after its last attempt, whatever crashes, and is not handled after
//! that.

use std::sync::Arc;

use async_nats::Subscriber;
use async_nats::jetstream::AckKind;
use async_nats::jetstream::consumer::PullConsumer;
use futures::StreamExt;
use jiff::Timestamp;
use retro_bus::{ATTEMPTS_MAX, Bus, topology};
use retro_core::dead_letter::{Code, Rejection};
use retro_events::HandlerOutcome;
use retro_store::{AttemptStart, DeliveryStore, NewDeadLetter, Redelivery};
use retro_testkit::{InMemoryDeliveries, TestNats};

use crate::consume::{answered, position};
use crate::world::{Running, Scripted, emit, event, outside, text};

/// Fetches messages without acknowledging them, so that the next delivery of each is not the first. Returns
/// when the broker stored each.
async fn taken_by_one_that_died(nats: &TestNats, bus: &Bus, texts: &[&str]) -> Vec<Timestamp> {
    // The durable consumer has to exist before messages can be fetched from it.
    let nobody = Scripted::new(|_| HandlerOutcome::Done);
    let running = Running::start(bus, nobody.clone(), &Arc::default());
    emit(bus, ["first".to_owned()]).await;
    nobody.wait_for(1).await;
    running.stop().await;

    emit(bus, texts.iter().map(|&text| text.to_owned())).await;
    let durable: PullConsumer =
        outside(nats.url()).await.get_consumer_from_stream("scripted", topology::INTAKE).await.unwrap();
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

/// Returns the consumer's replies to the broker, in order.
async fn answers(nats: &TestNats) -> Subscriber {
    let client = outside(nats.url()).await.client();
    let answers = client.subscribe("$JS.ACK.>").await.unwrap();
    client.flush().await.unwrap();
    answers
}

async fn put_off(answers: &mut Subscriber, times: usize) {
    for _ in 0..times {
        while !answers.next().await.unwrap().payload.starts_with(b"-NAK") {}
    }
}

#[tokio::test]
async fn a_message_that_killed_the_process_each_time_is_buried_without_being_handled_again() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let stored_at = taken_by_one_that_died(&nats, &bus, &["killer", "harmless"]).await;
    let store = Arc::new(InMemoryDeliveries::default());
    // The first attempt was the uncounted one; the next four were counted before the handler ran, which never
    // returned.
    let killer = Redelivery::new(position(2), b"killer", stored_at[0]);
    for attempt in 2..=ATTEMPTS_MAX {
        let begun = store.begin_attempt(&killer, ATTEMPTS_MAX).await.unwrap();
        assert_eq!(begun, AttemptStart::Begun(attempt));
    }
    // Processes that were killed by another message before they had given this one up.
    for _ in 0..3 {
        let begun = store.begin_attempt(&killer, ATTEMPTS_MAX).await.unwrap();
        assert_eq!(begun, AttemptStart::Exhausted);
    }

    let consumer = Scripted::new(|_| HandlerOutcome::Done);
    let running = Running::start(&bus, consumer.clone(), &store);
    let letters = store.wait_for_dead_letters(1).await;
    let seen = consumer.wait_for(1).await;
    running.stop().await;
    assert_eq!((letters[0].payload.as_slice(), letters[0].attempts), (b"killer".as_slice(), ATTEMPTS_MAX));
    assert_eq!(letters[0].rejection.code, Code::HandlerPanicked);
    assert_eq!(seen.iter().map(|seen| seen.text.as_str()).collect::<Vec<_>>(), ["harmless"]);
}

#[tokio::test]
async fn a_dead_letter_that_the_broker_delivers_again_is_acknowledged_and_not_handled() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let stored_at = taken_by_one_that_died(&nats, &bus, &["killer", "harmless"]).await;
    let store = Arc::new(InMemoryDeliveries::default());
    let letter = NewDeadLetter {
        position: position(2),
        tenant: None,
        workflow: None,
        subject: event("killer").subject,
        headers: Vec::new(),
        payload: b"killer".to_vec(),
        rejection: Rejection::of_message(Code::HandlerPanicked, "it did not answer"),
        attempts: ATTEMPTS_MAX,
        stored_at: stored_at[0],
    };
    // The process died between storing the dead letter and acknowledging it.
    store.store_dead_letter(&letter).await.unwrap();

    let consumer = Scripted::new(|delivery| {
        assert_ne!(text(delivery), "killer", "a dead letter is handled again");
        HandlerOutcome::Done
    });
    let running = Running::start(&bus, consumer.clone(), &store);
    consumer.wait_for(1).await;
    answered(&nats).await;
    running.stop().await;
    assert_eq!(consumer.seen().iter().map(|seen| seen.text.as_str()).collect::<Vec<_>>(), ["harmless"]);
    assert_eq!((store.dead_letters(), store.attempt_count(&position(2))), (vec![letter], 0));
}

#[tokio::test]
async fn a_suspect_whose_attempt_could_not_be_counted_stays_one() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    taken_by_one_that_died(&nats, &bus, &["suspect"]).await;
    let mut answers = answers(&nats).await;
    let store = Arc::new(InMemoryDeliveries::default());
    store.set_unavailable(true);
    let counted = Arc::clone(&store);
    let consumer = Scripted::new(move |_| {
        assert_eq!(counted.attempt_count(&position(2)), 1, "it is handled before its attempt is counted");
        HandlerOutcome::Done
    });
    let running = Running::start(&bus, consumer.clone(), &store);
    put_off(&mut answers, 1).await;
    assert_eq!(consumer.seen(), []);
    store.set_unavailable(false);
    consumer.wait_for(1).await;
    answered(&nats).await;
    running.stop().await;
    assert_eq!((consumer.seen().len(), store.dead_letters().len()), (1, 0));
}

#[tokio::test]
async fn a_message_whose_letter_cannot_be_stored_is_not_handled_a_sixth_time() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    emit(&bus, ["poison".to_owned()]).await;
    let mut answers = answers(&nats).await;
    let store = Arc::new(InMemoryDeliveries::default());
    store.set_refuses_dead_letters(true);
    let consumer = Scripted::new(|_| panic!("the handler breaks here, as the test wants"));
    let running = Running::start(&bus, consumer.clone(), &store);
    // Four retries. The fifth attempt was the last, and storing its dead letter fails twice.
    put_off(&mut answers, 4 + 2).await;
    store.set_refuses_dead_letters(false);
    let letters = store.wait_for_dead_letters(1).await;
    answered(&nats).await;
    running.stop().await;
    assert_eq!((letters[0].attempts, letters[0].rejection.code), (ATTEMPTS_MAX, Code::HandlerPanicked));
    assert_eq!(consumer.seen().len(), 5);
}
