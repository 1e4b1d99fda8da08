//! Runs the clients of `clients/` against the program.

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::world::{CommandOutput, World, build_correcting_runs, project_path, run_command};

/// Path of the Python client.
fn python_client() -> String {
    project_path("clients/python/retrospect.py")
}

/// Runs the Python client with this gateway and spool.
async fn run_python(url: &str, spool: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new("python3");
    command.arg(python_client()).args(["--url", url, "--timeout", "10", "--spool"]);
    run_command(command.arg(spool).args(arguments)).await
}

#[tokio::test]
async fn the_python_client_keeps_runs_while_the_gateway_is_away_and_never_fails_a_run() {
    let mut world = World::start().await;
    let (url, spool) = (world.http_url().to_owned(), world.path("spool"));
    let runs = build_correcting_runs("deploy", "deploy_service", 0..10);
    let files: Vec<String> = runs
        .iter()
        .enumerate()
        .map(|(nth, run)| world.write_file(&format!("{nth}.json"), run.to_string()))
        .collect();
    let (last, first) = files.split_last().expect("ten runs");
    let mut send = vec!["send"];
    send.extend(first.iter().map(String::as_str));
    let sent = run_python(&url, &spool, &send).await;
    assert_eq!(sent.code, Some(0), "{sent:?}");

    world.stop().await;
    let kept = run_python(&url, &spool, &["send", last]).await;
    assert_eq!(kept.code, Some(1), "{kept:?}");
    let asked = run_python(&url, &spool, &["context", "--workflow", "deploy", "--step", "deploy"]).await;
    assert_eq!((asked.code, asked.out.as_str()), (Some(0), ""), "{asked:?}");

    world.up().await;
    let url = world.http_url().to_owned();
    let flushed = run_python(&url, &spool, &["flush"]).await;
    assert_eq!(flushed.code, Some(0), "{flushed:?}");
    world.wait_until_counted("default", 10).await;
    world.wait_until_idle().await;
    let asked = run_python(&url, &spool, &["context", "--workflow", "deploy", "--step", "deploy"]).await;
    assert!(asked.out.contains("deploy_service"), "{asked:?}");

    let refused = world.write_file("refused.json", r#"{"specversion": "1.0", "id": "x"}"#);
    let answer = run_python(&url, &spool, &["send", &refused]).await;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let names: Vec<String> = std::fs::read_dir(spool.join("refused"))
        .expect("the folder for refused events")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), 2, "the event and the reason: {names:?}");
    world.stop().await;
}

/// Composes the transcript of a session of Claude Code in which a call fails without an argument.
fn compose_transcript(session: &str) -> String {
    let entry = |kind: &str, content: Value| json!({"type": kind, "sessionId": session, "timestamp": "2026-11-20T10:00:00Z", "message": {"role": kind, "content": content}});
    let call = |id: &str, input: Value| json!([{"type": "tool_use", "id": id, "name": "deploy_service", "input": input}]);
    let result = |id: &str, text: &str, failed: bool| json!([{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": failed}]);
    let entries = [
        entry("user", json!("Deploy checkout.")),
        entry("assistant", call("a", json!({"service": "checkout"}))),
        entry("user", result("a", "Error: missing required argument 'region'", true)),
        entry("assistant", call("b", json!({"service": "checkout", "region": "eu-west-1"}))),
        entry("user", result("b", "deployed checkout", false)),
    ];
    entries.iter().map(|entry| format!("{entry}\n")).collect()
}

/// Calls the hook as Claude Code does, with an event on stdin, and returns what it prints.
async fn call_hook(world: &World, event: &Value) -> String {
    let mut command = Command::new("python3");
    command.arg(python_client()).args(["--url", world.http_url(), "--timeout", "10", "--spool"]);
    command
        .arg(world.path("spool"))
        .arg("hook")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut hook = command.spawn().expect("python3 starts");
    let mut stdin = hook.stdin.take().expect("stdin is piped");
    stdin.write_all(event.to_string().as_bytes()).await.expect("the hook reads");
    drop(stdin);
    let done = hook.wait_with_output().await.expect("the hook ends");
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).expect("UTF-8")
}

#[tokio::test]
async fn sessions_of_claude_code_teach_the_next_one_through_its_hooks() {
    let mut world = World::start().await;
    let start = json!({"hook_event_name": "SessionStart", "session_id": "next", "source": "startup"});
    assert_eq!(call_hook(&world, &start).await, "", "nothing is known yet");
    for nth in 0..10 {
        let session = format!("session-{nth}");
        let transcript = world.write_file(&format!("{session}.jsonl"), compose_transcript(&session));
        let end =
            json!({"hook_event_name": "SessionEnd", "session_id": session, "transcript_path": transcript});
        assert_eq!(call_hook(&world, &end).await, "");
    }
    world.wait_until_counted("default", 10).await;
    world.wait_until_idle().await;
    let answer: Value = serde_json::from_str(&call_hook(&world, &start).await).expect("JSON");
    let context = answer["hookSpecificOutput"]["additionalContext"].as_str().expect("a context");
    assert!(context.contains("deploy_service") && context.contains("region"), "{context}");
    world.stop().await;
}

#[tokio::test]
async fn the_python_client_reads_a_transcript_as_the_program_does() {
    let world = World::empty();
    let folder =
        std::path::PathBuf::from(project_path("crates/infrastructure/retro-adapters/fixtures/claude-code"));
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).expect("the fixtures") {
        let transcript = entry.expect("an entry").path();
        let script = "import json, sys; sys.path.insert(0, sys.argv[1]); import retrospect; print(json.dumps(retrospect.read_claude_code(sys.argv[2])))";
        let mut python = Command::new("python3");
        python.args(["-c", script, &project_path("clients/python")]).arg(&transcript);
        let event = run_command(&mut python).await;
        assert_eq!(event.code, Some(0), "{event:?}");
        let composed = world.write_file("event.json", &event.out);
        let validate = async |file: &str| world.run_json(&["validate", file]).await[0]["runs"][0].take();
        let (mut by_python, mut by_program) =
            (validate(&composed).await, validate(transcript.to_str().expect("UTF-8")).await);
        for overview in [&mut by_python, &mut by_program] {
            overview["trajectory_bytes"].take();
            overview["notes"].take();
        }
        assert_eq!(by_python, by_program, "{}", transcript.display());
        compared += 1;
    }
    assert!(compared >= 4, "{compared} fixtures");
}
