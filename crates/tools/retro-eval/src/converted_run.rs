//! Runs of evaluation data, converted to the events that their emitters would have sent.

use serde_json::{Value, json};

/// ATIF version of the written trajectories.
const ATIF_VERSION: &str = "ATIF-v1.4";

/// A run of the evaluation data, converted to the parts of an event.
pub struct ConvertedRun {
    /// Name of the workflow.
    pub workflow: String,
    /// ID of the run, which is also the event ID.
    pub run_id: String,
    /// `true` if the data says that the run succeeded.
    pub success: bool,
    /// Version of the prompt; `None` if the data has only one.
    pub prompt_version: Option<&'static str>,
    /// The agent as ATIF describes it: name, version and model name.
    pub agent: Value,
    /// Entries of the trajectory, without step numbers.
    pub steps: Vec<Value>,
}

/// A tool call with its result.
pub struct Call {
    /// ID of the call within its run.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call, a JSON object.
    pub arguments: Value,
    /// Text of the result; `None` if the data has none.
    pub answer: Option<String>,
}

impl ConvertedRun {
    /// Builds the event that the emitter would have sent for the run, with the trajectory inline.
    pub fn to_event(&self) -> Value {
        let numbered = self.steps.iter().enumerate().map(|(at, step)| {
            let mut step = step.clone();
            step["step_id"] = json!(at + 1);
            step
        });
        let mut event = json!({
            "specversion": "1.0",
            "type": "dev.retrospect.run.completed.v1",
            "source": format!("/demo/{}", self.workflow),
            "id": self.run_id,
            "datacontenttype": "application/json",
            "data": {
                "workflow": self.workflow,
                "run_id": self.run_id,
                "outcome": if self.success { "success" } else { "failure" },
                "agent": {"name": self.agent["name"], "model": self.agent["model_name"]},
                "trajectory": {
                    "schema_version": ATIF_VERSION,
                    "session_id": self.run_id,
                    "agent": self.agent,
                    "steps": numbered.collect::<Vec<_>>(),
                },
            },
        });
        if let Some(version) = self.prompt_version {
            event["data"]["prompt_version"] = json!(version);
        }
        event
    }
}

/// Builds an agent's turn: its message, its reasoning, and its calls with their results.
pub fn agent_turn(message: &str, reasoning: Option<&str>, calls: &[Call]) -> Value {
    let mut turn = json!({"source": "agent", "message": message});
    if let Some(reasoning) = reasoning {
        turn["reasoning_content"] = json!(reasoning);
    }
    if !calls.is_empty() {
        let called = |call: &Call| json!({"tool_call_id": call.id, "function_name": call.tool, "arguments": call.arguments});
        let answered =
            |call: &Call| Some(json!({"source_call_id": call.id, "content": call.answer.as_ref()?}));
        turn["tool_calls"] = calls.iter().map(called).collect();
        turn["observation"] = json!({"results": calls.iter().filter_map(answered).collect::<Vec<Value>>()});
    }
    turn
}
