//! A composed agent's run: it asks for context at the start of each step, calls tools, and its log becomes an event.

use anyhow::Result;
use serde_json::{Value, json};

use crate::instance::Instance;

/// A run under way.
pub(super) struct Run<'a> {
    retro: &'a Instance,
    workflow: &'a str,
    id: String,
    turns: Vec<Value>,
    feedback: Vec<&'static str>,
    failed: bool,
}

/// What the agent was handed for a step.
pub(super) struct Advice(Vec<(String, String)>);

impl Advice {
    /// Whether a memory that was handed out says to pass this argument.
    pub(super) fn says_pass(&self, argument: &str) -> bool {
        self.to_pass(argument).is_some()
    }

    /// Whether a memory that was handed out says to pass something when this tool is called.
    pub(super) fn says_pass_with(&self, tool: &str) -> bool {
        self.0.iter().any(|(_, title)| title.contains(tool) && title.contains("pass `"))
    }

    /// The id of the memory that says to pass this argument.
    pub(super) fn to_pass(&self, argument: &str) -> Option<&str> {
        let says = format!("pass `{argument}`");
        self.0.iter().find(|(_, title)| title.contains(&says)).map(|(id, _)| id.as_str())
    }
}

impl<'a> Run<'a> {
    pub(super) fn new(retro: &'a Instance, workflow: &'a str, id: String) -> Self {
        Self { retro, workflow, id, turns: Vec::new(), feedback: Vec::new(), failed: false }
    }

    /// Starts a step: asks for context, which is recorded as presented, and puts it into the prompt.
    pub(super) async fn enter(&mut self, step: &str, task: &str) -> Result<Advice> {
        let advice = self.peek(step).await?;
        self.prompt(step, task, &advice.1);
        Ok(advice.0)
    }

    /// Asks for the context of a step that the run may never reach.
    pub(super) async fn look_ahead(&mut self, step: &str) -> Result<()> {
        let (_, text) = self.peek(step).await?;
        self.prompt("plan", "Plan the release.", &text);
        Ok(())
    }

    async fn peek(&self, step: &str) -> Result<(Advice, String)> {
        let answer = self.retro.context(self.workflow, step, &self.id).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let memories = answer["memories"].as_array().cloned().unwrap_or_default();
        let advice = memories.iter().map(|memory| (text(&memory["id"]), text(&memory["title"]))).collect();
        Ok((Advice(advice), text(&answer["text"])))
    }

    fn prompt(&mut self, step: &str, task: &str, injected: &str) {
        let message = if injected.is_empty() { task.to_owned() } else { format!("{task}\n\n{injected}") };
        self.turn(json!({"source": "user", "step": step, "message": message}));
    }

    /// Calls a tool and sees its answer.
    pub(super) fn call(&mut self, step: &str, tool: &str, arguments: &Value, answer: &str) {
        let call = format!("call-{}", self.turns.len() + 1);
        self.turn(json!({
            "source": "agent",
            "step": step,
            "message": "",
            "tool_calls": [{"tool_call_id": call, "function_name": tool, "arguments": arguments}],
            "observation": {"results": [{"source_call_id": call, "content": answer}]},
        }));
    }

    /// Opens a memory to read more of it; recorded as read.
    pub(super) async fn open(&self, memory: &str) -> Result<()> {
        self.retro.read(memory, &self.id).await
    }

    /// What the agent would tell the next run.
    pub(super) fn remark(&mut self, text: &'static str) {
        self.feedback.push(text);
    }

    /// The run does not reach its end.
    pub(super) fn give_up(&mut self) {
        self.failed = true;
    }

    fn turn(&mut self, mut turn: Value) {
        turn["step_id"] = (self.turns.len() + 1).into();
        self.turns.push(turn);
    }

    /// The run's event: CloudEvents, with the log as an ATIF document.
    pub(super) fn event(self) -> Value {
        let trajectory = json!({
            "schema_version": "ATIF-v1.6",
            "session_id": self.id,
            "agent": {"name": "composed-agent", "version": "1", "model_name": "none"},
            "steps": self.turns,
        });
        let mut data = json!({
            "workflow": self.workflow,
            "run_id": self.id,
            "outcome": if self.failed { "failure" } else { "success" },
            "agent": {"name": "composed-agent", "version": "1"},
            "trajectory": trajectory,
        });
        if !self.feedback.is_empty() {
            data["self_feedback"] = json!(self.feedback);
        }
        json!({
            "specversion": "1.0",
            "id": self.id,
            "source": "/demo/composed",
            "type": "dev.retrospect.run.completed.v1",
            "datacontenttype": "application/json",
            "data": data,
        })
    }
}
