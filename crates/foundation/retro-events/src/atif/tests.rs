use serde_json::{Value, json};

use super::*;

fn read_value(document: &Value, at: &str) -> Result<Trajectory, Rejection> {
    parse_trajectory(JsonDocument::from_value(document).root(), at)
}

fn turns(steps: &Value) -> Vec<Turn> {
    read_value(&json!({"schema_version": "ATIF-v1.7", "steps": steps}), "").unwrap().turns
}

fn only_call(call: &Value, result: &Value) -> ToolCall {
    let entry = json!({"source": "agent", "tool_calls": [call], "observation": {"results": [result]}});
    turns(&json!([entry])).remove(0).calls.remove(0)
}

#[test]
fn every_version_is_read_and_the_next_one_is_refused() {
    for version in VERSIONS {
        assert!(read_value(&json!({"schema_version": version, "steps": []}), "").is_ok(), "{version}");
    }
    let rejection =
        read_value(&json!({"schema_version": "ATIF-v1.8", "steps": []}), "trajectory").unwrap_err();
    assert_eq!(rejection.path.as_deref(), Some("trajectory.schema_version"));
}

#[test]
fn arguments_are_the_command_line_or_canonical_json() {
    for (arguments, text) in [
        (json!({"command": "ls -l"}), "ls -l"),
        (json!({"sql": "SELECT 1"}), "SELECT 1"),
        (json!("{\"cmd\": \"make\"}"), "make"),
        (json!("make"), "make"),
        (json!({"path": "a"}), r#"{"path":"a"}"#),
        (json!({"command": 7}), r#"{"command":7}"#),
        (json!({"command": "ls", "cwd": "/"}), r#"{"command":"ls","cwd":"/"}"#),
        (json!({}), "{}"),
        (json!([2, 1]), "[2,1]"),
        (json!(null), ""),
    ] {
        let call =
            only_call(&json!({"function_name": "bash", "arguments": arguments}), &json!({"content": ""}));
        assert_eq!(call.arguments, text);
    }
}

#[test]
fn failure_flags_are_read_and_never_guessed() {
    for (result, failed) in [
        (json!({"content": "Error: no"}), None),
        (json!({"content": "", "is_error": true}), Some(true)),
        (json!({"content": "", "extra": {"is_error": false}}), Some(false)),
        (json!({"content": "", "extra": {"exit_code": 2}}), Some(true)),
        (json!({"content": "", "extra": {"returncode": 0}}), Some(false)),
        (json!({"content": "", "status": "error"}), Some(true)),
        (json!({"content": "", "status": "odd"}), None),
        (json!({"content": "", "error": "a text is no flag"}), None),
    ] {
        assert_eq!(only_call(&json!({"function_name": "t"}), &result).failed, failed, "{result}");
    }
}

#[test]
fn results_are_assigned_by_id_then_in_order_then_to_the_previous_turn() {
    let calls = json!([
        {"tool_call_id": "a", "function_name": "t"},
        {"tool_call_id": "b", "function_name": "t"},
        {"tool_call_id": "c", "function_name": "t"},
    ]);
    let turns = turns(&json!([
        {"source": "agent", "tool_calls": calls, "observation": {"results": [
            {"source_call_id": "b", "content": "for b"}, {"content": "for a"}, {"source_call_id": "b", "content": "more"},
        ]}},
        {"source": "system", "observation": {"results": [{"content": "for c"}, {"content": "for nobody"}]}},
    ]));
    let answers: Vec<_> = turns[0].calls.iter().map(|call| call.answer.as_deref().unwrap()).collect();
    assert_eq!(answers, ["for a", "for b\nmore", "for c"]);
    assert_eq!(turns[1].message, "for nobody");
    assert_eq!((turns.len(), turns[1].source, turns[1].agentic), (2, TurnSource::System, false));
}

#[test]
fn a_step_with_model_output_is_agentic_unless_the_log_says_otherwise() {
    let call = json!([{"function_name": "t"}]);
    for (entry, agentic) in [
        (json!({"source": "agent", "message": "hm"}), true),
        (json!({"source": "agent", "reasoning_content": "hm"}), true),
        (json!({"source": "agent", "tool_calls": call}), true),
        (json!({"source": "agent", "tool_calls": call, "llm_call_count": 0}), false),
        (json!({"source": "agent", "message": "hm", "step_kind": "deterministic"}), false),
        (json!({"source": "user", "message": "hm"}), false),
        (json!({"source": "system", "message": "hm", "step_kind": "agentic"}), true),
    ] {
        assert_eq!(turns(&json!([entry]))[0].agentic, agentic, "{entry}");
    }
}

#[test]
fn nul_is_replaced_while_parsing() {
    let turns = turns(&json!([{"source": "user", "message": "a\u{0}b"}]));
    assert_eq!(turns[0].message, "a\u{fffd}b");
}

#[test]
fn more_turns_than_a_run_can_have_are_refused() {
    let steps = vec![json!({"source": "user", "message": "a"}); TURNS_MAX + 1];
    let rejection = read_value(&json!({"schema_version": "ATIF-v1.0", "steps": steps}), "").unwrap_err();
    assert_eq!(rejection.path.as_deref(), Some("steps"));
    let nested = json!({"schema_version": "ATIF-v1.0", "steps": steps[..2]});
    let subagents = vec![nested; TURNS_MAX / 2 + 1];
    let whole = json!({"schema_version": "ATIF-v1.7", "steps": [], "subagent_trajectories": subagents});
    let rejection = read_value(&whole, "").unwrap_err();
    assert_eq!(rejection.path.as_deref(), Some("subagent_trajectories[50000].steps"));
}

#[test]
fn times_with_an_offset_are_read_and_others_are_no_error() {
    for (timestamp, time) in [
        (json!("2026-11-20T12:00:00.5Z"), Some("2026-11-20T12:00:00.5Z")),
        (json!("2026-11-20T14:00:00+02:00"), Some("2026-11-20T12:00:00Z")),
        (json!("2026-11-20T12:00:00"), None),
        (json!("yesterday"), None),
        (json!(1_763_640_000), None),
        (json!(null), None),
    ] {
        let entry = json!({"source": "agent", "message": "a", "timestamp": timestamp});
        let at = time.map(|time| time.parse().unwrap());
        assert_eq!(turns(&json!([entry]))[0].at, at, "{timestamp}");
    }
}

#[test]
fn what_agents_md_said_is_read_from_the_documents_extra_within_bounds() {
    let read = |extra: Value| {
        let subagent =
            json!({"schema_version": "ATIF-v1.7", "steps": [], "extra": {"agents_md": "of a subagent"}});
        let steps = json!([{"source": "user", "message": "hi"}]);
        let document = json!({
            "schema_version": "ATIF-v1.7", "steps": steps, "extra": extra, "subagent_trajectories": [subagent]
        });
        read_value(&document, "data.trajectory")
    };
    for (extra, expected) in [
        (json!({"agents_md": "Run `make test`.", "more": 1}), Some("Run `make test`.")),
        (json!({"agents_md": " \n"}), None),
        (json!({"agents_md": null}), None),
        (json!({"other": "words"}), None),
        (json!("anything"), None),
        (json!(null), None),
    ] {
        assert_eq!(read(extra.clone()).unwrap().agents_md.as_deref(), expected, "{extra}");
    }
    let longest = "x".repeat(AGENTS_MD_BYTES_MAX);
    assert!(read(json!({"agents_md": longest})).is_ok());
    for wrong in [json!(7), json!(["a"]), json!(format!("{longest}x"))] {
        let rejection = read(json!({"agents_md": wrong})).unwrap_err();
        assert_eq!(rejection.path.as_deref(), Some("data.trajectory.extra.agents_md"), "{rejection}");
    }
}
