//! Runs of the evaluation data, one a line, as far as the measures read them.

use std::path::Path;

use anyhow::Result;
use retro_core::trajectory::ToolCall;
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
}

/// An entry of a run's log. What is a label is named so: nothing but the score reads it.
#[derive(Deserialize)]
pub(super) struct Step {
    pub(super) role: String,
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
