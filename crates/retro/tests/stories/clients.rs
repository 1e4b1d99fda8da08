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

/// A client that is a command.
#[derive(Clone, Copy)]
enum ClientCommand {
    Python,
    TypeScript,
}

impl ClientCommand {
    /// Runs the client with this gateway and spool.
    async fn run(self, url: &str, spool: &Path, arguments: &[&str]) -> CommandOutput {
        let mut command = match self {
            Self::Python => Command::new("python3"),
            Self::TypeScript => Command::new(find_node()),
        };
        command.arg(match self {
            Self::Python => python_client(),
            Self::TypeScript => project_path("clients/typescript/retrospect.ts"),
        });
        command.args(["--url", url, "--timeout", "10", "--spool"]);
        run_command(command.arg(spool).args(arguments)).await
    }
}

/// Returns the Node.js that was named, or the one of `.ci/install-tools`, or the one in the path.
fn find_node() -> String {
    let installed = project_path(".tools/bin/node");
    let installed = if Path::new(&installed).exists() { installed } else { "node".to_owned() };
    std::env::var("RETRO_NODE").unwrap_or(installed)
}

#[tokio::test]
async fn the_python_client_keeps_runs_while_the_gateway_is_away_and_never_fails_a_run() {
    check_spool(ClientCommand::Python).await;
}

#[tokio::test]
async fn the_typescript_client_keeps_runs_while_the_gateway_is_away_and_never_fails_a_run() {
    check_spool(ClientCommand::TypeScript).await;
}

async fn check_spool(client: ClientCommand) {
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
    let sent = client.run(&url, &spool, &send).await;
    assert_eq!(sent.code, Some(0), "{sent:?}");

    world.stop().await;
    let kept = client.run(&url, &spool, &["send", last]).await;
    assert_eq!(kept.code, Some(1), "{kept:?}");
    let asked = client.run(&url, &spool, &["context", "--workflow", "deploy", "--step", "deploy"]).await;
    assert_eq!((asked.code, asked.out.as_str()), (Some(0), ""), "{asked:?}");

    world.up().await;
    let url = world.http_url().to_owned();
    // The other client sends what this one has left.
    let other = match client {
        ClientCommand::Python => ClientCommand::TypeScript,
        ClientCommand::TypeScript => ClientCommand::Python,
    };
    let flushed = other.run(&url, &spool, &["flush"]).await;
    assert_eq!(flushed.code, Some(0), "{flushed:?}");
    world.wait_until_counted("default", 10).await;
    world.wait_until_idle().await;
    let asked = client.run(&url, &spool, &["context", "--workflow", "deploy", "--step", "deploy"]).await;
    assert!(asked.out.contains("deploy_service"), "{asked:?}");
    let of_step = ["--workflow", "deploy", "--step", "deploy"];
    let with_task = [&["context"][..], &of_step, &["--task", "Deploy with `deploy_service`"]].concat();
    assert_eq!(client.run(&url, &spool, &with_task).await.out, asked.out, "there is only one memory");
    let search = |query| [&["search", query][..], &of_step].concat();
    let found = client.run(&url, &spool, &search("deploy_service fails")).await;
    assert!(found.code == Some(0) && found.out.contains("deploy_service"), "{found:?}");
    let none = client.run(&url, &spool, &search("paint a landscape")).await;
    assert_eq!((none.code, none.out.as_str()), (Some(0), ""), "{none:?}");

    let refused = world.write_file("refused.json", r#"{"specversion": "1.0", "id": "x"}"#);
    let answer = client.run(&url, &spool, &["send", &refused]).await;
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let names: Vec<String> = std::fs::read_dir(spool.join("refused"))
        .expect("the folder for refused events")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(names.len(), 2, "the event and the reason: {names:?}");
    world.stop().await;
}

#[tokio::test]
async fn the_typescript_client_opens_a_memory_and_gives_up_in_time() {
    let mut world = World::start().await;
    world
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("deploy", "deploy_service", 0..10))
        .await;
    let script = r#"
        const { Client, runCompleted } = await import(process.argv[1]);
        const client = new Client({ url: process.argv[2], timeoutMs: 10000 });
        const context = await client.context({ workflow: "deploy", step: "deploy", runId: "next" });
        const memory = context.memories[0] && await client.memory(context.memories[0].id, { runId: "next" });
        const missing = await client.memory("ffffffff");
        const said = { runId: "next", workflow: "deploy", why: "it named the argument" };
        const first = context.memories[0]?.id ?? "";
        const feedback = [await client.feedback(first, "helped", said), await client.feedback(first, "helped", said)];
        feedback.push(await client.feedback("ffffffff", "helped", said) ?? "none");
        const lesson = { workflow: "deploy", runId: "next", kind: "add_argument", tool: "scale", argument: "replicas" };
        feedback.push(await client.saveLesson({ ...lesson, errorQuote: "Error: replicas is required" }) ?? "none");
        const server = (await import("node:net")).createServer(() => undefined).listen(0, "127.0.0.1");
        await new Promise((resolve) => server.once("listening", resolve));
        const silent = new Client({ url: `http://127.0.0.1:${server.address().port}`, timeoutMs: 300 });
        const late = await silent.context({ workflow: "deploy" });
        const event = runCompleted("deploy", "4711", "success", { attempt: 2, task: "ship", trajectory: { steps: [] }, agentsMd: "Use make." });
        console.log(JSON.stringify({ context, memory, missing: missing ?? null, feedback, late, event }));
        process.exit(0);
    "#;
    let mut node = Command::new(find_node());
    node.args(["--input-type=module", "-e", script, &project_path("clients/typescript/retrospect.ts")]);
    let printed = run_command(node.arg(world.http_url())).await;
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let printed = printed.parse_json();
    // Chance withholds the only memory from one in ten runs, and not from this one.
    let id = &printed["context"]["memories"][0]["id"];
    assert!(printed["context"]["text"].as_str().is_some_and(|text| text.contains("deploy_service")));
    assert_eq!(&printed["memory"]["id"], id, "{printed}");
    assert_eq!(printed["missing"], Value::Null);
    assert_eq!(printed["feedback"], json!(["recorded", "already_recorded", "none", "saved"]));
    assert_eq!((&printed["late"]["text"], &printed["late"]["memories"]), (&json!(""), &json!([])));
    let reason = printed["late"]["reason"].as_str().expect("a reason");
    assert!(reason.contains("within 300 ms"), "{reason}");
    assert_eq!(
        printed["event"]["data"],
        json!({"workflow": "deploy", "run_id": "4711", "outcome": "success", "attempt": 2, "task": "ship",
            "trajectory": {"steps": [], "extra": {"agents_md": "Use make."}}})
    );
    assert_eq!(printed["event"]["id"], "deploy/4711/2");
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
    let agents_md = world.write_file("AGENTS.md", "Use make.");
    let mut compared = 0;
    for entry in std::fs::read_dir(folder).expect("the fixtures") {
        let transcript = entry.expect("an entry").path();
        let script = "import json, sys; sys.path.insert(0, sys.argv[1]); import retrospect; print(json.dumps(retrospect.read_claude_code(sys.argv[2], agents_md='Use make.')))";
        let mut python = Command::new("python3");
        python.args(["-c", script, &project_path("clients/python")]).arg(&transcript);
        let event = run_command(&mut python).await;
        assert_eq!(event.code, Some(0), "{event:?}");
        let composed = world.write_file("event.json", &event.out);
        let validate = async |file: &str| {
            world.run_json(&["validate", file, "--agents-md", &agents_md]).await[0]["runs"][0].take()
        };
        let (mut by_python, mut by_program) =
            (validate(&composed).await, validate(transcript.to_str().expect("UTF-8")).await);
        for overview in [&mut by_python, &mut by_program] {
            overview["trajectory_bytes"].take();
            overview["notes"].take();
        }
        assert_eq!(by_python["agents_md_bytes"], 9, "{}", transcript.display());
        assert_eq!(by_python, by_program, "{}", transcript.display());
        compared += 1;
    }
    assert!(compared >= 4, "{compared} fixtures");
}

/// Messages as LangChain has them, and a graph of one node in a loop; the wrapper itself is the one of `clients/`.
const GRAPH: &str = r#"
import asyncio, sys
sys.path.insert(0, sys.argv[1])
from retrospect import Client
from retrospect_langgraph import Memories, read_messages

class Message:
    def __init__(self, type, content="", tool_calls=(), tool_call_id=None, status=None):
        self.type, self.content, self.tool_calls = type, content, list(tool_calls)
        self.tool_call_id, self.status, self.response_metadata = tool_call_id, status, {}

memories = Memories(Client(sys.argv[2], timeout=10, spool=sys.argv[3]), "deploy")

def call_model(state):
    told = [message["content"] for message in state["messages"] if isinstance(message, dict)]
    failed = any(isinstance(message, Message) and message.status == "error" for message in state["messages"])
    region = {"region": "eu-west-1"} if failed or any("region" in text for text in told) else {}
    call = {"name": "deploy_service", "args": {"service": "checkout", **region}, "id": f"call-{len(state['messages'])}"}
    return {"messages": [Message("ai", tool_calls=[call])]}

async def acall_model(state, config):
    assert config["configurable"]["thread_id"]
    return call_model(state)

def run(number, node):
    config = {"configurable": {"thread_id": f"run-{number}"}}
    messages = [Message("human", "Deploy checkout.")]
    while True:
        update = node({"messages": messages}, config)
        (answer,) = asyncio.run(update)["messages"] if asyncio.iscoroutine(update) else update["messages"]
        call = answer.tool_calls[0]
        done = "region" in call["args"]
        text = "deployed checkout" if done else "Error: missing required argument 'region'"
        messages += [answer, Message("tool", text, tool_call_id=call["id"], status="success" if done else "error")]
        if done:
            return messages

node = memories.node(call_model, step="deploy")
for number in range(int(sys.argv[4]), int(sys.argv[5])):
    messages = run(number, node if number % 2 else memories.node(acall_model, step="deploy"))
    assert memories.finish(f"run-{number}", messages, "success", task="deploy"), number
    print(len([message for message in messages if message.type == "ai"]))
"#;

#[tokio::test]
async fn a_graph_of_langgraph_is_told_what_its_earlier_runs_showed() {
    let mut world = World::start().await;
    let run_graph = async |first: &str, after: &str| {
        let mut python = Command::new("python3");
        python.args(["-c", GRAPH, &project_path("clients/python"), world.http_url()]);
        let spool = world.path("spool");
        let done = run_command(python.arg(&spool).args([first, after])).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out.lines().map(|calls| calls.parse::<u32>().expect("a number")).collect::<Vec<_>>()
    };
    assert_eq!(run_graph("0", "10").await, [2; 10], "each fails once");
    world.wait_until_counted("default", 10).await;
    world.wait_until_idle().await;
    let told = run_graph("10", "19").await;
    // Chance withholds the memory from about one in ten.
    assert!(told.iter().filter(|calls| **calls == 1).count() >= 5, "{told:?}");
    world.stop().await;
}

/// Runs the step of GitHub Actions with its inputs in the environment, and returns what it outputs.
async fn run_action(world: &World, inputs: &[(&str, &str)]) -> String {
    let output = world.path("output");
    std::fs::write(&output, "").expect("the folder can be written");
    let mut step = Command::new("bash");
    step.arg(project_path("clients/github-action/run.sh"));
    step.envs([("RETRO_URL", world.http_url()), ("RETRO_TENANT", "default"), ("WORKFLOW", "ci")]);
    step.envs([("STEP", "main"), ("REPO", "acme/shop"), ("FILE", ""), ("OUTCOME", "unknown")]);
    step.env("GITHUB_OUTPUT", &output).env("RUNNER_TEMP", world.path("runner"));
    let done = run_command(step.envs(inputs.iter().copied())).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!done.out.contains("::warning::"), "{done:?}");
    std::fs::read_to_string(&output).expect("the output")
}

#[tokio::test]
async fn jobs_of_github_actions_are_told_what_earlier_ones_showed() {
    let mut world = World::start().await;
    let inputs =
        std::fs::read_to_string(project_path("clients/github-action/action.yml")).expect("the action");
    for variable in
        ["RETRO_URL", "RETRO_TENANT", "COMMAND", "WORKFLOW", "STEP", "RUN_ID", "REPO", "FILE", "OUTCOME"]
    {
        assert!(inputs.contains(&format!("        {variable}: ${{{{ inputs.")), "{variable} is no input");
    }
    for nth in 0..10 {
        let session = format!("session-{nth}");
        let file = world.write_file(&format!("{session}.jsonl"), compose_transcript(&session));
        run_action(&world, &[("COMMAND", "transcript"), ("FILE", &file), ("OUTCOME", "success")]).await;
    }
    world.wait_until_counted("default", 10).await;
    world.wait_until_idle().await;
    let mut told = 0;
    for nth in 0..5 {
        let output = run_action(&world, &[("COMMAND", "context"), ("RUN_ID", &format!("{nth}-1"))]).await;
        let lines: Vec<&str> = output.lines().collect();
        let end = lines[0].strip_prefix("text<<").expect("the name of an output");
        assert_eq!(lines.last(), Some(&end), "{output}");
        // Chance withholds the memory from about one in ten.
        told += usize::from(output.contains("deploy_service"));
    }
    assert!(told >= 3, "{told} of 5");
    world.stop().await;
}
