use serde_json::{Value, json};

use super::*;

fn request(fields: &Value) -> FeedbackRequest {
    let mut all = json!({"memory": "ae2d45fe", "verdict": "helped"});
    all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

fn problem(fields: &Value) -> String {
    let id = MemoryId(retro_core::id::derive_uuid("m", &[]));
    request(fields).to_given(id).expect_err("the request is wrong").to_string()
}

#[test]
fn an_author_is_an_agent_with_its_run_a_person_or_an_evaluation() {
    let agent = request(&json!({"run": "r", "workflow": "w", "step": "plan"})).author().unwrap();
    assert_eq!((agent.source(), agent.by()), ("agent", None));
    let person = request(&json!({"by": " ann "})).author().unwrap();
    assert_eq!((person.source(), person.by(), person.run()), ("person", Some("ann"), None));
    let judge = request(&json!({"run": "r", "workflow": "w", "by": "judge-1", "source": "evaluation"}));
    assert_eq!(judge.author().unwrap().source(), "evaluation");
}

#[test]
fn a_request_that_says_too_little_or_too_much_is_told_what_to_do() {
    for (fields, expected) in [
        (json!({}), "`by` is missing: name the person, or the agent's `run` and `workflow`"),
        (json!({"run": "r"}), "`workflow` is missing: name the workflow of the run"),
        (json!({"workflow": "w"}), "`run` is missing: name the run"),
        (json!({"run": "r", "workflow": "w", "by": "ann"}), "`by` is for the feedback of a person"),
        (
            json!({"run": "r", "workflow": "w", "by": "ann", "source": "person"}),
            "`run` is for the feedback of an agent",
        ),
        (
            json!({"run": "r", "workflow": "w", "source": "evaluation"}),
            "`by` is missing: name the evaluation",
        ),
        (json!({"by": " "}), "`by` is empty"),
        (json!({"by": "x".repeat(101)}), "`by` is 101 characters long"),
        (json!({"by": "ann", "why": "x".repeat(1025)}), "`why` is 1025 bytes long; at most 1024 are kept"),
    ] {
        let told = problem(&fields);
        assert!(told.starts_with(expected), "{fields}: {told}");
    }
}

#[test]
fn secrets_in_the_reason_are_removed_before_anything_else() {
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0".repeat(2).get(..36).unwrap());
    let given = request(&json!({"by": "ann", "why": format!("it printed {token}")}));
    let given = given.to_given(MemoryId(retro_core::id::derive_uuid("m", &[]))).unwrap();
    let why = given.why.unwrap().text;
    assert!(why.starts_with("it printed ") && !why.contains(&token), "{why}");
}
