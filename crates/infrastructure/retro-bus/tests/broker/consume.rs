use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::consumer::{Info, PullConsumer};
use async_trait::async_trait;
use futures::StreamExt;
use retro_bus::{EventPublisher, OutgoingEvent, Subscription, topology};
use retro_consumer::{Consumer, EarlierBatch, HandlerOutcome};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_events::Delivery;
use retro_store::DeliveryPosition;
use retro_testkit::{InMemoryDeliveries, TEST_TIMEOUT, TestNats};
use tokio::sync::Semaphore;

use crate::world::{
    RunningConsumer, ScriptedConsumer, connect_directly, event, payload_text, publish_events,
    subscribe_to_replies, subscription,
};

fn numbered_texts(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("run {number}"))
}

pub(crate) fn position(sequence: u64) -> DeliveryPosition {
    DeliveryPosition { consumer: "scripted".to_owned(), stream: topology::INTAKE.to_owned(), sequence }
}

/// Waits until the broker has processed the last acknowledgements, which takes far less than the ack wait.
pub(crate) async fn wait_until_acknowledged(nats: &TestNats) -> Info {
    let jetstream = connect_directly(nats.url()).await;
    let none_pending = async {
        loop {
            let durable: PullConsumer =
                jetstream.get_consumer_from_stream("scripted", topology::INTAKE).await.unwrap();
            if durable.cached_info().num_ack_pending == 0 {
                return durable.cached_info().clone();
            }
        }
    };
    let answered = tokio::time::timeout(Duration::from_secs(25), none_pending).await;
    answered.expect("every message is acknowledged before its ack wait is over")
}

fn retry_soon(reason: &str) -> HandlerOutcome {
    HandlerOutcome::RetryAfter { wait: Duration::from_millis(10), reason: reason.to_owned() }
}

#[tokio::test]
async fn every_message_is_handled_once_in_order_and_acknowledged() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, numbered_texts(1000)).await;
    let (consumer, store) = (ScriptedConsumer::new(|_| HandlerOutcome::Done), Arc::default());
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    let seen = consumer.wait_for_messages(1000).await;
    running.stop().await;

    assert_eq!(
        seen.iter().map(|seen| seen.text.clone()).collect::<Vec<_>>(),
        numbered_texts(1000).collect::<Vec<_>>()
    );
    assert!(seen.iter().any(|seen| seen.batch > 50), "a batch contains the messages that are available");
    let info = wait_until_acknowledged(&nats).await;
    assert_eq!((info.num_ack_pending, info.num_pending, info.num_redelivered), (0, 0, 0));

    // Another process continues where this one stopped.
    publish_events(&bus, ["one more".to_owned()]).await;
    let consumer = ScriptedConsumer::new(|_| HandlerOutcome::Done);
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    assert_eq!(consumer.wait_for_messages(1).await[0].text, "one more");
    running.stop().await;
}

#[tokio::test]
async fn large_messages_come_in_short_batches_and_in_order() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let large = |number: usize| format!("{number}{}", " ".repeat(900 * 1024));
    // More bytes than several requests may fetch, but fewer messages than one request may fetch.
    publish_events(&bus, (0..40).map(large)).await;
    let (consumer, store) = (ScriptedConsumer::new(|_| HandlerOutcome::Done), Arc::default());
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    let seen = consumer.wait_for_messages(40).await;
    running.stop().await;

    let numbers: Vec<usize> = seen.iter().map(|seen| seen.text.trim().parse().unwrap()).collect();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>());
    let largest = seen.iter().map(|seen| seen.batch).max();
    assert!(largest < Some(20), "at most two requests of 8 MiB are open at once: {largest:?}");
    let info = wait_until_acknowledged(&nats).await;
    assert_eq!((info.num_ack_pending, info.num_pending, info.num_redelivered), (0, 0, 0));
}

#[tokio::test]
async fn an_unprocessable_message_is_dead_lettered_in_full_and_acknowledged() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    let mut publisher = EventPublisher::new(bus.clone());
    let headers = vec![("ce-type".to_owned(), "odd".to_owned()), ("X-Other".to_owned(), "kept".to_owned())];
    let well_addressed = OutgoingEvent { headers: headers.clone(), ..event("not \u{0} json") };
    publisher.publish_event(well_addressed).await.unwrap();
    let odd = OutgoingEvent { subject: "retro.run.completed.acme.a.b".to_owned(), ..event("odd") };
    publisher.publish_event(odd).await.unwrap();
    publisher.confirm_all().await.unwrap();

    let consumer = ScriptedConsumer::new(|_| {
        HandlerOutcome::DeadLetter(Rejection::of_message(DeadLetterCode::NotJson, "it is not JSON"))
    });
    let store = Arc::new(InMemoryDeliveries::default());
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    let dead_letters = store.wait_for_dead_letters(2).await;
    running.stop().await;

    let first = &dead_letters[0];
    assert_eq!(first.payload, "not \u{0} json".as_bytes());
    assert_eq!(first.headers, {
        let mut sorted = headers;
        sorted.sort();
        sorted
    });
    assert_eq!(first.subject, "retro.run.completed.acme.fix=20ci");
    assert_eq!(first.position, position(1));
    assert_eq!(first.rejection.code, DeadLetterCode::NotJson);
    assert_eq!(first.attempts, 1);
    assert!(first.stored_at.as_second() > 0);
    assert_eq!(first.workflow.as_ref().unwrap().as_str(), "fix ci");
    assert_eq!(dead_letters[1].tenant.as_ref().unwrap().as_str(), "acme");
    assert_eq!(dead_letters[1].workflow, None);
    wait_until_acknowledged(&nats).await;
}

#[tokio::test]
async fn a_message_that_panics_its_handler_is_dead_lettered_alone_after_five_attempts() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, numbered_texts(20)).await;
    publish_events(&bus, ["poison".to_owned()]).await;
    publish_events(&bus, (20..40).map(|number| format!("run {number}"))).await;
    let done = Arc::new(std::sync::Mutex::new(HashMap::<String, u32>::new()));
    let count = Arc::clone(&done);
    let consumer = ScriptedConsumer::new(move |delivery| {
        assert_ne!(payload_text(delivery), "poison", "the handler panics on purpose");
        *count.lock().unwrap().entry(payload_text(delivery)).or_default() += 1;
        HandlerOutcome::Done
    });
    let store = Arc::new(InMemoryDeliveries::default());
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    let dead_letters = store.wait_for_dead_letters(1).await;
    consumer
        .wait_until(|seen| (0..40).all(|n| seen.iter().any(|seen| seen.text == format!("run {n}"))))
        .await;
    running.stop().await;

    assert_eq!(dead_letters[0].payload, b"poison");
    assert_eq!(dead_letters[0].rejection.code, DeadLetterCode::HandlerPanicked);
    assert_eq!(dead_letters[0].attempts, 5);
    let poison = consumer.seen().iter().filter(|seen| seen.text == "poison").count();
    assert_eq!(poison, 5);
    assert_eq!(store.dead_letters().len(), 1, "no other message was dead-lettered");
    assert!(
        numbered_texts(40).all(|text| done.lock().unwrap().contains_key(&text)),
        "every other message was handled"
    );
}

#[tokio::test]
async fn a_message_that_always_fails_is_dead_lettered_with_the_last_reason() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, ["hopeless".to_owned()]).await;
    let consumer = ScriptedConsumer::new(|_| retry_soon("the model says no"));
    let store = Arc::new(InMemoryDeliveries::default());
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    let dead_letters = store.wait_for_dead_letters(1).await;
    running.stop().await;

    assert_eq!(dead_letters[0].rejection.code, DeadLetterCode::AttemptsExhausted);
    assert!(dead_letters[0].rejection.detail.contains("the model says no"), "{}", dead_letters[0].rejection);
    assert_eq!((dead_letters[0].attempts, consumer.seen().len()), (5, 5));
    let failures = store.recorded_failures(&dead_letters[0].position);
    let recorded: Vec<_> = failures.iter().map(|one| (one.attempt, one.detail.as_str())).collect();
    assert_eq!(
        recorded,
        [1, 2, 3, 4].map(|attempt| (attempt, "the model says no")),
        "the dead letter itself records the fifth"
    );
}

#[tokio::test]
async fn snoozing_spends_no_attempt() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, ["early".to_owned()]).await;
    let calls = AtomicU32::new(0);
    let consumer = ScriptedConsumer::new(move |_| match calls.fetch_add(1, Ordering::Relaxed) {
        0..9 => HandlerOutcome::Snooze { wait: Duration::from_millis(10), reason: "not yet".to_owned() },
        _ => HandlerOutcome::Done,
    });
    let store = Arc::new(InMemoryDeliveries::default());
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    let seen = consumer.wait_for_messages(10).await;
    running.stop().await;

    assert_eq!(seen.last().unwrap().delivered, 10);
    assert_eq!(store.attempt_count(&position(1)), 0);
    assert!(store.dead_letters().is_empty());
}

#[tokio::test]
async fn a_message_stays_unacknowledged_until_its_dead_letter_is_stored() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, ["bad".to_owned()]).await;
    let consumer = ScriptedConsumer::new(|_| {
        HandlerOutcome::DeadLetter(Rejection::of_message(DeadLetterCode::NotJson, "no"))
    });
    let store = Arc::new(InMemoryDeliveries::default());
    store.set_unavailable(true);
    let running = RunningConsumer::start(&bus, consumer.clone(), &store);
    consumer.wait_for_messages(2).await;
    assert!(store.dead_letters().is_empty());
    store.set_unavailable(false);
    let dead_letters = store.wait_for_dead_letters(1).await;
    running.stop().await;
    assert_eq!((dead_letters.len(), dead_letters[0].rejection.code), (1, DeadLetterCode::NotJson));
}

#[tokio::test]
async fn a_handler_with_a_wrong_number_of_outcomes_counts_as_panicked() {
    struct NoOutcomes;
    #[async_trait]
    impl Consumer for NoOutcomes {
        fn name(&self) -> &'static str {
            "mute"
        }
        async fn handle(&self, _: &[Delivery]) -> Vec<HandlerOutcome> {
            Vec::new()
        }
    }
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, ["unheard".to_owned()]).await;
    let store = Arc::new(InMemoryDeliveries::default());
    let running = RunningConsumer::start(&bus, Arc::new(NoOutcomes), &store);
    let dead_letters = store.wait_for_dead_letters(1).await;
    running.stop().await;
    assert_eq!(dead_letters[0].rejection.code, DeadLetterCode::HandlerPanicked);
}

/// A consumer whose handler blocks until the test releases it.
struct HeldConsumer {
    inner: Arc<ScriptedConsumer>,
    entered: Semaphore,
    release: Semaphore,
}

#[async_trait]
impl Consumer for HeldConsumer {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        self.entered.add_permits(1);
        self.release.acquire().await.unwrap().forget();
        self.inner.handle(batch).await
    }
}

fn build_held(inner: &Arc<ScriptedConsumer>) -> Arc<HeldConsumer> {
    Arc::new(HeldConsumer { inner: inner.clone(), entered: Semaphore::new(0), release: Semaphore::new(0) })
}

/// A consumer that prepares its batches, and stores the first one only when the second one is prepared.
struct PreparingConsumer {
    prepared: Semaphore,
    stored: Mutex<Vec<String>>,
}

#[async_trait]
impl Consumer for PreparingConsumer {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        self.handle_in_order(batch, &EarlierBatch::none()).await
    }

    async fn handle_in_order(&self, batch: &[Delivery], earlier: &EarlierBatch) -> Vec<HandlerOutcome> {
        self.prepared.add_permits(1);
        earlier.wait_until_ended().await;
        if self.stored.lock().unwrap().is_empty() {
            // Without a second batch that is prepared meanwhile, this never ends.
            self.prepared.acquire_many(2).await.unwrap().forget();
        }
        self.stored.lock().unwrap().extend(batch.iter().map(payload_text));
        vec![HandlerOutcome::Done; batch.len()]
    }
}

#[tokio::test]
async fn the_next_batch_is_prepared_while_one_is_stored_and_they_are_stored_in_order() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, numbered_texts(20)).await;
    let consumer = Arc::new(PreparingConsumer { prepared: Semaphore::new(0), stored: Mutex::default() });
    let one_at_a_time = Subscription { batch_max: 1, ..subscription() };
    let running = RunningConsumer::start_with(&bus, consumer.clone(), one_at_a_time, &Arc::default());
    // The last batches are prepared and stored like the first.
    let all = async {
        while consumer.stored.lock().unwrap().len() < 20 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, all).await.unwrap();
    running.stop().await;
    assert_eq!(*consumer.stored.lock().unwrap(), numbered_texts(20).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_slow_handler_extends_the_ack_wait_of_its_message() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, ["slow".to_owned()]).await;
    let mut answers = subscribe_to_replies(&nats).await;
    let inner = ScriptedConsumer::new(|_| HandlerOutcome::Done);
    let held = build_held(&inner);
    let store = Arc::default();
    // Long enough that no progress report is late by two thirds of it, even on a busy machine.
    let to = Subscription { ack_wait: Duration::from_secs(6), ..subscription() };
    let running = RunningConsumer::start_with(&bus, held.clone(), to, &store);
    held.entered.acquire().await.unwrap().forget();
    // Four reports, one per third of the ack wait, take longer than the whole ack wait.
    let reports = answers.by_ref().take(4).collect::<Vec<_>>();
    let reports = tokio::time::timeout(TEST_TIMEOUT, reports).await.unwrap();
    assert!(reports.iter().all(|report| report.payload.as_ref() == b"+WPI"), "{reports:?}");
    held.release.add_permits(100);
    let seen = inner.wait_for_messages(1).await;
    let answer = async {
        loop {
            // The next report may arrive before it.
            let answer = answers.next().await.unwrap().payload;
            if answer.as_ref() != b"+WPI" {
                return answer;
            }
        }
    };
    let answer = tokio::time::timeout(TEST_TIMEOUT, answer).await.unwrap();
    assert_eq!(answer.as_ref(), b"+ACK");
    running.stop().await;
    assert_eq!((seen.len(), seen[0].delivered, inner.seen().len()), (1, 1, 1));
}

#[tokio::test]
async fn a_hanging_handler_is_aborted_and_its_message_dead_lettered_after_the_last_attempt() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, ["endless".to_owned()]).await;
    let held = build_held(&ScriptedConsumer::new(|_| HandlerOutcome::Done));
    let store = Arc::new(InMemoryDeliveries::default());
    let to = Subscription { handle_timeout: Duration::from_millis(20), ..subscription() };
    let running = RunningConsumer::start_with(&bus, held.clone(), to, &store);
    let dead_letters = store.wait_for_dead_letters(1).await;
    running.stop().await;
    assert_eq!(
        (dead_letters[0].rejection.code, dead_letters[0].attempts),
        (DeadLetterCode::HandlerPanicked, 5)
    );
    assert!(dead_letters[0].rejection.detail.contains("longer than 20ms"), "{}", dead_letters[0].rejection);
}

#[tokio::test]
async fn stopping_handles_the_requested_messages_and_leaves_none_in_flight() {
    let nats = TestNats::start().await;
    let bus = nats.connect_bus("test").await;
    publish_events(&bus, numbered_texts(400)).await;
    let inner = ScriptedConsumer::new(|_| HandlerOutcome::Done);
    let held = build_held(&inner);
    let store = Arc::default();
    let running = RunningConsumer::start(&bus, held.clone(), &store);
    held.entered.acquire().await.unwrap().forget();
    running.request_stop();
    // The requested messages may arrive in any number of batches.
    held.release.add_permits(400);
    running.stop().await;

    let first = inner.seen().len();
    assert!((1..400).contains(&first), "{first} messages were requested");
    wait_until_acknowledged(&nats).await;
    let rest = ScriptedConsumer::new(|_| HandlerOutcome::Done);
    let running = RunningConsumer::start(&bus, rest.clone(), &store);
    rest.wait_for_messages(400 - first).await;
    running.stop().await;
    assert!(rest.seen().iter().all(|seen| seen.delivered == 1), "no attempt was spent");
    let handled: std::collections::HashSet<_> =
        inner.seen().into_iter().chain(rest.seen()).map(|seen| seen.text).collect();
    assert_eq!((handled.len(), rest.seen().len()), (400, 400 - first));
}
