//! Restarts every role in turn while runs arrive at full speed.
//!
//! `RETRO_STORY_RUNS` sets the number of runs; the default keeps the suite short.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::world::{DatabaseKind, Fleet, build_correcting_runs, json_items, json_text};

/// Workflows of the runs.
const WORKFLOWS: [&str; 5] = ["build", "deploy", "migrate", "release", "triage"];
/// Default number of runs.
const RUNS: u64 = 1_000;
/// One process per role, and two for the roles that share their work.
const PROCESSES: [(&str, usize); 6] =
    [("counter", 2), ("sampler", 1), ("investigator", 2), ("writer", 1), ("relay", 1), ("gateway", 1)];

#[tokio::test]
async fn a_rolling_restart_of_every_role_loses_nothing_and_counts_nothing_twice() {
    let mut fleet = Fleet::start(DatabaseKind::Postgres, &PROCESSES).await;
    let runs: u64 =
        std::env::var("RETRO_STORY_RUNS").map_or(RUNS, |runs| runs.parse().expect("a number of runs"));
    let each = runs / WORKFLOWS.len() as u64;
    // Runs of the workflows in turn, as if from independent engines.
    let of_each = WORKFLOWS.map(|workflow| build_correcting_runs(workflow, "run_tool", 0..each));
    let events = (0..each as usize).flat_map(|nth| of_each.iter().map(move |events| &events[nth]));
    let file = fleet.write_events("runs.jsonl", events);
    let mut emit = fleet.command(&["emit", &file, "-o", "json"]);
    let emit = tokio::spawn(async move { emit.output().await.expect("a command starts") });

    // Every role is restarted at least once, and repeatedly while events are still being sent.
    let mut restarts = 0;
    let mut standing: Vec<usize> = (0..fleet.process_count()).collect();
    while restarts == 0 || !emit.is_finished() {
        for nth in &mut standing {
            *nth = fleet.restart(*nth).await;
            restarts += 1;
        }
    }
    let sent = emit.await.expect("the task does not panic");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let sent: Value = serde_json::from_slice(&sent.stdout).expect("JSON");
    assert_eq!(sent["sent"], json!(each * WORKFLOWS.len() as u64));
    fleet.wait_until_counted("default", each * WORKFLOWS.len() as u64).await;
    fleet.wait_until_idle().await;

    let checked = fleet.verify_store().await;
    assert_eq!(fleet.run_json(&["dead-letters", "list"]).await, json!([]));
    println!("{} runs sent, {restarts} restarts; {checked}", sent["sent"]);
    for (workflow, windows) in count_windows(&fleet).await {
        println!("{workflow}: {windows} windows");
    }
    for nth in standing {
        println!("{}", fleet.describe_memory(nth));
    }
    fleet.stop_all().await;
}

/// Returns the number of windows per workflow, and asserts that they are contiguous and do not overlap.
async fn count_windows(fleet: &Fleet) -> BTreeMap<String, usize> {
    let rows = fleet.run_json(&["retrospectives", "list", "--limit", "100000"]).await;
    let mut windows = BTreeMap::<String, Vec<(u64, u64)>>::new();
    for row in json_items(&rows) {
        let one = &row["retrospective"];
        assert_eq!(one["state"], "closed", "{one}");
        let ordinal = |key: &str| one[key].as_u64().expect("an ordinal");
        let workflow = json_text(&one["key"], "workflow").to_owned();
        windows.entry(workflow).or_default().push((ordinal("first"), ordinal("last")));
    }
    for windows in windows.values_mut() {
        windows.sort_unstable();
        let follows = |pair: &[(u64, u64)]| pair[0].1 + 1 == pair[1].0;
        assert!(windows[0].0 == 1 && windows.windows(2).all(follows), "{windows:?}");
    }
    windows.into_iter().map(|(workflow, windows)| (workflow, windows.len())).collect()
}
