//! Reads the policies of all workflows from `pipelines/retrospective/pipeline.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use retro_core::id::{Workflow, WorkflowKey};
use retro_core::pipeline::Section;
use retro_core::policy::{InvestigationStage, POLICY_SECTIONS, Policies, Policy, PolicyError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml::Table;

use crate::available_model::AvailableModel;
use crate::document::{self, TomlEntry};
use crate::folder_name::is_folder_name;
use crate::keys::{Key, list_keys};
use crate::layers::Origin;
use crate::problem::{Problems, find_nearest};
use crate::sections::{SectionedKeys, is_empty_table};

/// Path of the policy file, relative to the pipelines folder.
pub const POLICY_FILE: &str = "retrospective/pipeline.toml";

/// Table that had the keys of all sections before there were sections. It is still read: files of stored versions have it, and a
/// folder may be read by processes of two versions of the program while a fleet is updated.
const OLDER_TABLE: &str = "policy";
/// Key of a workflow that names the folder of its prompts. It is no key of the policy: prompts have no line in a report.
pub const PROMPTS_KEY: &str = "prompts";
/// Table with the tables of single workflows.
const WORKFLOW_TABLE: &str = "workflow";

/// The policy of every workflow, with the origin of each value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySet {
    common: EffectivePolicy,
    workflows: BTreeMap<String, EffectivePolicy>,
    /// Keys of the older table, with their places.
    older: Vec<(String, Origin)>,
    /// Folders of the workflows with prompts of their own, by workflow.
    prompt_folders: BTreeMap<String, PromptFolder>,
}

/// Folder with the prompts of a workflow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptFolder {
    /// Name of the folder, below `retrospective/prompts/`.
    pub name: String,
    /// File and line that name it.
    pub from: Origin,
}

/// The policy of one workflow, merged from its own values, the common values and the defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct EffectivePolicy {
    policy: Policy,
    /// Origin of each value, by key. Keys with their default value are absent.
    origins: BTreeMap<String, Origin>,
}

/// A policy value with its origin and description.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExplainedValue {
    /// Key name as written in the file.
    pub key: String,
    /// Section of the file in which the key stands.
    pub section: &'static str,
    /// The effective value.
    pub value: Value,
    /// Value in the built-in policy.
    pub default: Value,
    /// File and line that set the value; `None` if the default applies.
    pub from: Option<Origin>,
    /// Description of the key.
    pub doc: String,
}

impl PolicySet {
    /// Parses a policy file. `path` is used only in error messages and origins.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Problems> {
        let keys = SectionedKeys::new(list_keys::<Policy>(), POLICY_SECTIONS);
        let mut reading = PolicyReader { path: path.to_owned(), keys, ..PolicyReader::default() };
        for entry in document::parse_entries(path, text, 3)? {
            reading.add_entry(entry);
        }
        reading.build_policy_set()
    }

    /// Says what investigators with this model cannot do as the policies say, each sentence with its place.
    pub(crate) fn find_unusable(&self, model: AvailableModel) -> Vec<String> {
        let mut found = Vec::new();
        for effective in [&self.common].into_iter().chain(self.workflows.values()) {
            let policy = &effective.policy;
            let place =
                |key: &str| effective.origins.get(key).map_or(String::new(), |from| format!("{from}: "));
            if model == AvailableModel::None && !policy.has_stage(InvestigationStage::Heuristics) {
                found.push(format!(
                    "{}`stages` lists only \"model\", and the investigators of this process have no language model; set \
                     `model_url` in the configuration, or add \"heuristics\"",
                    place("stages")
                ));
            }
            let bound = policy.money_bound().filter(|_| policy.has_stage(InvestigationStage::Model));
            let problem = model.find_money_problem(bound);
            found.extend(problem.map(|problem| place(bound.unwrap_or_default()) + &problem));
        }
        // What all workflows have in common would otherwise be repeated for each.
        found.dedup();
        found
    }

    /// Says what could be written better, one sentence for each place. Nothing of it is a mistake.
    pub fn describe_older_forms(&self) -> Vec<String> {
        let Some((_, origin)) = self.older.first() else { return Vec::new() };
        let of_section = |section: &Section| {
            let keys = self.older.iter().filter(|(key, _)| section.keys.contains(&key.as_str()));
            let keys: Vec<_> = keys.map(|(key, _)| format!("`{key}`")).collect();
            (!keys.is_empty()).then(|| format!("{} below `[{}]`", keys.join(", "), section.name))
        };
        let places: Vec<_> = POLICY_SECTIONS.iter().filter_map(of_section).collect();
        vec![format!(
            "{origin}: `[{OLDER_TABLE}]` is the older form and is still read; write {}",
            places.join(", ")
        )]
    }

    /// Returns the policy of the workflows without values of their own.
    pub const fn common_policy(&self) -> &Policy {
        &self.common.policy
    }

    /// Returns the effective policies of the workflows with values of their own, by name.
    pub fn workflow_policies(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.workflows.iter().map(|(name, effective)| (name.as_str(), &effective.policy))
    }

    /// Returns the folders of the workflows with prompts of their own, by workflow.
    pub const fn prompt_folders(&self) -> &BTreeMap<String, PromptFolder> {
        &self.prompt_folders
    }

    /// Returns all values of a workflow's policy, in the order of the file; without a workflow, the common values.
    pub fn explain_values(&self, workflow: Option<&Workflow>) -> Vec<ExplainedValue> {
        let effective = workflow.map_or(&self.common, |workflow| self.effective_policy(workflow));
        let values = serde_json::to_value(&effective.policy).expect("a policy is plain data");
        let keys = SectionedKeys::new(list_keys::<Policy>(), POLICY_SECTIONS);
        let explain = |(section, key): (&'static str, &Key)| ExplainedValue {
            section,
            value: values[&key.name].clone(),
            from: effective.origins.get(&key.name).cloned(),
            default: key.default.clone(),
            doc: key.doc.clone(),
            key: key.name.clone(),
        };
        keys.by_section().map(explain).collect()
    }

    /// Describes the differences from an earlier policy set, such as `threshold_runs 10 -> 20`. Differences
    /// of a single workflow start with its name.
    pub fn describe_changes_since(&self, earlier: &Self) -> Vec<String> {
        let mut changes = describe_differences("", &earlier.common.policy, &self.common.policy);
        let names = self
            .workflows
            .keys()
            .chain(earlier.workflows.keys().filter(|name| !self.workflows.contains_key(*name)));
        for name in names {
            let of = |book: &Self| book.workflows.get(name).unwrap_or(&book.common).policy.clone();
            let own = describe_differences(&format!("workflow {name}: "), &of(earlier), &of(self));
            changes.extend(own);
        }
        changes
    }

    fn effective_policy(&self, workflow: &Workflow) -> &EffectivePolicy {
        self.workflows.get(workflow.as_str()).unwrap_or(&self.common)
    }
}

impl Policies for PolicySet {
    fn policy_for(&self, key: &WorkflowKey) -> Policy {
        self.effective_policy(&key.workflow).policy.clone()
    }
}

fn describe_differences(whose: &str, before: &Policy, after: &Policy) -> Vec<String> {
    let value = |policy: &Policy| serde_json::to_value(policy).expect("a policy is plain data");
    let (before, after) = (value(before), value(after));
    let keys = list_keys::<Policy>().into_iter().map(|key| key.name).filter(|key| before[key] != after[key]);
    keys.map(|key| format!("{whose}{key} {} -> {}", before[&key], after[&key])).collect()
}

/// Values of one table in the policy file, with their origins.
#[derive(Default)]
struct TableValues {
    values: Table,
    origins: BTreeMap<String, Origin>,
}

impl TableValues {
    fn insert(&mut self, name: &str, value: toml::Value, origin: &Origin) {
        self.values.insert(name.to_owned(), value);
        self.origins.insert(name.to_owned(), origin.clone());
    }
}

/// Fails with a sentence if a value does not fit its key.
fn check_value(key: &Key, value: &toml::Value) -> Result<(), String> {
    key.find_mismatch::<Policy>(value).map_or(Ok(()), |problem| Err(format!("`{}` {problem}", key.name)))
}

/// Parses the folder of a workflow's prompts, such as `prompts/nightly`, and returns its name. Fails with a sentence.
fn parse_prompt_folder(value: &toml::Value) -> Result<String, String> {
    let name = value.as_str().and_then(|text| text.strip_prefix("prompts/"));
    let name = name.filter(|name| is_folder_name(name));
    name.map(str::to_owned).ok_or_else(|| {
        format!("`{PROMPTS_KEY}` is {value}; it must be \"prompts/NAME\", a folder beside the prompts of all workflows")
    })
}

#[derive(Default)]
struct PolicyReader {
    path: PathBuf,
    keys: SectionedKeys,
    common: TableValues,
    workflows: BTreeMap<String, TableValues>,
    older: Vec<(String, Origin)>,
    prompt_folders: BTreeMap<String, PromptFolder>,
    problems: Vec<String>,
}

impl PolicyReader {
    fn add_entry(&mut self, entry: TomlEntry) {
        let origin = Origin::File(self.path.clone(), entry.line);
        let path: Vec<&str> = entry.path.iter().map(String::as_str).collect();
        let added = match path[..] {
            [table] if is_empty_table(&entry.value) && self.is_table(table) => Ok(()),
            [WORKFLOW_TABLE, _] if is_empty_table(&entry.value) => Ok(()),
            [WORKFLOW_TABLE, name, key] => self.add_workflow_value(name, key, entry.value, &origin),
            [OLDER_TABLE, key] => self.add_common_value(None, key, entry.value, &origin),
            [section, key] if self.keys.has_section(section) => {
                self.add_common_value(Some(section), key, entry.value, &origin)
            }
            [table, _, ..] if self.is_table(table) => Err(format!("unknown key `{}`", path.join("."))),
            [name, ..] => Err(self.keys.describe_stranger(name, &entry.value, &[WORKFLOW_TABLE])),
            [] => Ok(()),
        };
        self.problems.extend(added.err().map(|problem| format!("{origin}: {problem}")));
    }

    fn is_table(&self, name: &str) -> bool {
        name == OLDER_TABLE || name == WORKFLOW_TABLE || self.keys.has_section(name)
    }

    /// Adds a value of all workflows; without a section, of the older table. Fails with a sentence.
    fn add_common_value(
        &mut self,
        section: Option<&str>,
        name: &str,
        value: toml::Value,
        origin: &Origin,
    ) -> Result<(), String> {
        let key = match section {
            Some(section) => self.keys.find_key_of_section(section, name),
            None => self.keys.find_key(name),
        }?;
        check_value(key, &value)?;
        if let Some(earlier) = self.common.origins.get(name) {
            return Err(format!("`{name}` has a value already ({earlier}); keep one of them"));
        }
        if section.is_none() {
            self.older.push((name.to_owned(), origin.clone()));
        }
        self.common.insert(name, value, origin);
        Ok(())
    }

    /// Adds a value of one workflow. Fails with a sentence.
    fn add_workflow_value(
        &mut self,
        workflow: &str,
        name: &str,
        value: toml::Value,
        origin: &Origin,
    ) -> Result<(), String> {
        Workflow::new(workflow).map_err(|problem| problem.to_string())?;
        if value.is_table() && self.keys.has_section(name) {
            return Err(format!(
                "a workflow has no sections; write the keys of `[{name}]` below `[{WORKFLOW_TABLE}.\"{workflow}\"]`"
            ));
        }
        if name == PROMPTS_KEY {
            let folder = parse_prompt_folder(&value)?;
            let folder = PromptFolder { name: folder, from: origin.clone() };
            self.prompt_folders.insert(workflow.to_owned(), folder);
            return Ok(());
        }
        if find_nearest(name, [PROMPTS_KEY]).is_some() {
            return Err(format!("unknown key `{name}`; did you mean `{PROMPTS_KEY}`?"));
        }
        check_value(self.keys.find_key(name)?, &value)?;
        self.workflows.entry(workflow.to_owned()).or_default().insert(name, value, origin);
        Ok(())
    }

    fn build_policy_set(mut self) -> Result<PolicySet, Problems> {
        let common = EffectivePolicy::from_tables(&[&self.common]);
        let workflows: BTreeMap<_, _> = std::mem::take(&mut self.workflows)
            .into_iter()
            .map(|(name, own)| (name, EffectivePolicy::from_tables(&[&self.common, &own])))
            .collect();
        for effective in [&common].into_iter().chain(workflows.values()) {
            for error in effective.policy.validate().err().unwrap_or_default() {
                let changes = format!("{}{error}", self.format_place(effective, &error));
                // A mistake in a common value would otherwise be repeated for each workflow.
                if !self.problems.contains(&changes) {
                    self.problems.push(changes);
                }
            }
        }
        Problems::fail_if_any(self.problems)?;
        let (older, prompt_folders) = (self.older, self.prompt_folders);
        Ok(PolicySet { common, workflows, older, prompt_folders })
    }

    /// Returns the location of the invalid value. If that value is a default, returns the location of the
    /// value that it conflicts with; if there is none, the path of the file.
    fn format_place(&self, effective: &EffectivePolicy, error: &PolicyError) -> String {
        let other = error.because_of().and_then(|other| effective.origins.get(other));
        let given = effective.origins.get(error.key()).or(other);
        given.map_or_else(|| self.path.display().to_string(), ToString::to_string) + ": "
    }
}

impl EffectivePolicy {
    /// Merges tables into a policy. Later tables take precedence.
    fn from_tables(tables: &[&TableValues]) -> Self {
        let (mut values, mut origins) = (Table::new(), BTreeMap::new());
        for table in tables {
            values.extend(table.values.clone());
            origins.extend(table.origins.clone());
        }
        let policy = Policy::deserialize(values).expect("each value was validated on its own");
        Self { policy, origins }
    }
}

#[cfg(test)]
mod tests {
    use retro_core::id::Tenant;

    use super::*;

    fn parse(text: &str) -> Result<PolicySet, Problems> {
        PolicySet::parse(Path::new("pipeline.toml"), text)
    }

    fn of(book: &PolicySet, workflow: &str) -> Policy {
        let workflow = Workflow::new(workflow).unwrap();
        book.policy_for(&WorkflowKey { tenant: Tenant::default_tenant(), workflow })
    }

    #[test]
    fn a_workflow_has_single_values_of_its_own() {
        let text =
            "[trigger]\nthreshold_runs = 20\n[workflow.\"fix ci\"]\nharmed_delta = -300\n[workflow.none]\n";
        let book = parse(text).unwrap();
        let common = Policy { threshold_runs: 20, ..Policy::default() };
        assert_eq!((of(&book, "other"), of(&book, "none")), (common.clone(), common));
        let own = Policy { threshold_runs: 20, harmed_delta: -300, ..Policy::default() };
        assert_eq!(of(&book, "fix ci"), own);
        let explained = book.explain_values(Some(&Workflow::new("fix ci").unwrap()));
        let from = |key: &str| {
            let one = explained.iter().find(|one| one.key == key).unwrap();
            one.from.as_ref().map_or("default".to_owned(), ToString::to_string)
        };
        assert_eq!(from("threshold_runs"), "pipeline.toml:2");
        assert_eq!(from("harmed_delta"), "pipeline.toml:4");
        assert_eq!(from("helped_delta"), "default");
    }

    #[test]
    fn every_mistake_is_reported_at_once_with_file_line_and_key() {
        let text = "threshold_runs = 3\n[lerning]\nx = 1\n[learning]\nhelped_dleta = 100\narchive_weight = 200\n\
                    [trigger]\nthreshold_runs = \"ten\"\n[selection]\nsample_order = \"newest\"\n\
                    [workflow.a]\nhelped_delta = -1\ninject_weight_min = 400\n\
                    [workflow.\"\"]\nhelped_delta = 1\n[trigger.deep]\nx = 1\n";
        assert_eq!(
            parse(text).unwrap_err().sentences(),
            [
                "pipeline.toml:1: `threshold_runs` stands outside its section; write it below `[trigger]`",
                "pipeline.toml:3: unknown table `lerning`; did you mean `learning`? (tables: `trigger`, `selection`, \
                 `investigation`, `budget`, `learning`, `context`, `rules`, `workflow`)",
                "pipeline.toml:5: unknown key `helped_dleta`; did you mean `helped_delta`?",
                "pipeline.toml:8: `threshold_runs` is \"ten\"; it must be a whole number, 1 to 100000",
                "pipeline.toml:10: `sample_order` is \"newest\"; it must be \"random\" or \"most_recent\"",
                "pipeline.toml:12: `helped_delta` is -1; it must be a whole number, 0 to 1000",
                "pipeline.toml:15: workflow is empty",
                "pipeline.toml:17: unknown key `trigger.deep.x`",
                "pipeline.toml:6: `archive_weight` is 200; it must be 0 to 100, because of `inject_weight_min`",
                "pipeline.toml:13: `confirmed_weight` is 300; it must be 400 to 1000, because of `inject_weight_min`",
            ]
        );
    }

    #[test]
    fn a_key_in_a_wrong_section_names_the_right_one() {
        let text =
            "[trigger]\nhelped_delta = 90\nharmed_dleta = -1\n[workflow.a.trigger]\nthreshold_runs = 5\n";
        assert_eq!(
            parse(text).unwrap_err().sentences(),
            [
                "pipeline.toml:2: `helped_delta` belongs to `[learning]`, not to `[trigger]`",
                "pipeline.toml:3: unknown key `harmed_dleta`; did you mean `harmed_delta` of `[learning]`?",
                "pipeline.toml:4: a workflow has no sections; write the keys of `[trigger]` below `[workflow.\"a\"]`",
            ]
        );
    }

    #[test]
    fn an_unknown_word_of_a_list_and_stages_that_cannot_work_are_named() {
        let text = "[learning]\nheld_dangers = [\"force\", \"remote-contents\"]\n[investigation]\nstages = []\n\
                    [workflow.a]\nstages = [\"modle\"]\n[workflow.b]\nstages = \"model\"\n";
        let problems = parse(text).unwrap_err();
        for (problem, begin) in problems.sentences().iter().zip([
            "pipeline.toml:2: `held_dangers` has \"remote-contents\" (did you mean \"remote-content\"?); it must be a list of \
             \"remote-content\", \"package-address\", ",
            "pipeline.toml:6: `stages` has \"modle\" (did you mean \"model\"?); it must be a list of \"heuristics\", \"model\"",
            "pipeline.toml:8: `stages` is \"model\"; it must be a list of \"heuristics\", \"model\"",
            "pipeline.toml:4: `stages` is empty, so nobody would investigate a run",
        ]) {
            assert!(problem.starts_with(begin), "{problem}");
        }
        assert_eq!(problems.sentences().len(), 4);
    }

    #[test]
    fn the_older_table_is_read_as_its_sections_are() {
        let older = parse("[policy]\nthreshold_runs = 5\nhelped_delta = 90\nfailure_pause_s = 1\n").unwrap();
        let newer =
            parse("[trigger]\nthreshold_runs = 5\nfailure_pause_s = 1\n[learning]\nhelped_delta = 90\n")
                .unwrap();
        assert_eq!(of(&older, "x"), of(&newer, "x"));
        assert_eq!(of(&older, "x").content_hash(), of(&newer, "x").content_hash());
        assert_eq!(
            older.describe_older_forms(),
            [
                "pipeline.toml:2: `[policy]` is the older form and is still read; write `threshold_runs`, `failure_pause_s` \
              below `[trigger]`, `helped_delta` below `[learning]`"
            ]
        );
        assert!(newer.describe_older_forms().is_empty());
        let both = parse("[policy]\nthreshold_runs = 5\n[trigger]\nthreshold_runs = 6\n").unwrap_err();
        assert_eq!(
            both.sentences(),
            ["pipeline.toml:4: `threshold_runs` has a value already (pipeline.toml:2); keep one of them"]
        );
    }

    #[test]
    fn differences_from_an_earlier_policy_set_name_the_workflow() {
        let earlier = parse("[trigger]\nthreshold_runs = 5\n[workflow.a]\nhelped_delta = 90\n").unwrap();
        let later = parse("[trigger]\nthreshold_runs = 6\n[workflow.b]\nthreshold_runs = 7\n").unwrap();
        assert_eq!(
            later.describe_changes_since(&earlier),
            [
                "threshold_runs 5 -> 6",
                "workflow b: threshold_runs 5 -> 7",
                "workflow a: threshold_runs 5 -> 6",
                "workflow a: helped_delta 90 -> 100",
            ]
        );
        assert!(later.describe_changes_since(&later).is_empty());
    }
}
