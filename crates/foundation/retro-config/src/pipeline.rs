//! Reads a pipeline from its folder: the policy file and the prompts, each mistake with its place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use retro_core::canonical::content_hash;
use retro_core::id::WorkflowKey;
use retro_core::pipeline::{PipelineContents, PipelineVersion};
use retro_core::policy::{Policies, Policy};
use retro_pipeline::{ANSWER_SCHEMA, ANSWER_SCHEMA_FILE, PromptName, Prompts};
use serde::Serialize;
use serde_json::Value;

use crate::document;
use crate::policy_set::{POLICY_FILE, PolicySet};
use crate::problem::{Problems, suggest_name};

/// Folder of the prompts, relative to the pipelines folder.
pub const PROMPTS_FOLDER: &str = "retrospective/prompts";
/// Maximum number of files in the folder of the prompts. More are surely not prompts.
const FILES_MAX: usize = 1000;

/// Files of a pipelines folder, as they were read: the policy file, and the prompts that it has, by path within the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PipelineFiles(BTreeMap<String, String>);

impl PipelineFiles {
    /// Reads the files of a folder; without a folder, there are none. Fails with all problems: the policy file is missing, a
    /// file cannot be read, or no prompt has its name.
    pub fn read_folder(folder: Option<&Path>) -> Result<Self, Problems> {
        let Some(folder) = folder else { return Ok(Self::default()) };
        let (mut files, mut problems) = (BTreeMap::new(), Vec::new());
        let mut read = |path: String| match document::read_regular_document(&folder.join(&path)) {
            Ok(text) => _ = files.insert(path, text),
            Err(error) => problems.extend(error.into_sentences()),
        };
        read(POLICY_FILE.to_owned());
        let prompts = list_prompt_files(&folder.join(PROMPTS_FOLDER))?;
        let known = |name: &String| PromptName::find_by_file(name).is_some();
        prompts.iter().filter(|name| known(name)).for_each(|name| read(format!("{PROMPTS_FOLDER}/{name}")));
        problems
            .extend(prompts.iter().filter(|name| !known(name)).map(|name| describe_stranger(folder, name)));
        problems.extend(find_misspelt_folders(folder));
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

    fn prompt_texts(&self) -> BTreeMap<String, String> {
        let named = |prompt: &PromptName| {
            let text = self.0.get(&format!("{PROMPTS_FOLDER}/{}", prompt.file_name()))?;
            Some((prompt.file_name().to_owned(), text.clone()))
        };
        PromptName::ALL.iter().filter_map(named).collect()
    }
}

/// Returns the names of the Markdown files in the folder, sorted; none if there is no such folder. Other files, such as those
/// of an editor, are ignored.
fn list_prompt_files(folder: &Path) -> Result<Vec<String>, Problems> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(Problems::from_sentence(format!("cannot read {}: {error}", folder.display())));
        }
    };
    let names = entries.take(FILES_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.ends_with(".md") && !name.starts_with('.')).collect();
    names.sort_unstable();
    Ok(names)
}

/// Returns a sentence for each folder whose name is nearly that of one that is read: it would be ignored without a word.
fn find_misspelt_folders(folder: &Path) -> Vec<String> {
    let place = folder.join(PROMPTS_FOLDER);
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

fn describe_stranger(folder: &Path, name: &str) -> String {
    let all: Vec<_> = PromptName::ALL.iter().map(|prompt| prompt.file_name()).collect();
    let meant = suggest_name(name, all.iter().copied());
    let path = folder.join(PROMPTS_FOLDER).join(name);
    format!("{}: no prompt has this name{meant} (prompts: {})", path.display(), all.join(", "))
}

/// A pipeline: the policy of every workflow, the prompts, and the version that names both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    policies: PolicySet,
    prompts: Prompts,
    version: PipelineVersion,
    /// Path of each file that was read, by path within the folder.
    origins: BTreeMap<String, PathBuf>,
}

impl Default for Pipeline {
    /// Returns the built-in pipeline.
    fn default() -> Self {
        Self::from_parts(PolicySet::default(), Prompts::default(), &PipelineFiles::default(), None)
    }
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

impl Pipeline {
    /// Reads the pipeline of a folder; without a folder, returns the built-in one. Fails with a list of all mistakes, each
    /// with its file and line.
    pub fn read_folder(folder: Option<&Path>) -> Result<Self, Problems> {
        let files = PipelineFiles::read_folder(folder)?;
        folder.map_or_else(|| Ok(Self::default()), |folder| Self::parse(folder, &files))
    }

    /// Parses the files of a folder. `folder` is used only in error messages and origins.
    pub fn parse(folder: &Path, files: &PipelineFiles) -> Result<Self, Problems> {
        let policy_path = folder.join(POLICY_FILE);
        let policy_text = files.0.get(POLICY_FILE).map_or("", String::as_str);
        let policies = PolicySet::parse(&policy_path, policy_text);
        let prompts = Prompts::from_texts(&files.prompt_texts());
        let place = folder.join(PROMPTS_FOLDER);
        match (policies, prompts) {
            (Ok(policies), Ok(prompts)) => Ok(Self::from_parts(policies, prompts, files, Some(folder))),
            (policies, prompts) => {
                let mut problems = policies.err().map(Problems::into_sentences).unwrap_or_default();
                let wrong = prompts.err().unwrap_or_default();
                problems.extend(wrong.iter().map(|problem| format!("{}/{problem}", place.display())));
                Err(Problems::fail_if_any(problems).expect_err("one of both failed"))
            }
        }
    }

    fn from_parts(
        policies: PolicySet,
        prompts: Prompts,
        files: &PipelineFiles,
        folder: Option<&Path>,
    ) -> Self {
        let workflows = policies.workflow_policies();
        let contents = PipelineContents {
            policy: policies.common_policy().stored_value(),
            workflows: workflows.map(|(name, policy)| (name.to_owned(), policy.stored_value())).collect(),
            prompts: prompts.texts(),
            schemas: [(ANSWER_SCHEMA_FILE.to_owned(), content_hash(&Value::from(ANSWER_SCHEMA)))].into(),
            files: files.0.clone(),
        };
        let loaded_from = folder.map_or_else(String::new, |folder| folder.display().to_string());
        let version = PipelineVersion::new(contents, &loaded_from);
        let place = |path: &String| Some((path.clone(), folder?.join(path)));
        Self { policies, prompts, version, origins: files.0.keys().filter_map(place).collect() }
    }

    /// Returns the policies.
    pub const fn policies(&self) -> &PolicySet {
        &self.policies
    }

    /// Returns the version.
    pub const fn version(&self) -> &PipelineVersion {
        &self.version
    }

    /// Returns every prompt with its origin.
    pub fn explain_prompts(&self) -> Vec<ExplainedPrompt> {
        let explain = |prompt: &PromptName| ExplainedPrompt {
            file: prompt.file_name().to_owned(),
            from: self.origins.get(&format!("{PROMPTS_FOLDER}/{}", prompt.file_name())).cloned(),
            text: self.prompts.text(*prompt).to_owned(),
        };
        PromptName::ALL.iter().map(explain).collect()
    }

    /// Describes the differences from an earlier pipeline, such as `threshold_runs 10 -> 20` or `prompt run.md`.
    pub fn describe_changes_since(&self, earlier: &Self) -> Vec<String> {
        let mut changes = self.policies.describe_changes_since(&earlier.policies);
        let changed = |prompt: &&PromptName| self.prompts.text(**prompt) != earlier.prompts.text(**prompt);
        let prompts = PromptName::ALL.iter().filter(changed);
        changes.extend(prompts.map(|prompt| format!("prompt {}", prompt.file_name())));
        changes
    }
}

impl Policies for Pipeline {
    fn policy_for(&self, key: &WorkflowKey) -> Policy {
        Policy { pipeline: Some(self.version.clone()), ..self.policies.policy_for(key) }
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn folder_with(files: &[(&str, &str)]) -> TempDir {
        let folder = TempDir::new().unwrap();
        for (path, text) in files {
            let path = folder.path().join("retrospective").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn read(folder: &TempDir) -> Result<Pipeline, Problems> {
        Pipeline::read_folder(Some(folder.path()))
    }

    #[test]
    fn a_folder_needs_only_what_differs_and_a_comment_makes_no_version() {
        let built_in = Pipeline::default();
        let empty = read(&folder_with(&[("pipeline.toml", "# nothing\n")])).unwrap();
        assert_eq!(empty.version(), built_in.version());
        let prompt = read(&folder_with(&[("pipeline.toml", ""), ("prompts/system.md", "Look.\n")])).unwrap();
        assert_ne!(prompt.version().hashes().prompts, built_in.version().hashes().prompts);
        assert_eq!(prompt.describe_changes_since(&built_in), ["prompt system.md"]);
        let explained = prompt.explain_prompts();
        assert_eq!((explained[0].text.as_str(), explained[0].from.is_some()), ("Look.\n", true));
        assert_eq!(explained[1].from, None);
        let constant = read(&folder_with(&[("pipeline.toml", "[policy]\nthreshold_runs = 3\n")])).unwrap();
        assert_eq!(constant.version().hashes().prompts, built_in.version().hashes().prompts);
        assert_ne!(constant.version(), built_in.version());
    }

    #[test]
    fn the_mistakes_of_all_files_are_reported_at_once() {
        let folder = folder_with(&[
            ("pipeline.toml", "[policy]\nthreshold_rnus = 3\n"),
            ("prompts/run.md", "Facts:\n{{ fact }}\n"),
        ]);
        let problems = read(&folder).unwrap_err();
        let ends = [
            "pipeline.toml:2: unknown key `threshold_rnus`; did you mean `threshold_runs`?",
            "prompts/run.md:2: unknown variable `fact`; did you mean `facts`?",
        ];
        for (sentence, end) in problems.sentences().iter().zip(ends) {
            assert!(sentence.contains(end), "{sentence}");
        }
        assert_eq!(problems.sentences().len(), 2);
        let stranger = read(&folder_with(&[("pipeline.toml", ""), ("prompts/sytem.md", "x")])).unwrap_err();
        assert!(
            stranger.to_string().ends_with(
                "sytem.md: no prompt has this name; did you mean `system.md`? (prompts: system.md, run.md)"
            ),
            "{stranger}"
        );
        let backup =
            folder_with(&[("pipeline.toml", ""), ("prompts/.#run.md", "x"), ("prompts/run.md~", "x")]);
        assert!(read(&backup).is_ok(), "files of an editor are ignored");
    }

    #[test]
    fn what_is_no_file_is_refused_and_not_read_without_end() {
        for (target, says) in [("/dev/zero", "it is not a regular file"), ("/", "it is not a regular file")] {
            let folder = folder_with(&[("pipeline.toml", ""), ("prompts/run.md", "{{ facts }}")]);
            let prompt = folder.path().join("retrospective/prompts/system.md");
            std::os::unix::fs::symlink(target, prompt).unwrap();
            let problems = read(&folder).unwrap_err();
            assert!(problems.sentences()[0].contains(says), "{problems:?}");
        }
        let endless = document::read_document(Path::new("/dev/zero")).unwrap_err();
        assert!(endless.sentences()[0].contains("it has more than"), "{endless:?}");
    }

    #[test]
    fn a_byte_order_mark_makes_no_version_and_a_misspelt_folder_is_named() {
        let prompts = ["Look.\n", "\u{feff}Look.\n"];
        let [plain, marked] = prompts
            .map(|text| read(&folder_with(&[("pipeline.toml", ""), ("prompts/system.md", text)])).unwrap());
        assert_eq!(plain.version().hashes(), marked.version().hashes());
        let folder =
            folder_with(&[("pipeline.toml", ""), ("prompt/system.md", "Look.\n"), ("cases/a.toml", "")]);
        let problems = read(&folder).unwrap_err();
        assert_eq!(problems.sentences().len(), 1, "{problems:?}");
        assert!(
            problems.sentences()[0].ends_with("prompt: no folder has this name; did you mean `prompts`?")
        );
    }
}
