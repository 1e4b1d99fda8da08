//! Tests which arguments the commands refuse and with which message, and the output of the remaining
//! commands.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use retro_testkit::TestNats;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::world::{
    CommandOutput, World, build_correcting_runs, json_items, project_path, run_command, to_argument,
};

#[tokio::test]
async fn a_second_program_on_a_folder_in_use_is_refused_in_one_sentence_and_the_first_one_goes_on() {
    let mut world = World::start().await;
    let second = world.run_retro(&["up", "--http-listen", "127.0.0.1:0"]).await;
    assert_refused(&second, 1, &["another `retro up` uses", &to_argument(&world.data_dir())]);
    world
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10))
        .await;
    world.verify_store().await;
    world.stop().await;
}

#[tokio::test]
async fn an_old_broker_is_refused_in_one_sentence() {
    let world = World::empty();
    let old = write_script(&world, "echo 'nats-server: v2.9.10'");
    let refused =
        world.command(&["up", "--http-listen", "127.0.0.1:0"]).env("RETRO_NATS_SERVER", &old).output();
    let refused = parse_output(refused.await.unwrap());
    assert_refused(&refused, 1, &[&old, "2.9.10", "2.14.1 or newer is needed"]);
    let doctor =
        world.command(&["doctor", "-o", "json"]).env("RETRO_NATS_SERVER", &old).output().await.unwrap();
    let doctor = parse_output(doctor);
    assert_eq!(doctor.code, Some(4), "{doctor:?}");
    assert_eq!(find_check(&doctor.parse_json(), "nats-server")["ok"], false);
}

#[tokio::test]
async fn with_an_address_given_no_broker_is_supervised() {
    let nats = TestNats::start().await;
    let mut world = World::empty();
    world.up_with_broker(nats.url()).await;
    assert!(world.find_broker().is_none(), "a broker of its own runs beside the one it was given");
    world
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10))
        .await;
    world.verify_store().await;

    let second = World::empty();
    let mut up = second.command(&["up", "--http-listen", "127.0.0.1:0"]);
    let refused = run_command(up.env("NATS_URL", nats.url())).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        ["belongs to the database", "--take-over"].iter().all(|words| refused.err.contains(words)),
        "{refused:?}"
    );
    world
        .emit_and_wait("default", "more.jsonl", &build_correcting_runs("other", "deploy_service", 0..10))
        .await;
    world.stop().await;
}

#[tokio::test]
async fn a_file_of_an_unsupported_format_is_named_and_the_other_files_are_sent() {
    let mut world = World::start().await;
    let good = world.write_events("good.jsonl", &build_correcting_runs("release", "deploy_service", 0..10));
    let foreign = project_path("crates/infrastructure/retro-adapters/fixtures/unsupported/gemini-cli.json");
    let answer = world.run_retro(&["emit", &foreign, &good, "-o", "json"]).await;
    assert_eq!(answer.code, Some(4), "{answer:?}");
    let sent = answer.parse_json();
    assert_eq!((&sent["sent"], json_items(&sent["refused"]).len()), (&json!(10), 1));
    let why = sent["refused"][0].as_str().unwrap();
    assert!(why.contains("gemini-cli.json") && why.contains("Gemini CLI"), "{why}");
    world.wait_until_counted("default", 10).await;
    let missing = world.run_retro(&["emit", "no-such-file.json"]).await;
    assert_refused(&missing, 1, &["cannot read no-such-file.json"]);
    world.stop().await;
}

#[tokio::test]
async fn emit_reports_that_it_waits_for_a_killed_program_and_continues_when_it_is_back() {
    let mut world = World::start().await;
    world.kill().await;
    let file = world.write_events("runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10));
    let mut emit =
        world.command(&["emit", &file]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stderr_lines = BufReader::new(emit.stderr.take().unwrap()).lines();
    let first = stderr_lines.next_line().await.unwrap().unwrap();
    assert!(first.contains("is `retro up` running?"), "{first}");
    world.up().await;
    assert!(emit.wait().await.unwrap().success());
    world.wait_until_counted("default", 10).await;
    world.stop().await;
}

#[tokio::test]
async fn a_damaged_database_and_an_address_in_use_are_each_reported_in_one_sentence() {
    let mut world = World::start().await;
    let url = world.http_url().trim_start_matches("http://").to_owned();
    let other = World::empty();
    let refused = other.run_retro(&["up", "--http-listen", &url]).await;
    let last = refused.err.lines().last().unwrap_or_default();
    assert_eq!((refused.code, last.matches("Address already in use").count()), (Some(1), 1), "{refused:?}");
    assert!(last.contains(&url) && last.contains("--http-listen"), "{last}");
    world.stop().await;

    let database = world.data_dir().join("retro.db");
    std::fs::write(&database, b"this is no database, and it is longer than the header of one".repeat(100))
        .unwrap();
    let damaged = world.run_retro(&["runs"]).await;
    assert_refused(&damaged, 1, &[&to_argument(&database), "cannot be used"]);
}

#[tokio::test]
async fn every_configuration_error_is_reported_with_its_place_and_nothing_starts() {
    let world = World::empty();
    let wrong = world.write_file("wrong.toml", "lease_s = 5\nlaese_s = 6\ninvestigators = 0\n");
    let errors = [
        format!("{wrong}:2: unknown key `laese_s`; did you mean `lease_s`?"),
        format!("{wrong}:3: `investigators` is 0; it must be a whole number, 1 to 64"),
    ]
    .join("\n");
    let checked = world.run_retro(&["config", "check", "--config", &wrong]).await;
    assert_eq!((checked.code, checked.out.trim_end()), (Some(4), errors.as_str()), "{checked:?}");
    for command in [&["config", "print"][..], &["up"], &["runs"]] {
        let refused = world.run_retro(&[command, &["--config", &wrong]].concat()).await;
        let expected = (Some(4), format!("retro: {errors}"));
        assert_eq!((refused.code, refused.err.trim_end().to_owned()), expected, "{refused:?}");
    }
    let mumbling = world.write_file("mumbling.toml", "log = \"retro=loud\"\n");
    let refused = world.run_retro(&["up", "--config", &mumbling]).await;
    assert_refused(&refused, 4, &[&format!("{mumbling}:1: `log` is \"retro=loud\": ")]);
    assert!(!world.data_dir().exists(), "nothing was started");
}

#[tokio::test]
async fn the_effective_configuration_is_printed_without_secrets_and_with_its_sources() {
    let world = World::empty();
    let file = world.write_file("secret", "postgres://me:hunter3@host/retro\n");
    let right =
        world.write_file("right.toml", "lease_s = 5\nnats_url = \"nats://me:hunter2@127.0.0.1:4222\"\n");
    assert_eq!(world.run_retro(&["config", "check", "--config", &right]).await.code, Some(0));
    let printed = world.run_json(&["config", "print", "--config", &right]).await;
    assert_eq!(printed["lease_s"], json!({"value": 5, "source": format!("{right}:1")}));
    assert_eq!(printed["nats_url"]["value"], "nats://me:***@127.0.0.1:4222");
    assert_eq!(printed["sweep_interval_ms"]["source"], "default");
    let mut print = world.command(&["config", "print", "--config", &right]);
    let printed = run_command(print.env("RETRO_DATABASE_URL_FILE", &file)).await;
    assert!(
        printed.out.contains(&format!("database_url = \"postgres://me:***@host/retro\"  # {file}")),
        "{printed:?}"
    );
    assert!(!printed.out.contains("hunter"), "{printed:?}");
}

#[tokio::test]
async fn every_command_prints_valid_json() {
    let mut world = World::start().await;
    world
        .emit_and_wait("default", "runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..10))
        .await;
    for command in [
        &["runs"][..],
        &["memories", "list"],
        &["retrospectives", "list"],
        &["reports", "list"],
        &["dead-letters", "list"],
        &["context", "--workflow", "release", "--step", "deploy"],
        &["verify"],
        &["doctor"],
        &["migrate"],
        &["config", "check"],
        &["config", "print"],
    ] {
        world.run_json(command).await;
    }
    for line in world.export_canonical().await.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok_and(|value| value.is_object()), "{line}");
    }
    let doctor = world.run_json(&["doctor"]).await;
    assert!(json_items(&doctor).iter().all(|check| check["ok"] == true), "{doctor}");
    world.stop().await;
}

#[tokio::test]
async fn commands_without_a_program_or_a_database_say_what_to_start() {
    let world = World::empty();
    let runs = world.run_retro(&["runs"]).await;
    assert_refused(&runs, 1, &["there is no database", "retro up"]);
    let file = world.write_events("runs.jsonl", &build_correcting_runs("release", "deploy_service", 0..1));
    let emit = world.run_retro(&["emit", &file]).await;
    assert_refused(&emit, 1, &["instance.json", "running?"]);
    assert_eq!(world.run_retro(&["migrate"]).await.code, Some(0));
    assert_eq!(world.run_json(&["runs"]).await, json!([]));
    let verify = world.run_retro(&["verify"]).await;
    assert_eq!(verify.code, Some(4), "an empty store proves nothing: {verify:?}");
}

/// Asserts the exit code, an empty stdout, and one line on stderr that contains every part.
fn assert_refused(answer: &CommandOutput, code: i32, parts: &[&str]) {
    assert_eq!((answer.code, answer.out.as_str()), (Some(code), ""), "{answer:?}");
    let lines: Vec<_> = answer.err.lines().collect();
    assert!(lines.len() == 1 && parts.iter().all(|part| lines[0].contains(part)), "{parts:?}: {lines:#?}");
}

fn find_check<'a>(doctor: &'a Value, what: &str) -> &'a Value {
    json_items(doctor).iter().find(|check| check["check"] == what).expect("the check is listed")
}

fn write_script(world: &World, body: &str) -> String {
    let path = world.write_file("nats-server", format!("#!/bin/sh\n{body}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("our own file");
    path
}

fn parse_output(output: std::process::Output) -> CommandOutput {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8 output");
    CommandOutput { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}
