//! Builds artificial runs, with made-up tools and agents.

use serde_json::{Value, json};

/// Builds the event of a run, turn by turn.
#[derive(Debug, Clone)]
pub(crate) struct RunBuilder {
    workflow: String,
    id: String,
    turns: Vec<Value>,
}

impl RunBuilder {
    pub(crate) fn new(workflow: &str, id: &str) -> Self {
        Self { workflow: workflow.to_owned(), id: id.to_owned(), turns: Vec::new() }
    }

    /// Adds a message from the user.
    pub(crate) fn with_message(mut self, message: &str) -> Self {
        self.turns.push(json!({"source": "user", "step": "deploy", "message": message}));
        self
    }

    /// Adds a tool call and its result.
    pub(crate) fn with_call(mut self, tool: &str, arguments: &Value, answer: &str) -> Self {
        let call = format!("call-{}", self.turns.len() + 1);
        self.turns.push(json!({
            "source": "agent",
            "step": "deploy",
            "message": "",
            "tool_calls": [{"tool_call_id": call, "function_name": tool, "arguments": arguments}],
            "observation": {"results": [{"source_call_id": call, "content": answer}]},
        }));
        self
    }

    /// Adds a call that lacks an argument and a second one that has it, the pattern from which a
    /// retrospective learns.
    pub(crate) fn with_corrected_call(self, tool: &str, argument: &str) -> Self {
        let missing = format!("Error: missing required argument '{argument}'");
        let plain = json!({"service": "checkout"});
        self.with_call(tool, &plain, &missing).with_call(
            tool,
            &json!({"service": "checkout", argument: "eu-west-1"}),
            "deployed checkout",
        )
    }

    /// Returns the `run.completed` event of the run.
    pub(crate) fn build_event(self) -> Value {
        let Self { workflow, id, turns } = self;
        let steps: Vec<Value> = turns
            .into_iter()
            .zip(1..)
            .map(|(mut turn, number)| {
                turn["step_id"] = json!(number);
                turn
            })
            .collect();
        let trajectory = json!({
            "schema_version": "ATIF-v1.6",
            "session_id": id,
            "agent": {"name": "composed-agent", "version": "1", "model_name": "none"},
            "steps": steps,
        });
        let data =
            json!({"workflow": workflow, "run_id": id, "outcome": "success", "trajectory": trajectory});
        build_event(&format!("event of {id}"), &data)
    }
}

/// Returns a `run.completed` event with this id and data.
pub(crate) fn build_event(id: &str, data: &Value) -> Value {
    json!({
        "specversion": "1.0",
        "id": id,
        "source": "/tests/composed",
        "type": "dev.retrospect.run.completed.v1",
        "datacontenttype": "application/json",
        "data": data,
    })
}

/// Returns the events of this range of runs of a workflow. In each run, the agent corrects a call of the same
/// tool.
pub(crate) fn build_correcting_runs(workflow: &str, tool: &str, runs: std::ops::Range<u64>) -> Vec<Value> {
    let run = |number| {
        RunBuilder::new(workflow, &format!("{workflow}-{number}")).with_message("Deploy the service.")
    };
    runs.map(|number| run(number).with_corrected_call(tool, "region").build_event()).collect()
}
