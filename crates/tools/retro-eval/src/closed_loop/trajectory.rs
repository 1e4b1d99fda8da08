//! Builds the trajectory of a run as an ATIF document, and the event that contains it.

use serde_json::{Value, json};

/// CloudEvents type of the sent events.
const EVENT_TYPE: &str = "dev.retrospect.run.completed.v1";

/// A trajectory while it is recorded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trajectory {
    turns: Vec<Value>,
    /// Number of recorded calls.
    pub(crate) calls: u32,
}

impl Trajectory {
    /// Adds the agent's prompt for a step: the task and the handed context.
    pub(crate) fn add_prompt(&mut self, step: &str, task: &str, handed: &str) {
        let message = if handed.is_empty() { task.to_owned() } else { format!("{task}\n\n{handed}") };
        self.push_turn(json!({"source": "user", "step": step, "message": message}));
    }

    /// Adds a call with the agent's message and the answer. `flag` is the harness's own error flag, or `None`
    /// if the harness sets no flag.
    pub(crate) fn add_call(
        &mut self,
        (step, says): (&str, &str),
        tool: &str,
        arguments: &Value,
        answer: &str,
        flag: Option<bool>,
    ) {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        let mut result = json!({"source_call_id": id, "content": answer});
        if let Some(failed) = flag {
            result["is_error"] = failed.into();
        }
        self.push_turn(json!({
            "source": "agent",
            "step": step,
            "message": says,
            "tool_calls": [{"tool_call_id": id, "function_name": tool, "arguments": arguments}],
            "observation": {"results": [result]},
        }));
    }

    fn push_turn(&mut self, mut turn: Value) {
        turn["step_id"] = (self.turns.len() + 1).into();
        self.turns.push(turn);
    }
}

/// Fields of the event besides the trajectory.
#[derive(Debug)]
pub(crate) struct EventFacts<'a> {
    pub(crate) workflow: &'a str,
    pub(crate) run: &'a str,
    pub(crate) failed: bool,
    pub(crate) presented: Vec<&'a str>,
    pub(crate) read: Vec<&'a str>,
    /// Step and text of each remark that the agent made about the run.
    pub(crate) remarks: &'a [(String, String)],
}

/// Builds the event of a run.
pub(crate) fn build_event(facts: &EventFacts<'_>, trace: &Trajectory) -> Value {
    let remarks: Vec<Value> =
        facts.remarks.iter().map(|(step, text)| json!({"step": step, "text": text})).collect();
    json!({
        "specversion": "1.0",
        "id": facts.run,
        "source": "/loop/composed",
        "type": EVENT_TYPE,
        "datacontenttype": "application/json",
        "data": {
            "workflow": facts.workflow,
            "run_id": facts.run,
            "outcome": if facts.failed { "failure" } else { "success" },
            "agent": {"name": "composed-agent", "version": "1"},
            "memories": {"presented": facts.presented, "read": facts.read},
            "self_feedback": remarks,
            "trajectory": {
                "schema_version": "ATIF-v1.6",
                "session_id": facts.run,
                "agent": {"name": "composed-agent", "version": "1", "model_name": "none"},
                "steps": trace.turns,
            },
        },
    })
}
