//! Tests permissions on a real server with the configuration as shipped.

mod table;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use retro_bus::{
    ACK_WAIT, BodyStore, Bus, BusConfig, BusError, EventPublisher, OutboxPublisher, OutgoingEvent,
    Subscription, TopologyMode, run_consumer, topology,
};
use retro_consumer::{Consumer, HandlerOutcome};
use retro_core::id::{RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::message::{Message, Notice};
use retro_events::permissions::BrokerUser;
use retro_events::{Delivery, ObjectStorage, Publisher, Role, subject};
use retro_testkit::{InMemoryDeliveries, SecuredNats, TEST_TIMEOUT};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::wire::Wire;

#[tokio::test]
async fn an_engine_cannot_empty_the_stream_it_publishes_to() {
    let nats = start_secured_nats().await;
    provision_topology(&nats).await;
    let engine = BrokerUser::Engine(tenant("acme"));
    let mut wire = Wire::connect(&nats, &engine).await;
    let mut emit =
        async |headers: &str| wire.request(&engine, "retro.run.completed.acme.ci", headers, "{}").await;
    assert!(emit("x: y").await.contains(r#""seq":1"#));
    for rollup in ["all", "sub"] {
        let answer = emit(&format!("Nats-Rollup: {rollup}")).await;
        assert!(answer.contains("rollup not permitted"), "{answer}");
    }
    assert!(emit("x: y").await.contains(r#""seq":2"#));
}

/// A publisher names a reply subject, and the server does not check the publisher's permission for it. The
/// reply subject must therefore belong to the publisher's own account.
#[tokio::test]
async fn an_engine_cannot_make_the_broker_write_to_foreign_subjects() {
    let nats = start_secured_nats().await;
    provision_topology(&nats).await;
    let engine = BrokerUser::Engine(tenant("acme"));
    let mut wire = Wire::connect(&nats, &engine).await;
    let mut listener = Wire::connect(&nats, &BrokerUser::Reader(tenant("other"))).await;
    assert_eq!(listener.subscribe("retro.memory.changed.other.>").await, None);
    let mut neighbour = Wire::connect(&nats, &BrokerUser::Engine(tenant("other"))).await;
    assert_eq!(neighbour.subscribe("_INBOX_engine-other.>").await, None);
    let answers = [
        "retro.memory.changed.other.ci",
        "retro.run.completed.other.ci",
        "retro.work.mutations.due.other.ci",
        "_INBOX_engine-other.x",
        "_INBOX_counter.x",
        "$JS.API.STREAM.PURGE.RETRO_INTAKE",
        "$JS.API.STREAM.DELETE.RETRO_WORK",
    ];
    for answer in answers {
        assert_eq!(wire.publish(&format!("retro.run.completed.acme.ci {answer}"), "{}").await, None);
    }
    // The stream acknowledges in order: when this acknowledgement is here, the others have been sent.
    let last = wire.request(&engine, "retro.run.completed.acme.ci", "x: y", "{}").await;
    assert!(last.contains(&format!("\"seq\":{}", answers.len() + 1)), "{last}");

    let changed = memory_changed_message("other");
    let relay = connect(&nats, &BrokerUser::Role(Role::Relay), TopologyMode::Verify).await;
    OutboxPublisher::new(relay).publish(std::slice::from_ref(&changed)).await.unwrap();
    assert!(
        listener.next_message().await.1.contains("memory_changed"),
        "the first message received is our own"
    );
    neighbour.send("retro.run.completed.other.ci _INBOX_engine-other.y", "{}").await;
    assert_eq!(
        neighbour.next_message().await.0,
        "_INBOX_engine-other.y",
        "the first message is the reply to its own publication"
    );
    for (stream, messages) in [("RETRO_INTAKE", 9), ("RETRO_WORK", 0), ("RETRO_ANNOUNCEMENTS", 1)] {
        assert_eq!(count_messages(&nats, stream).await, messages, "{stream}");
    }
}

/// Returns the number of messages in a stream.
async fn count_messages(nats: &SecuredNats, stream: &str) -> u64 {
    let mut wire = Wire::connect(nats, &BrokerUser::Setup).await;
    let info = wire.request(&BrokerUser::Setup, &format!("$JS.API.STREAM.INFO.{stream}"), "x: y", "").await;
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    info["state"]["messages"].as_u64().unwrap()
}

#[tokio::test]
async fn a_missing_permission_is_reported_at_once_with_user_and_subject() {
    let nats = start_secured_nats().await;
    let check_refused = |error: BusError, user: &str, subject: &str| {
        assert!(matches!(error, BusError::Refused { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(user) && text.contains(subject), "{text}");
    };
    let sampler = connect(&nats, &BrokerUser::Role(Role::Sampler), TopologyMode::Provision).await;
    check_refused(
        topology::ensure_topology(&sampler, ACK_WAIT).await.unwrap_err(),
        "sampler",
        "$JS.API.STREAM.INFO.RETRO_INTAKE",
    );

    provision_topology(&nats).await;
    let writer = connect(&nats, &BrokerUser::Role(Role::Writer), TopologyMode::Verify).await;
    let problems = topology::find_problems(&writer, &[Role::Writer, Role::Sampler]).await;
    assert_eq!(problems.len(), 1, "{problems:?}");
    check_refused(problems.into_iter().next().unwrap(), "writer", "$JS.API.CONSUMER.INFO.RETRO_WORK.sampler");

    let engine = connect(&nats, &BrokerUser::Engine(tenant("acme")), TopologyMode::Verify).await;
    let mut publisher = EventPublisher::new(engine.clone());
    publisher.publish_event(run_completed_event("other")).await.unwrap();
    let error = publisher.confirm_all().await.unwrap_err().to_string();
    assert!(error.contains("engine-acme") && error.contains("retro.run.completed.other.ci"), "{error}");
    let error = BodyStore::new(engine).put(&tenant("acme"), Bytes::from_static(b"x")).await.unwrap_err();
    assert!(error.to_string().contains("engine-acme"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_distinguished_from_an_unreachable_broker() {
    let nats = start_secured_nats().await;
    let url = format!("nats://counter:wrong@{}", nats.address());
    let bus = Bus::connect(BusConfig::new(url, "test")).await.unwrap();
    let refused = async {
        loop {
            match bus.connection_problem() {
                Some(problem) if problem.contains("refuses the user counter") => return,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(TEST_TIMEOUT, refused).await.unwrap();
}

#[tokio::test]
async fn a_role_reports_every_missing_stream_and_consumer() {
    let nats = start_secured_nats().await;
    for &role in Role::ALL {
        let bus = connect(&nats, &BrokerUser::Role(role), TopologyMode::Verify).await;
        let problems = topology::find_problems(&bus, &[role]).await;
        assert_eq!(
            problems.len(),
            role.required_streams().len() + usize::from(role.durable_consumer().is_some()),
            "{role}"
        );
        for problem in problems {
            assert!(matches!(problem, BusError::Missing(_)), "{role}: {problem}");
            assert!(problem.to_string().contains("retro migrate"), "{problem}");
        }
    }
    provision_topology(&nats).await;
    for &role in Role::ALL {
        let bus = connect(&nats, &BrokerUser::Role(role), TopologyMode::Verify).await;
        assert!(topology::find_problems(&bus, &[role]).await.is_empty(), "{role}");
    }
}

/// Each broker user does its part, from the engine's event to the change received by a subscriber.
#[tokio::test]
async fn a_run_passes_every_role_with_one_broker_user_per_role() {
    let nats = start_secured_nats().await;
    provision_topology(&nats).await;
    let (reported, mut received) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let mut working = Vec::new();
    for role in [Role::Counter, Role::Sampler, Role::Investigator, Role::Writer] {
        let bus = connect(&nats, &BrokerUser::Role(role), TopologyMode::Verify).await;
        let consumer = Arc::new(ReportingConsumer { role, reported: reported.clone() });
        let subscription = Subscription::for_durable(role.durable_consumer().unwrap(), 10);
        let store: Arc<InMemoryDeliveries> = Arc::default();
        working.push(tokio::spawn(run_consumer(bus, consumer, subscription, store, stop.clone())));
    }
    let reader = BrokerUser::Reader(tenant("acme"));
    let mut listeners = Vec::new();
    for announced in ["memory.changed", "report.ready"] {
        let mut listener = Wire::connect(&nats, &reader).await;
        assert_eq!(listener.subscribe(&format!("retro.{announced}.acme.>")).await, None);
        listeners.push(listener);
    }

    let engine = connect(&nats, &BrokerUser::Engine(tenant("acme")), TopologyMode::Verify).await;
    let mut publisher = EventPublisher::new(engine);
    publisher.publish_event(run_completed_event("acme")).await.unwrap();
    publisher.confirm_all().await.unwrap();
    assert_eq!(received.recv().await.unwrap(), (Role::Counter, subject::run_completed_subject(&key("acme"))));

    let engine = connect(&nats, &BrokerUser::Engine(tenant(ODD)), TopologyMode::Verify).await;
    let mut publisher = EventPublisher::new(engine);
    publisher.publish_event(run_completed_event(ODD)).await.unwrap();
    publisher.confirm_all().await.unwrap();
    assert_eq!(received.recv().await.unwrap(), (Role::Counter, subject::run_completed_subject(&key(ODD))));

    let relay = connect(&nats, &BrokerUser::Role(Role::Relay), TopologyMode::Verify).await;
    let relay = OutboxPublisher::new(relay);
    let retrospective = RetrospectiveId::of_epoch(&key("acme"), 1);
    for (notice, woken) in [
        (Notice::RetrospectiveDue { retrospective }, Role::Sampler),
        (Notice::InvestigationDue { retrospective, investigation: 1 }, Role::Investigator),
        (Notice::MutationsDue { retrospective }, Role::Writer),
    ] {
        let message = notice.into_message(&key("acme"));
        relay.publish(std::slice::from_ref(&message)).await.unwrap();
        assert_eq!(received.recv().await.unwrap(), (woken, subject::message_subject(&message)));
    }
    let ready = Notice::ReportReady { retrospective, epoch: 1 }.into_message(&key("acme"));
    for (announced, listener) in [memory_changed_message("acme"), ready].into_iter().zip(&mut listeners) {
        relay.publish(std::slice::from_ref(&announced)).await.unwrap();
        assert_eq!(listener.next_message().await.0, subject::message_subject(&announced));
    }

    let gateway = connect(&nats, &BrokerUser::Role(Role::Gateway), TopologyMode::Verify).await;
    let mut publisher = EventPublisher::new(gateway.clone());
    publisher.publish_event(run_completed_event("other")).await.unwrap();
    publisher.confirm_all().await.unwrap();
    assert_eq!(
        received.recv().await.unwrap(),
        (Role::Counter, subject::run_completed_subject(&key("other")))
    );
    let body = Bytes::from(vec![b'x'; 300_000]);
    let object = BodyStore::new(gateway).put(&tenant("acme"), body.clone()).await.unwrap();
    let investigator = connect(&nats, &BrokerUser::Role(Role::Investigator), TopologyMode::Verify).await;
    assert_eq!(BodyStore::new(investigator).get(&object).await.unwrap(), body);

    stop.cancel();
    for one in working {
        one.await.unwrap();
    }
    assert_all_acknowledged(&nats).await;
}

/// Asserts that every message was acknowledged by its consumer's user.
async fn assert_all_acknowledged(nats: &SecuredNats) {
    for role in [Role::Counter, Role::Sampler, Role::Investigator, Role::Writer] {
        let durable = role.durable_consumer().unwrap();
        let setup = connect(nats, &BrokerUser::Setup, TopologyMode::Verify).await;
        // The broker processes the last acknowledgements in its own time, far less than the ack wait.
        let answered =
            async { while setup.count_unacknowledged(durable.stream, durable.name).await.unwrap() > 0 {} };
        let answered = tokio::time::timeout(Duration::from_secs(25), answered).await;
        assert!(answered.is_ok(), "the {role} left messages unacknowledged");
    }
}

/// A consumer that reports each message it receives.
struct ReportingConsumer {
    role: Role,
    reported: mpsc::UnboundedSender<(Role, String)>,
}

#[async_trait]
impl Consumer for ReportingConsumer {
    fn name(&self) -> &'static str {
        self.role.as_str()
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        for delivery in batch {
            self.reported.send((self.role, delivery.subject.clone())).unwrap();
        }
        batch.iter().map(|_| HandlerOutcome::Done).collect()
    }
}

async fn start_secured_nats() -> SecuredNats {
    SecuredNats::start(&tenants()).await
}

async fn connect(nats: &SecuredNats, user: &BrokerUser, upkeep: TopologyMode) -> Bus {
    Bus::connect(BusConfig { topology_mode: upkeep, ..nats.bus_config(user) }).await.unwrap()
}

async fn provision_topology(nats: &SecuredNats) {
    let bus = connect(nats, &BrokerUser::Setup, TopologyMode::Provision).await;
    topology::ensure_topology(&bus, ACK_WAIT).await.unwrap();
    topology::ensure_topology(&bus, ACK_WAIT).await.unwrap();
}

/// A tenant name with characters that have to be encoded.
const ODD: &str = "größe & $co";

fn tenants() -> [Tenant; 3] {
    [tenant("acme"), tenant("other"), tenant(ODD)]
}

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

fn key(owner: &str) -> WorkflowKey {
    WorkflowKey { tenant: tenant(owner), workflow: Workflow::new("ci").unwrap() }
}

fn run_completed_event(owner: &str) -> OutgoingEvent {
    OutgoingEvent {
        subject: subject::run_completed_subject(&key(owner)),
        headers: Vec::new(),
        payload: Bytes::from_static(b"{}"),
    }
}

fn memory_changed_message(owner: &str) -> Message {
    let notice = Notice::MemoryChanged {
        change: serde_json::from_value(ID.into()).unwrap(),
        memory: serde_json::from_value(ID.into()).unwrap(),
        kind: "created".to_owned(),
        at: "2026-11-20T10:00:00Z".parse().unwrap(),
    };
    notice.into_message(&key(owner))
}

const ID: &str = "0190d1b0-0000-8000-8000-000000000001";
