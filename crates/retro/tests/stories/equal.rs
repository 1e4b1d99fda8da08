//! Law 3: the same runs in the same order leave the same bytes, whatever they pass through.

use std::collections::BTreeMap;

use retro_core::canonical::sha256_hex;
use serde_json::{Value, json};

use crate::world::{Fleet, Kind, Run, World, airline, intercode, items, text};

const WORKFLOW: &str = "composed-settings";
/// Runs of a window.
const RUNS: usize = 10;
/// Windows of the composed workflow.
const ACTS: usize = 5;
/// The tools of the composed workflow, each with the argument that it wants.
const TOOLS: [(&str, &str); 5] = [
    ("set_dns", "zone"),
    ("set_tls", "issuer"),
    ("set_quota", "unit"),
    ("set_owner", "team"),
    ("set_cache", "ttl_s"),
];
/// Tools that one run uses.
const TOOLS_A_RUN: usize = 2;

/// What an export holds, for the person who reads the test's output.
fn told(export: &str) -> String {
    let mut kinds = BTreeMap::<String, u32>::new();
    let mut reports = BTreeMap::<String, u32>::new();
    for line in export.lines() {
        let line: Value = serde_json::from_str(line).expect("an export is a JSON object a line");
        match text(&line, "kind") {
            "change" => *kinds.entry(text(&line["value"]["effect"], "change").to_owned()).or_default() += 1,
            "report" => *reports.entry(text(&line, "workflow").to_owned()).or_default() += 1,
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

/// Two workflows of real runs, and a composed one whose agents follow what they are handed: a window at a time.
async fn learn(world: &World) {
    for file in [airline(), intercode()] {
        world.ask(&["emit", &file, "--pace", "10"]).await;
    }
    for act in 0..ACTS {
        let mut events = Vec::new();
        for number in act * RUNS..(act + 1) * RUNS {
            events.push(configure(world, act, number).await);
        }
        world.emit("default", &format!("act-{act}.jsonl"), &events).await;
        if act == 1 {
            delete_one(world).await;
        }
    }
}

/// The agent does what it is told about a tool, and finds out by itself what it is not told. In the last but one act a
/// tool has lost its argument.
async fn configure(world: &World, act: usize, number: usize) -> Value {
    let id = format!("settings-{number:03}");
    let question = json!({"workflow": WORKFLOW, "step": "deploy", "run_id": id});
    let advice = world.context("default", &question).await;
    let mut run =
        Run::new(WORKFLOW, &id).told(&format!("Configure the service.\n\n{}", text(&advice, "text")));
    for at in 0..TOOLS_A_RUN {
        let (tool, wanted) = TOOLS[(number * TOOLS_A_RUN + at) % TOOLS.len()];
        let (plain, full) =
            (json!({"service": "checkout"}), json!({"service": "checkout", wanted: "as agreed"}));
        let handed = items(&advice["memories"]).iter().any(|memory| {
            let title = text(memory, "title");
            title.contains(tool) && title.contains(&format!("pass `{wanted}`"))
        });
        run = match (act == ACTS - 2 && tool == "set_tls", handed) {
            (true, true) => {
                run.call(tool, &full, &format!("Error: unknown argument {wanted}")).call(tool, &plain, "done")
            }
            (true, false) => run.call(tool, &plain, "done"),
            (false, true) => run.call(tool, &full, "done"),
            (false, false) => {
                run.call(tool, &plain, &format!("Error: '{wanted}' is required")).call(tool, &full, "done")
            }
        };
    }
    run.event()
}

/// A person deletes what is known about one tool; its tombstone keeps it away.
async fn delete_one(world: &World) {
    let memories = world.ask(&["memories", "list", "--workflow", WORKFLOW, "--status", "active"]).await;
    let about = |memory: &&Value| text(&memory["lesson"], "title").contains("set_quota");
    let memory = items(&memories).iter().find(about).expect("a memory about set_quota");
    let delete = [
        "memories",
        "delete",
        text(memory, "id"),
        "--reason",
        "it asks by itself now",
        "--request",
        "ticket-7",
    ];
    world.ask(&delete).await;
}

#[tokio::test]
async fn one_process_on_sqlite_and_six_on_postgres_leave_the_same_bytes() {
    let mut one = World::start().await;
    learn(&one).await;
    let export = one.export().await;
    println!("one process, SQLite: {}", told(&export));
    one.sound().await;
    one.stop().await;

    let six = [("counter", 2), ("investigator", 2), ("sampler,relay", 1), ("writer,gateway", 1)];
    let fleet = Fleet::start(Kind::Postgres, &six).await;
    learn(&fleet).await;
    let other = fleet.export().await;
    println!("six processes, Postgres: {}", told(&other));
    fleet.sound().await;
    fleet.stop_all().await;

    let differ = export.lines().zip(other.lines()).find(|(one, other)| one != other);
    assert_eq!(differ, None);
    assert_eq!(export, other);
}
