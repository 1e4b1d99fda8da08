//! Who may do what, on a real server that runs the configuration as it is shipped.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use retro_bus::{
    BodyStore, Bus, BusConfig, BusError, EventPublisher, NoticePublisher, OutgoingEvent, Subscription,
    Upkeep, run_consumer, topology,
};
use retro_core::id::{RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::message::{Message, Notice};
use retro_events::rights::User;
use retro_events::{Consumer, Delivery, Objects, Publisher, Role, Verdict, subject};
use retro_testkit::{GuardedNats, MemoryDeliveries};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::wire::Wire;

/// One thing somebody may want to do at the broker.
enum Act {
    Publish(&'static str),
    Subscribe(&'static str),
}

use Act::{Publish, Subscribe};

/// What can be wanted, and who may. Written by hand and not taken from the code under test: everybody else is refused.
const TABLE: &[(&str, Act, &[&str])] = &[
    ("emit a run of acme", Publish("retro.run.completed.acme.ci"), &["engine-acme", "gateway"]),
    ("emit a run of other", Publish("retro.run.completed.other.ci"), &["engine-other", "gateway"]),
    ("emit a run of nobody", Publish("retro.run.completed"), &[]),
    ("announce a change of memory", Publish("retro.memory.changed.acme.ci"), &["relay"]),
    ("announce a report", Publish("retro.report.ready.acme.ci"), &["relay"]),
    ("announce a dead letter", Publish("retro.dead_letter.stored.acme.ci"), &["relay"]),
    ("wake the sampler", Publish("retro.work.retrospective.due.acme.ci"), &["relay"]),
    ("wake an investigator", Publish("retro.work.investigation.due.acme.ci"), &["relay"]),
    ("wake the writer", Publish("retro.work.mutations.due.acme.ci"), &["relay"]),
    ("take a counter's message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_INTAKE.counter"), &["counter"]),
    ("take a sampler's message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_WORK.sampler"), &["sampler"]),
    (
        "take an investigator's message",
        Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_WORK.investigator"),
        &["investigator"],
    ),
    ("take a writer's message", Publish("$JS.API.CONSUMER.MSG.NEXT.RETRO_WORK.writer"), &["writer"]),
    ("acknowledge for the counter", Publish("$JS.ACK.RETRO_INTAKE.counter.1.9.9.1.0"), &["counter"]),
    ("acknowledge for the sampler", Publish("$JS.ACK.RETRO_WORK.sampler.1.9.9.1.0"), &["sampler"]),
    (
        "acknowledge for the investigator",
        Publish("$JS.ACK.RETRO_WORK.investigator.1.9.9.1.0"),
        &["investigator"],
    ),
    ("acknowledge for the writer", Publish("$JS.ACK.RETRO_WORK.writer.1.9.9.1.0"), &["writer"]),
    ("read any event", Publish("$JS.API.STREAM.MSG.GET.RETRO_INTAKE"), &[]),
    ("read any event directly", Publish("$JS.API.DIRECT.GET.RETRO_INTAKE"), &[]),
    ("read any announcement", Publish("$JS.API.STREAM.MSG.GET.RETRO_ANNOUNCEMENTS"), &[]),
    ("read a body", Publish("$JS.API.DIRECT.GET.OBJ_retro-bodies"), &["investigator"]),
    (
        "read a body by its subject",
        Publish("$JS.API.DIRECT.GET.OBJ_retro-bodies.$O.retro-bodies.C.x"),
        &["investigator"],
    ),
    (
        "ask whether a body is there",
        Publish("$JS.API.DIRECT.GET.OBJ_retro-bodies.$O.retro-bodies.M.x"),
        &["gateway", "investigator"],
    ),
    ("store a body", Publish("$O.retro-bodies.C.x"), &["gateway"]),
    ("make a body known", Publish("$O.retro-bodies.M.x"), &["gateway"]),
    ("make a stream", Publish("$JS.API.STREAM.CREATE.RETRO_INTAKE"), &["setup"]),
    ("make another stream", Publish("$JS.API.STREAM.CREATE.MINE"), &[]),
    ("change a stream", Publish("$JS.API.STREAM.UPDATE.RETRO_WORK"), &["setup"]),
    ("purge a stream", Publish("$JS.API.STREAM.PURGE.RETRO_INTAKE"), &[]),
    ("delete a stream", Publish("$JS.API.STREAM.DELETE.RETRO_INTAKE"), &[]),
    ("delete a message", Publish("$JS.API.STREAM.MSG.DELETE.RETRO_INTAKE"), &[]),
    ("delete the bodies", Publish("$JS.API.STREAM.PURGE.OBJ_retro-bodies"), &[]),
    ("list streams", Publish("$JS.API.STREAM.NAMES"), &[]),
    ("make the counter's consumer", Publish("$JS.API.CONSUMER.CREATE.RETRO_INTAKE.counter"), &["setup"]),
    ("make another consumer", Publish("$JS.API.CONSUMER.CREATE.RETRO_WORK.mine"), &[]),
    ("make a nameless consumer", Publish("$JS.API.CONSUMER.CREATE.RETRO_WORK"), &[]),
    ("make a consumer the old way", Publish("$JS.API.CONSUMER.DURABLE.CREATE.RETRO_WORK.writer"), &[]),
    ("delete a consumer", Publish("$JS.API.CONSUMER.DELETE.RETRO_INTAKE.counter"), &[]),
    ("pause a consumer", Publish("$JS.API.CONSUMER.PAUSE.RETRO_INTAKE.counter"), &[]),
    ("hear runs of acme", Subscribe("retro.run.completed.acme.>"), &[]),
    ("hear changes of acme's memories", Subscribe("retro.memory.changed.acme.>"), &["reader-acme"]),
    ("hear changes of other's memories", Subscribe("retro.memory.changed.other.>"), &["reader-other"]),
    ("hear changes of everybody's", Subscribe("retro.memory.changed.>"), &[]),
    ("hear wake-ups", Subscribe("retro.work.>"), &[]),
    ("hear bodies", Subscribe("$O.retro-bodies.>"), &[]),
    ("hear everything", Subscribe(">"), &[]),
    ("hear answers to everybody", Subscribe("_INBOX.>"), &[]),
    ("hear answers to the counter", Subscribe("_INBOX_counter.>"), &["counter"]),
    ("hear answers to the gateway", Subscribe("_INBOX_gateway.>"), &["gateway"]),
    ("hear answers to setup", Subscribe("_INBOX_setup.>"), &["setup"]),
    ("hear answers to acme's engines", Subscribe("_INBOX_engine-acme.>"), &["engine-acme"]),
    ("answer JetStream's requests", Subscribe("$JS.API.>"), &[]),
    ("hear the system", Subscribe("$SYS.>"), &[]),
    ("command the system", Publish("$SYS.REQ.SERVER.PING"), &[]),
];

#[expect(clippy::print_stdout, reason = "what was seen is shown with `--no-capture`")]
#[tokio::test]
async fn each_user_may_do_what_its_work_needs_and_nothing_else() {
    let nats = guarded().await;
    let users = User::all(&tenants());
    let mut wires = Vec::new();
    for user in &users {
        wires.push((user.to_string(), Wire::connect(&nats, user).await));
    }
    let mut wrong = Vec::new();
    let mut seen: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let (mut allowed, mut refused) = (0, 0);
    for (what, act, may) in TABLE {
        for (user, wire) in &mut wires {
            let refusal = match act {
                Publish(subject) => wire.publish(subject, "").await,
                Subscribe(subject) => wire.subscribe(subject).await,
            };
            if refusal.is_some() == may.contains(&user.as_str()) {
                wrong.push(format!("{user}: {what}: {refusal:?}"));
            }
            match refusal {
                None => {
                    allowed += 1;
                    seen.entry(what).or_default().push(user.clone());
                }
                Some(text) => {
                    refused += 1;
                    assert!(text.contains("Permissions Violation"), "{user}: {what}: {text}");
                }
            }
        }
    }
    print_table(&users, &seen);
    println!("{allowed} acts allowed, {refused} refused by the server with a permissions violation");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[expect(clippy::print_stdout, reason = "what was seen is shown with `--no-capture`")]
/// One line an act: who may, everybody else was refused.
fn print_table(users: &[User], seen: &BTreeMap<&str, Vec<String>>) {
    println!("{:<34} {:<68} who may (of {} users)", "act", "at the broker", users.len());
    for (what, act, _) in TABLE {
        let act = match act {
            Publish(subject) => format!("pub {subject}"),
            Subscribe(subject) => format!("sub {subject}"),
        };
        let who = seen.get(what).map_or_else(|| "nobody".to_owned(), |users| users.join(", "));
        println!("{what:<34} {act:<68} {who}");
    }
}

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

#[tokio::test]
async fn a_missing_right_is_told_at_once_with_user_and_subject() {
    let nats = guarded().await;
    let told = |error: BusError, user: &str, subject: &str| {
        assert!(matches!(error, BusError::Refused { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains(user) && text.contains(subject), "{text}");
    };
    let counter = connect(&nats, &User::Role(Role::Counter), Upkeep::Make).await;
    told(topology::ensure(&counter).await.unwrap_err(), "counter", "$JS.API.STREAM.INFO.RETRO_INTAKE");

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
    tokio::time::timeout(std::time::Duration::from_secs(30), told).await.unwrap();
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
    let changed = changed();
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
        assert_eq!(setup.backlog(durable.stream, durable.name).await.unwrap(), 0, "{role}");
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
    topology::ensure(&bus).await.unwrap();
    topology::ensure(&bus).await.unwrap();
}

fn tenants() -> [Tenant; 2] {
    [tenant("acme"), tenant("other")]
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

fn changed() -> Message {
    let cause = "2026-11-20T10:00:00Z".parse().unwrap();
    let notice = Notice::MemoryChanged {
        change: serde_json::from_value(ID.into()).unwrap(),
        memory: serde_json::from_value(ID.into()).unwrap(),
        kind: "created".to_owned(),
        at: cause,
    };
    notice.about(&key("acme"))
}

const ID: &str = "0190d1b0-0000-8000-8000-000000000001";
