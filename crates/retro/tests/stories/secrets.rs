//! A secret that a run tells is nowhere in what is stored for people and models.

use std::path::Path;

use serde_json::{Value, json};

use crate::world::{Run, World, items, text};

const WORKFLOW: &str = "release";
const MARK: &str = "[redacted:";
/// Made up, in the shapes of well-known tokens, each where a run may tell it.
const ANSWERED: &str = concat!("ghp_", "x7Kd93LmQz0pVb5RtYw2Nc8Hs4Jf6Ga1Ue7O");
const SAID: &str = concat!("glpat-", "Zq8TnW4xKc2Lb7Rv9YpM");
const PASSED: &str = concat!("AKIA", "ZQ3DXN7WKLMT5YBP");
const REMARKED: &str = concat!("xoxb-", "263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1");
const SECRETS: [&str; 4] = [ANSWERED, SAID, PASSED, REMARKED];

#[tokio::test]
async fn a_secret_that_a_run_tells_is_in_nothing_that_people_or_models_see() {
    let mut world = World::start().await;
    let events: Vec<Value> = (0..20).map(telling).collect();
    world.emit("default", "runs.jsonl", &events).await;
    let mut seen = said_by_commands(&world).await;
    seen.extend(said_over_http(&world).await);
    let mut marked = 0;
    for (what, said) in &seen {
        assert_hidden(what, said.as_bytes());
        marked += usize::from(said.contains(MARK));
    }
    assert!(marked > 0, "nothing shows a mark, so nothing shows where a secret was");

    world.stop().await;
    let log = std::fs::read(world.path("retro.log")).unwrap();
    assert_hidden("the log", &log);
    let mut marked_bodies = 0;
    for file in files(&world.data()) {
        let bytes = std::fs::read(&file).unwrap();
        assert_hidden(&file.display().to_string(), &bytes);
        for body in compressed(&bytes) {
            assert_hidden("a stored body", &body);
            marked_bodies += usize::from(holds(&body, MARK));
        }
    }
    assert!(marked_bodies >= events.len(), "{marked_bodies} stored bodies show where a secret was");
}

/// A run that tells a secret everywhere, and leaves a lesson that quotes one.
fn telling(number: u64) -> Value {
    let refused = format!("Error: access denied for token {ANSWERED}");
    let remark = format!("Use the bot token {REMARKED} to announce a release.");
    let mut event = Run::new(WORKFLOW, &format!("release-{number}"))
        .told(&format!("Deploy with {SAID} please."))
        .call("deploy_service", &json!({"service": "checkout", "key": PASSED}), &refused)
        .call("deploy_service", &json!({"service": "checkout", "region": "eu-west-1"}), "deployed checkout")
        .event();
    event["data"]["self_feedback"] = json!([remark]);
    event
}

async fn said_by_commands(world: &World) -> Vec<(String, String)> {
    let mut commands: Vec<Vec<String>> =
        ["runs", "memories list", "retrospectives list", "reports list", "verify"]
            .iter()
            .chain(&["dead-letters list", "export --canonical", "context --workflow release --step deploy"])
            .map(|command| command.split(' ').map(str::to_owned).collect())
            .collect();
    let memories = world.ask(&["memories", "list"]).await;
    assert!(!items(&memories).is_empty(), "the runs leave a lesson");
    for memory in items(&memories) {
        for verb in ["show", "why"] {
            commands.push(vec!["memories".into(), verb.into(), text(memory, "id").into()]);
        }
    }
    for row in items(&world.ask(&["retrospectives", "list"]).await) {
        let id = text(&row["retrospective"], "id");
        commands.push(vec!["retrospectives".into(), "show".into(), id.into()]);
        commands.push(vec!["reports".into(), "show".into(), id.into()]);
        commands.push(vec!["reports".into(), "show".into(), id.into(), "--markdown".into()]);
    }
    let mut said = Vec::new();
    for command in &commands {
        for form in ["table", "json"] {
            let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["-o", form]).collect();
            let answer = world.retro(&arguments).await;
            assert_eq!(answer.code, Some(0), "{arguments:?}: {answer:?}");
            said.push((arguments.join(" "), answer.out + &answer.err));
        }
    }
    said
}

async fn said_over_http(world: &World) -> Vec<(String, String)> {
    let mut paths: Vec<String> = ["memories", "retrospectives", "runs", "dead-letters"]
        .iter()
        .map(|what| format!("/v1/{what}"))
        .collect();
    for memory in items(&world.ask(&["memories", "list"]).await) {
        let id = text(memory, "id");
        paths.extend(["", "/why", "/effect"].map(|rest| format!("/v1/memories/{id}{rest}")));
    }
    for row in items(&world.ask(&["retrospectives", "list"]).await) {
        let id = text(&row["retrospective"], "id");
        paths.extend([format!("/v1/reports/{id}"), format!("/v1/retrospectives/{id}")]);
    }
    let mut said = Vec::new();
    for path in paths {
        for form in ["application/json", "text/markdown", "text/plain"] {
            let (status, body) = world.get_as("default", &path, form).await;
            assert_eq!(status, 200, "{path}: {body}");
            said.push((path.clone(), body));
        }
    }
    said
}

fn assert_hidden(what: &str, bytes: &[u8]) {
    for secret in SECRETS {
        assert!(!holds(bytes, secret), "{what} shows {secret}");
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// The database's files. The broker's are transport: they hold events as they were sent.
fn files(data: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(data).expect("the folder can be read");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files: Vec<_> = paths.filter(|path| path.is_file()).collect();
    assert!(files.iter().any(|file| file.ends_with("retro.db")));
    files
}

/// Everything in these bytes that is a whole Zstandard frame. The bodies of these runs are smaller than a page of the
/// database, so each lies in one piece.
fn compressed(bytes: &[u8]) -> Vec<Vec<u8>> {
    const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    let starts = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(&MAGIC));
    let read = |at: usize| {
        let mut frame = zstd::stream::read::Decoder::with_buffer(&bytes[at..]).ok()?.single_frame();
        let mut body = Vec::new();
        std::io::Read::read_to_end(&mut frame, &mut body).ok().map(|_| body)
    };
    starts.filter_map(read).collect()
}
