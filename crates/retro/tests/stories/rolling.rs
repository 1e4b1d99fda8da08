//! Every role is restarted in turn while runs come in at full speed.
//!
//! `RETRO_STORY_RUNS` says how many runs; the default keeps the suite short.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::world::{Fleet, Kind, items, mending, text};

/// Workflows that the runs belong to.
const WORKFLOWS: [&str; 5] = ["build", "deploy", "migrate", "release", "triage"];
/// Runs, unless the environment says how many.
const RUNS: u64 = 1_000;
/// One process a role, and two of those that share their work.
const PROCESSES: [(&str, usize); 6] =
    [("counter", 2), ("sampler", 1), ("investigator", 2), ("writer", 1), ("relay", 1), ("gateway", 1)];

#[tokio::test]
async fn a_rolling_restart_of_every_role_loses_nothing_and_counts_nothing_twice() {
    let mut fleet = Fleet::start(Kind::Postgres, &PROCESSES).await;
    let runs: u64 =
        std::env::var("RETRO_STORY_RUNS").map_or(RUNS, |runs| runs.parse().expect("a number of runs"));
    let each = runs / WORKFLOWS.len() as u64;
    // One workflow's run after another's, as they come from engines that know nothing of each other.
    let of_each = WORKFLOWS.map(|workflow| mending(workflow, "run_tool", 0..each));
    let events = (0..each as usize).flat_map(|nth| of_each.iter().map(move |events| &events[nth]));
    let file = fleet.write_events("runs.jsonl", events);
    let mut emit = fleet.command(&["emit", &file, "-o", "json"]);
    let emit = tokio::spawn(async move { emit.output().await.expect("a command starts") });

    // However fast they are sent, every role is restarted once, and again while there is still something to send.
    let mut restarts = 0;
    let mut standing: Vec<usize> = (0..fleet.processes()).collect();
    while restarts == 0 || !emit.is_finished() {
        for nth in &mut standing {
            *nth = fleet.restart(*nth).await;
            restarts += 1;
        }
    }
    let sent = emit.await.expect("it is waited for");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let sent: Value = serde_json::from_slice(&sent.stdout).expect("JSON");
    assert_eq!(sent["sent"], json!(each * WORKFLOWS.len() as u64));
    fleet.counted("default", each * WORKFLOWS.len() as u64).await;
    fleet.still().await;

    let checked = fleet.sound().await;
    assert_eq!(fleet.ask(&["dead-letters", "list"]).await, json!([]));
    println!("{} runs sent, {restarts} restarts; {checked}", sent["sent"]);
    for (workflow, windows) in windows(&fleet).await {
        println!("{workflow}: {windows} windows");
    }
    for nth in standing {
        println!("{}", fleet.memory(nth));
    }
    fleet.stop_all().await;
}

/// How many windows each workflow had; they follow each other without a gap and without an overlap.
async fn windows(fleet: &Fleet) -> BTreeMap<String, usize> {
    let rows = fleet.ask(&["retrospectives", "list", "--limit", "100000"]).await;
    let mut windows = BTreeMap::<String, Vec<(u64, u64)>>::new();
    for row in items(&rows) {
        let one = &row["retrospective"];
        assert_eq!(one["state"], "closed", "{one}");
        let ordinal = |key: &str| one[key].as_u64().expect("an ordinal");
        let workflow = text(&one["key"], "workflow").to_owned();
        windows.entry(workflow).or_default().push((ordinal("first"), ordinal("last")));
    }
    for windows in windows.values_mut() {
        windows.sort_unstable();
        let follows = |pair: &[(u64, u64)]| pair[0].1 + 1 == pair[1].0;
        assert!(windows[0].0 == 1 && windows.windows(2).all(follows), "{windows:?}");
    }
    windows.into_iter().map(|(workflow, windows)| (workflow, windows.len())).collect()
}
