//! Who may do what, on a real server that runs the configuration as it is shipped.

mod table;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use retro_bus::{
    ACK_WAIT, BodyStore, Bus, BusConfig, BusError, EventPublisher, NoticePublisher, OutgoingEvent,
    Subscription, Upkeep, run_consumer, topology,
};
use retro_core::id::{RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::message::{Message, Notice};
use retro_events::rights::User;
use retro_events::{Consumer, Delivery, Objects, Publisher, Role, Verdict, subject};
use retro_testkit::{GuardedNats, MemoryDeliveries, PATIENCE};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::wire::Wire;

#[tokio::test]
async fn an_engine_cannot_empty_the_stream_that_it_may_publish_to() {
    let nats = guarded().await;
    setup(&nats).await;
    let engine = User::Engine(tenant("acme"));
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

/// Whoever publishes names a subject for the answer, and the server does not ask whether they may. It has to be one of
/// their own account.
#[tokio::test]
async fn an_engine_cannot_have_the_broker_write_to_a_subject_of_somebody_else() {
    let nats = guarded().await;
    setup(&nats).await;
    let engine = User::Engine(tenant("acme"));
    let mut wire = Wire::connect(&nats, &engine).await;
    let mut listener = Wire::connect(&nats, &User::Reader(tenant("other"))).await;
    assert_eq!(listener.subscribe("retro.memory.changed.other.>").await, None);
    let mut neighbour = Wire::connect(&nats, &User::Engine(tenant("other"))).await;
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
    // The stream answers in order: when this answer is here, the others went where they went.
    let last = wire.request(&engine, "retro.run.completed.acme.ci", "x: y", "{}").await;
    assert!(last.contains(&format!("\"seq\":{}", answers.len() + 1)), "{last}");

    let changed = changed("other");
    let relay = connect(&nats, &User::Role(Role::Relay), Upkeep::Look).await;
    NoticePublisher::new(relay).publish(std::slice::from_ref(&changed)).await.unwrap();
    assert!(listener.message().await.1.contains("memory_changed"), "the first that is heard is ours");
    neighbour.send("retro.run.completed.other.ci _INBOX_engine-other.y", "{}").await;
    assert_eq!(neighbour.message().await.0, "_INBOX_engine-other.y", "the first answer is to itself");
    for (stream, messages) in [("RETRO_INTAKE", 9), ("RETRO_WORK", 0), ("RETRO_ANNOUNCEMENTS", 1)] {
        assert_eq!(held(&nats, stream).await, messages, "{stream}");
    }
}

/// Messages that a stream holds.
async fn held(nats: &GuardedNats, stream: &str) -> u64 {
    let mut wire = Wire::connect(nats, &User::Setup).await;
    let info = wire.request(&User::Setup, &format!("$JS.API.STREAM.INFO.{stream}"), "x: y", "").await;
    let info: serde_json::Value = serde_json::from_str(&info).unwrap();
    info["state"]["messages"].as_u64().unwrap()
}

#[tokio::test]
async fn a_missing_right_is_told_at_once_with_user_and_subject() {
    let nats = guarded().await;
    let told = |error: BusError, user: &str, subject: &str| {
        assert!(matches!(error, BusError::Refused { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(user) && text.contains(subject), "{text}");
    };
    let sampler = connect(&nats, &User::Role(Role::Sampler), Upkeep::Make).await;
    told(
        topology::ensure(&sampler, ACK_WAIT).await.unwrap_err(),
        "sampler",
        "$JS.API.STREAM.INFO.RETRO_INTAKE",
    );

    setup(&nats).await;
    let writer = connect(&nats, &User::Role(Role::Writer), Upkeep::Look).await;
    let problems = topology::check(&writer, &[Role::Writer, Role::Sampler]).await;
    assert_eq!(problems.len(), 1, "{problems:?}");
    told(problems.into_iter().next().unwrap(), "writer", "$JS.API.CONSUMER.INFO.RETRO_WORK.sampler");

    let engine = connect(&nats, &User::Engine(tenant("acme")), Upkeep::Look).await;
    let mut publisher = EventPublisher::new(engine.clone());
    publisher.publish_event(run_of("other")).await.unwrap();
    let error = publisher.finish().await.unwrap_err().to_string();
    assert!(error.contains("engine-acme") && error.contains("retro.run.completed.other.ci"), "{error}");
    let error = BodyStore::new(engine).put(&tenant("acme"), Bytes::from_static(b"x")).await.unwrap_err();
    assert!(error.to_string().contains("engine-acme"), "{error}");
}

#[tokio::test]
async fn a_wrong_password_is_told_apart_from_a_broker_that_is_away() {
    let nats = guarded().await;
    let url = format!("nats://counter:wrong@{}", nats.address());
    let bus = Bus::connect(BusConfig::new(url, "test")).await.unwrap();
    let told = async {
        loop {
            match bus.problem() {
                Some(problem) if problem.contains("refuses the user counter") => return,
                _ => tokio::task::yield_now().await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
}

#[tokio::test]
async fn a_role_that_finds_nothing_made_names_everything_that_is_missing() {
    let nats = guarded().await;
    for role in Role::ALL {
        let bus = connect(&nats, &User::Role(role), Upkeep::Look).await;
        let problems = topology::check(&bus, &[role]).await;
        assert_eq!(problems.len(), role.streams().len() + usize::from(role.durable().is_some()), "{role}");
        for problem in problems {
            assert!(matches!(problem, BusError::Missing(_)), "{role}: {problem}");
            assert!(problem.to_string().contains("retro migrate"), "{problem}");
        }
    }
    setup(&nats).await;
    for role in Role::ALL {
        let bus = connect(&nats, &User::Role(role), Upkeep::Look).await;
        assert!(topology::check(&bus, &[role]).await.is_empty(), "{role}");
    }
}

/// Each user does its work, from the engine's event to what a listener hears.
#[tokio::test]
async fn a_run_goes_all_the_way_with_each_role_as_its_own_user() {
    let nats = guarded().await;
    setup(&nats).await;
    let (heard, mut hears) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    let mut working = Vec::new();
    for role in [Role::Counter, Role::Sampler, Role::Investigator, Role::Writer] {
        let bus = connect(&nats, &User::Role(role), Upkeep::Look).await;
        let consumer = Arc::new(Telling { role, heard: heard.clone() });
        let subscription = Subscription::of(role.durable().unwrap(), 10);
        let store: Arc<MemoryDeliveries> = Arc::default();
        working.push(tokio::spawn(run_consumer(bus, consumer, subscription, store, stop.clone())));
    }
    let reader = User::Reader(tenant("acme"));
    let mut listener = Wire::connect(&nats, &reader).await;
    assert_eq!(listener.subscribe("retro.memory.changed.acme.>").await, None);

    let engine = connect(&nats, &User::Engine(tenant("acme")), Upkeep::Look).await;
    let mut publisher = EventPublisher::new(engine);
    publisher.publish_event(run_of("acme")).await.unwrap();
    publisher.finish().await.unwrap();
    assert_eq!(hears.recv().await.unwrap(), (Role::Counter, subject::run_completed(&key("acme"))));

    let engine = connect(&nats, &User::Engine(tenant(ODD)), Upkeep::Look).await;
    let mut publisher = EventPublisher::new(engine);
    publisher.publish_event(run_of(ODD)).await.unwrap();
    publisher.finish().await.unwrap();
    assert_eq!(hears.recv().await.unwrap(), (Role::Counter, subject::run_completed(&key(ODD))));

    let relay = connect(&nats, &User::Role(Role::Relay), Upkeep::Look).await;
    let relay = NoticePublisher::new(relay);
    let retrospective = RetrospectiveId::automatic(&key("acme"), 1);
    for (notice, woken) in [
        (Notice::RetrospectiveDue { retrospective }, Role::Sampler),
        (Notice::InvestigationDue { retrospective, investigation: 1 }, Role::Investigator),
        (Notice::MutationsDue { retrospective }, Role::Writer),
    ] {
        let message = notice.about(&key("acme"));
        relay.publish(std::slice::from_ref(&message)).await.unwrap();
        assert_eq!(hears.recv().await.unwrap(), (woken, subject::of_message(&message)));
    }
    let changed = changed("acme");
    relay.publish(std::slice::from_ref(&changed)).await.unwrap();
    assert_eq!(listener.message().await.0, subject::of_message(&changed));

    let gateway = connect(&nats, &User::Role(Role::Gateway), Upkeep::Look).await;
    let mut publisher = EventPublisher::new(gateway.clone());
    publisher.publish_event(run_of("other")).await.unwrap();
    publisher.finish().await.unwrap();
    assert_eq!(hears.recv().await.unwrap(), (Role::Counter, subject::run_completed(&key("other"))));
    let body = Bytes::from(vec![b'x'; 300_000]);
    let object = BodyStore::new(gateway).put(&tenant("acme"), body.clone()).await.unwrap();
    let investigator = connect(&nats, &User::Role(Role::Investigator), Upkeep::Look).await;
    assert_eq!(BodyStore::new(investigator).get(&object).await.unwrap(), body);

    stop.cancel();
    for one in working {
        one.await.unwrap();
    }
    nothing_is_left(&nats).await;
}

/// Every message was acknowledged by the user whose it was.
async fn nothing_is_left(nats: &GuardedNats) {
    for role in [Role::Counter, Role::Sampler, Role::Investigator, Role::Writer] {
        let durable = role.durable().unwrap();
        let setup = connect(nats, &User::Setup, Upkeep::Look).await;
        // The broker works through the last acknowledgements in its own time, and long before its patience is over.
        let answered = async { while setup.backlog(durable.stream, durable.name).await.unwrap() > 0 {} };
        let answered = tokio::time::timeout(Duration::from_secs(25), answered).await;
        assert!(answered.is_ok(), "somebody waits for what the {role} did not acknowledge");
    }
}

/// Tells what it was handed.
struct Telling {
    role: Role,
    heard: mpsc::UnboundedSender<(Role, String)>,
}

#[async_trait]
impl Consumer for Telling {
    fn name(&self) -> &'static str {
        self.role.as_str()
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<Verdict> {
        for delivery in batch {
            self.heard.send((self.role, delivery.subject.clone())).unwrap();
        }
        batch.iter().map(|_| Verdict::Done).collect()
    }
}

async fn guarded() -> GuardedNats {
    GuardedNats::start(&tenants()).await
}

async fn connect(nats: &GuardedNats, user: &User, upkeep: Upkeep) -> Bus {
    Bus::connect(BusConfig { upkeep, ..nats.config(user) }).await.unwrap()
}

async fn setup(nats: &GuardedNats) {
    let bus = connect(nats, &User::Setup, Upkeep::Make).await;
    topology::ensure(&bus, ACK_WAIT).await.unwrap();
    topology::ensure(&bus, ACK_WAIT).await.unwrap();
}

/// What a tenant may be called, too.
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

fn run_of(owner: &str) -> OutgoingEvent {
    OutgoingEvent {
        subject: subject::run_completed(&key(owner)),
        headers: Vec::new(),
        payload: Bytes::from_static(b"{}"),
    }
}

fn changed(owner: &str) -> Message {
    let notice = Notice::MemoryChanged {
        change: serde_json::from_value(ID.into()).unwrap(),
        memory: serde_json::from_value(ID.into()).unwrap(),
        kind: "created".to_owned(),
        at: "2026-11-20T10:00:00Z".parse().unwrap(),
    };
    notice.about(&key(owner))
}

const ID: &str = "0190d1b0-0000-8000-8000-000000000001";
