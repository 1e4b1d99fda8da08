//! Reads the answers of a person who was the model.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// Answers of a person to the prompts about one run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunAnswers {
    /// Texts by which the prompts about the run are recognised: they have all of these.
    pub(super) prompt_has: Vec<String>,
    /// The answers, one after the other. Each is a list of calls of tools.
    pub(super) turns: Vec<Vec<AnsweredCall>>,
}

/// A call of a tool.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AnsweredCall {
    pub(super) name: String,
    #[serde(default)]
    pub(super) arguments: toml::Table,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AnswersFile {
    run: Vec<RunAnswers>,
}

/// Reads `answers.toml`.
pub(super) fn read_answers(path: &Path) -> Result<Vec<RunAnswers>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file: AnswersFile = toml::from_str(&text).with_context(|| path.display().to_string())?;
    Ok(file.run)
}

impl RunAnswers {
    /// Returns `true` if a prompt is about this run.
    pub(super) fn fits(&self, prompt: &str) -> bool {
        self.prompt_has.iter().all(|text| prompt.contains(text))
    }

    /// Returns the calls of an answer as the `file:` adapter reads them; `None` if there is no such answer.
    pub(super) fn calls_of(&self, turn: usize) -> Option<Value> {
        let to_json =
            |call: &AnsweredCall| serde_json::json!({"name": call.name, "arguments": call.arguments});
        Some(Value::Array(self.turns.get(turn)?.iter().map(to_json).collect()))
    }
}
