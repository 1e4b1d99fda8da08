//! Implements `cargo xtask fixtures`, which generates the demo's real runs from evaluation data. The
//! generated files are committed.
//!
//! A run becomes the CloudEvent that its emitter would have sent, with the trajectory inline. Labels
//! (rewards, failure flags, error classes, expected actions, task texts) are left out, so nothing in the demo
//! can be derived from a label. The same data always gives the same bytes.

mod airline;
mod rows;
mod sql;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use retro_eval::converted_run::ConvertedRun;

/// Maximum size of an event with its trajectory inline, in bytes: the size that CloudEvents requires every
/// intermediary to forward.
const EVENT_BYTES_MAX: usize = 64 * 1024;
/// Maximum compressed size of all files together, in bytes. Every clone of the project contains the files.
const FILES_BYTES_MAX: usize = 1024 * 1024;
/// Highest zstd compression level that needs no extra memory to decompress.
const COMPRESSION_LEVEL: i32 = 19;

/// Reads the evaluation data in the folder `data` and writes the demo's files. Fails if an event or all files
/// together are too large.
pub(crate) fn run(root: &Path, data: &Path) -> Result<()> {
    let folder = root.join("crates/tools/xtask/fixtures/demo");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut total = 0;
    for (name, runs) in
        [(airline::WORKFLOW, airline::read_runs(data)?), (sql::WORKFLOW, sql::read_runs(data)?)]
    {
        let packed = pack_runs(&runs)?;
        let file = folder.join(format!("{name}.jsonl.zst"));
        fs::write(&file, &packed).with_context(|| format!("cannot write {}", file.display()))?;
        println!("{}: {} runs, {} bytes", file.display(), runs.len(), packed.len());
        total += packed.len();
    }
    ensure!(total <= FILES_BYTES_MAX, "{total} bytes in total; the demo's files may have {FILES_BYTES_MAX}");
    Ok(())
}

fn pack_runs(runs: &[ConvertedRun]) -> Result<Vec<u8>> {
    let mut lines = String::new();
    for run in runs {
        let line = run.to_event().to_string();
        ensure!(
            line.len() <= EVENT_BYTES_MAX,
            "run {}: {} bytes are too many for an inline trajectory",
            run.run_id,
            line.len()
        );
        lines.push_str(&line);
        lines.push('\n');
    }
    zstd::encode_all(lines.as_bytes(), COMPRESSION_LEVEL).context("cannot compress")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use retro_eval::converted_run::agent_turn;
    use serde_json::{Value, json};

    use super::*;

    /// Label fields of the data.
    const LABELS: [&str; 12] = [
        "is_error",
        "error_class",
        "reward",
        "valid",
        "expected_actions",
        "ground_truth",
        "task",
        "task_id",
        "r_actions",
        "hardness",
        "hit_turn_limit",
        "instruction",
    ];

    fn committed(workflow: &str) -> Vec<(usize, Value)> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/demo/{workflow}.jsonl.zst"));
        let lines = String::from_utf8(zstd::decode_all(fs::File::open(file).unwrap()).unwrap()).unwrap();
        lines.lines().map(|line| (line.len(), serde_json::from_str(line).unwrap())).collect()
    }

    fn field_names(value: &Value, names: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    names.insert(name.clone());
                    // Arguments belong to the tool, so their names are not checked.
                    if name != "arguments" {
                        field_names(value, names);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| field_names(item, names)),
            _ => {}
        }
    }

    #[test]
    fn committed_runs_are_complete_small_distinct_and_without_labels() {
        let mut ids = BTreeSet::new();
        for (workflow, runs) in [(airline::WORKFLOW, 100), (sql::WORKFLOW, sql::RUNS)] {
            let events = committed(workflow);
            assert_eq!(events.len(), runs);
            let mut names = BTreeSet::new();
            for (bytes, event) in &events {
                assert!(*bytes <= EVENT_BYTES_MAX);
                assert_eq!(event["data"]["workflow"], workflow);
                assert!(
                    event["data"]["trajectory"]["steps"].as_array().is_some_and(|steps| !steps.is_empty())
                );
                assert!(ids.insert(event["id"].as_str().unwrap().to_owned()));
                field_names(event, &mut names);
            }
            for label in LABELS {
                assert!(!names.contains(label), "{workflow} carries {label}");
            }
            let outcomes: BTreeSet<&str> =
                events.iter().filter_map(|(_, event)| event["data"]["outcome"].as_str()).collect();
            assert_eq!(outcomes, BTreeSet::from(["failure", "success"]));
        }
    }

    #[test]
    fn committed_runs_are_read_like_an_engines_and_need_no_redaction() {
        for (workflow, expected) in [(airline::WORKFLOW, 100), (sql::WORKFLOW, sql::RUNS)] {
            let name = format!("{workflow}.jsonl.zst");
            let bytes =
                fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/demo").join(&name)).unwrap();
            let runs = retro_adapters::import_file(&bytes, &name, &retro_adapters::ImportOptions::default())
                .unwrap();
            assert_eq!(runs.len(), expected);
            let mut answered = 0;
            for run in runs {
                assert_eq!(run.event.body_to_upload(), None, "{} does not fit inline", run.location);
                let document = run.event.trajectory().unwrap();
                let mut trajectory =
                    retro_events::atif::parse_trajectory(document, "data.trajectory").unwrap();
                assert_eq!(
                    retro_redact::Redactor::shared().redact_trajectory(&mut trajectory),
                    0,
                    "{}",
                    run.location
                );
                let calls = trajectory.turns.iter().flat_map(|turn| &turn.calls);
                for call in calls {
                    assert_eq!(call.failed, None, "the data's own flag stays behind");
                    answered += usize::from(call.answer.is_some());
                }
            }
            assert!(answered > 500, "{workflow}: only {answered} calls have answers");
        }
    }

    #[test]
    fn a_conversation_becomes_turns_with_answered_calls() {
        let row = r#"{"run_id": "r1", "agent": {"model": "m", "strategy": "tool-calling"}, "outcome": {"success": true, "reward": 1.0}, "task": {"instruction": "secret"}, "steps": [
            {"i": 1, "role": "user", "text": "Change my flight."},
            {"i": 2, "role": "assistant", "text": "One moment."},
            {"i": 2, "role": "tool_call", "tool": "find", "call_id": "c1", "input": "{\"id\":7}"},
            {"i": 3, "role": "tool_result", "tool": "find", "call_id": "c1", "output": "Error: none", "is_error": true},
            {"i": 4, "role": "tool_call", "tool": "find", "call_id": "c2", "input": "{\"id\":8}"},
            {"i": 5, "role": "tool_result", "tool": "find", "call_id": "c2", "output": "found", "is_error": false}]}"#;
        let event = airline::convert_row(serde_json::from_str(row).unwrap()).unwrap().to_event();
        let expected = json!([
            {"step_id": 1, "source": "user", "message": "Change my flight."},
            {"step_id": 2, "source": "agent", "message": "One moment.",
             "tool_calls": [{"tool_call_id": "c1", "function_name": "find", "arguments": {"id": 7}}],
             "observation": {"results": [{"source_call_id": "c1", "content": "Error: none"}]}},
            {"step_id": 3, "source": "agent", "message": "",
             "tool_calls": [{"tool_call_id": "c2", "function_name": "find", "arguments": {"id": 8}}],
             "observation": {"results": [{"source_call_id": "c2", "content": "found"}]}},
        ]);
        assert_eq!(event["data"]["trajectory"]["steps"], expected);
        assert!(!event.to_string().contains("secret"));
    }

    #[test]
    fn a_too_large_event_is_refused_and_not_truncated() {
        let run = ConvertedRun {
            workflow: sql::WORKFLOW.to_owned(),
            run_id: "r1".to_owned(),
            success: true,
            prompt_version: None,
            agent: json!({"name": "a", "version": "1", "model_name": "m"}),
            steps: vec![agent_turn(&"a".repeat(EVENT_BYTES_MAX), None, &[])],
        };
        let problem = pack_runs(&[run]).unwrap_err().to_string();
        assert!(problem.starts_with("run r1: "), "{problem}");
    }
}
