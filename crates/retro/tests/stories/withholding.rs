//! Tests that a memory is withheld from some runs by chance, and that its effect is told from them.

use serde_json::{Value, json};

use crate::world::{RunBuilder, World, build_correcting_runs, json_items, json_text};

const WORKFLOW: &str = "release";
/// Runs that ask under the default policy; six of them are without the memory on average.
const ASKING: usize = 60;
/// Runs that ask while every other one is without the memory, and then end.
const ENDING: usize = 60;

async fn ask(world: &World, run: &str) -> Value {
    world.fetch_context("default", &json!({"workflow": WORKFLOW, "step": "deploy", "run_id": run})).await
}

/// Returns the run: with the memory it succeeds, without it fails at the memory's subject.
fn build_run(id: &str, is_handed: bool) -> Value {
    let run = RunBuilder::new(WORKFLOW, id).with_message("Deploy the service.");
    let known = json!({"service": "checkout", "region": "eu-west-1"});
    let mut event = if is_handed {
        run.with_call("deploy_service", &known, "deployed checkout").build_event()
    } else {
        run.with_corrected_call("deploy_service", "region").build_event()
    };
    event["data"]["outcome"] = json!(if is_handed { "success" } else { "failure" });
    event
}

#[tokio::test]
async fn a_memory_is_withheld_from_some_runs_by_chance_and_its_effect_is_told_from_them() {
    let mut world = World::empty();
    world.write_policy("");
    world.up().await;
    world
        .emit_and_wait("default", "first.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..10))
        .await;
    let memories = world.run_json(&["memories", "list", "--status", "active"]).await;
    let id =
        json_text(json_items(&memories).first().expect("ten runs leave an active memory"), "id").to_owned();

    let names: Vec<_> = (0..ASKING).map(|number| format!("asks-{number}")).collect();
    let mut without = Vec::new();
    for name in &names {
        let answer = ask(&world, name).await;
        assert_eq!(answer["recorded"], "queued", "{answer}");
        assert_eq!(ask(&world, name).await, answer, "the same run gets the same answer");
        let handed = json_items(&answer["memories"]).len();
        assert_eq!(answer["withheld_by_chance"], 1 - handed, "{answer}");
        if handed == 0 {
            assert_eq!(answer["text"], "", "{answer}");
            assert!(json_text(&answer, "reason").contains("by chance"), "{answer}");
            without.push(name);
        }
    }
    assert!((1..=15).contains(&without.len()), "{without:?}");
    let preview = ["context", "--workflow", WORKFLOW, "--step", "deploy"];
    let preview = world.run_json(&preview).await;
    assert_eq!((json_items(&preview["memories"]).len(), &preview["withheld_by_chance"]), (1, &json!(0)));

    world.write_policy("[context]\nwithhold_permille = 500\n");
    world.wait_for_log("withhold_permille 100 -> 500").await;
    let mut runs = Vec::new();
    let mut handed = 0;
    for number in 0..ENDING {
        let name = format!("ends-{number}");
        let is_handed = !json_items(&ask(&world, &name).await["memories"]).is_empty();
        handed += usize::from(is_handed);
        runs.push(build_run(&name, is_handed));
    }
    world.emit_and_wait("default", "ends.jsonl", &runs).await;
    let effect = world.run_json(&["memories", "effect", &id]).await;
    let arm = |runs, succeeded| json!({"runs": runs, "succeeded": succeeded});
    assert_eq!(effect["effect"]["handed"], arm(handed, handed), "{effect}");
    assert_eq!(effect["effect"]["withheld"], arm(ENDING - handed, 0), "{effect}");
    assert!(effect["effect"]["interval"]["low_milli"].as_i64().expect("an interval") > 0, "{effect}");
    let claim = "runs end well more often with it: 95 % interval +";
    let counts = format!("handed to {handed} and by chance withheld from {} runs", ENDING - handed);
    for command in ["show", "why", "effect"] {
        let shown = world.run_retro(&["memories", command, &id]).await;
        assert!(shown.out.contains(claim) && shown.out.contains(&counts), "{command}: {shown:?}");
    }

    world.write_policy("[context]\nwithhold_permille = 0\n");
    world.wait_for_log("withhold_permille 500 -> 0").await;
    for name in &without {
        let answer = ask(&world, name).await;
        assert_eq!((json_items(&answer["memories"]).len(), &answer["withheld_by_chance"]), (1, &json!(0)));
    }
    world.verify_store().await;
    world.stop().await;
}
