//! Tests what the command line answers to names that are misspelt, and what a package installs beside the program.

use serde_json::json;

use crate::world::{RunBuilder, World, build_correcting_runs};

#[tokio::test]
async fn a_misspelt_workflow_or_step_is_answered_with_the_nearest() {
    let mut world = World::start().await;
    world
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10))
        .await;
    let other = RunBuilder::new("triage", "t-1").with_call("read", &json!({}), "ok").build_event();
    world.emit_and_wait("default", "other.jsonl", &[other]).await;
    for arguments in [
        &["memories", "list", "--workflow", "relaese"][..],
        &["runs", "--workflow", "relaese"],
        &["reports", "list", "--workflow", "relaese"],
        &["retrospectives", "list", "--workflow", "relaese"],
        &["context", "--workflow", "relaese"],
        &["workflows", "stats", "relaese"],
    ] {
        let answer = world.run_retro(arguments).await;
        let notice = "tenant default has no workflow relaese; did you mean release?";
        assert!(answer.err.contains(notice), "{arguments:?}: {answer:?}");
    }
    let step = ["--workflow", "release", "--step", "depoly"];
    for arguments in [[&["memories", "list"][..], &step].concat(), [&["context"][..], &step].concat()] {
        let answer = world.run_retro(&arguments).await;
        assert!(answer.err.contains("did you mean deploy?"), "{arguments:?}: {answer:?}");
    }
    let known = world.run_retro(&["memories", "list", "--workflow", "triage"]).await;
    assert!(!known.err.contains("no workflow"), "it has no memory, and it is known: {known:?}");
    world.stop().await;
}

#[tokio::test]
async fn completions_and_manual_pages_name_every_command() {
    let world = World::empty();
    for shell in ["bash", "zsh", "fish"] {
        let script = world.run_retro(&["completions", shell]).await;
        assert_eq!(script.code, Some(0), "{script:?}");
        assert!(script.out.contains("dead-letters") && script.out.contains("repo-visibility"), "{shell}");
    }
    let folder = world.path("man/pages");
    let written = world.run_retro(&["man", folder.to_str().expect("a temporary folder is UTF-8")]).await;
    assert_eq!(written.code, Some(0), "{written:?}");
    let page = std::fs::read_to_string(folder.join("retro-memories-add.1")).expect("a page");
    assert!(page.contains("Add a memory in your own words"), "{page}");
}
