//! Builds the ATIF document of a run.

use serde::Serialize;
use serde_json::{Value, json};

/// An ATIF document under construction.
#[derive(Serialize)]
pub(crate) struct AtifDocument {
    schema_version: &'static str,
    agent: Value,
    pub(crate) steps: Vec<Entry>,
}

/// One entry of the document's `steps`.
#[derive(Serialize, Default)]
pub(crate) struct Entry {
    step_id: usize,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timestamp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step_kind: Option<&'static str>,
    message: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) tool_calls: Vec<Call>,
    #[serde(skip_serializing_if = "Observation::is_empty")]
    observation: Observation,
}

/// A tool call in an entry.
#[derive(Serialize)]
pub(crate) struct Call {
    pub(crate) tool_call_id: String,
    pub(crate) function_name: String,
    pub(crate) arguments: Value,
}

#[derive(Serialize, Default)]
struct Observation {
    results: Vec<Value>,
}

impl Observation {
    fn is_empty(&self) -> bool {
        self.results.is_empty()
    }
}

impl AtifDocument {
    /// Creates the document of an agent. A missing version is written as `unknown`, because the format
    /// requires one.
    pub(crate) fn new(name: &str, version: Option<&str>, model: Option<&str>) -> Self {
        let mut document = Self { schema_version: "ATIF-v1.7", agent: Value::Null, steps: Vec::new() };
        document.set_agent(name, version, model);
        document
    }

    /// Sets the agent, for a log that names it late.
    pub(crate) fn set_agent(&mut self, name: &str, version: Option<&str>, model: Option<&str>) {
        self.agent = json!({"name": name, "version": version.unwrap_or("unknown"), "model_name": model});
    }

    /// Adds an entry with the source `system`, `user` or `agent`. The message is a string or an array of
    /// parts.
    pub(crate) fn add_entry(&mut self, source: &'static str, message: impl Into<Value>) -> &mut Entry {
        let step_id = self.steps.len() + 1;
        self.steps.push(Entry { step_id, source, message: message.into(), ..Entry::default() });
        self.steps.last_mut().expect("an entry was just added")
    }

    pub(crate) fn into_json(self) -> Value {
        json!(self)
    }
}

impl Entry {
    /// Adds an observation to the entry: the result of a tool call, or text without a call.
    pub(crate) fn add_result(&mut self, call: Option<&str>, content: &str, is_error: Option<bool>) {
        let mut result = json!({"content": content});
        if let Some(call) = call {
            result["source_call_id"] = call.into();
        }
        if let Some(is_error) = is_error {
            result["extra"] = json!({"is_error": is_error});
        }
        self.observation.results.push(result);
    }
}
