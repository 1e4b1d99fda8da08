//! Whether a memory helps is told wherever it is looked at, and rests on runs that say their task.

use serde_json::{Value, json};

use crate::world::{Run, World, items, mending, text};

const WORKFLOW: &str = "release";
/// Tasks that are tried with and without the memory: more than a claim takes.
const TASKS: u64 = 12;

/// Each task twice: a run that was handed the memory does it, one that was not fails at what the memory is about.
fn tried(memory: &str) -> Vec<Value> {
    let of = |task: u64, met: bool| {
        let run = Run::new(WORKFLOW, &format!("task-{task}-{met}")).told("Deploy the service.");
        let known = json!({"service": "checkout", "region": "eu-west-1"});
        let mut event = if met {
            run.call("deploy_service", &known, "deployed checkout").event()
        } else {
            run.mends("deploy_service", "region").event()
        };
        event["data"]["task"] = json!(format!("deploy-{task}"));
        event["data"]["outcome"] = json!(if met { "success" } else { "failure" });
        event["data"]["memories"] = json!({"presented": if met { vec![memory] } else { vec![] }});
        event
    };
    (0..TASKS).flat_map(|task| [of(task, true), of(task, false)]).collect()
}

async fn printed(world: &World, command: &str, id: &str) -> String {
    let answer = world.retro(&["memories", command, id]).await;
    assert_eq!(answer.code, Some(0), "{answer:?}");
    answer.out
}

#[tokio::test]
async fn a_memory_with_which_tasks_succeed_that_fail_without_it_is_said_to_help() {
    let mut world = World::start().await;
    world.emit("default", "first.jsonl", &mending(WORKFLOW, "deploy_service", 0..10)).await;
    let memories = world.ask(&["memories", "list", "--status", "active"]).await;
    let id = text(items(&memories).first().expect("ten runs leave an active memory"), "id").to_owned();
    for command in ["show", "why"] {
        let shown = printed(&world, command, &id).await;
        assert!(shown.contains("\neffect: no claim: 0 of 10 observations\n"), "{shown}");
    }

    world.emit("default", "tried.jsonl", &tried(&id)).await;
    let claim = "runs end well more often with it: +100.0 points of success, 90 % interval +";
    for command in ["show", "why", "effect"] {
        let shown = printed(&world, command, &id).await;
        assert!(shown.contains(claim), "{command}: {shown}");
    }
    let effect = world.ask(&["memories", "effect", &id]).await;
    assert_eq!(effect["effect"]["paired_tasks"], TASKS, "{effect}");
    let (status, why) = world.get("default", &format!("/v1/memories/{id}/why")).await;
    assert!(status == 200 && why.contains(claim), "{why}");
    world.sound().await;
    world.stop().await;
}

#[tokio::test]
async fn a_file_that_names_no_task_may_be_given_one() {
    let mut world = World::start().await;
    let event =
        Run::new(WORKFLOW, "of-a-file").told("Deploy.").call("deploy", &json!({}), "deployed").event();
    let file = world.path("run.json");
    std::fs::write(&file, event["data"]["trajectory"].to_string()).unwrap();
    let file = file.display().to_string();
    let none = world.retro(&["emit", &file, "--task", ""]).await;
    assert_eq!(none.code, Some(2), "{none:?}");
    world.ask(&["emit", &file, "--task", "deploy-7", "--workflow", WORKFLOW]).await;
    world.counted("default", 1).await;
    let runs = world.ask(&["runs", "--run", "of-a-file"]).await;
    assert!(runs.to_string().contains(r#""task":"deploy-7""#), "{runs}");
    world.still().await;
    world.stop().await;
}
