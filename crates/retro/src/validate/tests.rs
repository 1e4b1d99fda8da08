//! Tests what is understood of runs, and that the JSON Schema of the run format says what the parser does.

use jsonschema::Validator;
use retro_core::id::Tenant;
use retro_core::json::JsonDocument;
use retro_events::envelope::Envelope;
use retro_events::hosts::DatarefHosts;
use retro_events::run_completed::validate_envelope;
use serde_json::{Value, json};

use super::*;

const EXAMPLE: &str = include_str!("../../../../formats/example.json");
const SCHEMA: &str = include_str!("../../../../formats/run.schema.json");
const GOLDEN: [&str; 2] = [
    include_str!("../../../foundation/retro-events/golden/v1-full.structured.json"),
    include_str!("../../../foundation/retro-events/golden/v1-minimal.structured.json"),
];

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn overview_of(text: &str) -> Value {
    let options = ImportOptions::default();
    let tenant = Tenant::default_tenant();
    let read = read_runs(text.as_bytes(), Path::new("runs.json"), &options, &Config::default(), &tenant);
    let (_, runs) = read.unwrap();
    serde_json::to_value(runs).unwrap()
}

fn notes_of(event: &Value) -> String {
    overview_of(&event.to_string())[0]["notes"].to_string()
}

#[test]
fn the_example_is_understood_without_a_note() {
    assert_eq!(
        overview_of(EXAMPLE),
        json!([{
            "workflow": "deploy-shop",
            "run_id": "4711",
            "outcome": "success",
            "trajectory_bytes": 667,
            "steps": [{
                "step": "deploy",
                "turns": 3,
                "agentic_turns": 2,
                "calls": 2,
                "unanswered": 0,
                "failed": 1,
                "failed_by_flag": 1,
                "first_failure": "deploy_service: Error: missing required argument 'region'",
            }],
            "notes": [],
        }])
    );
}

#[test]
fn an_agents_md_is_told_of() {
    let mut event = parse(EXAMPLE);
    event["data"]["trajectory"]["extra"] = json!({"agents_md": "Use make."});
    assert_eq!(overview_of(&event.to_string())[0]["agents_md_bytes"], json!(9));
}

#[test]
fn a_note_says_what_keeps_a_run_from_being_useful() {
    let steps = |event: &mut Value| event["data"]["trajectory"]["steps"].take();
    let with_steps = |change: &dyn Fn(&mut Value)| {
        let mut event = parse(EXAMPLE);
        let mut all = steps(&mut event);
        all.as_array_mut().unwrap().iter_mut().for_each(change);
        event["data"]["trajectory"]["steps"] = all;
        event
    };
    let remove =
        |name: &'static str| move |step: &mut Value| drop(step.as_object_mut().unwrap().remove(name));

    let mut unknown = parse(EXAMPLE);
    unknown["data"]["outcome"] = json!("unknown");
    assert!(notes_of(&unknown).contains("the outcome is unknown"));

    let mut bare = parse(EXAMPLE);
    remove("trajectory")(&mut bare["data"]);
    assert!(notes_of(&bare).contains("there is no trajectory"));

    assert!(notes_of(&with_steps(&remove("step"))).contains("every turn is in the step `main`"));
    assert!(notes_of(&with_steps(&remove("observation"))).contains("no call has a result"));
    assert!(notes_of(&with_steps(&remove("tool_calls"))).contains("no call of a tool"));
    let by_rule = |step: &mut Value| step["step_kind"] = json!("deterministic");
    assert!(notes_of(&with_steps(&by_rule)).contains("no turn is agentic"));

    let mut unseen = with_steps(&|step: &mut Value| {
        if let Some(result) = step.pointer_mut("/observation/results/0") {
            *result = json!({"content": "The thing is somewhat unhappy."});
        }
    });
    assert_eq!(notes_of(&unseen), "[]", "a run that succeeds need not have a failing call");
    unseen["data"]["outcome"] = json!("failure");
    assert!(notes_of(&unseen).contains("set `is_error`"));
}

#[test]
fn a_refusal_names_the_file_the_run_and_the_field() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("runs.jsonl");
    let mut wrong = parse(EXAMPLE);
    wrong["data"]["trajectory"]["steps"][1]["tool_calls"][0]["function_name"] = json!(7);
    std::fs::write(&file, format!("{}\n{wrong}\n", parse(EXAMPLE))).unwrap();
    let read =
        read_file(&file, &ImportOptions::default(), &Config::default(), &Tenant::default_tenant()).unwrap();
    let refused = read.refused.clone().unwrap();
    for part in ["line 2", "steps[1].tool_calls[0].function_name"] {
        assert!(refused.contains(part), "{part} is not in {refused}");
    }
    assert!(render(&[read]).contains("runs.jsonl: refused: "));
}

fn validator() -> Validator {
    jsonschema::validator_for(&parse(SCHEMA)).unwrap()
}

/// Returns `true` if the server would accept the event.
fn is_accepted(event: &Value) -> bool {
    let envelope = Envelope::from_document(&JsonDocument::from_value(event));
    let now = "2026-11-28T10:00:00Z".parse().unwrap();
    let hosts = DatarefHosts::default();
    let tenant = Tenant::new("acme").unwrap();
    envelope.is_ok_and(|envelope| validate_envelope(envelope, &tenant, now, &hosts).is_ok())
}

#[test]
fn the_schema_accepts_what_the_server_accepts_and_refuses_what_it_refuses() {
    let validator = validator();
    for text in GOLDEN.into_iter().chain([EXAMPLE]) {
        let event = parse(text);
        let problems: Vec<_> = validator.iter_errors(&event).map(|error| error.to_string()).collect();
        assert_eq!(problems, [""; 0], "{event}");
        assert!(is_accepted(&event), "{event}");
    }
    let mut full = parse(GOLDEN[0]);
    full["data"]["trajectory"]["extra"] = json!({"agents_md": "Use make."});
    // Each field of the schema is missing, null and of every wrong type.
    let fields = [
        "/specversion",
        "/type",
        "/source",
        "/id",
        "/data",
        "/data/workflow",
        "/data/run_id",
        "/data/outcome",
        "/data/attempt",
        "/data/kind",
        "/data/repo",
        "/data/pull_request",
        "/data/commit",
        "/data/user",
        "/data/prompt_version",
        "/data/agent",
        "/data/agent/name",
        "/data/usage",
        "/data/usage/input_tokens",
        "/data/usage/cost_usd",
        "/data/memories",
        "/data/memories/read",
        "/data/trajectory",
        "/data/trajectory/schema_version",
        "/data/trajectory/extra",
        "/data/trajectory/extra/agents_md",
        "/data/trajectory/steps",
        "/data/trajectory/steps/2",
        "/data/trajectory/steps/2/source",
        "/data/trajectory/steps/2/step",
        "/data/trajectory/steps/2/step_kind",
        "/data/trajectory/steps/2/tool_calls",
        "/data/trajectory/steps/2/tool_calls/0",
        "/data/trajectory/steps/2/tool_calls/0/function_name",
        "/data/trajectory/steps/2/tool_calls/0/tool_call_id",
        "/data/trajectory/steps/2/tool_calls/0/arguments",
        "/data/trajectory/steps/2/observation",
        "/data/trajectory/steps/2/observation/results",
        "/data/trajectory/steps/2/observation/results/0",
        "/data/trajectory/steps/2/observation/results/0/source_call_id",
        "/data/trajectory/steps/2/observation/results/0/content",
    ];
    let mut differences = Vec::new();
    for field in fields {
        assert!(full.pointer(field).is_some() || field.ends_with("step_kind"), "{field} is not in the event");
        let (parent, name) = field.rsplit_once('/').unwrap();
        let values = [json!(null), json!(7), json!("x"), json!(true), json!([]), json!({}), json!([7])];
        let mut variants: Vec<(String, Value)> = Vec::new();
        for value in values {
            let mut event = full.clone();
            let described = format!("{field} = {value}");
            match event.pointer_mut(parent).unwrap() {
                Value::Object(members) => drop(members.insert(name.to_owned(), value)),
                Value::Array(items) => items[name.parse::<usize>().unwrap()] = value,
                other => panic!("{other} has no members"),
            }
            variants.push((described, event));
        }
        let mut without = full.clone();
        if let Some(members) = without.pointer_mut(parent).unwrap().as_object_mut() {
            members.remove(name);
            variants.push((format!("{field} is missing"), without));
        }
        for (described, event) in variants {
            let (by_schema, by_server) = (validator.is_valid(&event), is_accepted(&event));
            if by_schema != by_server {
                differences.push(format!("{described}: schema {by_schema}, server {by_server}"));
            }
        }
    }
    assert_eq!(differences, [""; 0]);
}
