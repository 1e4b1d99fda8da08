//! Whose the broker is, and whether what a data folder tells of still runs.

use std::path::Path;

use serde_json::Value;

use crate::world::process::{freeze, wake};
use crate::world::{Fleet, Kind, Run, World, carry_out, items, text};

/// Copies a database as somebody would who restores a backup of it.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for name in ["retro.db", "retro.db-wal", "retro.db-shm"] {
        let file = from.join(name);
        if file.exists() {
            std::fs::copy(file, to.join(name)).expect("it can be copied");
        }
    }
}

#[tokio::test]
async fn a_process_with_another_database_says_so_and_takes_no_message() {
    let mut fleet = Fleet::impatient(Kind::Sqlite).await;
    let nth = fleet.serve_impatient("counter,sampler,investigator,writer,relay", &[]);
    fleet.ready(nth).await;
    let file = fleet.write_events("one.jsonl", &[Run::new("deploy", "run-1").event()]);
    assert_eq!(fleet.ask(&["emit", &file]).await["sent"], 1);
    fleet.counted("default", 1).await;
    fleet.stop(nth).await;

    // A restored backup is the same database.
    let backup = fleet.path("backup");
    copy(&fleet.data(), &backup);
    std::fs::rename(fleet.data(), fleet.path("lost")).expect("it can be moved");
    std::fs::rename(&backup, fleet.data()).expect("it can be moved");
    fleet.migrate_impatient().await;
    let nth = fleet.serve_impatient("counter,relay", &[]);
    fleet.ready(nth).await;
    fleet.stop(nth).await;

    // A fresh one is another.
    std::fs::rename(fleet.data(), fleet.path("first")).expect("it can be moved");
    let refused = fleet.retro(&["migrate"]).await;
    assert!(refused.code == Some(1) && refused.err.contains("belongs to the database"), "{refused:?}");
    assert!(refused.err.contains("--take-over"), "{refused:?}");
    let nth = fleet.serve_impatient("counter,relay", &[]);
    fleet.misses(nth, "belongs to the database").await;
    let file = fleet.write_events("two.jsonl", &[Run::new("deploy", "run-2").event()]);
    assert_eq!(fleet.ask(&["emit", &file]).await["sent"], 1);
    let told = fleet.retro(&["doctor", "-o", "json"]).await;
    assert_eq!(told.code, Some(4), "{told:?}");
    let checks = told.json();
    let broker = items(&checks).iter().find(|check| check["what"] == "nats-server").expect("it is looked at");
    assert!(broker["ok"] == false && text(broker, "detail").contains("belongs to the database"), "{broker}");
    fleet.misses(nth, "belongs to the database").await;

    // Taken over on purpose, the waiting process begins; and whoever works on the old one stops.
    let taken = fleet.retro(&["migrate", "--take-over"]).await;
    assert_eq!(taken.code, Some(0), "{taken:?}");
    fleet.ready(nth).await;
    // Both: the first run was acknowledged for the other database, and the reconciler finds that this one never had it.
    fleet.counted("default", 2).await;
    std::fs::rename(fleet.data(), fleet.path("second")).expect("it can be moved");
    std::fs::rename(fleet.path("first"), fleet.data()).expect("it can be moved");
    assert_eq!(fleet.retro(&["migrate", "--take-over"]).await.code, Some(0));
    assert_eq!(fleet.ended(nth).await, Some(1), "it stops consuming");
    fleet.logged("was taken over for another database").await;
    fleet.stop_all().await;
}

#[tokio::test]
async fn a_fleet_process_without_a_database_is_refused() {
    let fleet = Fleet::nowhere(Kind::Sqlite).await;
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_retro"));
    command.args(["serve", "--role", "counter"]).current_dir(fleet.path(""));
    for name in
        ["DATABASE_URL", "RETRO_DATABASE_URL", "RETRO_DATABASE_URL_FILE", "RETRO_DATA_DIR", "RETRO_CONFIG"]
    {
        command.env_remove(name);
    }
    let refused = carry_out(command.env("NATS_URL", fleet.nats_url())).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("DATABASE_URL") && refused.err.contains("--data-dir"), "{refused:?}");
    assert!(!fleet.path(".retro").exists());
}

#[tokio::test]
async fn ready_and_doctor_follow_the_running_program_and_say_when_it_or_its_broker_is_gone() {
    let mut world = World::start().await;
    let check = |checks: &Value, what: &str| {
        items(checks).iter().find(|check| check["what"] == what).expect("it is looked at").clone()
    };
    let ready = world.retro(&["ready"]).await;
    assert_eq!(ready.code, Some(0), "it is asked at the port that it took: {ready:?}");
    let told = world.retro(&["doctor", "-o", "json"]).await;
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(text(&check(&told.json(), "nats-server"), "detail").ends_with("answers"), "{told:?}");

    // Frozen, both take connections and answer nothing. The program too, since it would start its broker again.
    let (program, broker) = (world.pid(), world.broker().expect("it runs").pid());
    freeze(program);
    freeze(broker);
    let told = world.retro(&["doctor", "-o", "json"]).await;
    for what in ["nats-server", "HTTP address"] {
        assert_eq!(check(&told.json(), what)["ok"], false, "{told:?}");
    }
    let ready = world.retro(&["ready"]).await;
    assert!(told.code == Some(4) && ready.code == Some(4), "{ready:?}");
    wake(broker);
    wake(program);
    let ready = async || (world.retro(&["ready"]).await.code == Some(0)).then_some(());
    world.until("it is ready again", ready).await;

    world.kill().await;
    let gone = world.retro(&["ready"]).await;
    assert!(gone.code == Some(4) && gone.out.contains("no longer runs"), "{gone:?}");
    let told = world.retro(&["doctor", "-o", "json"]).await;
    assert_eq!(told.code, Some(4), "{told:?}");
    for what in ["nats-server", "HTTP address"] {
        assert_eq!(check(&told.json(), what)["ok"], false, "{told:?}");
    }
}
