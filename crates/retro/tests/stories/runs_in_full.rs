//! Looks at runs and lists from the command line, as a person does: bare nouns, one run in full, Markdown, short ids,
//! and logs as JSON lines.

use serde_json::{Value, json};

use crate::world::{World, build_correcting_runs, json_items, json_text};

/// Returns ten runs of which the first was started by `anna` with an agent named `coder` and failed.
fn build_runs(workflow: &str) -> Vec<Value> {
    let mut runs = build_correcting_runs(workflow, "deploy_service", 0..10);
    let data = &mut runs[0]["data"];
    data["user"] = json!("anna");
    data["agent"] = json!({"name": "coder"});
    data["outcome"] = json!("failure");
    runs
}

#[tokio::test]
async fn a_run_is_shown_in_full_to_its_tenant_only() {
    let mut world = World::start().await;
    world.emit_and_wait("t", "runs.jsonl", &build_runs("release")).await;
    let rows = world.run_json(&["--tenant", "t", "runs", "--user", "anna", "--agent", "coder"]).await;
    assert_eq!((json_items(&rows).len(), &rows[0]["facts"]["run_id"]), (1, &json!("release-0")));
    let failed = world.run_json(&["--tenant", "t", "runs", "list", "--outcome", "failure"]).await;
    assert_eq!(failed, rows);
    assert_eq!(world.run_json(&["--tenant", "t", "runs", "--user", "bob"]).await, json!([]));

    let report = world.run_json(&["--tenant", "t", "retrospectives"]).await;
    let id = json_text(&report[0]["retrospective"], "id").to_owned();
    let detail = world.run_json(&["--tenant", "t", "retrospectives", "show", &id[..8]]).await;
    let looked = json_text(&detail["investigations"][0], "run").to_owned();
    let shown = world.run_json(&["--tenant", "t", "runs", "show", &looked]).await;
    let look = &shown["retrospectives"][0];
    assert_eq!((&look["id"], &look["sampling"]), (&json!(id), &json!("sampled")));
    let seen = &look["seen"][0];
    let place = &seen["quote"]["place"]["turn"];
    let turn = &shown["trajectory"]["turns"][place.as_u64().expect("a turn") as usize];
    assert_eq!(seen["quote"]["entry"], turn["entry"], "the quote names the emitter's own step");
    assert!(turn["entry"].is_u64() && !json_items(&turn["seen"]).is_empty(), "{turn}");

    let text = world.run_retro(&["--tenant", "t", "runs", "show", &looked, "--workflow", "release"]).await;
    for part in
        ["drawn into the sample by chance", "What was seen in it", "call of deploy_service", "step_id"]
    {
        assert!(text.out.contains(part), "{part}: {}", text.out);
    }
    let markdown = world.run_retro(&["--tenant", "t", "-o", "markdown", "runs", "show", &looked]).await;
    assert!(markdown.out.starts_with("# Run ") && markdown.out.contains("## Trajectory"), "{}", markdown.out);

    let foreign = world.run_retro(&["--tenant", "other", "runs", "show", &looked]).await;
    let missing = world.run_retro(&["--tenant", "other", "runs", "show", "no-such-run"]).await;
    assert_eq!((foreign.code, missing.code), (Some(3), Some(3)));
    assert_eq!(foreign.err.replace(&looked, "RUN"), missing.err.replace("no-such-run", "RUN"));
    assert_eq!(world.get("t", &format!("/v1/runs/release/{looked}")).await.0, 200, "positive control");
    assert_eq!(world.get("other", &format!("/v1/runs/release/{looked}")).await.0, 404);
    world.stop().await;
}

#[tokio::test]
async fn every_noun_lists_bare_and_as_markdown() {
    let mut world = World::start().await;
    world.emit_and_wait("default", "runs.jsonl", &build_runs("release")).await;
    world
        .emit_and_wait("default", "other.jsonl", &build_correcting_runs("rollout", "deploy_service", 0..1))
        .await;
    for noun in [
        "runs",
        "memories",
        "rules",
        "retrospectives",
        "reports",
        "proposals",
        "workflows",
        "outcomes",
        "dead-letters",
        "losses",
    ] {
        let (bare, list) = (world.run_retro(&[noun]).await, world.run_retro(&[noun, "list"]).await);
        assert_eq!((bare.code, &bare.out), (Some(0), &list.out), "{noun}: {bare:?}");
        let markdown = world.run_retro(&[noun, "-o", "markdown"]).await;
        assert_eq!(markdown.code, Some(0), "{noun}: {markdown:?}");
        assert!(!markdown.out.contains('─'), "{noun}: {}", markdown.out);
    }
    let memories = world.run_retro(&["memories", "--workflow", "release", "-o", "markdown"]).await.out;
    assert!(memories.starts_with("| weight | status |") && memories.contains("\n|---|"), "{memories}");
    let filtered = world.run_json(&["memories", "--workflow", "rollout"]).await;
    assert_eq!(filtered, json!([]), "the filters of a list apply to the bare noun");
    let misplaced = world.run_retro(&["memories", "--workflow", "release", "list"]).await;
    assert!(misplaced.code == Some(2) && misplaced.err.contains("belongs after"), "{misplaced:?}");
    let refused = world.run_retro(&["verify", "-o", "markdown"]).await;
    assert!(refused.code == Some(2) && refused.err.contains("no Markdown form"), "{refused:?}");

    let id = json_text(&world.run_json(&["reports"]).await[0]["retrospective"], "id").to_owned();
    let table = world.run_retro(&["reports"]).await.out;
    assert!(table.contains(&id[..8]) && !table.contains(&id), "tables have short ids: {table}");
    let report = world.run_retro(&["reports", "show", &id[..8], "-o", "markdown"]).await;
    assert!(report.out.starts_with("# Retrospective 1"), "{report:?}");
    assert_eq!(world.get("default", &format!("/v1/reports/{}", &id[..8])).await.0, 200);
    let missing = world.run_retro(&["--tenant", "other", "reports", "show", &id[..8]]).await;
    assert!(missing.code == Some(3) && missing.err.contains("there is no report"), "{missing:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_log_of_json_lines_can_be_parsed() {
    let world = World::empty();
    // The address is refused, which is logged as a warning or printed as an error; only log lines are JSON.
    let wrong = world.run_retro(&["--log-format", "xml", "workflows"]).await;
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    let mut command = world.command(&["config", "check"]);
    let refused = crate::world::run_command(command.env("RETRO_LOG_FORMAT", "xml")).await;
    assert!(refused.out.contains("log_format") || refused.err.contains("log_format"), "{refused:?}");
    let mut command = world.command(&["config", "print", "-o", "json", "--log-format", "json"]);
    let printed = crate::world::run_command(&mut command).await;
    assert!(printed.out.contains("log_format"), "{printed:?}");
}
