//! Records the state of a program that was killed in the middle of its work, with everything that it stores: `make
//! golden NAME=…` keeps such a recording in `tests/golden`.

use std::path::Path;

use retro_events::github::AuthorAssociation;
use retro_fault::{Label, Side};
use retro_store_sql::SqliteStore;
use serde_json::{Value, json};

use super::recording::{BODIES_STREAM, CONFIG, POLICY, Recording, TENANTS, list_migrations};
use crate::rules::build_comment;
use crate::world::{
    DatabaseKind, Fleet, NatsConnection, RawMessage, RunBuilder, build_correcting_runs, json_items, json_text,
};

/// Size of the bodies that do not fit into an event, in bytes.
const LARGE_BODY_BYTES: usize = 80_000;
/// Remark that becomes a rule.
const REMARK: &str = "Always return a `Result` instead of calling `unwrap()` in library code.";
/// Table that the library creates for its list of applied migrations, as Postgres has it.
const MIGRATIONS_TABLE: &str = "CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL, \
     installed_on TIMESTAMPTZ NOT NULL DEFAULT now(), success BOOLEAN NOT NULL, checksum BYTEA NOT NULL, \
     execution_time BIGINT NOT NULL);\n";
/// Returns one statement per row of every table. A row is stored as JSON, which Postgres reads back by column name.
const ROWS_AS_STATEMENTS: &str = "SELECT format('SELECT format(''INSERT INTO %1$I OVERRIDING SYSTEM VALUE SELECT * \
     FROM json_populate_record(NULL::%1$I, %%L);'', to_json(%1$I)) FROM %1$I', table_name) \
     FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE' ORDER BY table_name";
/// Returns one statement per numbered column, which continues its numbers after the largest one.
const NUMBERS_AS_STATEMENTS: &str = "SELECT format('SELECT setval(pg_get_serial_sequence(%1$L, %2$L), \
     (SELECT coalesce(max(%2$I), 1) FROM %1$I));', table_name, column_name) \
     FROM information_schema.columns WHERE table_schema = 'public' AND is_identity = 'YES' ORDER BY table_name";

/// Runs the script on this database, kills the program, publishes what it has not seen, and writes the recording into
/// the folder.
pub(super) async fn record_state(kind: DatabaseKind, folder: &Path) -> Recording {
    let mut fleet = Fleet::unstarted(kind).await;
    fleet.write_policy(POLICY);
    fleet.start_broker().await;
    fleet.start_database().await;
    let config = fleet.write_file("retro.toml", CONFIG);
    fleet.up_with_env(&[("RETRO_CONFIG", &config), ("RETRO_REVIEW_DEBOUNCE_S", "0")]).await;
    learn_and_use(&fleet).await;
    fleet.stop_up().await;
    die_in_second_investigation(&mut fleet, &config).await;
    publish_after_kill(&fleet).await;

    std::fs::create_dir_all(folder).expect("the folder can be created");
    let recording = Recording { kind, folder: folder.to_owned() };
    recording.write("migrations.txt", format!("{}\n", list_migrations().join("\n")).as_bytes());
    dump_database(&fleet, &recording).await;
    dump_broker(&fleet, &recording).await;
    for tenant in TENANTS {
        let export = fleet.run_retro(&["--tenant", tenant, "export", "--canonical"]).await;
        recording.write(&format!("export-{tenant}.jsonl.zst"), export.out.as_bytes());
    }
    fleet.stop_all().await;
    recording
}

/// Fills the tables: memories are learned, presented, deleted and contradicted; bodies are uploaded; a review becomes a
/// rule; a manual retrospective proposes; two messages become dead letters, and one of them is edited.
async fn learn_and_use(fleet: &Fleet) {
    publish_all(fleet, "default", (0..10).map(|n| build_run(n).with_both_corrections().build_event())).await;
    wait_until_learned(fleet, 10).await;
    for number in 10..20 {
        let run = build_run(number).with_message(&fetch_context(fleet, number).await);
        publish_all(fleet, "default", [run.with_both_calls().build_event()]).await;
    }
    wait_until_learned(fleet, 20).await;
    let memories = fleet.run_json(&["memories", "list", "--status", "active"]).await;
    let id = json_text(&json_items(&memories)[0], "id");
    let reason = "the tool asks by itself now";
    fleet.run_json(&["memories", "delete", id, "--reason", reason, "--request", "ticket-7"]).await;
    for number in 20..30 {
        let run = build_run(number).with_message(&fetch_context(fleet, number).await);
        publish_all(fleet, "default", [run.with_refused_calls().build_event()]).await;
    }
    wait_until_learned(fleet, 30).await;
    publish_all(fleet, "default", (30..32).map(|n| build_run(n).with_both_corrections().build_event())).await;
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    wire.publish(&encode_in_binary_mode(&build_run(32).with_both_corrections().build_event())).await;
    wait_until_learned(fleet, 33).await;
    emit_large_runs(fleet).await;
    wait_until_learned(fleet, 38).await;
    publish_all(fleet, "acme", build_correcting_runs("release", "deploy_service", 0..10)).await;
    fleet.wait_until_counted("acme", 10).await;
    review_and_propose(fleet).await;
    leave_dead_letters(fleet).await;
    fleet.wait_until_idle().await;
}

/// Waits until this many runs of the default tenant are counted and their windows are closed.
async fn wait_until_learned(fleet: &Fleet, runs: u64) {
    fleet.wait_until_counted("default", runs).await;
    fleet.wait_until_idle().await;
}

/// Publishes two messages that nobody can count, and edits the one that lacks its run id.
async fn leave_dead_letters(fleet: &Fleet) {
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    for message in refused_messages() {
        wire.publish(&message).await;
    }
    let letters = fleet.wait_for("two dead letters", async || {
        let letters = fleet.run_json(&["dead-letters", "list"]).await;
        (json_items(&letters).len() == 2).then_some(letters)
    });
    let letters = letters.await;
    let incomplete = json_items(&letters).iter().find(|letter| letter["code"] == "field_invalid");
    let id = json_text(incomplete.expect("the run without an id"), "id").to_owned();
    let edit = ["dead-letters", "edit", &id, "--set", "data.run_id=release-99"];
    fleet.run_json(&[&edit[..], &["--by", "ann", "--reason", "the engine's log has it"]].concat()).await;
}

async fn emit_large_runs(fleet: &Fleet) {
    let listing = "a line of a long listing\n".repeat(LARGE_BODY_BYTES / 25);
    let run = |number: u64| {
        let run = RunBuilder::new("nightly", &format!("nightly-{number}"));
        run.with_call("list_releases", &json!({}), &format!("night {number}\n{listing}"))
            .with_corrected_call("roll_back", "region")
            .build_event()
    };
    fleet.emit_and_wait("default", "nightly.jsonl", &(0..5).map(run).collect::<Vec<_>>()).await;
}

/// Turns a member's comment into a rule, and leaves a proposal that nobody has decided on.
async fn review_and_propose(fleet: &Fleet) {
    let comment = build_comment(7, 11, "ann", AuthorAssociation::Member, REMARK);
    fleet.publish_github_event("default", "delivery-1", &comment).await;
    fleet
        .wait_for("a rule", async || {
            (!json_items(&fleet.run_json(&["rules", "list"]).await).is_empty()).then_some(())
        })
        .await;
    let runs = "release-30,release-31";
    let focus = "Which region does the service need?";
    fleet
        .run_json(&["retrospectives", "trigger", "--workflow", "release", "--runs", runs, "--focus", focus])
        .await;
    fleet
        .wait_for("a proposal", async || {
            (!json_items(&fleet.run_json(&["proposals", "list"]).await).is_empty()).then_some(())
        })
        .await;
}

/// Publishes a window of runs while the program is stopped, and starts it so that it dies once the second answer is
/// stored.
async fn die_in_second_investigation(fleet: &mut Fleet, config: &str) {
    publish_all(fleet, "default", build_correcting_runs("flight", "deploy_service", 0..10)).await;
    let point = format!("{}:{}:2", Label::JournalAnsweredCommit.as_str(), Side::After.as_str());
    fleet.up_with_env(&[("RETRO_CONFIG", config), ("RETRO_LEASE_S", "2"), ("FAULT_CRASH", &point)]).await;
    fleet.wait_until_program_killed("the second investigation").await;
}

/// Publishes three runs that nobody has counted, and one that was counted under another event id.
async fn publish_after_kill(fleet: &Fleet) {
    let runs = (33..36).chain([30]).map(|n| build_run(n).with_both_corrections().build_event());
    let later = runs.map(|mut event| {
        event["id"] = json!(format!("after the kill, {}", json_text(&event, "id")));
        event
    });
    publish_all(fleet, "default", later).await;
}

fn build_run(number: u64) -> RunBuilder {
    RunBuilder::new("release", &format!("release-{number}")).with_message("Deploy the service.")
}

impl RunBuilder {
    fn with_both_corrections(self) -> Self {
        self.with_corrected_call("deploy_service", "region").with_corrected_call("publish_image", "registry")
    }

    fn with_both_calls(self) -> Self {
        self.with_call(
            "deploy_service",
            &json!({"service": "checkout", "region": "eu-west-1"}),
            "deployed checkout",
        )
        .with_call(
            "publish_image",
            &json!({"service": "checkout", "registry": "eu-west-1"}),
            "published",
        )
    }

    /// Adds calls that are refused because of the arguments that were right before.
    fn with_refused_calls(self) -> Self {
        let refusal = "Error: unknown argument";
        let plain = json!({"service": "checkout"});
        self.with_call(
            "deploy_service",
            &json!({"service": "checkout", "region": "eu-west-1"}),
            &format!("{refusal} 'region'"),
        )
        .with_call("deploy_service", &plain, "deployed checkout")
        .with_call(
            "publish_image",
            &json!({"service": "checkout", "registry": "eu-west-1"}),
            &format!("{refusal} 'registry'"),
        )
        .with_call("publish_image", &plain, "published")
    }
}

async fn fetch_context(fleet: &Fleet, number: u64) -> String {
    let question = json!({"workflow": "release", "step": "deploy", "run_id": format!("release-{number}")});
    json_text(&fleet.fetch_context("default", &question).await, "text").to_owned()
}

async fn publish_all(fleet: &Fleet, tenant: &str, events: impl IntoIterator<Item = Value>) {
    for event in events {
        let workflow = json_text(&event["data"], "workflow").to_owned();
        fleet.publish_event(tenant, &workflow, &event).await;
    }
}

/// Returns the event with its attributes in headers, as CloudEvents' binary mode has them.
fn encode_in_binary_mode(event: &Value) -> RawMessage {
    let attributes = ["specversion", "id", "source", "type"];
    let attributes = attributes.map(|name| (format!("ce-{name}"), json_text(event, name).to_owned()));
    let form = ("Content-Type".to_owned(), "application/json".to_owned());
    RawMessage {
        subject: "retro.run.completed.default.release".to_owned(),
        headers: attributes.into_iter().chain([form]).collect(),
        payload: event["data"].to_string().into_bytes(),
    }
}

/// Returns an event whose run has no id, and a message that is no event.
fn refused_messages() -> [RawMessage; 2] {
    let mut incomplete = build_run(99).build_event();
    incomplete["data"].as_object_mut().expect("an object").remove("run_id");
    let message = |form: &str, payload: &str| RawMessage {
        subject: "retro.run.completed.default.release".to_owned(),
        headers: vec![("Content-Type".to_owned(), form.to_owned())],
        payload: payload.as_bytes().to_vec(),
    };
    [
        message("application/cloudevents+json", &incomplete.to_string()),
        message("text/plain", "not an event at all"),
    ]
}

async fn dump_database(fleet: &Fleet, recording: &Recording) {
    match recording.kind {
        DatabaseKind::Sqlite => {
            let file = fleet.data_dir().join("retro.db");
            // Closing the last connection moves the write-ahead log into the file.
            SqliteStore::open(&file).await.expect("the database exists").disconnect().await;
            recording.write("retro.db.zst", &std::fs::read(file).expect("the database exists"));
        }
        DatabaseKind::Postgres => recording.write("rows.sql.zst", dump_rows(fleet).await.as_bytes()),
    }
}

/// Returns statements that fill the tables of a migrated database.
async fn dump_rows(fleet: &Fleet) -> String {
    // The rows refer to one another, and the tables are in alphabetical order.
    let mut sql = format!(
        "SET session_replication_role = replica;\n{MIGRATIONS_TABLE}DELETE FROM database_identity;\n"
    );
    for query in execute_column(fleet, ROWS_AS_STATEMENTS).await {
        for statement in execute_column(fleet, &query).await {
            sql.push_str(&statement);
            sql.push('\n');
        }
    }
    for statement in execute_column(fleet, NUMBERS_AS_STATEMENTS).await {
        sql.push_str(&statement);
        sql.push('\n');
    }
    sql
}

async fn execute_column(fleet: &Fleet, sql: &str) -> Vec<String> {
    let rows = fleet.postgres().execute_sql(sql).await;
    rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect()
}

async fn dump_broker(fleet: &Fleet, recording: &Recording) {
    let mut wire = NatsConnection::connect(fleet.nats_url()).await;
    let names = wire.request_api("STREAM.NAMES", &Value::Null).await;
    let (mut streams, mut messages, mut objects) = (Vec::new(), String::new(), String::new());
    for name in json_items(&names["streams"]).iter().filter_map(Value::as_str) {
        let config = wire.request_api(&format!("STREAM.INFO.{name}"), &Value::Null).await["config"].take();
        let mut consumers = wire.request_api(&format!("CONSUMER.LIST.{name}"), &Value::Null).await;
        let consumers: Vec<Value> = consumers["consumers"]
            .as_array_mut()
            .expect("a list")
            .iter_mut()
            .map(|one| one["config"].take())
            .collect();
        streams.push(json!({"config": config, "consumers": consumers}));
        let lines = if name == BODIES_STREAM { &mut objects } else { &mut messages };
        for message in wire.list_messages(name).await {
            let payload = String::from_utf8(message.payload).expect("text");
            let line = json!({"subject": message.subject, "headers": message.headers, "payload": payload});
            lines.push_str(&format!("{line}\n"));
        }
    }
    recording.write("streams.json", format!("{:#}\n", Value::from(streams)).as_bytes());
    recording.write("messages.jsonl.zst", messages.as_bytes());
    recording.write("objects.jsonl.zst", objects.as_bytes());
}
