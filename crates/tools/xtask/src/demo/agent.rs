//! Simulates the run of an agent, which requests context at the start of each step, calls tools, and is
//! reported as an event at the end.

use anyhow::Result;
use retro_eval::instance::Instance;
use serde_json::{Value, json};

/// A simulated run in progress.
pub(super) struct AgentRun<'a> {
    retro: &'a Instance,
    workflow: &'a str,
    id: String,
    turns: Vec<Value>,
    feedback: Vec<&'static str>,
    failed: bool,
}

/// Memories handed to a step, each with its ID and title.
pub(super) struct HandedMemories(Vec<(String, String)>);

impl HandedMemories {
    /// Returns `true` if one of the memories advises passing this argument.
    pub(super) fn advises_argument(&self, argument: &str) -> bool {
        self.find_advice(argument).is_some()
    }

    /// Returns `true` if one of the memories advises passing an argument to this tool.
    pub(super) fn advises_tool(&self, tool: &str) -> bool {
        self.0.iter().any(|(_, title)| title.contains(tool) && title.contains("pass `"))
    }

    /// Returns the ID of the memory that advises passing this argument, or `None` if no memory does.
    pub(super) fn find_advice(&self, argument: &str) -> Option<&str> {
        let says = format!("pass `{argument}`");
        self.0.iter().find(|(_, title)| title.contains(&says)).map(|(id, _)| id.as_str())
    }
}

impl<'a> AgentRun<'a> {
    pub(super) fn new(retro: &'a Instance, workflow: &'a str, id: String) -> Self {
        Self { retro, workflow, id, turns: Vec::new(), feedback: Vec::new(), failed: false }
    }

    /// Starts a step: requests its context, whose memories then count as presented, and adds the context to
    /// the prompt.
    pub(super) async fn enter_step(&mut self, step: &str, task: &str) -> Result<HandedMemories> {
        let advice = self.request_context(step).await?;
        self.add_prompt(step, task, &advice.1);
        Ok(advice.0)
    }

    /// Requests the context of a step in advance, although the run may never reach the step.
    pub(super) async fn request_context_ahead(&mut self, step: &str) -> Result<()> {
        let (_, text) = self.request_context(step).await?;
        self.add_prompt("plan", "Plan the release.", &text);
        Ok(())
    }

    async fn request_context(&self, step: &str) -> Result<(HandedMemories, String)> {
        let answer = self.retro.request_context(self.workflow, step, &self.id).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let memories = answer["memories"].as_array().cloned().unwrap_or_default();
        let advice = memories.iter().map(|memory| (text(&memory["id"]), text(&memory["title"]))).collect();
        Ok((HandedMemories(advice), text(&answer["text"])))
    }

    fn add_prompt(&mut self, step: &str, task: &str, injected: &str) {
        let message = if injected.is_empty() { task.to_owned() } else { format!("{task}\n\n{injected}") };
        self.push_turn(json!({"source": "user", "step": step, "message": message}));
    }

    /// Records a tool call with its result.
    pub(super) fn record_call(&mut self, step: &str, tool: &str, arguments: &Value, answer: &str) {
        let call = format!("call-{}", self.turns.len() + 1);
        self.push_turn(json!({
            "source": "agent",
            "step": step,
            "message": "",
            "tool_calls": [{"tool_call_id": call, "function_name": tool, "arguments": arguments}],
            "observation": {"results": [{"source_call_id": call, "content": answer}]},
        }));
    }

    /// Opens a memory to read it in full. The memory then counts as read by this run.
    pub(super) async fn open_memory(&self, memory: &str) -> Result<()> {
        self.retro.open_memory(memory, &self.id).await
    }

    /// Adds a remark to the run's self-feedback.
    pub(super) fn add_remark(&mut self, text: &'static str) {
        self.feedback.push(text);
    }

    /// Marks the run as failed.
    pub(super) fn mark_failed(&mut self) {
        self.failed = true;
    }

    fn push_turn(&mut self, mut turn: Value) {
        turn["step_id"] = (self.turns.len() + 1).into();
        self.turns.push(turn);
    }

    /// Builds the CloudEvent of the run, with the trajectory as an ATIF document.
    pub(super) fn into_event(self) -> Value {
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
