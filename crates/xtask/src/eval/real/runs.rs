//! Runs of the evaluation data as events. What only an evaluation knows (rewards, flags of failed calls, where people say that it
//! went wrong) stays behind: what the program finds cannot be read off a label.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::super::{Data, rows};
use crate::fixtures::{Call, Run, agent_turn};

/// The files with runs, each in the folder of its set.
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

/// A run of any set; what is not named here is not taken.
#[derive(Deserialize)]
pub(super) struct Row {
    pub(super) run_id: String,
    workflow: String,
    #[serde(default)]
    agent: Agent,
    #[serde(default)]
    steps: Vec<Entry>,
    /// One set nests its steps in attempts, or has none.
    #[serde(default)]
    attempts: Option<Vec<Attempt>>,
    outcome: Outcome,
    /// What people say of it; nothing but the comparison reads it.
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
    /// The name of the agent that speaks, with what it does in brackets.
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

/// Every row of a file. Fails when its set is not there.
pub(super) fn of_file(data: &Data, file: &str) -> Result<Vec<Row>> {
    let (set, name) = file.split_once('/').expect("a file lies in the folder of its set");
    rows(&data.set(set)?.join(name))
}

/// All runs by workflow, each in an order that does not depend on how its file is sorted.
pub(super) fn by_workflow(rows: Vec<Row>) -> BTreeMap<String, Vec<Run>> {
    let mut all: BTreeMap<String, BTreeMap<[u8; 32], Run>> = BTreeMap::new();
    for row in rows {
        let key = Sha256::digest(&row.run_id).into();
        all.entry(row.workflow.clone()).or_default().insert(key, row.converted());
    }
    all.into_iter().map(|(workflow, runs)| (workflow, runs.into_values().collect())).collect()
}

impl Row {
    /// Whether the run failed.
    pub(super) fn failed(&self) -> bool {
        !self.outcome.success
    }

    /// The run as its engine would have told it.
    pub(super) fn converted(self) -> Run {
        let attempts = self.attempts.into_iter().flatten().flat_map(|attempt| attempt.steps);
        let mut told = Told::default();
        for (at, entry) in self.steps.into_iter().chain(attempts).enumerate() {
            told.add(at, entry);
        }
        told.close();
        Run {
            workflow: self.workflow,
            run_id: self.run_id,
            success: self.outcome.success,
            prompt_version: None,
            agent: json!({"name": "evaluated", "version": "1", "model_name": self.agent.model.unwrap_or_default()}),
            steps: told.turns,
        }
    }
}

/// The turns so far, and the one that may still get calls.
#[derive(Default)]
struct Told {
    turns: Vec<Value>,
    open: Option<Open>,
}

struct Open {
    i: u64,
    message: String,
    reasoning: Option<String>,
    step: Option<String>,
    calls: Vec<Call>,
}

impl Told {
    fn add(&mut self, at: usize, entry: Entry) {
        match entry.role.as_str() {
            "llm_call" => {}
            "tool_call" => self.call(at, &entry),
            "tool_result" => self.answer(&entry),
            // A call and its answer in one entry; what a harness says of its own accord is an answer to no question.
            "tool" => {
                self.close();
                let call = called(at, &entry, Some(entry.output.clone()));
                self.open = Some(Open {
                    i: entry.i,
                    message: String::new(),
                    reasoning: entry.thought,
                    step: None,
                    calls: vec![call],
                });
                self.close();
            }
            // Sets name people "human", or give the person's role to nobody but the customer.
            role if entry.agent == "human" || (entry.agent.is_empty() && role == "user") => {
                self.close();
                self.turns.push(json!({"source": "user", "message": entry.text}));
            }
            _ => self.say(entry),
        }
    }

    /// An agent's name is its step, where there are several.
    fn say(&mut self, entry: Entry) {
        self.close();
        let name = entry.agent.split(" (").next().unwrap_or_default().to_owned();
        let thinks = entry.agent.ends_with("(thought)");
        let (message, reasoning) =
            if thinks { (String::new(), Some(entry.text)) } else { (entry.text, None) };
        let step = (!name.is_empty()).then_some(name);
        self.open = Some(Open { i: entry.i, message, reasoning, step, calls: Vec::new() });
    }

    fn call(&mut self, at: usize, entry: &Entry) {
        if self.open.as_ref().is_none_or(|open| open.i != entry.i) {
            self.close();
        }
        let call = called(at, entry, None);
        let open = self.open.get_or_insert_with(|| Open {
            i: entry.i,
            message: String::new(),
            reasoning: None,
            step: None,
            calls: Vec::new(),
        });
        open.calls.push(call);
    }

    fn answer(&mut self, entry: &Entry) {
        let calls = self.open.iter_mut().flat_map(|open| &mut open.calls);
        let of_it = |call: &&mut Call| {
            call.answer.is_none() && entry.call_id.as_ref().is_none_or(|id| call.id == *id)
        };
        if let Some(call) = calls.rev().find(of_it) {
            call.answer = Some(entry.output.clone());
        }
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            let mut turn = agent_turn(&open.message, open.reasoning.as_deref(), &open.calls);
            if let Some(step) = open.step {
                turn["step"] = json!(step);
            }
            self.turns.push(turn);
        }
    }
}

/// Arguments are an object of the tool's own where the set has one, else the one text that the tool was given.
fn called(at: usize, entry: &Entry, answer: Option<String>) -> Call {
    let object = serde_json::from_str(&entry.input).ok().filter(Value::is_object);
    Call {
        id: entry.call_id.clone().unwrap_or_else(|| format!("call-{}", at + 1)),
        tool: entry.tool.clone(),
        arguments: object.unwrap_or_else(|| json!({argument(&entry.tool): entry.input})),
        answer,
    }
}

/// What the one argument of a tool is called.
fn argument(tool: &str) -> &'static str {
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
        serde_json::from_value::<Row>(row).unwrap().converted().steps
    }

    #[test]
    fn calls_get_their_answers_and_labels_stay_behind() {
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
    fn an_agent_s_name_is_its_step_and_attempts_follow_each_other() {
        let told = turns(json!({"run_id": "r", "workflow": "w", "outcome": {"success": true}, "steps": [
            {"i": 0, "role": "user", "agent": "human", "text": "find it"},
            {"i": 1, "role": "agent_message", "agent": "Orchestrator (thought)", "text": "a plan"}]}));
        assert_eq!((&told[0]["source"], &told[1]["step"]), (&json!("user"), &json!("Orchestrator")));
        assert_eq!(told[1]["reasoning_content"], "a plan");
        let attempt = json!({"steps": [{"role": "tool", "tool": "harness", "output": "failed"}]});
        let told = turns(
            json!({"run_id": "r", "workflow": "w", "outcome": {"success": true}, "attempts": [attempt, attempt]}),
        );
        assert_eq!(told.len(), 2);
    }
}
