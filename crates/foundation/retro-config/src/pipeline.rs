//! Reads the pipelines of a folder: settings and prompts of each, every mistake with its place.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use retro_core::canonical::content_hash;
use retro_core::id::{Workflow, WorkflowKey};
use retro_core::pipeline::{PipelineContents, PipelineName, PipelineVersion, ReviewPipelines};
use retro_core::policy::{Policies, Policy};
use retro_pipeline::{PromptName, PromptProblem, Prompts, schemas_of};
use serde_json::Value;

use crate::available_model::AvailableModel;
use crate::pipeline_files::{ExplainedPrompt, PipelineFiles, explain_prompts, prompts_folder};
use crate::policy_set::{POLICY_FILE, PROMPTS_KEY, PolicySet, PromptFolder};
use crate::problem::Problems;
use crate::review_pipeline::ReviewPipeline;

/// The pipelines of a folder. Of the pipeline of retrospectives: the policy of every workflow, the prompts, and the version
/// that names both; and the [`ReviewPipeline`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    policies: PolicySet,
    prompts: Prompts,
    /// Prompts of the workflows with prompts of their own, by workflow.
    workflow_prompts: BTreeMap<String, Prompts>,
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
        let parts = PipelineParts {
            policies: PolicySet::default(),
            prompts,
            workflow_prompts: BTreeMap::new(),
            review,
        };
        Self::from_parts(parts, &PipelineFiles::default(), None)
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
        let common = prompts.clone().unwrap_or_else(|_| Prompts::shipped(pipeline));
        let workflow_prompts = parse_workflow_prompts(&place, files, policies.as_ref().ok(), &common);
        let review = ReviewPipeline::parse(Some(folder), files);
        match (policies, prompts, workflow_prompts, review) {
            (Ok(policies), Ok(prompts), Ok(workflow_prompts), Ok(review)) => {
                let parts = PipelineParts { policies, prompts, workflow_prompts, review };
                Ok(Self::from_parts(parts, files, Some(folder)))
            }
            (policies, prompts, workflow_prompts, review) => {
                let mut problems = policies.err().map(Problems::into_sentences).unwrap_or_default();
                problems.extend(describe_problems(&place, &prompts.err().unwrap_or_default()));
                problems.extend(workflow_prompts.err().unwrap_or_default());
                problems.extend(review.err().map(Problems::into_sentences).unwrap_or_default());
                Err(Problems::fail_if_any(problems).expect_err("one of them failed"))
            }
        }
    }

    fn from_parts(parts: PipelineParts, files: &PipelineFiles, folder: Option<&Path>) -> Self {
        let PipelineParts { policies, prompts, workflow_prompts, review } = parts;
        let workflows = policies.workflow_policies();
        let schemas = schemas_of(PipelineName::Retrospective);
        let contents = PipelineContents {
            policy: policies.common_policy().stored_value(),
            workflows: workflows.map(|(name, policy)| (name.to_owned(), policy.stored_value())).collect(),
            prompts: prompts.texts(),
            // What takes effect makes the version, so a copy of the common prompts is none of a workflow's own.
            workflow_prompts: workflow_prompts
                .iter()
                .filter(|(_, own)| **own != prompts)
                .map(|(name, own)| (name.clone(), own.texts()))
                .collect(),
            schemas: schemas.map(|(file, text)| (file.to_owned(), content_hash(&Value::from(text)))).into(),
            files: files.texts_of(PipelineName::Retrospective),
        };
        let loaded_from = folder.map_or_else(String::new, |folder| folder.display().to_string());
        let version = PipelineVersion::new(contents, &loaded_from);
        let place = |path: &String| Some((path.clone(), folder?.join(path)));
        let origins = files.texts().keys().filter_map(place).collect();
        Self { policies, prompts, workflow_prompts, version, origins, review }
    }

    /// Compares the pipelines with the models that a process has for its investigators and its reviewers; `None` stands for a
    /// role that it does not have. Fails with each value that could not take effect, with its place.
    pub fn check_models(
        &self,
        investigators: Option<AvailableModel>,
        reviewers: Option<AvailableModel>,
    ) -> Result<(), Problems> {
        let mut found = investigators.map_or_else(Vec::new, |model| self.policies.find_unusable(model));
        found.extend(reviewers.and_then(|model| self.review.find_unusable(model)));
        Problems::fail_if_any(found)
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
            PipelineName::Retrospective => self.explain_prompts(None),
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

    /// Returns every prompt of a workflow with its origin; without a workflow, the common ones.
    pub fn explain_prompts(&self, workflow: Option<&Workflow>) -> Vec<ExplainedPrompt> {
        let own = workflow.and_then(|one| self.policies.prompt_folders().get(one.as_str()));
        let prompts = self.prompts_of(workflow.map_or("", Workflow::as_str));
        let folder = own.map(|own| own.name.as_str());
        explain_prompts(PipelineName::Retrospective, prompts, &self.origins, folder)
    }

    fn prompts_of(&self, workflow: &str) -> &Prompts {
        self.workflow_prompts.get(workflow).unwrap_or(&self.prompts)
    }

    /// Describes the differences from an earlier pipeline, such as `threshold_runs 10 -> 20` or `prompt run.md`.
    pub fn describe_changes_since(&self, earlier: &Self) -> Vec<String> {
        let mut changes = self.policies.describe_changes_since(&earlier.policies);
        changes.extend(describe_changed_prompts("", &earlier.prompts, &self.prompts));
        let workflows: BTreeSet<_> =
            self.workflow_prompts.keys().chain(earlier.workflow_prompts.keys()).collect();
        for name in workflows {
            let whose = format!("workflow {name}: ");
            changes.extend(describe_changed_prompts(&whose, earlier.prompts_of(name), self.prompts_of(name)));
        }
        changes.extend(self.review.describe_changes_since(&earlier.review));
        changes
    }
}

/// What a folder says, checked.
struct PipelineParts {
    policies: PolicySet,
    prompts: Prompts,
    workflow_prompts: BTreeMap<String, Prompts>,
    review: ReviewPipeline,
}

/// Checks the prompts of workflows, which replace some of the common ones. `place` is the folder of the common ones. Fails with
/// all mistakes: in a file, in the name of a folder, and folders that no workflow names.
fn parse_workflow_prompts(
    place: &Path,
    files: &PipelineFiles,
    policies: Option<&PolicySet>,
    common: &Prompts,
) -> Result<BTreeMap<String, Prompts>, Vec<String>> {
    let (mut checked, mut problems) = (BTreeMap::new(), Vec::new());
    for (folder, texts) in files.workflow_prompt_texts() {
        match common.with_texts(PipelineName::Retrospective, &texts) {
            Ok(prompts) => _ = checked.insert(folder, Some(prompts)),
            Err(wrong) => {
                problems.extend(describe_problems(&place.join(&folder), &wrong));
                checked.insert(folder, None);
            }
        }
    }
    let Some(policies) = policies else { return Err(problems) };
    let named = policies.prompt_folders();
    for folder in checked.keys().filter(|folder| named.values().all(|one| one.name != **folder)) {
        problems.push(format!(
            "{}: no workflow names this folder; write `{PROMPTS_KEY} = \"prompts/{folder}\"` below `[workflow.\"NAME\"]`",
            place.join(folder).display()
        ));
    }
    let mut workflows = BTreeMap::new();
    for (workflow, PromptFolder { name, from }) in named {
        match checked.get(name) {
            Some(Some(prompts)) => _ = workflows.insert(workflow.clone(), prompts.clone()),
            Some(None) => {}
            None => problems.push(format!(
                "{from}: there is no prompt in {}; copy one there, such as system.md, and edit it",
                place.join(name).display()
            )),
        }
    }
    if problems.is_empty() { Ok(workflows) } else { Err(problems) }
}

fn describe_problems(place: &Path, problems: &[PromptProblem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{}/{problem}", place.display())).collect()
}

fn describe_changed_prompts(whose: &str, before: &Prompts, after: &Prompts) -> Vec<String> {
    let changed = |prompt: &&PromptName| before.text(**prompt) != after.text(**prompt);
    let prompts = PromptName::of_pipeline(PipelineName::Retrospective).iter().filter(changed);
    prompts.map(|prompt| format!("{whose}prompt {}", prompt.file_name())).collect()
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
        let explained = prompt.explain_prompts(None);
        assert_eq!((explained[0].text.as_str(), explained[0].from.is_some()), ("Look.\n", true));
        assert_eq!(explained[1].from, None);
        let constant = read(&folder_with(&[("pipeline.toml", "[trigger]\nthreshold_runs = 3\n")])).unwrap();
        assert_eq!(constant.version().hashes().prompts, built_in.version().hashes().prompts);
        assert_ne!(constant.version(), built_in.version());
    }

    #[test]
    fn the_mistakes_of_all_files_are_reported_at_once() {
        let folder = folder_with(&[
            ("pipeline.toml", "[trigger]\nthreshold_rnus = 3\n"),
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
    fn what_a_model_that_is_missing_or_has_no_price_cannot_do_is_named() {
        let text = "[budget]\nretrospective_cents_max = 50\n[workflow.a]\nstages = [\"model\"]\n[workflow.b]\nthreshold_runs = 3\n";
        let folder = folder_with(&[("pipeline.toml", text)]);
        let review = folder.path().join("review/pipeline.toml");
        fs::create_dir_all(review.parent().unwrap()).unwrap();
        fs::write(review, "[budget]\nreview_cents_max = 5\n").unwrap();
        let pipeline = read(&folder).unwrap();
        let check = |investigators, reviewers| match pipeline.check_models(investigators, reviewers) {
            Ok(()) => Vec::new(),
            Err(problems) => problems.into_sentences(),
        };
        let (none, unpriced) = (Some(AvailableModel::None), Some(AvailableModel::Unpriced));
        assert!(check(Some(AvailableModel::Priced), Some(AvailableModel::Priced)).is_empty());
        assert!(
            check(None, none).is_empty(),
            "a counter needs no model, and the heuristics read reviews, too"
        );
        let [alone] = &check(none, None)[..] else { panic!("{:?}", check(none, None)) };
        assert!(alone.contains("pipeline.toml:4: `stages` lists only \"model\", and"), "{alone}");
        let [cost, review] = &check(unpriced, unpriced)[..] else {
            panic!("{:?}", check(unpriced, unpriced))
        };
        assert!(cost.contains("pipeline.toml:2: `retrospective_cents_max` bounds the cost"), "{cost}");
        assert!(review.contains("review/pipeline.toml:2: `review_cents_max` bounds the cost"), "{review}");
    }

    #[test]
    fn a_workflow_has_prompts_of_its_own_and_the_common_ones_for_the_rest() {
        let toml = "[workflow.night]\nprompts = \"prompts/nightly\"\n";
        let common = [("pipeline.toml", toml), ("prompts/step.md", "Answer briefly.\n")];
        let own = folder_with(&[common[0], common[1], ("prompts/nightly/system.md", "Look at logs.\n")]);
        let pipeline = read(&own).unwrap();
        let night = Workflow::new("night").unwrap();
        let explained = pipeline.explain_prompts(Some(&night));
        let [system, .., step] = &explained[..] else { panic!("{explained:?}") };
        assert_eq!((system.text.as_str(), step.text.as_str()), ("Look at logs.\n", "Answer briefly.\n"));
        assert!(system.from.as_ref().unwrap().ends_with("retrospective/prompts/nightly/system.md"));
        assert!(step.from.as_ref().unwrap().ends_with("retrospective/prompts/step.md"));
        assert_ne!(pipeline.explain_prompts(None)[0].text, "Look at logs.\n");
        let contents = pipeline.version().contents();
        assert_eq!(contents.prompts_of(&night)["system.md"], "Look at logs.\n");
        assert_eq!(contents.files["retrospective/prompts/nightly/system.md"], "Look at logs.\n");
        let without = read(&folder_with(&[("pipeline.toml", ""), common[1]])).unwrap();
        assert_ne!(pipeline.version().hashes().prompts, without.version().hashes().prompts);
        assert_eq!(pipeline.describe_changes_since(&without), ["workflow night: prompt system.md"]);
        let copied = folder_with(&[common[0], common[1], ("prompts/nightly/step.md", "Answer briefly.\n")]);
        assert_eq!(read(&copied).unwrap().version(), without.version(), "a copy takes no effect");
    }

    #[test]
    fn mistakes_in_the_prompts_of_workflows_are_named() {
        let toml = "[workflow.a]\nprompts = \"prompts/a\"\n[workflow.b]\nprompts = \"prompts/b\"\n";
        let folder = folder_with(&[
            ("pipeline.toml", toml),
            ("prompts/a/run.md", "Facts:\n{{ fact }}\n"),
            ("prompts/c/system.md", "x"),
            ("prompts/.git/system.md", "x"),
        ]);
        let problems = read(&folder).unwrap_err();
        let expected = [
            ("prompts/a/run.md:2: unknown variable `fact`", "did you mean `facts`?"),
            ("prompts/c: no workflow names this folder", "write `prompts = \"prompts/c\"`"),
            ("pipeline.toml:4: there is no prompt in ", "prompts/b; copy one there"),
        ];
        assert_eq!(problems.sentences().len(), expected.len(), "{problems:?}");
        for (sentence, (begin, end)) in problems.sentences().iter().zip(expected) {
            assert!(sentence.contains(begin) && sentence.contains(end), "{sentence}");
        }
        for wrong in ["\"nightly\"", "\"prompts/a/b\"", "\"prompts/..\"", "\"prompts/\"", "3"] {
            let folder = folder_with(&[("pipeline.toml", &format!("[workflow.a]\nprompts = {wrong}\n"))]);
            let problems = read(&folder).unwrap_err();
            assert!(problems.sentences()[0].contains("it must be \"prompts/NAME\""), "{wrong}: {problems:?}");
        }
        let stranger = folder_with(&[("pipeline.toml", toml), ("prompts/a/sytem.md", "x")]);
        assert!(
            read(&stranger).unwrap_err().sentences()[0]
                .contains("prompts/a/sytem.md: no prompt has this name")
        );
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
