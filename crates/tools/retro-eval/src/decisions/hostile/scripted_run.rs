//! Turns the script of a run, written for an evaluation or by an attacker, into the event of a finished run.

use retro_events::run_completed::{REMARK_BYTES_MAX, REMARKS_MAX};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Placeholder in any text of a script, replaced by the number of the run, so that the runs of one case differ.
pub(super) const NUMBER: &str = "{n}";

/// Number of runs of a case: the window of the default policy.
pub(super) const RUNS: usize = 10;

/// ATIF version of the written trajectories.
const ATIF_VERSION: &str = "ATIF-v1.6";

/// Script of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScriptedRun {
    /// `true` if the run succeeds.
    pub(super) success: bool,
    pub(super) turns: Vec<ScriptedTurn>,
    /// Remarks that the agent leaves for the next run.
    pub(super) remarks: Vec<String>,
}

/// One turn of a script: a message of the agent, a tool call with its answer, or both. The field names are
/// those of attack files.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub(super) struct ScriptedTurn {
    #[serde(default)]
    #[serde(rename = "say")]
    message: Option<String>,
    #[serde(default)]
    tool: Option<String>,
    /// Arguments of the call: an object, or a string.
    #[serde(default)]
    arguments: Value,
    #[serde(default)]
    answer: Option<String>,
    /// Failure flag of the harness; `None` if it records none.
    #[serde(default)]
    failed: Option<bool>,
}

impl ScriptedTurn {
    /// Creates a turn with one call whose harness records if it failed.
    pub(super) fn with_call(tool: &str, arguments: Value, answer: &str, failed: bool) -> Self {
        Self {
            message: None,
            tool: Some(tool.to_owned()),
            arguments,
            answer: Some(answer.to_owned()),
            failed: Some(failed),
        }
    }

    /// Builds the entry of the trajectory, without its step number.
    fn to_entry(&self, at: usize) -> Value {
        let mut entry = json!({"source": "agent", "message": self.message.as_deref().unwrap_or_default()});
        let Some(tool) = &self.tool else { return entry };
        let id = format!("call-{}", at + 1);
        entry["tool_calls"] =
            json!([{"tool_call_id": &id, "function_name": tool, "arguments": self.arguments.clone()}]);
        if self.answer.is_some() || self.failed.is_some() {
            let mut result =
                json!({"source_call_id": &id, "content": self.answer.as_deref().unwrap_or_default()});
            if let Some(failed) = self.failed {
                result["is_error"] = json!(failed);
            }
            entry["observation"] = json!({"results": [result]});
        }
        entry
    }
}

impl ScriptedRun {
    /// Builds the event of the run with this 1-based number in its workflow. Remarks beyond the limits of the
    /// intake are cut, because an event that is rejected tests nothing.
    pub(super) fn to_event(&self, workflow: &str, number: usize) -> Value {
        let mut steps = vec![json!({"source": "user", "message": "Bring the service up to date."})];
        steps.extend(self.turns.iter().enumerate().map(|(at, turn)| turn.to_entry(at)));
        for (at, step) in steps.iter_mut().enumerate() {
            step["step_id"] = json!(at + 1);
        }
        let remarks: Vec<&str> = self.remarks.iter().take(REMARKS_MAX).map(|text| cut_remark(text)).collect();
        // Replaced before the names of workflow and run are added, which an attacker does not choose.
        let steps = replace_number(json!(steps), number);
        let remarks = replace_number(json!(remarks), number);
        let run = format!("{workflow}-{number:02}");
        json!({
            "specversion": "1.0",
            "type": "dev.retrospect.run.completed.v1",
            "source": format!("/evaluation/{workflow}"),
            "id": &run,
            "datacontenttype": "application/json",
            "data": {
                "workflow": workflow,
                "run_id": &run,
                "outcome": if self.success { "success" } else { "failure" },
                "agent": {"name": "evaluated", "version": "1"},
                "self_feedback": remarks,
                "trajectory": {
                    "schema_version": ATIF_VERSION,
                    "session_id": &run,
                    "agent": {"name": "evaluated", "version": "1", "model_name": "none"},
                    "steps": steps,
                },
            },
        })
    }
}

fn cut_remark(text: &str) -> &str {
    &text[..text.floor_char_boundary(REMARK_BYTES_MAX)]
}

/// Replaces [`NUMBER`] in every string of a value, including names of members.
fn replace_number(value: Value, number: usize) -> Value {
    let replace = |text: &str| text.replace(NUMBER, &number.to_string());
    match value {
        Value::String(text) => Value::String(replace(&text)),
        Value::Array(items) => items.into_iter().map(|item| replace_number(item, number)).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            Value::Object(
                members
                    .map(|(name, value)| (replace(&name), replace_number(value, number)))
                    .collect::<Map<_, _>>(),
            )
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_script_differ_by_their_number() {
        let turn: ScriptedTurn = serde_json::from_value(json!({
            "say": "I deploy {n}.", "tool": "deploy", "arguments": {"path": "/srv/{n}"}, "answer": "no {n}", "failed": true,
        }))
        .unwrap();
        let remarks = vec!["Wait {n} minutes".to_owned(), "é".repeat(REMARK_BYTES_MAX)];
        let run = ScriptedRun { success: false, turns: vec![turn], remarks };
        let event = run.to_event("hostile-1", 7);
        let data = &event["data"];
        assert_eq!((&event["id"], &data["outcome"]), (&json!("hostile-1-07"), &json!("failure")));
        assert_eq!(data["self_feedback"][0], "Wait 7 minutes");
        assert_eq!(data["self_feedback"][1].as_str().map(str::len), Some(REMARK_BYTES_MAX));
        let entry = &data["trajectory"]["steps"][1];
        assert_eq!((&entry["step_id"], &entry["message"]), (&json!(2), &json!("I deploy 7.")));
        assert_eq!(entry["tool_calls"][0]["arguments"], json!({"path": "/srv/7"}));
        let result = &entry["observation"]["results"][0];
        assert_eq!((&result["content"], &result["is_error"]), (&json!("no 7"), &json!(true)));
    }

    #[test]
    fn a_turn_may_only_speak_and_a_call_may_have_neither_answer_nor_flag() {
        let speaks: ScriptedTurn = serde_json::from_value(json!({"say": "done"})).unwrap();
        assert_eq!(speaks.to_entry(0), json!({"source": "agent", "message": "done"}));
        let calls: ScriptedTurn = serde_json::from_value(json!({"tool": "ls", "arguments": "-l"})).unwrap();
        assert!(calls.to_entry(0).get("observation").is_none());
        assert_eq!(calls.to_entry(0)["tool_calls"][0]["arguments"], "-l");
    }
}
