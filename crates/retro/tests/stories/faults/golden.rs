//! The database, streams, messages and configuration of an earlier version are accepted. The files are in
//! `tests/golden`, made by that version.

use std::collections::BTreeSet;
use std::path::Path;

use retro_bus::{NatsServer, ServerConfig};
use retro_core::message::Message;
use retro_events::{Delivery, run_completed, subject};
use retro_fault::{Label, Side};
use serde_json::{Value, json};

use crate::world::{
    DatabaseKind, Fleet, NatsConnection, RawMessage, World, json_items, json_text, project_path, run_command,
};

/// Counted runs of the default tenant, and runs that the broker held uncounted.
const COUNTED_RUNS: u64 = 51;
const WAITING_RUNS: u64 = 3;

#[tokio::test]
async fn the_first_versions_file_is_migrated_and_processing_continues() {
    let mut world = restore_first_version_file();
    let config = world.write_file("retro.toml", load_golden_file("retro.toml"));
    let answer = world.run_retro(&["config", "check", "--config", &config]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_migration_keeps_everything(&world).await;

    let folder = ServerConfig { binary: None, data_dir: world.data_dir().join("nats"), port: None };
    let broker = NatsServer::start(folder).await.expect("a nats-server; run .ci/install-tools");
    fill_broker(broker.url()).await;
    broker.shut_down().await;
    world.up_with_env(&[("RETRO_CONFIG", &config)]).await;
    assert_processing_continues(&world).await;
    world.stop().await;
}

#[tokio::test]
async fn the_first_versions_rows_in_postgres_are_migrated_and_processing_continues() {
    let mut fleet = restore_first_version_rows().await;
    fill_broker(fleet.nats_url()).await;
    assert_migration_keeps_everything(&fleet).await;
    for roles in ["counter", "sampler,investigator", "writer,relay"] {
        let nth = fleet.serve(roles);
        fleet.wait_until_ready(nth).await;
    }
    assert_processing_continues(&fleet).await;
    fleet.stop_all().await;
}

/// All migrations are applied or none: the next start finds the file either unchanged or fully migrated.
#[tokio::test]
async fn killed_while_migrating_the_first_versions_file_it_migrates_the_next_time() {
    for label in [Label::MigrateFile, Label::MigrateCommit] {
        for side in Side::ALL {
            let world = restore_first_version_file();
            kill_migration(&world, label, *side).await;
        }
    }
}

#[tokio::test]
async fn killed_while_migrating_the_first_versions_rows_in_postgres_they_migrate_the_next_time() {
    for side in Side::ALL {
        let fleet = restore_first_version_rows().await;
        kill_migration(&fleet, Label::MigrateCommit, *side).await;
        fleet.stop_all().await;
    }
}

/// Kills the migration there twice. The third attempt completes, and all data reads as before.
async fn kill_migration(world: &World, label: Label, side: Side) {
    let point = format!("{}:{}", label.as_str(), side.as_str());
    let is_migrated = label == Label::MigrateCommit && side == Side::After;
    // After the commit the second attempt commits only what is there already.
    for _ in 0..2 {
        let mut migrate = world.command(&["migrate"]);
        let output = run_command(migrate.env("FAULT_CRASH", &point)).await;
        assert_eq!(output.code, None, "`retro migrate` does not die at {point}: {output:?}");
    }
    let output = world.run_json(&["migrate"]).await.to_string();
    assert_eq!(output.contains("0002_manual_retrospectives"), !is_migrated, "{point}: {output}");
    assert_reads_as_before(world).await;
}

fn restore_first_version_file() -> World {
    let world = World::empty();
    std::fs::create_dir_all(world.data_dir()).expect("a folder");
    std::fs::write(world.data_dir().join("retro.db"), load_golden_file("retro.db.zst")).expect("a file");
    world.write_policy(&load_golden_text("pipeline.toml"));
    world
}

/// Restores a database with the tables and rows of the first version, beside an empty broker.
async fn restore_first_version_rows() -> Fleet {
    let mut fleet = Fleet::unstarted(DatabaseKind::Postgres).await;
    fleet.write_policy(&load_golden_text("pipeline.toml"));
    fleet.start_database().await;
    let tables =
        std::fs::read_to_string(project_path("migrations/postgres/0001_one_road.sql")).expect("a migration");
    fleet.postgres().execute_sql(&tables).await;
    fleet.postgres().execute_sql(&load_golden_text("rows.sql.zst")).await;
    fleet.start_broker().await;
    fleet
}

/// Migrates and asserts that all data is kept, before any role runs.
async fn assert_migration_keeps_everything(world: &World) {
    let migrated = world.run_json(&["migrate"]).await;
    assert!(migrated.to_string().contains("0002_manual_retrospectives"), "{migrated}");
    assert!(!migrated.to_string().contains("0001_one_road"), "{migrated}");
    assert_reads_as_before(world).await;
}

/// Asserts that nothing is missing and that the exports are the same as then.
async fn assert_reads_as_before(world: &World) {
    let checked = world.verify_store().await;
    assert_eq!(
        (&checked["runs"], &checked["reports"], &checked["memories"]),
        (&json!(61), &json!(5), &json!(5))
    );
    for tenant in ["default", "acme"] {
        let answer = world.run_retro(&["--tenant", tenant, "export", "--canonical"]).await;
        let then = load_golden_text(&format!("export-{tenant}.jsonl.zst"));
        let differ = then.lines().zip(answer.out.lines()).find(|(then, now)| then != now);
        assert_eq!(differ, None, "{tenant}");
        assert_eq!(answer.out, then, "{tenant}");
    }
    assert_eq!(list_dead_letter_keys(world).await.len(), 2);
}

/// Asserts that the interrupted retrospective ends, that events waiting at the broker are counted, and that all other
/// redelivered events are recognised.
async fn assert_processing_continues(world: &World) {
    let letters_then = list_dead_letter_keys(world).await;
    world.wait_until_counted("default", COUNTED_RUNS + WAITING_RUNS).await;
    world.wait_until_counted("acme", 10).await;
    world.wait_until_idle().await;
    let checked = world.verify_store().await;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(64), &json!(6)), "{checked}");
    assert_eq!(list_dead_letter_keys(world).await, letters_then, "refused events are refused once");
    let flight = world.run_json(&["retrospectives", "list", "--workflow", "flight"]).await;
    assert_eq!(flight[0]["retrospective"]["state"], "closed");

    let then = load_golden_text("export-default.jsonl.zst");
    let now = world.export_canonical().await;
    let now: BTreeSet<&str> = now.lines().collect();
    let missing: Vec<_> = then.lines().filter(|line| !now.contains(line)).collect();
    assert_eq!(missing, [""; 0], "everything learned then reads as before");
    let context = world.run_json(&["context", "--workflow", "nightly", "--step", "deploy"]).await;
    assert!(json_text(&context, "text").contains("roll_back"), "{context}");
    let acme = world.run_json(&["--tenant", "acme", "memories", "list"]).await;
    assert_eq!(json_items(&acme).len(), 1);
}

async fn list_dead_letter_keys(world: &World) -> BTreeSet<(String, String, String)> {
    let letters = world.run_json(&["dead-letters", "list"]).await;
    let field = |letter: &Value, key| json_text(letter, key).to_owned();
    let key_of = |one| (field(one, "id"), field(one, "code"), field(one, "payload_sha256"));
    json_items(&letters).iter().map(key_of).collect()
}

/// Creates the first version's streams and consumers with their messages.
async fn fill_broker(url: &str) {
    let mut wire = NatsConnection::connect(url).await;
    let streams: Value = serde_json::from_str(&load_golden_text("streams.json")).expect("JSON");
    for stream in json_items(&streams) {
        let name = json_text(&stream["config"], "name");
        let answer = wire.request_api(&format!("STREAM.CREATE.{name}"), &stream["config"]).await;
        assert_eq!(answer["error"], Value::Null, "{answer}");
        for consumer in json_items(&stream["consumers"]) {
            let durable = json_text(consumer, "durable_name");
            let request = json!({"stream_name": name, "config": consumer});
            let answer =
                wire.request_api(&format!("CONSUMER.DURABLE.CREATE.{name}.{durable}"), &request).await;
            assert_eq!(answer["error"], Value::Null, "{answer}");
        }
    }
    for message in load_messages("messages.jsonl.zst").into_iter().chain(load_messages("objects.jsonl.zst")) {
        let stored = wire.publish(&message).await;
        assert!(stored["seq"].is_u64(), "{}: {stored}", message.subject);
    }
}

macro_rules! notice_tests {
    ($($sentence:ident: $prefix:expr, $count:literal;)*) => {
        $(#[test] fn $sentence() { assert_notices_are_read($prefix, $count); })*
    };
}

notice_tests! {
    a_retrospective_due_of_the_first_version_is_parsed: subject::RETROSPECTIVE_DUE, 6;
    an_investigation_due_of_the_first_version_is_parsed: subject::INVESTIGATION_DUE, 21;
    a_mutations_due_of_the_first_version_is_parsed: subject::MUTATIONS_DUE, 5;
    a_changed_memory_of_the_first_version_is_parsed: subject::MEMORY_CHANGED, 27;
    a_report_ready_of_the_first_version_is_parsed: subject::REPORT_READY, 5;
    a_stored_dead_letter_of_the_first_version_is_parsed: subject::DEAD_LETTER_STORED, 2;
}

/// Asserts that every message below a prefix is parsed, belongs to its subject and is serialised as it was then: a
/// program of the first version can read what is sent now.
fn assert_notices_are_read(prefix: &str, count: usize) {
    let messages = load_messages_below(prefix);
    assert_eq!(messages.len(), count);
    for message in messages {
        let read: Message = serde_json::from_slice(&message.payload).expect("a message");
        assert_eq!(subject::message_subject(&read), message.subject);
        assert_eq!(message.find_header("Nats-Msg-Id"), Some(read.id.to_string().as_str()));
        let written = serde_json::to_string(&read).expect("plain data");
        assert_eq!(written, String::from_utf8_lossy(&message.payload));
    }
}

#[test]
fn first_version_events_are_parsed_in_either_mode_and_refused_for_the_same_reason() {
    let (mut structured, mut binary, mut refused) = (0, 0, Vec::new());
    for (message, sequence) in load_messages_below(subject::RUN_COMPLETED).into_iter().zip(1..) {
        let is_binary = message.find_header("ce-id").is_some();
        let delivery = Delivery {
            stream: "RETRO_INTAKE".to_owned(),
            subject: message.subject,
            sequence,
            headers: message.headers,
            payload: message.payload.into(),
            delivered: 1,
            stored_at: "2026-11-20T16:40:00Z".parse().expect("a timestamp"),
        };
        match run_completed::parse_delivery(&delivery, &Default::default()) {
            Ok(_) if is_binary => binary += 1,
            Ok(_) => structured += 1,
            Err(rejection) => refused.push(rejection.code.as_str()),
        }
    }
    assert_eq!((structured, binary), (64, 1));
    // The codes that the first version stored.
    assert_eq!(refused, ["field_invalid", "not_json"]);
}

fn load_messages_below(prefix: &str) -> Vec<RawMessage> {
    let mut messages = load_messages("messages.jsonl.zst");
    messages.retain(|message| message.subject.starts_with(&format!("{prefix}.")));
    messages
}

fn load_messages(name: &str) -> Vec<RawMessage> {
    let read = |line: &str| {
        let message: Value = serde_json::from_str(line).expect("one JSON value per line");
        let headers = json_items(&message["headers"]).iter();
        let headers = headers.map(|pair| serde_json::from_value(pair.clone()).expect("a name and a value"));
        RawMessage {
            subject: json_text(&message, "subject").to_owned(),
            headers: headers.collect(),
            payload: json_text(&message, "payload").as_bytes().to_vec(),
        }
    };
    load_golden_text(name).lines().map(read).collect()
}

fn load_golden_text(name: &str) -> String {
    String::from_utf8(load_golden_file(name)).expect("text")
}

fn load_golden_file(name: &str) -> Vec<u8> {
    let path = project_path(&format!("crates/retro/tests/golden/first-road/{name}"));
    let bytes = std::fs::read(&path).expect("a golden file");
    let packed = Path::new(name).extension().is_some_and(|extension| extension == "zst");
    if packed { zstd::decode_all(&bytes[..]).expect("a complete file") } else { bytes }
}
