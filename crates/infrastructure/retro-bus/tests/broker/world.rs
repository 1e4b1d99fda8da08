//! Provides a scripted consumer that records the messages it receives, and messages for it.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Subscriber, jetstream};
use async_trait::async_trait;
use retro_bus::{Bus, EventPublisher, OutgoingEvent, Subscription, run_consumer, topology};
use retro_consumer::{Consumer, HandlerOutcome};
use retro_core::id::{Tenant, Workflow, WorkflowKey};
use retro_events::{Delivery, subject};
use retro_fault::Label;
use retro_testkit::{InMemoryDeliveries, TEST_TIMEOUT, TestNats};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// One message as a consumer saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandledMessage {
    pub(crate) text: String,
    pub(crate) batch: usize,
    pub(crate) delivered: u64,
}

type Decide = dyn Fn(&Delivery) -> HandlerOutcome + Send + Sync;

/// A consumer that returns outcomes according to its script and records the messages it receives.
pub(crate) struct ScriptedConsumer {
    decide: Box<Decide>,
    seen: watch::Sender<Vec<HandledMessage>>,
}

impl ScriptedConsumer {
    pub(crate) fn new(decide: impl Fn(&Delivery) -> HandlerOutcome + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { decide: Box::new(decide), seen: watch::Sender::default() })
    }

    pub(crate) fn seen(&self) -> Vec<HandledMessage> {
        self.seen.borrow().clone()
    }

    /// Waits until the recorded messages are as expected.
    pub(crate) async fn wait_until(
        &self,
        is_there: impl Fn(&[HandledMessage]) -> bool,
    ) -> Vec<HandledMessage> {
        let mut seen = self.seen.subscribe();
        let arrived = tokio::time::timeout(TEST_TIMEOUT, seen.wait_for(|seen| is_there(seen))).await;
        match arrived {
            Ok(seen) => seen.unwrap().clone(),
            Err(_) => panic!("the consumer has seen only {} messages", self.seen().len()),
        }
    }

    pub(crate) async fn wait_for_messages(&self, count: usize) -> Vec<HandledMessage> {
        self.wait_until(|seen| seen.len() >= count).await
    }
}

#[async_trait]
impl Consumer for ScriptedConsumer {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        let seen = batch.iter().map(|delivery| HandledMessage {
            text: payload_text(delivery),
            batch: batch.len(),
            delivered: delivery.delivered,
        });
        let seen: Vec<HandledMessage> = seen.collect();
        self.seen.send_modify(|all| all.extend(seen));
        batch.iter().map(|delivery| (self.decide)(delivery)).collect()
    }
}

/// A running consumer.
pub(crate) struct RunningConsumer {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl RunningConsumer {
    pub(crate) fn start(bus: &Bus, consumer: Arc<dyn Consumer>, store: &Arc<InMemoryDeliveries>) -> Self {
        Self::start_with(bus, consumer, subscription(), store)
    }

    pub(crate) fn start_with(
        bus: &Bus,
        consumer: Arc<dyn Consumer>,
        to: Subscription,
        store: &Arc<InMemoryDeliveries>,
    ) -> Self {
        let stop = CancellationToken::new();
        let task = tokio::spawn(run_consumer(bus.clone(), consumer, to, store.clone(), stop.clone()));
        Self { stop, task }
    }

    pub(crate) fn request_stop(&self) {
        self.stop.cancel();
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

/// A subscription to finished runs, with waits short enough for a test.
pub(crate) fn subscription() -> Subscription {
    let runs = subject::all_below(subject::RUN_COMPLETED);
    Subscription {
        retry_wait_min: Duration::from_millis(10),
        ..Subscription::new(topology::INTAKE, &[&runs], 100, Label::CountAck)
    }
}

pub(crate) fn key() -> WorkflowKey {
    WorkflowKey { tenant: Tenant::new("acme").unwrap(), workflow: Workflow::new("fix ci").unwrap() }
}

pub(crate) fn payload_text(delivery: &Delivery) -> String {
    String::from_utf8(delivery.payload.to_vec()).unwrap()
}

pub(crate) fn event(text: impl Into<String>) -> OutgoingEvent {
    OutgoingEvent {
        subject: subject::run_completed_subject(&key()),
        headers: Vec::new(),
        payload: text.into().into(),
    }
}

/// Publishes events with these bodies and waits until the broker has them.
pub(crate) async fn publish_events(bus: &Bus, texts: impl IntoIterator<Item = String>) {
    let mut publisher = EventPublisher::new(bus.clone());
    for text in texts {
        publisher.publish_event(event(text)).await.unwrap();
    }
    publisher.confirm_all().await.unwrap();
}

/// Opens a plain connection, to inspect the broker from outside.
pub(crate) async fn connect_directly(url: &str) -> jetstream::Context {
    let (_, login) = url.split_once("://").unwrap();
    let (login, _) = login.split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    let options = async_nats::ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned());
    jetstream::new(options.connect(url).await.unwrap())
}

/// Subscribes to the consumer's replies to the broker.
pub(crate) async fn subscribe_to_replies(nats: &TestNats) -> Subscriber {
    let jetstream = connect_directly(nats.url()).await;
    let replies = jetstream.client().subscribe("$JS.ACK.>").await.unwrap();
    // The broker has the subscription when it has answered a request that the client sent after it.
    jetstream.query_account().await.unwrap();
    replies
}
