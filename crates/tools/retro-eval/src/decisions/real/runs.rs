//! Converts runs of the evaluation data to events. Labels (rewards, failure flags, blamed steps) are left
//! out, so no finding can be derived from a label.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::converted_run::{Call, ConvertedRun, agent_turn};
use crate::decisions::eval_data::{EvalData, read_rows};

/// Paths of the files with runs, each with the folder of its data set.
pub(super) const FILES: [&str; 10] = [
    "02a_tau_bench_airline/runs.jsonl",
    "02b_agentrx/tau_retail_runs.jsonl",
    "02b_agentrx/magentic_runs.jsonl",
    "02c_who_and_when/runs.jsonl",
    "02d_intercode/sql_runs.jsonl",
    "02d_intercode/bash_runs.jsonl",
    "02d_intercode/ctf_runs.jsonl",
    "02d_intercode/python_runs.jsonl",
    "02e_aider_swebench/runs.jsonl",
    "02f_reflexion/hotpotqa_runs.jsonl",
];

/// A run of any data set. Fields that are not listed are ignored.
#[derive(Deserialize)]
pub(crate) struct Row {
    pub(super) run_id: String,
    workflow: String,
    #[serde(default)]
    agent: Agent,
    #[serde(default)]
    steps: Vec<Entry>,
    /// Attempts that contain the steps, in the one data set that nests them; `None` in all others.
    #[serde(default)]
    attempts: Option<Vec<Attempt>>,
    outcome: Outcome,
    /// Annotators' labels, which only the comparison reads; `None` if there are none.
    #[serde(default)]
    pub(super) labels: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Agent {
    #[serde(default)]
    model: Option<String>,
}

#[derive(Deserialize)]
struct Attempt {
    steps: Vec<Entry>,
}

#[derive(Deserialize)]
struct Outcome {
    success: bool,
}

#[derive(Deserialize)]
struct Entry {
    role: String,
    #[serde(default)]
    i: u64,
    /// Name of the speaking agent, with its activity in parentheses.
    #[serde(default)]
    agent: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    thought: Option<String>,
    #[serde(default)]
    tool: String,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    input: String,
    #[serde(default)]
    output: String,
}

/// Reads all rows of a file. Fails if the file's data set is missing.
pub(crate) fn read_runs_file(data: &EvalData, file: &str) -> Result<Vec<Row>> {
    let (set, name) = file.split_once('/').expect("a file lies in the folder of its set");
    read_rows(&data.set_folder(set)?.join(name))
}

/// Groups the runs by workflow. The order of runs within a workflow does not depend on the file.
pub(crate) fn group_by_workflow(rows: Vec<Row>) -> BTreeMap<String, Vec<ConvertedRun>> {
    let mut all: BTreeMap<String, BTreeMap<[u8; 32], ConvertedRun>> = BTreeMap::new();
    for row in rows {
        let key = Sha256::digest(&row.run_id).into();
        all.entry(row.workflow.clone()).or_default().insert(key, row.into_run());
    }
    all.into_iter().map(|(workflow, runs)| (workflow, runs.into_values().collect())).collect()
}

impl Row {
    /// Returns `true` if the data set labels the run as failed.
    pub(super) fn is_failed(&self) -> bool {
        !self.outcome.success
    }

    /// Converts the row to the run that an emitter would have reported.
    pub(super) fn into_run(self) -> ConvertedRun {
        let attempts = self.attempts.into_iter().flatten().flat_map(|attempt| attempt.steps);
        let mut built = TurnBuilder::default();
        for (at, entry) in self.steps.into_iter().chain(attempts).enumerate() {
            built.add_entry(at, entry);
        }
        built.close_turn();
        ConvertedRun {
            workflow: self.workflow,
            run_id: self.run_id,
            success: self.outcome.success,
            prompt_version: None,
            agent: json!({"name": "evaluated", "version": "1", "model_name": self.agent.model.unwrap_or_default()}),
            steps: built.turns,
        }
    }
}

/// Builds the turns of a trajectory: the finished turns, and an open turn to which calls may still be added.
#[derive(Default)]
struct TurnBuilder {
    turns: Vec<Value>,
    open: Option<OpenTurn>,
}

struct OpenTurn {
    i: u64,
    message: String,
    reasoning: Option<String>,
    step: Option<String>,
    calls: Vec<Call>,
}

impl TurnBuilder {
    fn add_entry(&mut self, at: usize, entry: Entry) {
        match entry.role.as_str() {
            "llm_call" => {}
            "tool_call" => self.add_call(at, &entry),
            "tool_result" => self.add_answer(&entry),
            // The entry contains a call and its answer. Unprompted output of the harness has the same form.
            "tool" => {
                self.close_turn();
                let call = build_call(at, &entry, Some(entry.output.clone()));
                self.open = Some(OpenTurn {
                    i: entry.i,
                    message: String::new(),
                    reasoning: entry.thought,
                    step: None,
                    calls: vec![call],
                });
                self.close_turn();
            }
            // Some sets name humans "human"; the others use the user role only for the customer.
            role if entry.agent == "human" || (entry.agent.is_empty() && role == "user") => {
                self.close_turn();
                self.turns.push(json!({"source": "user", "message": entry.text}));
            }
            _ => self.open_message(entry),
        }
    }

    /// Opens a turn for a message. In data with several agents, the agent's name becomes the step.
    fn open_message(&mut self, entry: Entry) {
        self.close_turn();
        let name = entry.agent.split(" (").next().unwrap_or_default().to_owned();
        let thinks = entry.agent.ends_with("(thought)");
        let (message, reasoning) =
            if thinks { (String::new(), Some(entry.text)) } else { (entry.text, None) };
        let step = (!name.is_empty()).then_some(name);
        self.open = Some(OpenTurn { i: entry.i, message, reasoning, step, calls: Vec::new() });
    }

    fn add_call(&mut self, at: usize, entry: &Entry) {
        if self.open.as_ref().is_none_or(|open| open.i != entry.i) {
            self.close_turn();
        }
        let call = build_call(at, entry, None);
        let open = self.open.get_or_insert_with(|| OpenTurn {
            i: entry.i,
            message: String::new(),
            reasoning: None,
            step: None,
            calls: Vec::new(),
        });
        open.calls.push(call);
    }

    fn add_answer(&mut self, entry: &Entry) {
        let calls = self.open.iter_mut().flat_map(|open| &mut open.calls);
        // Without a call ID, a result answers the latest open call.
        let of_it = |call: &&mut Call| {
            call.answer.is_none() && entry.call_id.as_ref().is_none_or(|id| call.id == *id)
        };
        if let Some(call) = calls.rev().find(of_it) {
            call.answer = Some(entry.output.clone());
        }
    }

    fn close_turn(&mut self) {
        if let Some(open) = self.open.take() {
            let mut turn = agent_turn(&open.message, open.reasoning.as_deref(), &open.calls);
            if let Some(step) = open.step {
                turn["step"] = json!(step);
            }
            self.turns.push(turn);
        }
    }
}

/// Builds a call. Its arguments are the tool's own object if the data has one, otherwise an object with the
/// call's only string.
fn build_call(at: usize, entry: &Entry, answer: Option<String>) -> Call {
    let object = serde_json::from_str(&entry.input).ok().filter(Value::is_object);
    Call {
        id: entry.call_id.clone().unwrap_or_else(|| format!("call-{}", at + 1)),
        tool: entry.tool.clone(),
        arguments: object.unwrap_or_else(|| json!({argument_name(&entry.tool): entry.input})),
        answer,
    }
}

/// Returns the name of the only argument of a tool.
fn argument_name(tool: &str) -> &'static str {
    match tool {
        "mysql" => "query",
        "bash" => "command",
        "python" => "code",
        _ => "input",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(row: Value) -> Vec<Value> {
        serde_json::from_value::<Row>(row).unwrap().into_run().steps
    }

    #[test]
    fn calls_get_their_answers_and_labels_are_left_out() {
        let turns = turns(
            json!({"run_id": "r", "workflow": "w", "outcome": {"success": false, "reward": 0.5}, "steps": [
            {"i": 1, "role": "user", "text": "hello"},
            {"i": 2, "role": "assistant", "text": "I look."},
            {"i": 2, "role": "tool_call", "tool": "find", "call_id": "c1", "input": "{\"id\": 7}"},
            {"i": 3, "role": "tool_result", "tool": "find", "call_id": "c1", "output": "none", "is_error": true}]}),
        );
        assert_eq!(turns[0], json!({"source": "user", "message": "hello"}));
        assert_eq!(turns[1]["tool_calls"][0]["arguments"], json!({"id": 7}));
        assert_eq!(turns[1]["observation"]["results"][0]["content"], "none");
        assert!(!json!(turns).to_string().contains("is_error"));
    }

    #[test]
    fn agent_names_become_steps_and_attempts_are_concatenated() {
        let built = turns(json!({"run_id": "r", "workflow": "w", "outcome": {"success": true}, "steps": [
            {"i": 0, "role": "user", "agent": "human", "text": "find it"},
            {"i": 1, "role": "agent_message", "agent": "Orchestrator (thought)", "text": "a plan"}]}));
        assert_eq!((&built[0]["source"], &built[1]["step"]), (&json!("user"), &json!("Orchestrator")));
        assert_eq!(built[1]["reasoning_content"], "a plan");
        let attempt = json!({"steps": [{"role": "tool", "tool": "harness", "output": "failed"}]});
        let built = turns(
            json!({"run_id": "r", "workflow": "w", "outcome": {"success": true}, "attempts": [attempt, attempt]}),
        );
        assert_eq!(built.len(), 2);
    }
}
