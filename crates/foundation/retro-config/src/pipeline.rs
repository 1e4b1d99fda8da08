//! Reads the pipelines of a folder: settings and prompts of each, every mistake with its place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use retro_core::canonical::content_hash;
use retro_core::id::WorkflowKey;
use retro_core::pipeline::{PipelineContents, PipelineName, PipelineVersion, ReviewPipelines};
use retro_core::policy::{Policies, Policy};
use retro_pipeline::{PromptName, Prompts, schemas_of};
use serde_json::Value;

use crate::pipeline_files::{ExplainedPrompt, PipelineFiles, explain_prompts, prompts_folder};
use crate::policy_set::{POLICY_FILE, PolicySet};
use crate::problem::Problems;
use crate::review_pipeline::ReviewPipeline;

/// The pipelines of a folder. Of the pipeline of retrospectives: the policy of every workflow, the prompts, and the version
/// that names both; and the [`ReviewPipeline`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    policies: PolicySet,
    prompts: Prompts,
    version: PipelineVersion,
    /// Path of each file that was read, by path within the folder.
    origins: BTreeMap<String, PathBuf>,
    review: ReviewPipeline,
}

impl Default for Pipeline {
    /// Returns the built-in pipeline.
    fn default() -> Self {
        let prompts = Prompts::shipped(PipelineName::Retrospective);
        let review = ReviewPipeline::default();
        Self::from_parts(PolicySet::default(), prompts, review, &PipelineFiles::default(), None)
    }
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
        let policy_text = files.texts().get(POLICY_FILE).map_or("", String::as_str);
        let policies = PolicySet::parse(&policy_path, policy_text);
        let pipeline = PipelineName::Retrospective;
        let prompts = Prompts::from_texts(pipeline, &files.prompt_texts(pipeline));
        let place = folder.join(prompts_folder(pipeline));
        let review = ReviewPipeline::parse(Some(folder), files);
        match (policies, prompts, review) {
            (Ok(policies), Ok(prompts), Ok(review)) => {
                Ok(Self::from_parts(policies, prompts, review, files, Some(folder)))
            }
            (policies, prompts, review) => {
                let mut problems = policies.err().map(Problems::into_sentences).unwrap_or_default();
                let wrong = prompts.err().unwrap_or_default();
                problems.extend(wrong.iter().map(|problem| format!("{}/{problem}", place.display())));
                problems.extend(review.err().map(Problems::into_sentences).unwrap_or_default());
                Err(Problems::fail_if_any(problems).expect_err("one of them failed"))
            }
        }
    }

    fn from_parts(
        policies: PolicySet,
        prompts: Prompts,
        review: ReviewPipeline,
        files: &PipelineFiles,
        folder: Option<&Path>,
    ) -> Self {
        let workflows = policies.workflow_policies();
        let schemas = schemas_of(PipelineName::Retrospective);
        let contents = PipelineContents {
            policy: policies.common_policy().stored_value(),
            workflows: workflows.map(|(name, policy)| (name.to_owned(), policy.stored_value())).collect(),
            prompts: prompts.texts(),
            schemas: schemas.map(|(file, text)| (file.to_owned(), content_hash(&Value::from(text)))).into(),
            files: files.texts_of(PipelineName::Retrospective),
        };
        let loaded_from = folder.map_or_else(String::new, |folder| folder.display().to_string());
        let version = PipelineVersion::new(contents, &loaded_from);
        let place = |path: &String| Some((path.clone(), folder?.join(path)));
        Self { policies, prompts, version, origins: files.texts().keys().filter_map(place).collect(), review }
    }

    /// Returns the review pipeline.
    pub const fn review(&self) -> &ReviewPipeline {
        &self.review
    }

    /// Returns the version of a pipeline.
    pub const fn version_of(&self, pipeline: PipelineName) -> &PipelineVersion {
        match pipeline {
            PipelineName::Retrospective => &self.version,
            PipelineName::Review => self.review.version(),
        }
    }

    /// Returns every prompt of a pipeline with its origin.
    pub fn explain_prompts_of(&self, pipeline: PipelineName) -> Vec<ExplainedPrompt> {
        match pipeline {
            PipelineName::Retrospective => self.explain_prompts(),
            PipelineName::Review => self.review.explain_prompts(),
        }
    }

    /// Returns the policies.
    pub const fn policies(&self) -> &PolicySet {
        &self.policies
    }

    /// Returns the version of the pipeline of retrospectives.
    pub const fn version(&self) -> &PipelineVersion {
        &self.version
    }

    /// Returns every prompt of the pipeline of retrospectives with its origin.
    pub fn explain_prompts(&self) -> Vec<ExplainedPrompt> {
        explain_prompts(PipelineName::Retrospective, &self.prompts, &self.origins)
    }

    /// Describes the differences from an earlier pipeline, such as `threshold_runs 10 -> 20` or `prompt run.md`.
    pub fn describe_changes_since(&self, earlier: &Self) -> Vec<String> {
        let mut changes = self.policies.describe_changes_since(&earlier.policies);
        let changed = |prompt: &&PromptName| self.prompts.text(**prompt) != earlier.prompts.text(**prompt);
        let prompts = PromptName::of_pipeline(PipelineName::Retrospective).iter().filter(changed);
        changes.extend(prompts.map(|prompt| format!("prompt {}", prompt.file_name())));
        changes.extend(self.review.describe_changes_since(&earlier.review));
        changes
    }
}

impl Policies for Pipeline {
    fn policy_for(&self, key: &WorkflowKey) -> Policy {
        Policy { pipeline: Some(self.version.clone()), ..self.policies.policy_for(key) }
    }
}

impl ReviewPipelines for Pipeline {
    fn current_review_pipeline(&self) -> PipelineVersion {
        self.review.version().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
                "sytem.md: no prompt has this name; did you mean `system.md`? (prompts: system.md, workflow.md, run.md, \
                 compact.md, step.md)"
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
        let endless = crate::document::read_document(Path::new("/dev/zero")).unwrap_err();
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
