//! Reads runs of the evaluation data, one per line, with the fields that the measures need.

use std::path::Path;

use anyhow::Result;
use retro_core::id;
use retro_core::trajectory::{ToolCall, Trajectory, Turn, TurnSource};
use serde::Deserialize;

use crate::decisions::eval_data::read_rows;

/// A finished run of the evaluation data.
#[derive(Deserialize)]
pub(super) struct Run {
    pub(super) run_id: String,
    #[serde(default)]
    pub(super) task_id: String,
    #[serde(default)]
    pub(super) steps: Vec<Step>,
    #[serde(default)]
    pub(super) labels: Option<Labels>,
}

/// Labels that people gave to a failed run.
#[derive(Deserialize)]
pub(super) struct Labels {
    /// 0-based index of the wrong step in the run; `None` if no single step is labelled.
    #[serde(default)]
    pub(super) mistake_step: Option<usize>,
    #[serde(default)]
    pub(super) failures: Vec<LabelledFailure>,
}

/// A step that an annotator blames.
#[derive(Deserialize)]
pub(super) struct LabelledFailure {
    /// 1-based step number given by the annotator, often off by one.
    pub(super) step_number: usize,
}

/// An entry of a run's log. Fields named `label_…` are labels, which only the scoring reads.
#[derive(Deserialize)]
pub(super) struct Step {
    pub(super) role: String,
    /// Name of the speaking agent, with its activity in parentheses.
    #[serde(default)]
    agent: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    pub(super) tool: String,
    #[serde(default)]
    pub(super) input: String,
    #[serde(default)]
    pub(super) output: String,
    #[serde(default)]
    call_id: String,
    #[serde(default, rename = "is_error")]
    pub(super) label_failed: Option<bool>,
    #[serde(default, rename = "error_class")]
    pub(super) label_class: Option<String>,
}

/// A call with its result and labels. The log that the investigator sees has no failure flags.
pub(super) struct AnsweredCall {
    pub(super) place: String,
    pub(super) task: String,
    pub(super) call: ToolCall,
    pub(super) label_failed: bool,
    pub(super) label_class: Option<String>,
}

/// Loads every call with a result from a file of runs.
pub(super) fn load_answered_calls(file: &Path) -> Result<Vec<AnsweredCall>> {
    let runs: Vec<Run> = read_rows(file)?;
    Ok(runs.iter().flat_map(answered_calls).collect())
}

impl Run {
    /// Converts the run to a trajectory, and returns for each turn the index of the log entry at which it
    /// begins. An agent's name becomes its step, and a call with its result becomes one turn.
    pub(super) fn to_trajectory(&self) -> (Trajectory, Vec<usize>) {
        let (mut turns, mut entries): (Vec<Turn>, Vec<usize>) = (Vec::new(), Vec::new());
        for (at, step) in self.steps.iter().enumerate() {
            if step.role == "tool_result" {
                if let Some(call) = turns.last_mut().and_then(|turn| turn.calls.last_mut()) {
                    call.answer = Some(step.output.clone());
                }
                continue;
            }
            turns.push(step.to_turn());
            entries.push(at);
        }
        (turns.into(), entries)
    }
}

impl Step {
    fn to_turn(&self) -> Turn {
        let name = self.agent.split(" (").next().unwrap_or_default();
        let thinks = self.agent.ends_with("(thought)");
        // Some sets name people "human"; the others use the user role only for the customer.
        let person = self.agent == "human" || (self.agent.is_empty() && self.role == "user");
        let calls = (self.role == "tool_call").then(|| ToolCall {
            tool: self.tool.clone(),
            arguments: self.input.clone(),
            answer: None,
            failed: None,
        });
        Turn {
            at: None,
            step: id::Step::new(name).unwrap_or_else(|_| id::Step::main()),
            entry: None,
            agentic: !person,
            source: if person { TurnSource::User } else { TurnSource::Agent },
            message: if thinks { String::new() } else { self.text.clone() },
            reasoning: if thinks { self.text.clone() } else { String::new() },
            calls: calls.into_iter().collect(),
        }
    }
}

fn answered_calls(run: &Run) -> impl Iterator<Item = AnsweredCall> + '_ {
    run.steps.iter().enumerate().filter_map(|(at, step)| {
        let asked = match step.role.as_str() {
            "tool" => step,
            "tool_result" => run.steps[..at]
                .iter()
                .rev()
                .find(|earlier| earlier.role == "tool_call" && earlier.call_id == step.call_id)?,
            _ => return None,
        };
        Some(AnsweredCall {
            place: format!("{} step {at}", run.run_id),
            task: run.task_id.clone(),
            call: ToolCall {
                tool: asked.tool.clone(),
                arguments: asked.input.clone(),
                answer: Some(step.output.clone()),
                failed: None,
            },
            label_failed: step.label_failed?,
            label_class: step.label_class.clone(),
        })
    })
}
