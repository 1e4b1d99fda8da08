//! Tests that runs with and without a memory are compared, and that this is not called its effect.

use serde_json::{Value, json};

use crate::world::{RunBuilder, World, build_correcting_runs, json_items, json_text};

const WORKFLOW: &str = "release";
/// Number of tasks tried with and without the memory: more than a difference needs.
const TASKS: u64 = 12;

/// Returns two runs per task: one with the memory, which succeeds, and one without it, which fails at the
/// memory's subject.
fn build_paired_runs(memory: &str) -> Vec<Value> {
    let of = |task: u64, met: bool| {
        let run =
            RunBuilder::new(WORKFLOW, &format!("task-{task}-{met}")).with_message("Deploy the service.");
        let known = json!({"service": "checkout", "region": "eu-west-1"});
        let mut event = if met {
            run.with_call("deploy_service", &known, "deployed checkout").build_event()
        } else {
            run.with_corrected_call("deploy_service", "region").build_event()
        };
        event["data"]["task"] = json!(format!("deploy-{task}"));
        event["data"]["outcome"] = json!(if met { "success" } else { "failure" });
        event["data"]["memories"] = json!({"presented": if met { vec![memory] } else { vec![] }});
        event
    };
    (0..TASKS).flat_map(|task| [of(task, true), of(task, false)]).collect()
}

async fn print_memory(world: &World, command: &str, id: &str) -> String {
    let answer = world.run_retro(&["memories", command, id]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    answer.out
}

#[tokio::test]
async fn a_difference_that_chance_did_not_decide_is_shown_and_not_called_an_effect() {
    let mut world = World::start().await;
    world
        .emit_and_wait("default", "first.jsonl", &build_correcting_runs(WORKFLOW, "deploy_service", 0..10))
        .await;
    let memories = world.run_json(&["memories", "list", "--status", "active"]).await;
    let id =
        json_text(json_items(&memories).first().expect("ten runs leave an active memory"), "id").to_owned();
    world.emit_and_wait("default", "tried.jsonl", &build_paired_runs(&id)).await;
    let unknown = "not known yet: handed to 0 and by chance withheld from 0 runs";
    for command in ["show", "why"] {
        let shown = print_memory(&world, command, &id).await;
        assert!(shown.contains(&format!("\neffect: {unknown}\n")), "{shown}");
    }
    let shown = print_memory(&world, "effect", &id).await;
    let compared = "not by chance, so not its effect:\n  with it     12 of 12 runs succeeded\n";
    for part in [unknown, compared, "  +100.0 points, task by task over 12 tasks\n"] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    let effect = world.run_json(&["memories", "effect", &id]).await;
    assert_eq!(
        (&effect["effect"]["interval"], &effect["comparison"]["paired_tasks"]),
        (&json!(null), &json!(TASKS))
    );
    let (status, why) = world.get("default", &format!("/v1/memories/{id}/why")).await;
    assert!(status == 200 && why.contains(unknown), "{why}");
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn emit_can_name_the_task_of_a_file_without_one() {
    let mut world = World::start().await;
    let event = RunBuilder::new(WORKFLOW, "of-a-file")
        .with_message("Deploy.")
        .with_call("deploy", &json!({}), "deployed")
        .build_event();
    let file = world.path("run.json");
    std::fs::write(&file, event["data"]["trajectory"].to_string()).unwrap();
    let file = file.display().to_string();
    let none = world.run_retro(&["emit", &file, "--task", ""]).await;
    assert_eq!(none.code, Some(2), "{none:?}");
    world.run_json(&["emit", &file, "--task", "deploy-7", "--workflow", WORKFLOW]).await;
    world.wait_until_counted("default", 1).await;
    let runs = world.run_json(&["runs", "--run", "of-a-file"]).await;
    assert!(runs.to_string().contains(r#""task":"deploy-7""#), "{runs}");
    world.wait_until_idle().await;
    world.stop().await;
}
