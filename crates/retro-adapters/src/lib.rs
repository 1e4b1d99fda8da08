#![doc = include_str!("../README.md")]

mod atif;
mod atif_document;
mod cloudevents;
mod detect;
mod file_content;
mod swe_agent;
mod tau2;

use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{NameError, RunId, Workflow};
use retro_core::run::RunOutcome;
use retro_events::run_completed::RunEvent;

pub use detect::Format;
pub use file_content::FILE_BYTES_MAX;

use file_content::Content;

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

/// Parses all runs of a file, in order. The file name is used if the content alone does not identify the
/// format. Either all runs are imported or the file is rejected. The rejection has the code `type_unknown` if
/// the format is not supported; otherwise it contains the path of the first invalid field.
pub fn import_file(
    bytes: &[u8],
    file_name: &str,
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    let content = file_content::parse_file(bytes)?;
    let format = detect::detect_content(&content, file_name)?;
    import_content(format, &content, options)
}

/// Detects the format of a file. Fails with `type_unknown` if the format is not recognized or not supported
/// yet.
pub fn detect_format(bytes: &[u8], file_name: &str) -> Result<Format, Rejection> {
    detect::detect_content(&file_content::parse_file(bytes)?, file_name)
}

/// Parses all runs of a file in the given format.
pub fn import_file_as(
    format: Format,
    bytes: &[u8],
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    import_content(format, &file_content::parse_file(bytes)?, options)
}

fn import_content(
    format: Format,
    content: &Content,
    options: &ImportOptions,
) -> Result<Vec<ImportedRun>, Rejection> {
    let mut runs = Vec::new();
    for (place, document) in content.list_documents() {
        let found = match format {
            Format::CloudEvents => cloudevents::parse_document(document),
            Format::Atif => atif::parse_document(document, options),
            Format::SweAgent => swe_agent::parse_document(document, options),
            Format::Tau2 => tau2::parse_document(document, options),
        };
        let found = found.map_err(|rejection| prefix_path(&place, rejection))?;
        runs.extend(
            found
                .into_iter()
                .map(|run| ImportedRun { location: join_locations(&place, &run.location), ..run }),
        );
    }
    Ok(runs)
}

fn prefix_path(place: &str, rejection: Rejection) -> Rejection {
    let path = join_locations(place, rejection.path.as_deref().unwrap_or_default());
    Rejection { path: Some(path).filter(|path| !path.is_empty()), ..rejection }
}

fn join_locations(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", place) | (place, "") => place.to_owned(),
        (outer, inner) => format!("{outer}: {inner}"),
    }
}

/// Parses a run id. Fails with a rejection of the field at `path` if the text is not a valid name.
fn parse_run_id(path: &str, text: String) -> Result<RunId, Rejection> {
    RunId::new(text).map_err(|error| name_rejection(path, &error))
}

fn choose_workflow(
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
fn choose_task(options: &ImportOptions, own: Option<String>) -> Option<String> {
    own.or_else(|| options.task.clone())
}

fn name_rejection(path: &str, error: &NameError) -> Rejection {
    Rejection::of_field(DeadLetterCode::FieldInvalid, path, error.to_string())
}
