//! Runs of the evaluation data, one a line, as far as the measures read them.

use std::path::Path;

use anyhow::Result;
use retro_core::id;
use retro_core::trajectory::{Source, ToolCall, Trajectory, Turn};
use serde::Deserialize;

use super::super::rows;

/// A finished run.
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

/// Where people say that a failed run went wrong.
#[derive(Deserialize)]
pub(super) struct Labels {
    /// Index into the steps, from 0.
    #[serde(default)]
    pub(super) mistake_step: Option<usize>,
    #[serde(default)]
    pub(super) failures: Vec<LabelledFailure>,
}

/// One of several places that an annotator names.
#[derive(Deserialize)]
pub(super) struct LabelledFailure {
    /// The annotators' own number, about one off.
    pub(super) step_number: usize,
}

/// An entry of a run's log. What is a label is named so: nothing but the score reads it.
#[derive(Deserialize)]
pub(super) struct Step {
    pub(super) role: String,
    /// The name of the agent that speaks, with what it does in brackets.
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

/// A call with its answer, as the investigator gets it when the log says nothing of failures, and its labels.
pub(super) struct Answered {
    pub(super) place: String,
    pub(super) task: String,
    pub(super) call: ToolCall,
    pub(super) label_failed: bool,
    pub(super) label_class: Option<String>,
}

/// Every answered call of a file of runs.
pub(super) fn answered(file: &Path) -> Result<Vec<Answered>> {
    let runs: Vec<Run> = rows(file)?;
    Ok(runs.iter().flat_map(of).collect())
}

impl Run {
    /// The run as a trajectory, and the entry of its log that each turn begins with: an agent's name is its step, a call and
    /// its answer are one turn.
    pub(super) fn trajectory(&self) -> (Trajectory, Vec<usize>) {
        let (mut turns, mut entries): (Vec<Turn>, Vec<usize>) = (Vec::new(), Vec::new());
        for (at, step) in self.steps.iter().enumerate() {
            if step.role == "tool_result" {
                if let Some(call) = turns.last_mut().and_then(|turn| turn.calls.last_mut()) {
                    call.answer = Some(step.output.clone());
                }
                continue;
            }
            turns.push(step.turn());
            entries.push(at);
        }
        (Trajectory { turns }, entries)
    }
}

impl Step {
    fn turn(&self) -> Turn {
        let name = self.agent.split(" (").next().unwrap_or_default();
        let thinks = self.agent.ends_with("(thought)");
        // Sets name people "human", or give the person's role to nobody but the customer.
        let person = self.agent == "human" || (self.agent.is_empty() && self.role == "user");
        let calls = (self.role == "tool_call").then(|| ToolCall {
            tool: self.tool.clone(),
            arguments: self.input.clone(),
            answer: None,
            failed: None,
        });
        Turn {
            step: id::Step::new(name).unwrap_or_else(|_| id::Step::main()),
            agentic: !person,
            source: if person { Source::User } else { Source::Agent },
            message: if thinks { String::new() } else { self.text.clone() },
            reasoning: if thinks { self.text.clone() } else { String::new() },
            calls: calls.into_iter().collect(),
        }
    }
}

fn of(run: &Run) -> impl Iterator<Item = Answered> + '_ {
    run.steps.iter().enumerate().filter_map(|(at, step)| {
        let asked = match step.role.as_str() {
            "tool" => step,
            "tool_result" => run.steps[..at]
                .iter()
                .rev()
                .find(|earlier| earlier.role == "tool_call" && earlier.call_id == step.call_id)?,
            _ => return None,
        };
        Some(Answered {
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
