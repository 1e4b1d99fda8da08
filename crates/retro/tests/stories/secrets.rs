//! Tests that a secret in a run appears nowhere in data stored for operators and models.

use std::path::Path;

use serde_json::{Value, json};

use crate::world::{RunBuilder, World, json_items, json_text};

const WORKFLOW: &str = "release";
const REDACTION_MARK: &str = "[redacted:";
/// Made-up secrets in the formats of well-known tokens, one for each place in a run that may contain one.
const ANSWER_SECRET: &str = concat!("ghp_", "x7Kd93LmQz0pVb5RtYw2Nc8Hs4Jf6Ga1Ue7O");
const MESSAGE_SECRET: &str = concat!("glpat-", "Zq8TnW4xKc2Lb7Rv9YpM");
const ARGUMENT_SECRET: &str = concat!("AKIA", "ZQ3DXN7WKLMT5YBP");
const FEEDBACK_SECRET: &str = concat!("xoxb-", "263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1");
const SECRETS: [&str; 4] = [ANSWER_SECRET, MESSAGE_SECRET, ARGUMENT_SECRET, FEEDBACK_SECRET];

#[tokio::test]
async fn a_secret_in_a_run_appears_in_nothing_that_people_or_models_see() {
    let mut world = World::start().await;
    let events: Vec<Value> = (0..20).map(build_run_with_secrets).collect();
    world.emit_and_wait("default", "runs.jsonl", &events).await;
    let mut seen = collect_command_output(&world).await;
    seen.extend(collect_http_output(&world).await);
    let mut marked = 0;
    for (what, output) in &seen {
        assert_hidden(what, output.as_bytes());
        marked += usize::from(output.contains(REDACTION_MARK));
    }
    assert!(marked > 0, "no output shows a redaction mark");

    world.stop().await;
    let log = std::fs::read(world.path("retro.log")).unwrap();
    assert_hidden("the log", &log);
    let mut marked_bodies = 0;
    for file in list_database_files(&world.data_dir()) {
        let bytes = std::fs::read(&file).unwrap();
        assert_hidden(&file.display().to_string(), &bytes);
        for body in decompress_frames(&bytes) {
            assert_hidden("a stored body", &body);
            marked_bodies += usize::from(contains_text(&body, REDACTION_MARK));
        }
    }
    assert!(marked_bodies >= events.len(), "{marked_bodies} stored bodies show where a secret was");
}

/// Returns a run with a secret in every place, and feedback that quotes one.
fn build_run_with_secrets(number: u64) -> Value {
    let refused = format!("Error: access denied for token {ANSWER_SECRET}");
    let remark = format!("Use the bot token {FEEDBACK_SECRET} to announce a release.");
    let mut event = RunBuilder::new(WORKFLOW, &format!("release-{number}"))
        .with_message(&format!("Deploy with {MESSAGE_SECRET} please."))
        .with_call("deploy_service", &json!({"service": "checkout", "key": ARGUMENT_SECRET}), &refused)
        .with_call(
            "deploy_service",
            &json!({"service": "checkout", "region": "eu-west-1"}),
            "deployed checkout",
        )
        .build_event();
    event["data"]["self_feedback"] = json!([remark]);
    event
}

async fn collect_command_output(world: &World) -> Vec<(String, String)> {
    let mut commands: Vec<Vec<String>> =
        ["runs", "memories list", "retrospectives list", "reports list", "verify"]
            .iter()
            .chain(&["dead-letters list", "export --canonical", "context --workflow release --step deploy"])
            .map(|command| command.split(' ').map(str::to_owned).collect())
            .collect();
    let memories = world.run_json(&["memories", "list"]).await;
    assert!(!json_items(&memories).is_empty(), "the runs leave a lesson");
    for memory in json_items(&memories) {
        for verb in ["show", "why"] {
            commands.push(vec!["memories".into(), verb.into(), json_text(memory, "id").into()]);
        }
    }
    for row in json_items(&world.run_json(&["retrospectives", "list"]).await) {
        let id = json_text(&row["retrospective"], "id");
        commands.push(vec!["retrospectives".into(), "show".into(), id.into()]);
        commands.push(vec!["reports".into(), "show".into(), id.into()]);
        commands.push(vec!["reports".into(), "show".into(), id.into(), "--markdown".into()]);
    }
    let mut outputs = Vec::new();
    for command in &commands {
        for form in ["table", "json"] {
            let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["-o", form]).collect();
            let answer = world.run_retro(&arguments).await;
            assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
            outputs.push((arguments.join(" "), answer.out + &answer.err));
        }
    }
    outputs
}

async fn collect_http_output(world: &World) -> Vec<(String, String)> {
    let mut paths: Vec<String> = ["memories", "retrospectives", "runs", "dead-letters"]
        .iter()
        .map(|what| format!("/v1/{what}"))
        .collect();
    for memory in json_items(&world.run_json(&["memories", "list"]).await) {
        let id = json_text(memory, "id");
        paths.extend(["", "/why", "/effect"].map(|rest| format!("/v1/memories/{id}{rest}")));
    }
    for row in json_items(&world.run_json(&["retrospectives", "list"]).await) {
        let id = json_text(&row["retrospective"], "id");
        paths.extend([format!("/v1/reports/{id}"), format!("/v1/retrospectives/{id}")]);
    }
    let mut outputs = Vec::new();
    for path in paths {
        for form in ["application/json", "text/markdown", "text/plain"] {
            let (status, body) = world.get_in_format("default", &path, form).await;
            assert_eq!(status, 200, "{path}: {body}");
            outputs.push((path.clone(), body));
        }
    }
    outputs
}

fn assert_hidden(what: &str, bytes: &[u8]) {
    for secret in SECRETS {
        assert!(!contains_text(bytes, secret), "{what} shows {secret}");
    }
}

fn contains_text(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Returns the database's files. The broker's files are excluded: as transport, they contain the events as
/// sent.
fn list_database_files(data: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(data).expect("the folder can be read");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files: Vec<_> = paths.filter(|path| path.is_file()).collect();
    assert!(files.iter().any(|file| file.ends_with("retro.db")));
    files
}

/// Decompresses every complete Zstandard frame in these bytes. The bodies of these runs are smaller than a
/// database page, so each is contiguous.
fn decompress_frames(bytes: &[u8]) -> Vec<Vec<u8>> {
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let starts = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(&MAGIC));
    let read = |at: usize| {
        let mut frame = zstd::stream::read::Decoder::with_buffer(&bytes[at..]).ok()?.single_frame();
        let mut body = Vec::new();
        std::io::Read::read_to_end(&mut frame, &mut body).ok().map(|_| body)
    };
    starts.filter_map(read).collect()
}
