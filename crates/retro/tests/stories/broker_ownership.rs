//! Tests which database a broker belongs to, and how commands detect that the recorded program no longer
//! runs.

use std::path::Path;

use serde_json::Value;

use crate::world::process::{freeze, resume};
use crate::world::{DatabaseKind, Fleet, RunBuilder, World, json_items, json_text, run_command};

/// Copies a database, as when a backup is restored.
fn copy_database(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for name in ["retro.db", "retro.db-wal", "retro.db-shm"] {
        let file = from.join(name);
        if file.exists() {
            std::fs::copy(file, to.join(name)).expect("the file can be copied");
        }
    }
}

#[tokio::test]
async fn a_process_with_another_database_reports_it_and_handles_no_message() {
    let mut fleet = Fleet::start_with_short_timeouts(DatabaseKind::Sqlite).await;
    let nth = fleet.serve_with_short_timeouts("counter,sampler,investigator,writer,relay", &[]);
    fleet.wait_until_ready(nth).await;
    let file = fleet.write_events("one.jsonl", &[RunBuilder::new("deploy", "run-1").build_event()]);
    assert_eq!(fleet.run_json(&["emit", &file]).await["sent"], 1);
    fleet.wait_until_counted("default", 1).await;
    fleet.stop(nth).await;

    // A restored backup counts as the same database.
    let backup = fleet.path("backup");
    copy_database(&fleet.data_dir(), &backup);
    std::fs::rename(fleet.data_dir(), fleet.path("lost")).expect("the folder can be moved");
    std::fs::rename(&backup, fleet.data_dir()).expect("the folder can be moved");
    fleet.migrate_with_short_timeouts().await;
    let nth = fleet.serve_with_short_timeouts("counter,relay", &[]);
    fleet.wait_until_ready(nth).await;
    fleet.stop(nth).await;

    // A new database counts as a different one.
    std::fs::rename(fleet.data_dir(), fleet.path("first")).expect("the folder can be moved");
    let refused = fleet.run_retro(&["migrate"]).await;
    assert!(refused.code == Some(1) && refused.err.contains("belongs to the database"), "{refused:?}");
    assert!(refused.err.contains("--take-over"), "{refused:?}");
    let nth = fleet.serve_with_short_timeouts("counter,relay", &[]);
    fleet.wait_until_not_ready(nth, "belongs to the database").await;
    let file = fleet.write_events("two.jsonl", &[RunBuilder::new("deploy", "run-2").build_event()]);
    assert_eq!(fleet.run_json(&["emit", &file]).await["sent"], 1);
    let doctor = fleet.run_retro(&["doctor", "-o", "json"]).await;
    assert_eq!(doctor.code, Some(4), "{doctor:?}");
    let checks = doctor.parse_json();
    let broker = json_items(&checks)
        .iter()
        .find(|check| check["check"] == "nats-server")
        .expect("the check is listed");
    assert!(
        broker["ok"] == false && json_text(broker, "detail").contains("belongs to the database"),
        "{broker}"
    );
    fleet.wait_until_not_ready(nth, "belongs to the database").await;

    // After an explicit takeover, the waiting process starts and a process on the other database stops.
    let takeover = fleet.run_retro(&["migrate", "--take-over"]).await;
    assert_eq!(takeover.code, Some(0), "{takeover:?}");
    fleet.wait_until_ready(nth).await;
    // Both runs: the first was acknowledged for the other database, and reconciliation finds it missing in
    // this one.
    fleet.wait_until_counted("default", 2).await;
    std::fs::rename(fleet.data_dir(), fleet.path("second")).expect("the folder can be moved");
    std::fs::rename(fleet.path("first"), fleet.data_dir()).expect("the folder can be moved");
    assert_eq!(fleet.run_retro(&["migrate", "--take-over"]).await.code, Some(0));
    assert_eq!(fleet.wait_for_exit(nth).await, Some(1), "the process stops consuming");
    fleet.wait_for_log("was taken over for another database").await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_fleet_process_without_a_database_is_refused() {
    let fleet = Fleet::unstarted(DatabaseKind::Sqlite).await;
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_retro"));
    command.args(["serve", "--role", "counter"]).current_dir(fleet.path(""));
    for name in
        ["DATABASE_URL", "RETRO_DATABASE_URL", "RETRO_DATABASE_URL_FILE", "RETRO_DATA_DIR", "RETRO_CONFIG"]
    {
        command.env_remove(name);
    }
    let refused = run_command(command.env("NATS_URL", fleet.nats_url())).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("DATABASE_URL") && refused.err.contains("--data-dir"), "{refused:?}");
    assert!(!fleet.path(".retro").exists());
}

#[tokio::test]
async fn ready_and_doctor_report_when_the_program_or_its_broker_is_gone() {
    let mut world = World::start().await;
    let check = |checks: &Value, what: &str| {
        json_items(checks).iter().find(|check| check["check"] == what).expect("the check is listed").clone()
    };
    let ready = world.run_retro(&["ready"]).await;
    assert_eq!(ready.code, Some(0), "the command finds the port in use: {ready:?}");
    let doctor = world.run_retro(&["doctor", "-o", "json"]).await;
    assert_eq!(doctor.code, Some(0), "{doctor:?}");
    assert!(
        json_text(&check(&doctor.parse_json(), "nats-server"), "detail")
            .ends_with("answers; agents are answered on retro.agents.context.<tenant>"),
        "{doctor:?}"
    );

    // Frozen, both accept connections but do not respond. The program is frozen as well, or it would restart
    // its broker.
    let (program, broker) = (world.pid(), world.find_broker().expect("a running process").pid());
    freeze(program);
    freeze(broker);
    let doctor = world.run_retro(&["doctor", "-o", "json"]).await;
    for what in ["nats-server", "HTTP address"] {
        assert_eq!(check(&doctor.parse_json(), what)["ok"], false, "{doctor:?}");
    }
    let ready = world.run_retro(&["ready"]).await;
    assert!(doctor.code == Some(4) && ready.code == Some(4), "{ready:?}");
    resume(broker);
    resume(program);
    let ready = async || (world.run_retro(&["ready"]).await.code == Some(0)).then_some(());
    world.wait_for("the program is ready again", ready).await;

    world.kill().await;
    let gone = world.run_retro(&["ready"]).await;
    assert!(gone.code == Some(4) && gone.out.contains("no longer runs"), "{gone:?}");
    let doctor = world.run_retro(&["doctor", "-o", "json"]).await;
    assert_eq!(doctor.code, Some(4), "{doctor:?}");
    for what in ["nats-server", "HTTP address"] {
        assert_eq!(check(&doctor.parse_json(), what)["ok"], false, "{doctor:?}");
    }
}
