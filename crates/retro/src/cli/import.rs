//! Defines the options of commands that read files of runs.

use std::path::{Path, PathBuf};

use clap::Args;
use retro_adapters::{ImportOptions, TASK_BYTES_MAX};
use retro_core::id::Workflow;
use retro_core::run::RunOutcome;
use retro_core::trajectory::AGENTS_MD_BYTES_MAX;

use super::variant::parse_outcome;

/// What a file of runs may leave out.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Workflow of the runs; overrides a workflow derived from the file, except in CloudEvents.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Task of runs whose file names no task, at most 1024 bytes; does not apply to CloudEvents.
    /// `retro memories effect` compares runs of the same task.
    #[arg(long, value_parser = parse_task)]
    pub(crate) task: Option<String>,
    /// Outcome of runs whose file names no outcome: success, failure, error, timeout, cancellation or skip;
    /// does not apply to CloudEvents. Without an outcome, runs are counted but not used as evidence.
    #[arg(long, value_parser = parse_outcome)]
    pub(crate) outcome: Option<RunOutcome>,
    /// File whose text goes with runs that carry none as what the repository's AGENTS.md said, at most 64 KiB, read anew for
    /// each file of runs; does not apply to CloudEvents. A language model that investigates the runs is told of it.
    #[arg(long, value_name = "FILE")]
    pub(crate) agents_md: Option<PathBuf>,
}

impl ImportArgs {
    /// Returns the options of the adapters. Fails with a sentence if the file of `--agents-md` cannot be used.
    pub(crate) fn options(&self) -> Result<ImportOptions, String> {
        let agents_md = self.agents_md.as_deref().map(read_agents_md).transpose()?;
        let Self { workflow, task, outcome, agents_md: _ } = self;
        Ok(ImportOptions { workflow: workflow.clone(), outcome: *outcome, task: task.clone(), agents_md })
    }
}

/// Reads the file of `--agents-md`. Fails if it cannot be read, is no text or too long.
fn read_agents_md(file: &Path) -> Result<String, String> {
    let problem = |problem: String| format!("--agents-md {}: {problem}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| problem(error.to_string()))?;
    // Otherwise every run would be refused for it.
    if text.len() > AGENTS_MD_BYTES_MAX {
        return Err(problem(format!("{} bytes; at most {AGENTS_MD_BYTES_MAX} are accepted", text.len())));
    }
    Ok(text)
}

fn parse_task(text: &str) -> Result<String, String> {
    let fits = (1..=TASK_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
        .ok_or_else(|| format!("expected 1 to {TASK_BYTES_MAX} bytes without control characters"))
}
