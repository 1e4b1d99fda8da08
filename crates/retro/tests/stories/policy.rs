//! Edits the policy while the program runs.

use std::ops::Range;

use serde_json::{Value, json};

use crate::world::{DatabaseKind, Fleet, World, build_correcting_runs, json_items, json_text};

const WORKFLOW: &str = "release";

#[tokio::test]
async fn an_edited_policy_applies_without_a_restart_and_an_invalid_edit_is_ignored() {
    let mut world = World::empty();
    let file = world.write_policy("[trigger]\nthreshold_runs = 6\n");
    world.up().await;
    emit_and_wait_for_report(&world, "deploy_service", 0..6, 1).await;

    world.write_policy("[trigger]\nthreshold_rnus = 3\n[learning]\nhelped_delta = 2000\n");
    let refused = [
        format!("{file}:2: unknown key `threshold_rnus`; did you mean `threshold_runs`?"),
        format!("{file}:4: `helped_delta` is 2000; it must be a whole number, 0 to 1000"),
    ];
    world.wait_for_log(&refused.join("; ")).await;
    for command in [&["config", "check"][..], &["pipeline", "check"]] {
        let answer = world.run_retro(command).await;
        assert_eq!(
            (answer.code, answer.out.trim_end()),
            (Some(4), refused.join("\n").as_str()),
            "{answer:?}"
        );
    }
    emit_and_wait_for_report(&world, "deploy_service", 6..12, 2).await;

    world.write_policy("[trigger]\nthreshold_runs = 3\n[workflow.release]\nhelped_delta = 70\n");
    world.wait_for_log("threshold_runs 6 -> 3, workflow release: threshold_runs 6 -> 3, workflow release: helped_delta 100 -> 70").await;
    emit_and_wait_for_report(&world, "deploy_service", 12..15, 3).await;

    let policies = list_report_policies(&world).await;
    let seen: Vec<_> =
        policies.iter().map(|policy| (&policy["threshold_runs"], &policy["helped_delta"])).collect();
    let (six, three, usual, own) = (json!(6), json!(3), json!(100), json!(70));
    assert_eq!(seen, [(&six, &usual), (&six, &usual), (&three, &own)]);

    let explained = world.run_json(&["pipeline", "explain", "--workflow", WORKFLOW]).await;
    assert_eq!(explained["threshold_runs"]["source"], format!("{file}:2"));
    assert_eq!(explained["helped_delta"]["value"], 70);
    assert_eq!(explained["harmed_delta"]["source"], "default");
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn an_open_retrospective_keeps_its_policy_and_the_next_one_uses_the_edited_policy() {
    let mut fleet = Fleet::unstarted(DatabaseKind::Sqlite).await;
    fleet.write_policy("[trigger]\nthreshold_runs = 6\n[selection]\nsample_permille = 1000\n[learning]\nconfirmed_weight = 300\n");
    fleet.start_broker().await;
    fleet.migrate().await;
    let others = fleet.serve("counter,sampler,writer,relay");
    fleet.wait_until_ready(others).await;
    let file = fleet.write_events("first.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..6));
    fleet.run_json(&["emit", &file]).await;
    let under_way = async || {
        let rows = fleet.run_json(&["retrospectives", "list"]).await;
        json_items(&rows).iter().any(|row| row["retrospective"]["state"] == "investigating").then_some(())
    };
    fleet.wait_for("a retrospective waits for an investigator", under_way).await;

    fleet.write_policy("[trigger]\nthreshold_runs = 3\n[selection]\nsample_permille = 1000\n[learning]\nconfirmed_weight = 500\n");
    fleet.wait_for_log("threshold_runs 6 -> 3, confirmed_weight 300 -> 500").await;
    let investigator = fleet.serve("investigator");
    fleet.wait_until_ready(investigator).await;
    wait_for_reports(&fleet, 1).await;
    emit_and_wait_for_report(&fleet, "restart_service", 6..9, 2).await;

    let begun_with: Vec<_> = list_report_policies(&fleet)
        .await
        .iter()
        .map(|policy| (policy["threshold_runs"].as_u64(), policy["confirmed_weight"].as_u64()))
        .collect();
    assert_eq!(begun_with, [(Some(6), Some(300)), (Some(3), Some(500))]);
    let memories = fleet.run_json(&["memories", "list", "--status", "active"]).await;
    let weight = |tool: &str| {
        let of = json_items(&memories).iter().find(|memory| memory["lesson"]["cue"]["tool"] == tool);
        of.and_then(|memory| memory["weight"].as_u64())
    };
    assert_eq!((weight("deploy_service"), weight("restart_service")), (Some(300), Some(500)), "{memories}");
    fleet.verify_store().await;
    fleet.stop_all().await;
}

/// Emits these runs and waits for their report, which is the workflow's `nth`.
async fn emit_and_wait_for_report(world: &World, tool: &str, runs: Range<u64>, nth: usize) {
    let file = world.write_events(&format!("{nth}.jsonl"), &build_correcting_runs(WORKFLOW, tool, runs));
    world.run_json(&["emit", &file]).await;
    wait_for_reports(world, nth).await;
}

/// Waits until this many retrospectives are closed.
async fn wait_for_reports(world: &World, nth: usize) {
    let there = async || {
        let rows = world.run_json(&["reports", "list"]).await;
        let closed = json_items(&rows).iter().filter(|row| row["retrospective"]["state"] == "closed").count();
        (closed == nth).then_some(())
    };
    world.wait_for(&format!("report {nth}"), there).await;
}

/// Returns the policy of each report of the workflow, oldest first.
async fn list_report_policies(world: &World) -> Vec<Value> {
    let rows = world.run_json(&["reports", "list", "--workflow", WORKFLOW]).await;
    let mut policies = Vec::new();
    for row in json_items(&rows).iter().rev() {
        let report = world.run_json(&["reports", "show", json_text(&row["retrospective"], "id")]).await;
        policies.push(report["policy"].clone());
    }
    policies
}
