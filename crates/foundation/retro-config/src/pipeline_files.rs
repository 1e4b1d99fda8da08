//! The files of a pipelines folder, as they were read.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use retro_core::pipeline::PipelineName;
use retro_pipeline::{PromptName, Prompts};
use serde::Serialize;

use crate::document;
use crate::folder_name::is_folder_name;
use crate::policy_set::POLICY_FILE;
use crate::problem::{Problems, suggest_name};

/// Path of the settings of the review pipeline, relative to the pipelines folder.
pub const REVIEW_FILE: &str = "review/pipeline.toml";
/// File that stands in the pipelines folder while a stored version replaces its files. Its text is the name of the folder in which
/// the replaced ones are kept.
pub const REVERT_MARKER: &str = "revert-under-way";
/// Maximum number of files in the folder of the prompts. More are surely not prompts.
const FILES_MAX: usize = 1000;

/// Returns the folder of the prompts of a pipeline, relative to the pipelines folder.
pub fn prompts_folder(pipeline: PipelineName) -> String {
    format!("{pipeline}/prompts")
}

/// Returns the path of the settings of a pipeline, relative to the pipelines folder.
pub const fn settings_file(pipeline: PipelineName) -> &'static str {
    match pipeline {
        PipelineName::Retrospective => POLICY_FILE,
        PipelineName::Review => REVIEW_FILE,
    }
}

/// Files of a pipelines folder, as they were read: the settings, and the prompts that it has, by path within the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PipelineFiles(BTreeMap<String, String>);

impl PipelineFiles {
    /// Reads the files of a folder; without a folder, there are none. Fails with all problems: the policy file is missing, a
    /// file cannot be read, no prompt has its name, or a version is being taken back.
    pub fn read_folder(folder: Option<&Path>) -> Result<Self, Problems> {
        let Some(folder) = folder else { return Ok(Self::default()) };
        // Files of two versions would make a third one that nobody wrote.
        let marker = folder.join(REVERT_MARKER);
        if marker.exists() {
            return Err(Problems::from_sentence(format!(
                "{}: a version is being taken back, and some files are still those of another; if no `retro pipeline revert` \
                 is running, it was interrupted: repeat it",
                marker.display()
            )));
        }
        let (mut files, mut problems) = (BTreeMap::new(), Vec::new());
        let mut read = |path: String| match document::read_regular_document(&folder.join(&path)) {
            Ok(text) => _ = files.insert(path, text),
            Err(error) => problems.extend(error.into_sentences()),
        };
        read(POLICY_FILE.to_owned());
        // Only the policy has to be there: a folder without it is likely another one than its author means.
        if folder.join(REVIEW_FILE).exists() {
            read(REVIEW_FILE.to_owned());
        }
        let mut strangers = Vec::new();
        for pipeline in PipelineName::ALL.iter().copied() {
            for place in list_prompt_folders(folder, pipeline)? {
                for name in list_names(&folder.join(&place))?.iter().filter(|name| name.ends_with(".md")) {
                    match PromptName::find_by_file(pipeline, name) {
                        Some(_) => read(format!("{place}/{name}")),
                        None => strangers.push(describe_stranger(&folder.join(&place), pipeline, name)),
                    }
                }
            }
        }
        problems.extend(strangers);
        problems
            .extend(PipelineName::ALL.iter().flat_map(|pipeline| find_misspelt_folders(folder, *pipeline)));
        Problems::fail_if_any(problems)?;
        Ok(Self(files))
    }

    /// Returns files that were read elsewhere, by path within the folder.
    pub const fn from_texts(files: BTreeMap<String, String>) -> Self {
        Self(files)
    }

    /// Returns the files, by path within the folder.
    pub const fn texts(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// Returns the files of a pipeline, by path within the pipelines folder.
    pub(crate) fn texts_of(&self, pipeline: PipelineName) -> BTreeMap<String, String> {
        let own = |path: &str| path.split('/').next() == Some(pipeline.as_str());
        let files = self.0.iter().filter(|(path, _)| own(path));
        files.map(|(path, text)| (path.clone(), text.clone())).collect()
    }

    /// Returns the prompts of a pipeline, by file name.
    pub(crate) fn prompt_texts(&self, pipeline: PipelineName) -> BTreeMap<String, String> {
        let folder = prompts_folder(pipeline);
        let named = |prompt: &PromptName| {
            let text = self.0.get(&format!("{folder}/{}", prompt.file_name()))?;
            Some((prompt.file_name().to_owned(), text.clone()))
        };
        PromptName::of_pipeline(pipeline).iter().filter_map(named).collect()
    }

    /// Returns the prompts of workflows, by the name of their folder and by file name.
    pub(crate) fn workflow_prompt_texts(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut folders: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (path, text) in &self.0 {
            if let Some((folder, file)) = split_workflow_prompt(path) {
                folders.entry(folder.to_owned()).or_default().insert(file.to_owned(), text.clone());
            }
        }
        folders
    }
}

/// Splits the path of a prompt of a workflow into the name of its folder and that of the file; `None` for any other path.
pub fn split_workflow_prompt(path: &str) -> Option<(&str, &str)> {
    let pipeline = PipelineName::Retrospective;
    let (folder, file) = path.strip_prefix(&prompts_folder(pipeline))?.strip_prefix('/')?.split_once('/')?;
    (is_folder_name(folder) && PromptName::find_by_file(pipeline, file).is_some()).then_some((folder, file))
}

/// Lists the folders of a pipeline that may have prompts, relative to the pipelines folder: the common one, and those of
/// workflows. Reviews belong to no workflow. Fails if a folder cannot be read.
pub fn list_prompt_folders(folder: &Path, pipeline: PipelineName) -> Result<Vec<String>, Problems> {
    let common = prompts_folder(pipeline);
    let mut folders = vec![common.clone()];
    if pipeline == PipelineName::Retrospective {
        let names = list_names(&folder.join(&common))?;
        let own = names.iter().map(|name| format!("{common}/{name}"));
        folders.extend(own.filter(|path| folder.join(path).is_dir()));
    }
    Ok(folders)
}

/// Returns the names in a folder, sorted; none if there is no such folder. Hidden ones are left out, and so are those that can
/// be no folder of prompts.
fn list_names(folder: &Path) -> Result<Vec<String>, Problems> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(Problems::from_sentence(format!("cannot read {}: {error}", folder.display())));
        }
    };
    let names = entries.take(FILES_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_folder_name(name)).collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns a sentence for each folder whose name is nearly that of one that is read: it would be ignored without a word.
fn find_misspelt_folders(folder: &Path, pipeline: PipelineName) -> Vec<String> {
    let place = folder.join(prompts_folder(pipeline));
    let (Some(parent), Some(wanted)) = (place.parent(), place.file_name()) else { return Vec::new() };
    let wanted = wanted.to_string_lossy();
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let folders = entries.take(FILES_MAX).flatten().filter(|entry| entry.path().is_dir());
    let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<String> = names
        .filter(|name| *name != wanted && !suggest_name(name, [&*wanted]).is_empty())
        .map(|name| {
            format!("{}: no folder has this name; did you mean `{wanted}`?", parent.join(&name).display())
        })
        .collect();
    found.sort_unstable();
    found
}

fn describe_stranger(place: &Path, pipeline: PipelineName, name: &str) -> String {
    let prompts = PromptName::of_pipeline(pipeline).iter();
    let all: Vec<_> = prompts.map(|prompt| prompt.file_name()).collect();
    let meant = suggest_name(name, all.iter().copied());
    let path = place.join(name);
    format!("{}: no prompt has this name{meant} (prompts: {})", path.display(), all.join(", "))
}

/// A prompt and its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainedPrompt {
    /// Name of the file, below `prompts/`.
    pub file: String,
    /// File that was read; `None` for the shipped prompt.
    pub from: Option<PathBuf>,
    /// Effective text.
    pub text: String,
}

/// Returns every prompt of a pipeline with its origin. `own` is the name of the folder of a workflow, whose files replace the
/// common ones.
pub(crate) fn explain_prompts(
    pipeline: PipelineName,
    prompts: &Prompts,
    origins: &BTreeMap<String, PathBuf>,
    own: Option<&str>,
) -> Vec<ExplainedPrompt> {
    let common = prompts_folder(pipeline);
    let folders = || own.map(|name| format!("{common}/{name}")).into_iter().chain([common.clone()]);
    let explain = |prompt: &PromptName| ExplainedPrompt {
        file: prompt.file_name().to_owned(),
        from: folders().find_map(|folder| origins.get(&format!("{folder}/{}", prompt.file_name())).cloned()),
        text: prompts.text(*prompt).to_owned(),
    };
    PromptName::of_pipeline(pipeline).iter().map(explain).collect()
}
