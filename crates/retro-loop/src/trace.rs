//! A run's log as an ATIF document, and the event that brings it.

use serde_json::{Value, json};

/// The type of the event.
const TYPE: &str = "dev.retrospect.run.completed.v1";

/// A log that grows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace {
    turns: Vec<Value>,
    /// Calls made.
    pub(crate) calls: u32,
}

impl Trace {
    /// What the agent is asked, with what it was handed.
    pub(crate) fn prompt(&mut self, step: &str, task: &str, handed: &str) {
        let message = if handed.is_empty() { task.to_owned() } else { format!("{task}\n\n{handed}") };
        self.turn(json!({"source": "user", "step": step, "message": message}));
    }

    /// A call, what the agent says with it, and its answer. `flag` is what the harness notes beside an answer: whether the
    /// call failed; many note nothing.
    pub(crate) fn call(
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
        self.turn(json!({
            "source": "agent",
            "step": step,
            "message": says,
            "tool_calls": [{"tool_call_id": id, "function_name": tool, "arguments": arguments}],
            "observation": {"results": [result]},
        }));
    }

    fn turn(&mut self, mut turn: Value) {
        turn["step_id"] = (self.turns.len() + 1).into();
        self.turns.push(turn);
    }
}

/// What an event says besides the log.
#[derive(Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) workflow: &'a str,
    pub(crate) run: &'a str,
    pub(crate) failed: bool,
    pub(crate) presented: Vec<&'a str>,
    pub(crate) read: Vec<&'a str>,
    /// Steps and the agent's own remarks.
    pub(crate) remarks: &'a [(String, String)],
}

/// The run's event.
pub(crate) fn event(facts: &Facts<'_>, trace: &Trace) -> Value {
    let remarks: Vec<Value> =
        facts.remarks.iter().map(|(step, text)| json!({"step": step, "text": text})).collect();
    json!({
        "specversion": "1.0",
        "id": facts.run,
        "source": "/loop/composed",
        "type": TYPE,
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
