#![doc = include_str!("../README.md")]

mod atif;
mod cloudevents;
mod detect;
mod document;
mod swe_agent;
mod tau2;
mod unpack;

use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{NameError, RunId, Workflow};
use retro_core::run::Outcome;
use retro_events::run_completed::RunEvent;

pub use detect::Format;
pub use unpack::FILE_BYTES_MAX;

use unpack::Content;

/// What a file does not say and its reader has to be told.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The workflow of runs whose format names none; it also overrides the name that would be made up from an
    /// environment, a domain or an agent. Events keep their own.
    pub workflow: Option<Workflow>,
    /// The outcome of runs whose file names none. Without it theirs is unknown, which is evidence for nothing.
    pub outcome: Option<Outcome>,
    /// The task of runs whose file names none, at most [`TASK_BYTES_MAX`] bytes. Events keep their own, or go without.
    pub task: Option<String>,
}

/// The longest name of a task.
pub const TASK_BYTES_MAX: usize = retro_events::field::SHORT_TEXT_BYTES_MAX;

/// A run found in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignRun {
    /// Where in the file it stands, such as `line 3` or `simulations[2]`; empty when it is the whole file.
    pub place: String,
    /// The event that says it is over, with its trajectory inside.
    pub event: RunEvent,
}

/// Reads every run of a file, in order. The name helps where the content alone does not tell the format. A file is
/// read whole or refused: with `type_unknown` when its format is not read, else with the path of the first field
/// that does not fit.
pub fn read_file(bytes: &[u8], file_name: &str, options: &Options) -> Result<Vec<ForeignRun>, Rejection> {
    let content = unpack::read(bytes)?;
    let format = detect::of_content(&content, file_name)?;
    read_content(format, &content, options)
}

/// The format of a file; `type_unknown` when there is none, or one that is recognised and not read yet.
pub fn detect(bytes: &[u8], file_name: &str) -> Result<Format, Rejection> {
    detect::of_content(&unpack::read(bytes)?, file_name)
}

/// Reads every run of a file that is in this format.
pub fn read(format: Format, bytes: &[u8], options: &Options) -> Result<Vec<ForeignRun>, Rejection> {
    read_content(format, &unpack::read(bytes)?, options)
}

fn read_content(format: Format, content: &Content, options: &Options) -> Result<Vec<ForeignRun>, Rejection> {
    let mut runs = Vec::new();
    for (place, document) in content.documents() {
        let found = match format {
            Format::CloudEvents => cloudevents::read(document),
            Format::Atif => atif::read(document, options),
            Format::SweAgent => swe_agent::read(document, options),
            Format::Tau2 => tau2::read(document, options),
        };
        let found = found.map_err(|rejection| within(&place, rejection))?;
        runs.extend(
            found.into_iter().map(|run| ForeignRun { place: join_places(&place, &run.place), ..run }),
        );
    }
    Ok(runs)
}

fn within(place: &str, rejection: Rejection) -> Rejection {
    let path = join_places(place, rejection.path.as_deref().unwrap_or_default());
    Rejection { path: Some(path).filter(|path| !path.is_empty()), ..rejection }
}

fn join_places(outer: &str, inner: &str) -> String {
    match (outer, inner) {
        ("", place) | (place, "") => place.to_owned(),
        (outer, inner) => format!("{outer}: {inner}"),
    }
}

/// The run's id, its workflow's name: refused at `path` when they cannot be names.
fn run_id(path: &str, text: String) -> Result<RunId, Rejection> {
    RunId::new(text).map_err(|error| bad_name(path, &error))
}

fn workflow(options: &Options, path: &str, text: impl FnOnce() -> String) -> Result<Workflow, Rejection> {
    match &options.workflow {
        Some(given) => Ok(given.clone()),
        None => Workflow::new(text()).map_err(|error| bad_name(path, &error)),
    }
}

/// What the run was to do: the file's own word wins.
fn task(options: &Options, own: Option<String>) -> Option<String> {
    own.or_else(|| options.task.clone())
}

fn bad_name(path: &str, error: &NameError) -> Rejection {
    Rejection::at(Code::FieldInvalid, path, error.to_string())
}
