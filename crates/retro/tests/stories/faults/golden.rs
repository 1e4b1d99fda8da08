//! The database, streams, messages and configuration of an earlier version are accepted. `tests/golden` contains what
//! that version recorded; `make golden NAME=…` records the current one.

mod recorder;
mod recording;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use retro_core::message::Message;
use retro_events::{Delivery, run_completed, subject};
use retro_fault::{Label, Side};
use serde_json::{Value, json};
use tempfile::TempDir;

use recorder::record_state;
use recording::{CONFIG, Recording, TENANTS, folder_name};

use crate::world::{DatabaseKind, RawMessage, World, json_items, json_text, project_path, run_command};

/// Version whose recordings are committed.
const FIRST_VERSION: &str = "baseline";
/// Versions that changed a stored shape since then, whose recordings are committed, too.
const LATER_VERSIONS: [&str; 2] = ["0003-call-summaries", "0004-memory-assignments"];
/// Names the folder in `tests/golden` that a recording is kept in; without it, recordings are only tried.
const RECORD_VARIABLE: &str = "GOLDEN_RECORD";
/// Counted runs of each tenant, and runs of the default tenant that the broker held uncounted.
const DEFAULT_RUNS: u64 = 48;
const ACME_RUNS: u64 = 10;
const WAITING_RUNS: u64 = 3;
/// Number of memories that every recorded version had learnt, at least.
const MEMORIES_MIN: u64 = 6;

#[tokio::test]
async fn the_first_versions_file_is_migrated_and_processing_continues() {
    continue_file(&Recording::committed(FIRST_VERSION, DatabaseKind::Sqlite)).await;
}

#[tokio::test]
async fn the_first_versions_rows_in_postgres_are_migrated_and_processing_continues() {
    continue_rows(&Recording::committed(FIRST_VERSION, DatabaseKind::Postgres)).await;
}

#[tokio::test]
async fn the_files_of_later_versions_are_migrated_and_processing_continues() {
    for version in LATER_VERSIONS {
        continue_file(&Recording::committed(version, DatabaseKind::Sqlite)).await;
    }
}

#[tokio::test]
async fn the_rows_of_later_versions_in_postgres_are_migrated_and_processing_continues() {
    for version in LATER_VERSIONS {
        continue_rows(&Recording::committed(version, DatabaseKind::Postgres)).await;
    }
}

#[tokio::test]
async fn the_current_versions_file_is_recorded_and_a_restored_copy_continues() {
    let temporary = TempDir::new().expect("a temporary folder can be made");
    let folder = recording_folder(&temporary, DatabaseKind::Sqlite);
    continue_file(&record_state(DatabaseKind::Sqlite, &folder).await).await;
}

#[tokio::test]
async fn the_current_versions_rows_in_postgres_are_recorded_and_a_restored_copy_continues() {
    let temporary = TempDir::new().expect("a temporary folder can be made");
    let folder = recording_folder(&temporary, DatabaseKind::Postgres);
    continue_rows(&record_state(DatabaseKind::Postgres, &folder).await).await;
}

/// Returns the folder named by the environment, or a temporary one.
fn recording_folder(temporary: &TempDir, kind: DatabaseKind) -> PathBuf {
    match std::env::var(RECORD_VARIABLE) {
        Ok(version) => {
            Path::new(&project_path("crates/retro/tests/golden")).join(version).join(folder_name(kind))
        }
        Err(_) => temporary.path().join(folder_name(kind)),
    }
}

#[test]
fn the_first_version_recorded_the_same_memories_on_both_databases() {
    let [file, rows] =
        [DatabaseKind::Sqlite, DatabaseKind::Postgres].map(|kind| Recording::committed(FIRST_VERSION, kind));
    for tenant in TENANTS {
        let name = format!("export-{tenant}.jsonl.zst");
        assert_eq!(file.read_text(&name), rows.read_text(&name), "{tenant}");
    }
}

/// Restores the file, migrates it and continues with `retro up`.
async fn continue_file(recording: &Recording) {
    let mut world = recording.restore_file();
    let config = config_argument(&world);
    let answer = world.run_retro(&["config", "check", "--config", &config]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_migration_keeps_everything(recording, &world).await;
    recording.restore_supervised_broker(&world).await;
    world.up_with_env(&[("RETRO_CONFIG", &config)]).await;
    assert_processing_continues(recording, &world).await;
    world.stop().await;
}

/// Restores the rows, migrates them and continues with one process for each group of roles.
async fn continue_rows(recording: &Recording) {
    let mut fleet = recording.restore_rows().await;
    recording.restore_broker(fleet.nats_url()).await;
    assert_migration_keeps_everything(recording, &fleet).await;
    let config = config_argument(&fleet);
    for roles in ["counter,reviewer", "sampler,investigator", "writer,relay"] {
        let nth = fleet.serve_with_env(roles, &[("RETRO_CONFIG", &config)]);
        fleet.wait_until_ready(nth).await;
    }
    assert_processing_continues(recording, &fleet).await;
    fleet.stop_all().await;
}

fn config_argument(world: &World) -> String {
    world.write_file("retro.toml", CONFIG)
}

/// All migrations are applied or none: the next start finds the file either unchanged or fully migrated.
#[tokio::test]
async fn killed_while_migrating_the_first_versions_file_it_migrates_the_next_time() {
    let recording = Recording::committed(FIRST_VERSION, DatabaseKind::Sqlite);
    for label in [Label::MigrateFile, Label::MigrateCommit] {
        for side in Side::ALL {
            kill_migration(&recording, &recording.restore_file(), label, *side).await;
        }
    }
}

#[tokio::test]
async fn killed_while_migrating_the_first_versions_rows_in_postgres_they_migrate_the_next_time() {
    let recording = Recording::committed(FIRST_VERSION, DatabaseKind::Postgres);
    for side in Side::ALL {
        let fleet = recording.restore_rows().await;
        kill_migration(&recording, &fleet, Label::MigrateCommit, *side).await;
        fleet.stop_all().await;
    }
}

/// Kills the migration there twice. The third attempt completes, and all data reads as before.
async fn kill_migration(recording: &Recording, world: &World, label: Label, side: Side) {
    let point = format!("{}:{}", label.as_str(), side.as_str());
    let is_migrated = label == Label::MigrateCommit && side == Side::After;
    // After the commit the second attempt commits only what is there already.
    for _ in 0..2 {
        let mut migrate = world.command(&["migrate"]);
        let output = run_command(migrate.env("FAULT_CRASH", &point)).await;
        assert_eq!(output.code, None, "`retro migrate` does not die at {point}: {output:?}");
    }
    let migrated = world.run_json(&["migrate"]).await;
    let expected = if is_migrated { Vec::new() } else { recording.list_missing_migrations() };
    assert_eq!(migrated["applied"], json!(expected), "{point}");
    assert_reads_as_before(recording, world).await;
}

/// Migrates and asserts that all data is kept, before any role runs.
async fn assert_migration_keeps_everything(recording: &Recording, world: &World) {
    let migrated = world.run_json(&["migrate"]).await;
    assert_eq!(migrated["applied"], json!(recording.list_missing_migrations()), "{migrated}");
    assert_reads_as_before(recording, world).await;
}

/// Asserts that nothing is missing and that the exports are the same as then.
async fn assert_reads_as_before(recording: &Recording, world: &World) {
    let checked = world.verify_store().await;
    let memories = recording.count_exported("memory");
    assert!(memories >= MEMORIES_MIN, "{memories}");
    let numbers = ["runs", "reports", "memories"].map(|key| checked[key].as_u64().expect("a number"));
    assert_eq!(numbers, [DEFAULT_RUNS + ACME_RUNS, 6, memories], "{checked}");
    for tenant in TENANTS {
        let answer = world.run_retro(&["--tenant", tenant, "export", "--canonical"]).await;
        let then = recording.read_text(&format!("export-{tenant}.jsonl.zst"));
        let differ = then.lines().zip(answer.out.lines()).find(|(then, now)| then != now);
        assert_eq!(differ, None, "{tenant}");
        assert_eq!(answer.out, then, "{tenant}");
    }
    assert_eq!(list_dead_letter_keys(world).await.len(), 2);
}

/// Asserts that the interrupted retrospective ends, that events waiting at the broker are counted, and that all other
/// redelivered events are recognised.
async fn assert_processing_continues(recording: &Recording, world: &World) {
    let letters_then = list_dead_letter_keys(world).await;
    world.wait_until_counted("default", DEFAULT_RUNS + WAITING_RUNS).await;
    world.wait_until_counted("acme", ACME_RUNS).await;
    world.wait_until_idle().await;
    let checked = world.verify_store().await;
    let runs = DEFAULT_RUNS + WAITING_RUNS + ACME_RUNS;
    assert_eq!((&checked["runs"], &checked["reports"]), (&json!(runs), &json!(7)), "{checked}");
    assert_eq!(list_dead_letter_keys(world).await, letters_then, "refused events are refused once");
    let flight = world.run_json(&["retrospectives", "list", "--workflow", "flight"]).await;
    assert_eq!(flight[0]["retrospective"]["state"], "closed");

    let then = recording.read_text("export-default.jsonl.zst");
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

macro_rules! notice_tests {
    ($($sentence:ident: $prefix:expr, $count:literal;)*) => {
        $(#[test] fn $sentence() { assert_notices_are_read($prefix, $count); })*
    };
}

notice_tests! {
    a_retrospective_due_of_the_first_version_is_parsed: subject::RETROSPECTIVE_DUE, 6;
    an_investigation_due_of_the_first_version_is_parsed: subject::INVESTIGATION_DUE, 23;
    a_mutations_due_of_the_first_version_is_parsed: subject::MUTATIONS_DUE, 7;
    a_changed_memory_of_the_first_version_is_parsed: subject::MEMORY_CHANGED, 28;
    a_report_ready_of_the_first_version_is_parsed: subject::REPORT_READY, 6;
    a_stored_dead_letter_of_the_first_version_is_parsed: subject::DEAD_LETTER_STORED, 2;
}

/// Asserts that every message below a prefix is parsed, belongs to its subject and is serialised as it was then: a
/// program of the first version can read what is sent now.
fn assert_notices_are_read(prefix: &str, count: usize) {
    let messages = committed_messages(prefix);
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
    for (message, sequence) in committed_messages(subject::RUN_COMPLETED).into_iter().zip(1..) {
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
    assert_eq!((structured, binary), (61, 1));
    // The codes that the first version stored.
    assert_eq!(refused, ["field_invalid", "not_json"]);
}

fn committed_messages(prefix: &str) -> Vec<RawMessage> {
    Recording::committed(FIRST_VERSION, DatabaseKind::Sqlite).read_messages_below(prefix)
}
