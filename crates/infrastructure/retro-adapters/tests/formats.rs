//! Every fixture is imported according to its format, or rejected with a path.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use retro_adapters::{Format, ImportOptions, ImportedRun, detect_format, import_file, import_file_as};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::Workflow;
use retro_core::run::RunOutcome;
use retro_core::trajectory::Trajectory;
use retro_events::atif;
use serde_json::{Value, json};

fn fixtures_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn read_fixture(path: &str) -> Vec<u8> {
    std::fs::read(fixtures_folder().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn import_fixture(path: &str) -> Result<Vec<ImportedRun>, Rejection> {
    import_file(&read_fixture(path), path, &ImportOptions::default())
}

fn parse_trajectory(run: &ImportedRun) -> Trajectory {
    atif::parse_trajectory(run.event.trajectory().expect("every adapter produces a trajectory"), "")
        .expect("the trajectory of an adapter is valid")
}

fn structured_event(run: &ImportedRun) -> serde_json::Value {
    serde_json::from_slice(&run.event.envelope.to_structured().payload).expect("an event is JSON")
}

/// Describes a run in columns: workflow, run, outcome, turns, calls, failed calls.
fn describe_run(run: &ImportedRun) -> String {
    let turns = parse_trajectory(run).turns;
    let calls = || turns.iter().flat_map(|turn| &turn.calls);
    let failed = calls().filter(|call| call.failed == Some(true)).count();
    let (turns, calls) = (turns.len(), calls().count());
    let facts = &run.event.run;
    let (workflow, outcome) = (&run.event.workflow, facts.outcome.as_str());
    format!("{workflow} {} {outcome}: {turns} turns, {calls} calls, {failed} failed", facts.run_id)
}

fn describe_runs(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let runs = import_fixture(path).unwrap_or_else(|rejection| panic!("{path}: {rejection}"));
    let lines = runs.iter().map(describe_run).collect::<Vec<_>>().join("\n  ");
    format!("{name}\n  {lines}\n")
}

fn list_fixtures(under: &str) -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(fixtures_folder().join(under))
        .expect("the folder exists")
        .map(|entry| {
            format!("{under}/{}", entry.expect("the entry is readable").file_name().to_string_lossy())
        })
        .collect();
    names.sort();
    names
}

#[test]
fn every_variant_of_a_swe_agent_trajectory_is_read() {
    insta::assert_snapshot!(
        list_fixtures("swe-agent").iter().map(|path| describe_runs(path)).collect::<String>()
    );
}

#[test]
fn a_swe_agent_run_with_function_calls_reads_like_this() {
    let runs = import_fixture("swe-agent/test-repo-function-calling.traj.zst").unwrap();
    let mut turns = parse_trajectory(&runs[0]).turns;
    turns.drain(..2);
    insta::assert_debug_snapshot!((&runs[0].event.run, turns));
}

#[test]
fn demonstrations_and_extra_file_data_stay_out_of_the_trajectory() {
    let runs = import_fixture("swe-agent/test-repo-demonstration.traj.zst").unwrap();
    let text = runs[0].event.trajectory().unwrap().raw_text().to_owned();
    assert!(!text.contains("DEMONSTRATION"));
    assert!(text.contains("SyntaxError: invalid syntax"), "the task itself is kept");
    assert!(!text.contains("edited_files"));
}

#[test]
fn tau2_results_give_a_run_for_each_simulation() {
    let runs = import_fixture("tau2/results.composed.json").unwrap();
    let places: Vec<_> = runs.iter().map(|run| run.location.as_str()).collect();
    assert_eq!(places, ["simulations[0]", "simulations[1]", "simulations[2]"]);
    insta::assert_snapshot!(describe_runs("tau2/results.composed.json"));
    insta::assert_debug_snapshot!("tau2_first", (&runs[0].event.run, parse_trajectory(&runs[0]).turns));
}

#[test]
fn rewards_and_expected_answers_never_enter_a_trajectory() {
    for run in import_fixture("tau2/results.composed.json").unwrap() {
        let text = run.event.trajectory().unwrap().raw_text().to_owned();
        assert!(!text.contains("GROUND-TRUTH") && !text.contains("reward"), "{text}");
    }
}

#[test]
fn calls_of_a_simulated_user_are_not_agentic() {
    let runs = import_fixture("tau2/results.composed.json").unwrap();
    let turns = parse_trajectory(&runs[1]).turns;
    let agentic: Vec<_> = turns.iter().map(|turn| turn.agentic).collect();
    assert_eq!(agentic, [false, false, true]);
}

#[test]
fn sentence_fragments_of_a_spoken_simulation_become_messages() {
    let runs = import_fixture("tau2/spoken-simulation.composed.json").unwrap();
    let turns = parse_trajectory(&runs[0]).turns;
    let messages: Vec<_> = turns.iter().map(|turn| turn.message.as_str()).collect();
    assert_eq!(messages, ["Where is my order?", "Let me look.", "", "It is pending."]);
    assert_eq!(turns[2].calls[0].answer.as_deref(), Some("{\"status\": \"pending\"}"));
    assert_eq!(runs[0].event.workflow.as_str(), "tau2");
}

#[test]
fn atif_documents_are_read_one_a_file_or_one_a_line() {
    for path in ["atif/v1.0.composed.json", "atif/v1.7.composed.json"] {
        assert_eq!(import_fixture(path).unwrap().len(), 1);
    }
    insta::assert_snapshot!(describe_runs("atif/lines.composed.jsonl"));
    let runs = import_fixture("atif/lines.composed.jsonl").unwrap();
    assert_eq!(runs[1].location, "line 3");
    insta::assert_debug_snapshot!("atif_second", (&runs[1].event.run, parse_trajectory(&runs[1]).turns));
}

#[test]
fn events_in_a_file_are_passed_on_unchanged() {
    let plain = import_fixture("cloudevents/runs.composed.jsonl").unwrap();
    assert_eq!(plain, import_fixture("cloudevents/runs.composed.jsonl.zst").unwrap());
    assert_eq!(plain.len(), 3);
    assert_eq!(plain[2].event.run.outcome, RunOutcome::Cancellation);
    let text = String::from_utf8(read_fixture("cloudevents/runs.composed.jsonl")).unwrap();
    let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let mut sent = structured_event(&plain[0]);
    sent.as_object_mut().unwrap().remove("datacontenttype");
    assert_eq!(sent, first);
    let batch = import_fixture("cloudevents/batch.composed.json").unwrap();
    assert_eq!(batch.iter().map(|run| run.location.as_str()).collect::<Vec<_>>(), ["[0]", "[1]"]);
    assert_eq!(batch[0].event, plain[0].event);
}

#[test]
fn the_same_file_gives_the_same_events_and_the_callers_workflow_wins() {
    let named = ImportOptions {
        workflow: Some(Workflow::new("bugs").unwrap()),
        outcome: Some(RunOutcome::Timeout),
        ..ImportOptions::default()
    };
    for path in ["swe-agent/ctf-warmup.traj", "tau2/results.composed.json", "atif/v1.0.composed.json"] {
        assert_eq!(import_fixture(path).unwrap(), import_fixture(path).unwrap());
        let runs = import_file(&read_fixture(path), path, &named).unwrap();
        assert!(runs.iter().all(|run| run.event.workflow.as_str() == "bugs"));
        assert_ne!(runs[0].event.envelope.id, import_fixture(path).unwrap()[0].event.envelope.id);
    }
    let atif = import_file(&read_fixture("atif/v1.0.composed.json"), "", &named).unwrap();
    assert_eq!(atif[0].event.run.outcome, RunOutcome::Timeout);
    let own = import_file(&read_fixture("atif/v1.7.composed.json"), "", &named).unwrap();
    assert_eq!(own[0].event.run.outcome, RunOutcome::Failure, "the value in the file takes precedence");
}

#[test]
fn an_outcome_missing_from_the_file_is_unknown_unless_the_caller_gives_one() {
    let outcome = |name: &str, document: serde_json::Value, options: &ImportOptions| {
        import_file(document.to_string().as_bytes(), name, options).unwrap()[0].event.run.outcome
    };
    let silent = [
        (
            "a.json",
            json!({"schema_version": "ATIF-v1.4", "steps": [{"step_id": 1, "source": "user", "message": "hi"}]}),
        ),
        ("a.traj", json!({"trajectory": [{"action": "ls"}], "info": {"submission": "diff"}})),
        ("a.traj", json!({"trajectory": [{"action": "ls"}]})),
        ("a.json", json!({"id": "1", "task_id": "1", "termination_reason": "agent_stop", "messages": []})),
    ];
    let with_outcome = ImportOptions { outcome: Some(RunOutcome::Failure), ..ImportOptions::default() };
    for (name, document) in silent {
        assert_eq!(
            outcome(name, document.clone(), &ImportOptions::default()),
            RunOutcome::Unknown,
            "{document}"
        );
        assert_eq!(outcome(name, document, &with_outcome), RunOutcome::Failure);
    }
}

#[test]
fn a_run_has_the_task_of_the_file_or_else_of_the_caller() {
    let with_task = ImportOptions { task: Some("from outside".into()), ..ImportOptions::default() };
    let tasks = |path: &str, options: &ImportOptions| {
        let runs = import_file(&read_fixture(path), path, options).unwrap();
        let task_of = |run: &ImportedRun| {
            let data = structured_event(run)["data"]["task"].as_str().map(str::to_owned);
            assert_eq!(data, run.event.run.task, "the event and its facts have the same task");
            data
        };
        runs.iter().map(task_of).next().unwrap()
    };
    let own = Some("overlap-17".to_owned());
    assert_eq!(tasks("atif/v1.7.composed.json", &ImportOptions::default()), own);
    assert_eq!(tasks("atif/v1.7.composed.json", &with_task), own, "the value in the file takes precedence");
    assert_eq!(tasks("atif/v1.0.composed.json", &ImportOptions::default()), None);
    for path in ["atif/v1.0.composed.json", "swe-agent/ctf-warmup.traj"] {
        let found = tasks(path, &with_task);
        assert_eq!(found, tasks(path, &ImportOptions::default()).or(with_task.task.clone()), "{path}");
    }
    let mut document: serde_json::Value =
        serde_json::from_slice(&read_fixture("atif/v1.7.composed.json")).unwrap();
    for other in [serde_json::json!(17), serde_json::json!(""), serde_json::json!("x".repeat(2000))] {
        document["extra"]["task"] = other;
        let runs = import_file(document.to_string().as_bytes(), "", &ImportOptions::default()).unwrap();
        assert_eq!(runs[0].event.run.task, None, "a value that is no valid task is ignored");
    }
}

#[test]
fn an_agents_md_of_the_caller_goes_with_runs_that_carry_none_and_changes_no_event_of_others() {
    let options = ImportOptions { agents_md: Some("Run `make test`.".into()), ..ImportOptions::default() };
    let carried = |run: &ImportedRun| parse_trajectory(run).agents_md;
    let mut folders: Vec<String> =
        ["atif", "chat", "claude-code", "codex", "swe-agent", "tau2"].map(list_fixtures).concat();
    folders.retain(|path| !path.ends_with("README.md") && import_fixture(path).is_ok());
    assert!(folders.len() > 10, "{folders:?}");
    for path in &folders {
        let (plain, given) =
            (import_fixture(path).unwrap(), import_file(&read_fixture(path), path, &options));
        for (plain, given) in plain.iter().zip(given.unwrap()) {
            assert_eq!(carried(&given).as_deref(), Some("Run `make test`."), "{path}");
            assert_ne!(
                given.event.envelope.id, plain.event.envelope.id,
                "{path}: other content, another event"
            );
            assert_eq!(given.event.run, plain.event.run, "{path}");
            assert_eq!(parse_trajectory(&given).turns, parse_trajectory(plain).turns, "{path}");
        }
    }
    let mut document: Value = serde_json::from_slice(&read_fixture("atif/v1.7.composed.json")).unwrap();
    document["extra"]["agents_md"] = json!("Its own.");
    let own = import_file(document.to_string().as_bytes(), "", &options).unwrap();
    assert_eq!(carried(&own[0]).as_deref(), Some("Its own."));
    let path = "cloudevents/batch.composed.json";
    assert_eq!(import_file(&read_fixture(path), path, &options).unwrap(), import_fixture(path).unwrap());
}

#[test]
fn an_unsupported_format_is_named_in_the_rejection() {
    for (path, name) in [
        ("unsupported/gemini-cli.json", "Gemini CLI session"),
        ("unsupported/inspect-events.json", "Inspect event log"),
        ("unsupported/openhands-conversation.json", "OpenHands conversation state"),
    ] {
        let rejection = import_fixture(path).unwrap_err();
        assert_eq!(rejection.code, DeadLetterCode::TypeUnknown);
        assert_eq!(rejection.detail, format!("not supported yet: {name}"));
    }
    let rejection = import_file(b"{\"a\": 1}", "a.json", &ImportOptions::default()).unwrap_err();
    assert!(rejection.detail.starts_with("unknown format"), "{rejection}");
}

#[test]
fn transcripts_of_agents_are_read_one_run_a_file() {
    let all = ["claude-code", "codex", "chat"].map(list_fixtures).concat();
    insta::assert_snapshot!(all.iter().map(|path| describe_runs(path)).collect::<String>());
}

#[test]
fn a_transcript_reads_like_this() {
    for path in
        ["claude-code/thinking.composed.jsonl", "codex/session.composed.jsonl", "chat/lines.composed.jsonl"]
    {
        let runs = import_fixture(path).unwrap();
        let name = path.replace(['/', '.'], "_");
        insta::assert_debug_snapshot!(name, (&runs[0].event.run, parse_trajectory(&runs[0]).turns));
    }
}

#[test]
fn chat_messages_may_be_a_list_an_object_or_an_object_a_line() {
    let message = |role: &str| json!({"role": role, "content": "words"});
    let messages = json!([message("user"), message("assistant")]);
    let object = json!({"messages": messages});
    let import = |text: &str| import_file(text.as_bytes(), "chat.json", &ImportOptions::default()).unwrap();
    let whole = import(&messages.to_string());
    assert_eq!(whole.len(), 1);
    assert_eq!(
        import(&object.to_string())[0].event.run.run_id,
        whole[0].event.run.run_id,
        "the same content"
    );
    let lines = format!("{object}\n{}\n", json!({"messages": [message("user")]}));
    assert_eq!(
        import(&lines).iter().map(|run| run.location.as_str()).collect::<Vec<_>>(),
        ["line 1", "line 2"]
    );

    let invalid = DeadLetterCode::TrajectoryInvalid;
    check_rejection(
        "a.json",
        &json!({"messages": [message("user"), message("robot")]}).to_string(),
        invalid,
        Some("messages[1]"),
    );
    check_rejection("a.json", &json!({"messages": []}).to_string(), invalid, Some("messages"));
    check_rejection("a.jsonl", &json!({"type": "summary", "leafUuid": "x"}).to_string(), invalid, None);
}

#[test]
fn images_in_a_result_are_left_out_and_other_json_is_kept() {
    let result = |content: Value| {
        let call = json!({"id": "a", "function": {"name": "look", "arguments": "{}"}});
        let messages = json!([
            {"role": "assistant", "content": "I look.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": content},
        ]);
        let runs = import_file(messages.to_string().as_bytes(), "", &ImportOptions::default()).unwrap();
        parse_trajectory(&runs[0]).turns[1].calls[0].answer.clone().unwrap()
    };
    let image = json!({"type": "image", "source": {"data": "iVBORw0KGgo="}});
    assert_eq!(result(json!([image, {"type": "text", "text": "a chart"}])), "a chart");
    assert_eq!(result(json!([image])), "");
    assert_eq!(result(json!([1, 2])), "[1,2]");
}

#[track_caller]
fn check_rejection(name: &str, text: &str, code: DeadLetterCode, path: Option<&str>) {
    let rejection =
        import_file(text.as_bytes(), name, &ImportOptions::default()).expect_err("the file is broken");
    assert_eq!((rejection.code, rejection.path.as_deref()), (code, path), "{rejection}");
}

#[test]
fn a_broken_file_is_refused_with_the_location_of_the_error() {
    let event = |run_id: Value| {
        let data = json!({"workflow": "w", "outcome": "success", "run_id": run_id});
        let kind = "dev.retrospect.run.completed.v1";
        json!({"specversion": "1.0", "type": kind, "source": "s", "id": "i", "data": data})
    };
    let simulation = json!({"id": "a", "termination_reason": "user_stop", "messages": [{"role": 7}]});
    let results = json!({"info": {"environment_info": {}}, "simulations": [simulation]}).to_string();
    let lines = format!("{}\n{}\n", event(json!("a")), event(json!("")));
    let cut = format!("{}\n{{\"specversion\": \"1.0\"", event(json!("a")));
    let with_bad_log = {
        let mut event = event(json!("a"));
        event["data"]["trajectory"] = json!({"schema_version": "ATIF-v1.0", "steps": [{}]});
        event.to_string()
    };
    for (name, text, code, path) in [
        ("", "", DeadLetterCode::NotJson, None),
        ("", "{", DeadLetterCode::NotJson, None),
        ("", cut.as_str(), DeadLetterCode::NotJson, Some("line 2")),
        ("", lines.as_str(), DeadLetterCode::FieldInvalid, Some("line 2: data.run_id")),
        (
            "",
            with_bad_log.as_str(),
            DeadLetterCode::TrajectoryInvalid,
            Some("data.trajectory.steps[0].source"),
        ),
        (
            "a.traj",
            r#"{"trajectory": [{"action": "ls"}, {"action": 7}]}"#,
            DeadLetterCode::TrajectoryInvalid,
            Some("trajectory[1].action"),
        ),
        ("a.traj.zst", r#"{"trajectory": 7}"#, DeadLetterCode::TrajectoryInvalid, Some("trajectory")),
        ("", results.as_str(), DeadLetterCode::TrajectoryInvalid, Some("simulations[0].messages[0].role")),
        (
            "",
            r#"{"schema_version": "ATIF-v9", "steps": []}"#,
            DeadLetterCode::TrajectoryInvalid,
            Some("schema_version"),
        ),
        (
            "",
            r#"{"schema_version": "ATIF-v1.1", "steps": [{"source": "agent", "tool_calls": [{}]}]}"#,
            DeadLetterCode::TrajectoryInvalid,
            Some("steps[0].tool_calls[0].function_name"),
        ),
    ] {
        check_rejection(name, text, code, path);
    }
    let metadata = import_fixture("tau2/folder-metadata.json").unwrap_err();
    assert_eq!(metadata.path.as_deref(), Some("simulations"));
}

#[test]
fn a_decompression_bomb_is_refused() {
    let endless = vec![b' '; retro_adapters::FILE_BYTES_MAX + 2];
    let small = zstd::encode_all(endless.as_slice(), 1).unwrap();
    assert!(small.len() < 100_000);
    assert_eq!(detect_format(&small, "a.json.zst").unwrap_err().code, DeadLetterCode::Oversized);
    assert_eq!(detect_format(&small[..20], "a.json.zst").unwrap_err().code, DeadLetterCode::NotJson);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_reader_panics_on_random_truncated_or_altered_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        which in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        changed in any::<u8>(),
    ) {
        let paths = [
            "swe-agent/ctf-warmup.traj",
            "tau2/results.composed.json",
            "tau2/spoken-simulation.composed.json",
            "atif/v1.7.composed.json",
            "cloudevents/batch.composed.json",
            "swe-agent/ctf-eps.traj.zst",
        ];
        let path: &&str = which.get(&paths);
        let whole = read_fixture(path);
        let at = cut.index(whole.len());
        let mut bent = whole.clone();
        bent[at] = changed;
        for bytes in [bytes.as_slice(), &whole[..at], &bent] {
            let _ = import_file(bytes, "a.traj", &ImportOptions::default());
            for format in [Format::CloudEvents, Format::Atif, Format::SweAgent, Format::Tau2] {
                let _ = import_file_as(format, bytes, &ImportOptions::default());
            }
        }
    }
}
