//! Tests `retro emit --watch`: each finished file of a folder is sent once, whatever happens meanwhile.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout};

use crate::world::process::terminate;
use crate::world::{World, build_correcting_runs, json_items, to_argument};

/// A `retro emit --watch` with its output.
struct Watcher {
    process: Child,
    out: Lines<BufReader<ChildStdout>>,
    err: Lines<BufReader<ChildStderr>>,
}

impl Watcher {
    /// Starts watching, and waits until the program says so.
    async fn start(world: &World, folder: &str, settle_s: &str) -> Self {
        let arguments = ["emit", "--watch", folder, "--settle-s", settle_s, "-o", "json"];
        let mut command = world.command(&arguments);
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the watcher runs");
        let out = BufReader::new(process.stdout.take().expect("the watcher runs")).lines();
        let err = BufReader::new(process.stderr.take().expect("the watcher runs")).lines();
        let mut watcher = Self { process, out, err };
        let said = watcher.next_notice().await;
        assert!(said.contains("watching"), "{said}");
        watcher
    }

    /// Returns the next file that was sent.
    async fn next_sent(&mut self) -> Value {
        serde_json::from_str(&self.out.next_line().await.expect("the watcher runs").expect("it watches"))
            .expect("the watcher runs")
    }

    async fn next_notice(&mut self) -> String {
        self.err.next_line().await.expect("the watcher runs").expect("it watches")
    }

    /// Stops watching, and returns what was sent and said meanwhile.
    async fn stop(mut self) -> (Vec<String>, Vec<String>) {
        terminate(self.process.id().expect("the watcher runs"));
        assert_eq!(self.process.wait().await.expect("the watcher runs").code(), Some(0));
        let (mut sent, mut notices) = (Vec::new(), Vec::new());
        while let Some(line) = self.out.next_line().await.expect("the watcher runs") {
            sent.push(line);
        }
        while let Some(line) = self.err.next_line().await.expect("the watcher runs") {
            notices.push(line);
        }
        (sent, notices)
    }
}

/// Lines of a transcript of Claude Code: one request, and calls that each fail.
fn transcript(session: &str, calls: u64) -> String {
    let entry = |kind: &str, content: Value| {
        let message = json!({"role": kind, "content": content});
        format!("{}\n", json!({"type": kind, "sessionId": session, "message": message}))
    };
    let call = |nth: u64| {
        let id = format!("call-{nth}");
        let call = json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "npm test"}}]);
        let result = json!([{"type": "tool_result", "tool_use_id": id, "content": "no", "is_error": true}]);
        entry("assistant", call) + &entry("user", result)
    };
    entry("user", json!("Fix the build.")) + &(0..calls).map(call).collect::<String>()
}

#[tokio::test]
async fn finished_files_are_sent_once_through_a_restart_and_a_bad_one_is_told_once() {
    let mut world = World::start().await;
    let folder = world.path("outbox");
    std::fs::create_dir(&folder).unwrap();
    let argument = to_argument(&folder);
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let runs = build_correcting_runs("release", "deploy_service", 0..3);
    write("before.json", &runs[0].to_string());

    let mut watcher = Watcher::start(&world, &argument, "1").await;
    let sent = watcher.next_sent().await;
    assert_eq!(sent, json!({"file": "before.json", "runs": 1, "workflows": ["release"]}));
    write("bad.json", "{\"a\": 1}");
    let refused = watcher.next_notice().await;
    assert!(refused.starts_with("refused bad.json: type_unknown"), "{refused}");
    // A copy has the same content, and what is still written has a name of its own.
    write("copy.json", &runs[0].to_string());
    write(".next.json", &runs[1].to_string());
    write("last.json", &runs[2].to_string());
    assert_eq!(watcher.next_sent().await["file"], "last.json");
    std::fs::rename(folder.join(".next.json"), folder.join("next.json")).unwrap();
    assert_eq!(watcher.next_sent().await["file"], "next.json");
    let (sent, notices) = watcher.stop().await;
    assert_eq!((sent.len(), notices.len()), (0, 1), "{sent:?} {notices:?}");
    world.wait_until_counted("default", 3).await;

    // While nobody watches, one file is mended and another comes.
    let traces = "crates/infrastructure/retro-adapters/fixtures/otel/agent.composed.jsonl";
    write("bad.json", &std::fs::read_to_string(crate::world::project_path(traces)).unwrap());
    let mut watcher = Watcher::start(&world, &argument, "1").await;
    assert_eq!(
        watcher.next_sent().await,
        json!({"file": "bad.json", "runs": 1, "workflows": ["build-fixer"]})
    );
    world.wait_until_counted("default", 4).await;
    let (sent, notices) = watcher.stop().await;
    assert_eq!((sent.len(), notices.len()), (0, 1), "the restart sends nothing again: {sent:?} {notices:?}");
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn a_transcript_that_grows_is_sent_when_it_rests_and_again_as_the_same_run() {
    let mut world = World::start().await;
    let folder = world.path("sessions/project");
    std::fs::create_dir_all(&folder).unwrap();
    let mut watcher = Watcher::start(&world, &to_argument(&world.path("sessions")), "2").await;
    let file = folder.join("session.jsonl");
    std::fs::write(&file, transcript("s-1", 1)).unwrap();
    assert_eq!(watcher.next_sent().await["file"], "project/session.jsonl");
    std::fs::write(&file, transcript("s-1", 3)).unwrap();
    assert_eq!(watcher.next_sent().await["file"], "project/session.jsonl");
    world.wait_until_counted("default", 1).await;
    world.wait_until_idle().await;
    let runs = world.run_json(&["runs"]).await;
    assert_eq!(json_items(&runs).len(), 1, "{runs}");
    watcher.stop().await;
    world.stop().await;
}

#[tokio::test]
async fn a_file_waits_for_a_broker_that_is_away() {
    let mut world = World::start().await;
    let folder = world.path("outbox");
    std::fs::create_dir(&folder).unwrap();
    world.kill().await;
    let mut watcher = Watcher::start(&world, &to_argument(&folder), "0").await;
    let run = &build_correcting_runs("release", "deploy_service", 0..1)[0];
    std::fs::write(folder.join("run.json"), run.to_string()).unwrap();
    let said = watcher.next_notice().await;
    assert!(said.contains("is `retro up` running?"), "{said}");
    world.up().await;
    assert_eq!(watcher.next_sent().await["file"], "run.json");
    world.wait_until_counted("default", 1).await;
    watcher.stop().await;
    world.stop().await;
}
