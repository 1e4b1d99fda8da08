//! Tests law 3: the same runs in the same order leave the same bytes, on either database, in one process or
//! several.

use std::collections::BTreeMap;

use retro_core::canonical::sha256_hex;
use retro_core::id::{Tenant, Workflow};
use retro_store::RunFilter;
use serde_json::{Value, json};

use crate::world::{
    DatabaseKind, Fleet, RunBuilder, World, airline_fixture, intercode_fixture, json_items, json_text,
};

const WORKFLOW: &str = "composed-settings";
/// Runs per window.
const RUNS: usize = 10;
/// Windows of the generated workflow.
const WINDOWS: usize = 5;
/// Tools of the generated workflow, each with its required argument.
const TOOLS: [(&str, &str); 5] = [
    ("set_dns", "zone"),
    ("set_tls", "issuer"),
    ("set_quota", "unit"),
    ("set_owner", "team"),
    ("set_cache", "ttl_s"),
];
/// Number of tools per run.
const TOOLS_PER_RUN: usize = 2;

/// Summarises an export for the test's output and asserts that enough happened.
fn summarize_export(export: &str) -> String {
    let mut kinds = BTreeMap::<String, u32>::new();
    let mut reports = BTreeMap::<String, u32>::new();
    for line in export.lines() {
        let line: Value = serde_json::from_str(line).expect("an export has one JSON object per line");
        match json_text(&line, "kind") {
            "change" => {
                *kinds.entry(json_text(&line["value"]["effect"], "change").to_owned()).or_default() += 1
            }
            "report" => *reports.entry(json_text(&line, "workflow").to_owned()).or_default() += 1,
            _ => {}
        }
    }
    let (bytes, hash) = (export.len(), sha256_hex(export.as_bytes()));
    assert!(
        reports.len() >= 3 && reports.values().all(|count| *count >= 3),
        "too little happened: {reports:?}"
    );
    assert!(kinds.len() >= 6, "too few kinds of change: {kinds:?}");
    format!("sha256 {hash}, {bytes} bytes; changes {kinds:?}; retrospectives {reports:?}")
}

/// Emits two workflows of real runs, and a generated one whose agents follow their memories, one window at a
/// time.
async fn run_workload(world: &World) {
    for file in [airline_fixture(), intercode_fixture()] {
        world.run_json(&["emit", &file, "--pause-every", "10"]).await;
    }
    for window in 0..WINDOWS {
        let mut events = Vec::new();
        for number in window * RUNS..(window + 1) * RUNS {
            events.push(run_agent(world, window, number).await);
        }
        world.emit_and_wait("default", &format!("act-{window}.jsonl"), &events).await;
        if window == 1 {
            delete_quota_memory(world).await;
        }
    }
}

/// Returns the run of an agent that follows its memories about a tool and finds out the rest itself. In the
/// last window but one, a tool has lost its argument.
async fn run_agent(world: &World, window: usize, number: usize) -> Value {
    let id = format!("settings-{number:03}");
    let question = json!({"workflow": WORKFLOW, "step": "deploy", "run_id": id});
    let advice = world.fetch_context("default", &question).await;
    let mut run = RunBuilder::new(WORKFLOW, &id)
        .with_message(&format!("Configure the service.\n\n{}", json_text(&advice, "text")));
    for at in 0..TOOLS_PER_RUN {
        let (tool, wanted) = TOOLS[(number * TOOLS_PER_RUN + at) % TOOLS.len()];
        let (plain, full) =
            (json!({"service": "checkout"}), json!({"service": "checkout", wanted: "as agreed"}));
        let has_memory = json_items(&advice["memories"]).iter().any(|memory| {
            let title = json_text(memory, "title");
            title.contains(tool) && title.contains(&format!("pass `{wanted}`"))
        });
        run = match (window == WINDOWS - 2 && tool == "set_tls", has_memory) {
            (true, true) => run
                .with_call(tool, &full, &format!("Error: unknown argument {wanted}"))
                .with_call(tool, &plain, "done"),
            (true, false) => run.with_call(tool, &plain, "done"),
            (false, true) => run.with_call(tool, &full, "done"),
            (false, false) => run
                .with_call(tool, &plain, &format!("Error: '{wanted}' is required"))
                .with_call(tool, &full, "done"),
        };
    }
    give_feedback(world, &id, number, &advice).await;
    run.build_event()
}

/// Says what the first memory did, for every fourth run.
async fn give_feedback(world: &World, run: &str, number: usize, advice: &Value) {
    let Some(memory) = json_items(&advice["memories"]).first().filter(|_| number % 4 == 1) else { return };
    let verdict = if number % 8 == 1 { "helped" } else { "hurt" };
    let said = json!({"memory": memory["id"], "verdict": verdict, "run": run, "workflow": WORKFLOW});
    let (status, answer) = world.post_json("default", "/v1/feedback", &said).await;
    assert_eq!((status, json_text(&answer, "recorded")), (200, "recorded"), "{answer}");
}

/// Deletes the memory about one tool. Its tombstone prevents a new one.
async fn delete_quota_memory(world: &World) {
    let memories = world.run_json(&["memories", "list", "--workflow", WORKFLOW, "--status", "active"]).await;
    let about = |memory: &&Value| json_text(&memory["lesson"], "title").contains("set_quota");
    let memory = json_items(&memories).iter().find(about).expect("a memory about set_quota");
    let delete = [
        "memories",
        "delete",
        json_text(memory, "id"),
        "--reason",
        "it asks by itself now",
        "--request",
        "ticket-7",
    ];
    world.run_json(&delete).await;
}

#[tokio::test]
async fn one_process_on_sqlite_and_six_on_postgres_leave_the_same_bytes() {
    let mut one = World::start().await;
    run_workload(&one).await;
    let export = one.export_canonical().await;
    println!("one process, SQLite: {}", summarize_export(&export));
    one.verify_store().await;
    one.stop().await;

    let six = [("counter", 2), ("investigator", 2), ("sampler,relay", 1), ("writer,gateway", 1)];
    let fleet = Fleet::start(DatabaseKind::Postgres, &six).await;
    run_workload(&fleet).await;
    let other = fleet.export_canonical().await;
    println!("six processes, Postgres: {}", summarize_export(&other));
    fleet.verify_store().await;
    fleet.stop_all().await;

    let differ = export.lines().zip(other.lines()).find(|(one, other)| one != other);
    assert_eq!(differ, None);
    assert_eq!(export, other);
}

/// Workflows of the backlog that two counters share.
const BACKLOG_WORKFLOWS: usize = 20;
/// Runs of each of them, more than a batch of each counter holds.
const BACKLOG_RUNS: usize = 100;

#[tokio::test]
async fn the_first_windows_of_a_backlog_are_its_first_runs_although_two_counters_share_it() {
    let mut fleet = Fleet::start(DatabaseKind::Postgres, &[]).await;
    let workflow = |nth: usize| format!("backlog-{nth:02}");
    let run_id = |nth: usize, run: usize| format!("run-{nth:02}-{run:03}");
    let events: Vec<Value> = (0..BACKLOG_RUNS)
        .flat_map(|run| (0..BACKLOG_WORKFLOWS).map(move |nth| (run, nth)))
        .map(|(run, nth)| {
            RunBuilder::new(&workflow(nth), &run_id(nth, run)).with_message("Deploy it.").build_event()
        })
        .collect();
    let file = fleet.write_events("backlog.jsonl", &events);
    fleet.run_json(&["emit", &file]).await;
    for _ in 0..2 {
        fleet.serve("counter");
    }
    let total = (BACKLOG_WORKFLOWS * BACKLOG_RUNS) as u64;
    fleet.wait_until_counted("default", total).await;

    let (store, tenant) = (fleet.open_store().await, Tenant::default_tenant());
    fleet
        .wait_for("every workflow has a window", async || {
            let rows = store.list_workflows(&tenant).await.expect("the store can be read");
            rows.iter().all(|row| row.state.open).then_some(())
        })
        .await;
    for nth in 0..BACKLOG_WORKFLOWS {
        let workflow = Workflow::new(workflow(nth)).expect("a name");
        let filter = RunFilter { workflow: Some(workflow.clone()), limit: 1000, ..RunFilter::default() };
        let mut runs = store.list_runs(&tenant, &filter).await.expect("the store can be read");
        runs.sort_by_key(|run| run.ordinal);
        let rows =
            store.list_retrospectives(&tenant, Some(&workflow), 9).await.expect("the store can be read");
        let [row] = rows.as_slice() else { panic!("one window of {workflow}: {rows:?}") };
        assert_eq!((row.retrospective.first, row.retrospective.last), (1, RUNS as u64), "{workflow}");
        let window: Vec<&str> = runs.iter().take(RUNS).map(|run| run.facts.run_id.as_str()).collect();
        assert_eq!(window, (0..RUNS).map(|run| run_id(nth, run)).collect::<Vec<_>>(), "{workflow}");
    }
    fleet.stop_all().await;
}
