//! What an earlier version left is accepted: its database, its streams, its messages, its configuration. The files are
//! in `tests/golden`, made by that version.

use std::collections::BTreeSet;
use std::path::Path;

use retro_bus::{NatsServer, ServerConfig};
use retro_core::message::Message;
use retro_events::{Delivery, run_completed, subject};
use retro_fault::{Label, Side};
use serde_json::{Value, json};

use crate::world::{Fleet, Kind, Sent, Wire, World, carry_out, items, project, text};

/// Counted runs of the default tenant, and those that its broker held uncounted.
const COUNTED: u64 = 51;
const WAITING: u64 = 3;

#[tokio::test]
async fn the_first_roads_file_is_migrated_and_its_life_goes_on() {
    let mut world = with_the_first_roads_file();
    let config = world.write("retro.toml", golden("retro.toml"));
    let answer = world.retro(&["config", "check", "--config", &config]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    kept_what_was_there(&world).await;

    let folder = ServerConfig { binary: None, data_dir: world.data().join("nats"), port: None };
    let broker = NatsServer::start(folder).await.expect("a nats-server; run .ci/install-tools");
    fill(broker.url()).await;
    broker.shut_down().await;
    world.up_with(&[("RETRO_CONFIG", &config)]).await;
    went_on(&world).await;
    world.stop().await;
}

#[tokio::test]
async fn the_first_roads_rows_in_postgres_are_migrated_and_its_life_goes_on() {
    let mut fleet = with_the_first_roads_rows().await;
    fill(fleet.nats_url()).await;
    kept_what_was_there(&fleet).await;
    for roles in ["counter", "sampler,investigator", "writer,relay"] {
        let nth = fleet.serve(roles);
        fleet.ready(nth).await;
    }
    went_on(&fleet).await;
    fleet.stop_all().await;
}

/// All migrations or none: whoever migrates the next time finds the file as it was, or as it has to be.
#[tokio::test]
async fn killed_while_it_migrates_the_first_roads_file_it_is_migrated_the_next_time() {
    for label in [Label::MigrateFile, Label::MigrateCommit] {
        for side in Side::ALL {
            let world = with_the_first_roads_file();
            dies_migrating(&world, label, *side).await;
        }
    }
}

#[tokio::test]
async fn killed_while_it_migrates_the_first_roads_rows_in_postgres_they_are_migrated_the_next_time() {
    for side in Side::ALL {
        let fleet = with_the_first_roads_rows().await;
        dies_migrating(&fleet, Label::MigrateCommit, *side).await;
        fleet.stop_all().await;
    }
}

/// Migrating dies there, and again; then it is done, and everything is as it was.
async fn dies_migrating(world: &World, label: Label, side: Side) {
    let point = format!("{}:{}", label.as_str(), side.as_str());
    let is_migrated = label == Label::MigrateCommit && side == Side::After;
    // What was committed is there the second time, and commits nothing that anybody would miss.
    for _ in 0..2 {
        let mut migrate = world.command(&["migrate"]);
        let told = carry_out(migrate.env("FAULT_CRASH", &point)).await;
        assert_eq!(told.code, None, "`retro migrate` does not die at {point}: {told:?}");
    }
    let told = world.ask(&["migrate"]).await.to_string();
    assert_eq!(told.contains("0002_manual_retrospectives"), !is_migrated, "{point}: {told}");
    reads_as_it_did(world).await;
}

fn with_the_first_roads_file() -> World {
    let world = World::empty();
    std::fs::create_dir_all(world.data()).expect("a folder");
    std::fs::write(world.data().join("retro.db"), golden("retro.db.zst")).expect("a file");
    world.write_policy(&golden_text("pipeline.toml"));
    world
}

/// A database with the tables and rows of then, and a broker that is empty.
async fn with_the_first_roads_rows() -> Fleet {
    let mut fleet = Fleet::nowhere(Kind::Postgres).await;
    fleet.write_policy(&golden_text("pipeline.toml"));
    fleet.start_database().await;
    let tables =
        std::fs::read_to_string(project("migrations/postgres/0001_one_road.sql")).expect("a migration");
    fleet.postgres().execute_sql(&tables).await;
    fleet.postgres().execute_sql(&golden_text("rows.sql.zst")).await;
    fleet.start_broker().await;
    fleet
}

/// After migrating, before anything runs.
async fn kept_what_was_there(world: &World) {
    let migrated = world.ask(&["migrate"]).await;
    assert!(migrated.to_string().contains("0002_manual_retrospectives"), "{migrated}");
    assert!(!migrated.to_string().contains("0001_one_road"), "{migrated}");
    reads_as_it_did(world).await;
}

/// Nothing is missing, and nothing reads otherwise than it did then.
async fn reads_as_it_did(world: &World) {
    let checked = world.sound().await;
    assert_eq!(
        (&checked["runs"], &checked["reports"], &checked["memories"]),
        (&json!(61), &json!(5), &json!(5))
    );
    for tenant in ["default", "acme"] {
        let answer = world.retro(&["--tenant", tenant, "export", "--canonical"]).await;
        let then = golden_text(&format!("export-{tenant}.jsonl.zst"));
        let differ = then.lines().zip(answer.out.lines()).find(|(then, now)| then != now);
        assert_eq!(differ, None, "{tenant}");
        assert_eq!(answer.out, then, "{tenant}");
    }
    assert_eq!(letters(world).await.len(), 2);
}

/// The retrospective that was killed ends, what waited at the broker is counted, and everything else that the broker
/// gives out again is known.
async fn went_on(world: &World) {
    let letters_then = letters(world).await;
    world.counted("default", COUNTED + WAITING).await;
    world.counted("acme", 10).await;
    world.still().await;
    let checked = world.sound().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(64), &json!(6)), "{checked}");
    assert_eq!(letters(world).await, letters_then, "what was refused is refused once");
    let flight = world.ask(&["retrospectives", "list", "--workflow", "flight"]).await;
    assert_eq!(flight[0]["retrospective"]["state"], "closed");

    let then = golden_text("export-default.jsonl.zst");
    let now = world.export().await;
    let now: BTreeSet<&str> = now.lines().collect();
    let gone: Vec<_> = then.lines().filter(|line| !now.contains(line)).collect();
    assert_eq!(gone, [""; 0], "what was learned then reads as it did");
    let context = world.ask(&["context", "--workflow", "nightly", "--step", "deploy"]).await;
    assert!(text(&context, "text").contains("roll_back"), "{context}");
    let acme = world.ask(&["--tenant", "acme", "memories", "list"]).await;
    assert_eq!(items(&acme).len(), 1);
}

async fn letters(world: &World) -> BTreeSet<(String, String, String)> {
    let letters = world.ask(&["dead-letters", "list"]).await;
    let told = |letter: &Value, key| text(letter, key).to_owned();
    let tell = |one| (told(one, "id"), told(one, "code"), told(one, "payload_sha256"));
    items(&letters).iter().map(tell).collect()
}

/// A broker with the streams and consumers of then, and what they held.
async fn fill(url: &str) {
    let mut wire = Wire::to(url).await;
    let streams: Value = serde_json::from_str(&golden_text("streams.json")).expect("JSON");
    for stream in items(&streams) {
        let name = text(&stream["config"], "name");
        let made = wire.ask(&format!("STREAM.CREATE.{name}"), &stream["config"]).await;
        assert_eq!(made["error"], Value::Null, "{made}");
        for consumer in items(&stream["consumers"]) {
            let durable = text(consumer, "durable_name");
            let asked = json!({"stream_name": name, "config": consumer});
            let made = wire.ask(&format!("CONSUMER.DURABLE.CREATE.{name}.{durable}"), &asked).await;
            assert_eq!(made["error"], Value::Null, "{made}");
        }
    }
    for message in sent("messages.jsonl.zst").into_iter().chain(sent("objects.jsonl.zst")) {
        let stored = wire.publish(&message).await;
        assert!(stored["seq"].is_u64(), "{}: {stored}", message.subject);
    }
}

macro_rules! each_notice_is_read {
    ($($sentence:ident: $prefix:expr, $count:literal;)*) => {
        $(#[test] fn $sentence() { notice_is_read($prefix, $count); })*
    };
}

each_notice_is_read! {
    a_retrospective_due_of_the_first_road_is_read: subject::RETROSPECTIVE_DUE, 6;
    an_investigation_due_of_the_first_road_is_read: subject::INVESTIGATION_DUE, 21;
    a_mutations_due_of_the_first_road_is_read: subject::MUTATIONS_DUE, 5;
    a_changed_memory_of_the_first_road_is_read: subject::MEMORY_CHANGED, 27;
    a_report_ready_of_the_first_road_is_read: subject::REPORT_READY, 5;
    a_stored_dead_letter_of_the_first_road_is_read: subject::DEAD_LETTER_STORED, 2;
}

/// Every notice below a prefix is read, belongs to the subject under which it was sent, and is written as it was then:
/// a program of then reads what is sent now.
fn notice_is_read(prefix: &str, count: usize) {
    let messages = below(prefix);
    assert_eq!(messages.len(), count);
    for message in messages {
        let read: Message = serde_json::from_slice(&message.payload).expect("a notice");
        assert_eq!(subject::message_subject(&read), message.subject);
        assert_eq!(message.header("Nats-Msg-Id"), Some(read.id.to_string().as_str()));
        let written = serde_json::to_string(&read).expect("plain data");
        assert_eq!(written, String::from_utf8_lossy(&message.payload));
    }
}

#[test]
fn an_event_of_the_first_road_is_read_in_either_mode_and_refused_for_the_same_reason() {
    let (mut structured, mut binary, mut refused) = (0, 0, Vec::new());
    for (message, sequence) in below(subject::RUN_COMPLETED).into_iter().zip(1..) {
        let is_binary = message.header("ce-id").is_some();
        let delivery = Delivery {
            stream: "RETRO_INTAKE".to_owned(),
            subject: message.subject,
            sequence,
            headers: message.headers,
            payload: message.payload.into(),
            delivered: 1,
            stored_at: "2026-11-20T16:40:00Z".parse().expect("a moment"),
        };
        match run_completed::parse_delivery(&delivery, &Default::default()) {
            Ok(_) if is_binary => binary += 1,
            Ok(_) => structured += 1,
            Err(rejection) => refused.push(rejection.code.as_str()),
        }
    }
    assert_eq!((structured, binary), (64, 1));
    // As they stand in the database of then.
    assert_eq!(refused, ["field_invalid", "not_json"]);
}

fn below(prefix: &str) -> Vec<Sent> {
    let mut messages = sent("messages.jsonl.zst");
    messages.retain(|message| message.subject.starts_with(&format!("{prefix}.")));
    messages
}

fn sent(name: &str) -> Vec<Sent> {
    let read = |line: &str| {
        let message: Value = serde_json::from_str(line).expect("JSON a line");
        let headers = items(&message["headers"]).iter();
        let headers = headers.map(|pair| serde_json::from_value(pair.clone()).expect("a name and a value"));
        Sent {
            subject: text(&message, "subject").to_owned(),
            headers: headers.collect(),
            payload: text(&message, "payload").as_bytes().to_vec(),
        }
    };
    golden_text(name).lines().map(read).collect()
}

fn golden_text(name: &str) -> String {
    String::from_utf8(golden(name)).expect("text")
}

fn golden(name: &str) -> Vec<u8> {
    let path = project(&format!("crates/retro/tests/golden/first-road/{name}"));
    let bytes = std::fs::read(&path).expect("a golden file");
    let packed = Path::new(name).extension().is_some_and(|extension| extension == "zst");
    if packed { zstd::decode_all(&bytes[..]).expect("it is whole") } else { bytes }
}
