//! Runs the clients of `clients/` against the program.

use std::path::Path;
use std::time::{Duration, Instant};

use tokio::process::Command;

use crate::world::{CommandOutput, World, build_correcting_runs, project_path, run_command};

/// Time that asking takes at most, and what a Python interpreter needs to start on a busy machine.
const ASKING_MAX: Duration = Duration::from_secs(20);

/// Runs the Python client with this gateway and spool.
async fn run_python(url: &str, spool: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new("python3");
    command.arg(project_path("clients/python/retrospect.py")).args([
        "--url",
        url,
        "--timeout",
        "10",
        "--spool",
    ]);
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
    let began = Instant::now();
    let asked = run_python(&url, &spool, &["context", "--workflow", "deploy", "--step", "deploy"]).await;
    assert_eq!((asked.code, asked.out.as_str()), (Some(0), ""), "{asked:?}");
    assert!(began.elapsed() < ASKING_MAX, "{:?}", began.elapsed());

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
