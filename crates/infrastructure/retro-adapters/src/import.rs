//! Defines what every importer takes and returns: the facts supplied by the caller, and the imported runs.

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{NameError, RunId, Workflow};
use retro_core::run::RunOutcome;
use retro_events::run_completed::RunEvent;

/// Facts supplied by the caller because a file may lack them.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// Workflow for runs whose format does not name one. Also overrides a name derived from an environment, a
    /// domain or an agent. CloudEvents keep their own workflow.
    pub workflow: Option<Workflow>,
    /// Outcome for runs whose file does not state one. If `None`, their outcome is unknown, and they are not
    /// used as evidence.
    pub outcome: Option<RunOutcome>,
    /// Task for runs whose file does not name one, at most [`TASK_BYTES_MAX`] bytes. Ignored for CloudEvents.
    pub task: Option<String>,
    /// What the repository's `AGENTS.md` says, for runs that carry none, at most
    /// [`AGENTS_MD_BYTES_MAX`](retro_core::trajectory::AGENTS_MD_BYTES_MAX) bytes. Ignored for CloudEvents.
    pub agents_md: Option<String>,
}

/// Maximum length of a task name, in bytes.
pub const TASK_BYTES_MAX: usize = retro_events::field::SHORT_TEXT_BYTES_MAX;

/// A run imported from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedRun {
    /// Location of the run in the file, such as `line 3` or `simulations[2]`; empty if the file describes
    /// only this run.
    pub location: String,
    /// `run.completed` event, including the run's trajectory.
    pub event: RunEvent,
}

/// Parses a run id. Fails with a rejection of the field at `path` if the text is not a valid name.
pub(crate) fn parse_run_id(path: &str, text: String) -> Result<RunId, Rejection> {
    RunId::new(text).map_err(|error| name_rejection(path, &error))
}

/// Returns the workflow of a run. The workflow in the options takes precedence over the one in the file.
pub(crate) fn choose_workflow(
    options: &ImportOptions,
    path: &str,
    text: impl FnOnce() -> String,
) -> Result<Workflow, Rejection> {
    match &options.workflow {
        Some(given) => Ok(given.clone()),
        None => Workflow::new(text()).map_err(|error| name_rejection(path, &error)),
    }
}

/// Returns the task of a run. A task in the file takes precedence over the one in the options.
pub(crate) fn choose_task(options: &ImportOptions, own: Option<String>) -> Option<String> {
    own.or_else(|| options.task.clone())
}

fn name_rejection(path: &str, error: &NameError) -> Rejection {
    Rejection::of_field(DeadLetterCode::FieldInvalid, path, error.to_string())
}
