//! The policy is edited while everything runs.

use std::ops::Range;

use serde_json::{Value, json};

use crate::world::{Fleet, Kind, World, items, mending, text};

const WORKFLOW: &str = "release";

#[tokio::test]
async fn an_edited_policy_is_taken_up_without_a_restart_and_a_broken_edit_stops_nothing() {
    let mut world = World::empty();
    let file = world.write_policy("[policy]\nthreshold_runs = 6\n");
    world.up().await;
    reported(&world, "deploy_service", 0..6, 1).await;

    world.write_policy("[policy]\nthreshold_rnus = 3\nhelped_delta = 2000\n");
    let refused = [
        format!("{file}:2: unknown key `threshold_rnus`; did you mean `threshold_runs`?"),
        format!("{file}:3: `helped_delta` is 2000; it must be a whole number, 0 to 1000"),
    ];
    world.logged(&refused.join("; ")).await;
    for command in [&["config", "check"][..], &["pipeline", "check"]] {
        let answer = world.retro(command).await;
        assert_eq!(
            (answer.code, answer.out.trim_end()),
            (Some(4), refused.join("\n").as_str()),
            "{answer:?}"
        );
    }
    reported(&world, "deploy_service", 6..12, 2).await;

    world.write_policy("[policy]\nthreshold_runs = 3\n[workflow.release]\nhelped_delta = 70\n");
    world.logged("threshold_runs 6 -> 3, workflow release: threshold_runs 6 -> 3, workflow release: helped_delta 100 -> 70").await;
    reported(&world, "deploy_service", 12..15, 3).await;

    let policies = policies(&world).await;
    let seen: Vec<_> =
        policies.iter().map(|policy| (&policy["threshold_runs"], &policy["helped_delta"])).collect();
    let (six, three, usual, own) = (json!(6), json!(3), json!(100), json!(70));
    assert_eq!(seen, [(&six, &usual), (&six, &usual), (&three, &own)]);

    let explained = world.ask(&["pipeline", "explain", "--workflow", WORKFLOW]).await;
    assert_eq!(explained["threshold_runs"]["from"], format!("{file}:2"));
    assert_eq!(explained["helped_delta"]["value"], 70);
    assert_eq!(explained["harmed_delta"]["from"], "default");
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn a_retrospective_under_way_keeps_the_policy_it_began_with_and_the_next_one_has_the_edited() {
    let mut fleet = Fleet::nowhere(Kind::Sqlite).await;
    fleet.write_policy("[policy]\nthreshold_runs = 6\nsample_permille = 1000\nconfirmed_weight = 300\n");
    fleet.start_broker().await;
    fleet.migrate().await;
    let others = fleet.serve("counter,sampler,writer,relay");
    fleet.ready(others).await;
    let file = fleet.write_events("first.jsonl", &mending(WORKFLOW, "deploy_service", 0..6));
    fleet.ask(&["emit", &file]).await;
    let under_way = async || {
        let rows = fleet.ask(&["retrospectives", "list"]).await;
        items(&rows).iter().any(|row| row["retrospective"]["state"] == "investigating").then_some(())
    };
    fleet.until("a retrospective waits for an investigator", under_way).await;

    fleet.write_policy("[policy]\nthreshold_runs = 3\nsample_permille = 1000\nconfirmed_weight = 500\n");
    fleet.logged("threshold_runs 6 -> 3, confirmed_weight 300 -> 500").await;
    let investigator = fleet.serve("investigator");
    fleet.ready(investigator).await;
    closed(&fleet, 1).await;
    reported(&fleet, "restart_service", 6..9, 2).await;

    let begun_with: Vec<_> = policies(&fleet)
        .await
        .iter()
        .map(|policy| (policy["threshold_runs"].as_u64(), policy["confirmed_weight"].as_u64()))
        .collect();
    assert_eq!(begun_with, [(Some(6), Some(300)), (Some(3), Some(500))]);
    let memories = fleet.ask(&["memories", "list", "--status", "active"]).await;
    let weight = |tool: &str| {
        let of = items(&memories).iter().find(|memory| memory["lesson"]["subject"] == tool);
        of.and_then(|memory| memory["weight"].as_u64())
    };
    assert_eq!((weight("deploy_service"), weight("restart_service")), (Some(300), Some(500)), "{memories}");
    fleet.sound().await;
    fleet.stop_all().await;
}

/// Emits these runs and waits for the report that they bring, which is the workflow's `nth`.
async fn reported(world: &World, tool: &str, runs: Range<u64>, nth: usize) {
    let file = world.write_events(&format!("{nth}.jsonl"), &mending(WORKFLOW, tool, runs));
    world.ask(&["emit", &file]).await;
    closed(world, nth).await;
}

/// Waits until so many retrospectives are over.
async fn closed(world: &World, nth: usize) {
    let there = async || {
        let rows = world.ask(&["reports", "list"]).await;
        let closed = items(&rows).iter().filter(|row| row["retrospective"]["state"] == "closed").count();
        (closed == nth).then_some(())
    };
    world.until(&format!("report {nth}"), there).await;
}

/// What each report of the workflow was made under, the first one first.
async fn policies(world: &World) -> Vec<Value> {
    let rows = world.ask(&["reports", "list", "--workflow", WORKFLOW]).await;
    let mut policies = Vec::new();
    for row in items(&rows).iter().rev() {
        let report = world.ask(&["reports", "show", text(&row["retrospective"], "id")]).await;
        policies.push(report["policy"].clone());
    }
    policies
}
