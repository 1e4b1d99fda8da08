//! Reads the review pipeline from its folder: its settings and its prompts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use retro_core::canonical::content_hash;
use retro_core::pipeline::{PipelineContents, PipelineName, PipelineVersion};
use retro_core::review::{REVIEW_SECTIONS, ReviewSettings};
use retro_pipeline::{PromptName, Prompts, schemas_of};
use serde::Deserialize as _;
use serde_json::Value;
use toml::Table;

use crate::available_model::AvailableModel;
use crate::document::{self, TomlEntry};
use crate::keys::{Key, list_keys};
use crate::layers::Origin;
use crate::pipeline_files::{ExplainedPrompt, PipelineFiles, REVIEW_FILE, explain_prompts, prompts_folder};
use crate::policy_set::ExplainedValue;
use crate::problem::Problems;
use crate::sections::{SectionedKeys, is_empty_table};

/// The review pipeline: its settings, its prompts, and the version that names both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReviewPipeline {
    settings: ReviewSettings,
    /// Origin of each value, by key. Keys with their default value are absent.
    origins: BTreeMap<String, Origin>,
    prompts: Prompts,
    version: PipelineVersion,
    /// Path of each prompt that was read, by path within the folder.
    prompt_origins: BTreeMap<String, PathBuf>,
}

impl Default for ReviewPipeline {
    /// Returns the built-in pipeline.
    fn default() -> Self {
        Self::parse(None, &PipelineFiles::default()).expect("the shipped pipeline is checked by a test")
    }
}

impl ReviewPipeline {
    /// Parses the files of a folder. `folder` is used only in error messages and origins; it is `None` for the built-in
    /// pipeline.
    pub(crate) fn parse(folder: Option<&Path>, files: &PipelineFiles) -> Result<Self, Problems> {
        let place = folder.unwrap_or(Path::new("")).to_owned();
        let text = files.texts().get(REVIEW_FILE).map_or("", String::as_str);
        let settings = parse_settings(&place.join(REVIEW_FILE), text);
        let prompts = Prompts::from_texts(PipelineName::Review, &files.prompt_texts(PipelineName::Review));
        let ((settings, origins), prompts) = match (settings, prompts) {
            (Ok(settings), Ok(prompts)) => (settings, prompts),
            (settings, prompts) => {
                let mut problems = settings.err().map(Problems::into_sentences).unwrap_or_default();
                let (wrong, place) =
                    (prompts.err().unwrap_or_default(), place.join(prompts_folder(PipelineName::Review)));
                problems.extend(wrong.iter().map(|problem| format!("{}/{problem}", place.display())));
                return Err(Problems::fail_if_any(problems).expect_err("one of both failed"));
            }
        };
        let schemas = schemas_of(PipelineName::Review);
        let contents = PipelineContents {
            policy: settings.stored_value(),
            workflows: BTreeMap::new(),
            prompts: prompts.texts(),
            workflow_prompts: BTreeMap::new(),
            schemas: schemas.map(|(file, text)| (file.to_owned(), content_hash(&Value::from(text)))).into(),
            files: files.texts_of(PipelineName::Review),
        };
        let loaded_from = folder.map_or_else(String::new, |folder| folder.display().to_string());
        let version = PipelineVersion::new(contents, &loaded_from);
        let origin = |path: String| Some((path.clone(), folder?.join(path)));
        let prompt_origins = files.texts_of(PipelineName::Review).into_keys().filter_map(origin).collect();
        Ok(Self { settings, origins, prompts, version, prompt_origins })
    }

    /// Returns the settings.
    pub const fn settings(&self) -> &ReviewSettings {
        &self.settings
    }

    /// Returns the version.
    pub const fn version(&self) -> &PipelineVersion {
        &self.version
    }

    /// Says what reviewers with this model cannot do as the settings say, with its place.
    pub(crate) fn find_unusable(&self, model: AvailableModel) -> Option<String> {
        let key = self.settings.money_bound();
        let place =
            key.and_then(|key| self.origins.get(key)).map_or(String::new(), |from| format!("{from}: "));
        Some(place + &model.find_money_problem(key)?)
    }

    /// Returns all settings, in the order of the file.
    pub fn explain_values(&self) -> Vec<ExplainedValue> {
        let values = serde_json::to_value(&self.settings).expect("settings are plain data");
        let keys = SectionedKeys::new(list_keys::<ReviewSettings>(), REVIEW_SECTIONS);
        let explain = |(section, key): (&'static str, &Key)| ExplainedValue {
            section,
            value: values[&key.name].clone(),
            from: self.origins.get(&key.name).cloned(),
            default: key.default.clone(),
            doc: key.doc.clone(),
            key: key.name.clone(),
        };
        keys.by_section().map(explain).collect()
    }

    /// Returns every prompt with its origin.
    pub fn explain_prompts(&self) -> Vec<ExplainedPrompt> {
        explain_prompts(PipelineName::Review, &self.prompts, &self.prompt_origins, None)
    }

    /// Describes the differences from an earlier review pipeline, such as `review: remarks_per_call 20 -> 10`.
    pub fn describe_changes_since(&self, earlier: &Self) -> Vec<String> {
        let value = |one: &Self| serde_json::to_value(&one.settings).expect("settings are plain data");
        let (before, after) = (value(earlier), value(self));
        let keys = list_keys::<ReviewSettings>().into_iter().map(|key| key.name);
        let changed = keys.filter(|key| before[key] != after[key]);
        let values = changed.map(|key| format!("review: {key} {} -> {}", before[&key], after[&key]));
        let prompts = PromptName::of_pipeline(PipelineName::Review).iter();
        let prompts = prompts.filter(|prompt| self.prompts.text(**prompt) != earlier.prompts.text(**prompt));
        values.chain(prompts.map(|prompt| format!("review: prompt {}", prompt.file_name()))).collect()
    }
}

type Settings = (ReviewSettings, BTreeMap<String, Origin>);

/// Parses the settings. Fails with all mistakes, each with file, line and key.
fn parse_settings(path: &Path, text: &str) -> Result<Settings, Problems> {
    let keys = SectionedKeys::new(list_keys::<ReviewSettings>(), REVIEW_SECTIONS);
    let (mut values, mut origins, mut problems) = (Table::new(), BTreeMap::new(), Vec::new());
    for TomlEntry { path: names, value, line } in document::parse_entries(path, text, 2)? {
        let origin = Origin::File(path.to_owned(), line);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let checked = match names[..] {
            [table] if keys.has_section(table) && is_empty_table(&value) => continue,
            [section, name] if keys.has_section(section) => {
                keys.find_key_of_section(section, name).and_then(|key| check_value(key, &value))
            }
            [table, ..] => Err(keys.describe_stranger(table, &value, &[])),
            [] => continue,
        };
        match (checked, names[..].last()) {
            (Ok(()), Some(name)) => {
                values.insert((*name).to_owned(), value);
                origins.insert((*name).to_owned(), origin);
            }
            (checked, _) => problems.extend(checked.err().map(|problem| format!("{origin}: {problem}"))),
        }
    }
    Problems::fail_if_any(problems)?;
    Ok((ReviewSettings::deserialize(values).expect("each value was validated on its own"), origins))
}

/// Fails with a sentence if a value does not fit its key.
fn check_value(key: &Key, value: &toml::Value) -> Result<(), String> {
    let problem = key.find_mismatch::<ReviewSettings>(value);
    problem.map_or(Ok(()), |problem| Err(format!("`{}` {problem}", key.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(files: &[(&str, &str)]) -> Result<ReviewPipeline, Problems> {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        ReviewPipeline::parse(Some(Path::new("mine")), &PipelineFiles::from_texts(files))
    }

    #[test]
    fn settings_and_prompts_make_a_version_and_a_comment_makes_none() {
        let built_in = ReviewPipeline::default();
        let comment = parse(&[(REVIEW_FILE, "# nothing\n[review]\n")]).unwrap();
        assert_eq!(comment.version(), built_in.version());
        let changed = parse(&[
            (REVIEW_FILE, "[review]\nremarks_per_call = 5\n"),
            ("review/prompts/system.md", "Read.\n"),
        ]);
        let changed = changed.unwrap();
        assert_eq!(
            changed.describe_changes_since(&built_in),
            ["review: remarks_per_call 20 -> 5", "review: prompt system.md"]
        );
        assert_ne!(changed.version().hashes().prompts, built_in.version().hashes().prompts);
        let stored = ReviewSettings::from_stored(&changed.version().contents().policy);
        assert_eq!(&stored, changed.settings());
        assert_eq!(
            changed.explain_values()[0].from.as_ref().unwrap().to_string(),
            "mine/review/pipeline.toml:2"
        );
        let from = changed.explain_prompts()[0].from.clone();
        assert_eq!(from, Some(PathBuf::from("mine/review/prompts/system.md")));
    }

    #[test]
    fn every_mistake_has_its_file_and_line() {
        let problems = parse(&[
            (REVIEW_FILE, "[reviw]\nx = 1\n[review]\nremarks_per_cal = 5\nremark_chars_max = 1\n"),
            ("review/prompts/remarks.md", "{{ remark }}"),
        ]);
        assert_eq!(
            problems.unwrap_err().sentences(),
            [
                "mine/review/pipeline.toml:2: unknown table `reviw`; did you mean `review`? (tables: `review`, `budget`)",
                "mine/review/pipeline.toml:4: unknown key `remarks_per_cal`; did you mean `remarks_per_call`?",
                "mine/review/pipeline.toml:5: `remark_chars_max` is 1; it must be a whole number, 200 to 20000",
                "mine/review/prompts/remarks.md:1: unknown variable `remark`; did you mean `remarks`? (variables: repository, remarks)",
            ]
        );
    }
}
