//! Reads the policies of all workflows from `pipelines/retrospective/pipeline.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use retro_core::id::{Workflow, WorkflowKey};
use retro_core::policy::{Policies, Policy, PolicyError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml::Table;

use crate::document::{self, TomlEntry};
use crate::keys::{Key, list_keys};
use crate::layers::Origin;
use crate::problem::{Problems, suggest_name};

/// Path of the policy file, relative to the pipelines folder.
pub const POLICY_FILE: &str = "retrospective/pipeline.toml";

/// Schema of the policy file: values for all workflows and overrides for single ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyFile {
    /// Policy of all workflows.
    pub policy: Policy,
    /// Overrides for single workflows, by workflow name.
    pub workflow: BTreeMap<String, Policy>,
}

/// The policy of every workflow, with the origin of each value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicySet {
    common: EffectivePolicy,
    workflows: BTreeMap<String, EffectivePolicy>,
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
        let mut reading =
            PolicyReader { path: path.to_owned(), keys: list_keys::<Policy>(), ..PolicyReader::default() };
        for entry in document::parse_entries(path, text, 3)? {
            reading.add_entry(entry);
        }
        reading.build_policy_set()
    }

    /// Returns the policy of the workflows without values of their own.
    pub const fn common_policy(&self) -> &Policy {
        &self.common.policy
    }

    /// Returns the effective policies of the workflows with values of their own, by name.
    pub fn workflow_policies(&self) -> impl Iterator<Item = (&str, &Policy)> {
        self.workflows.iter().map(|(name, effective)| (name.as_str(), &effective.policy))
    }

    /// Returns all values of a workflow's policy, in key order; without a workflow, the common values.
    pub fn explain_values(&self, workflow: Option<&Workflow>) -> Vec<ExplainedValue> {
        let effective = workflow.map_or(&self.common, |workflow| self.effective_policy(workflow));
        let values = serde_json::to_value(&effective.policy).expect("a policy is plain data");
        let explain = |key: Key| ExplainedValue {
            value: values[&key.name].clone(),
            from: effective.origins.get(&key.name).cloned(),
            default: key.default,
            doc: key.doc,
            key: key.name,
        };
        list_keys::<Policy>().into_iter().map(explain).collect()
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

#[derive(Default)]
struct PolicyReader {
    path: PathBuf,
    keys: Vec<Key>,
    common: TableValues,
    workflows: BTreeMap<String, TableValues>,
    problems: Vec<String>,
}

impl PolicyReader {
    fn add_entry(&mut self, entry: TomlEntry) {
        let origin = Origin::File(self.path.clone(), entry.line);
        let path: Vec<&str> = entry.path.iter().map(String::as_str).collect();
        match path[..] {
            // An empty table is allowed.
            ["policy" | "workflow"] | ["workflow", _]
                if entry.value.as_table().is_some_and(Table::is_empty) => {}
            ["policy", key] => self.add_value(None, key, entry.value, origin),
            ["workflow", name, key] => self.add_value(Some(name), key, entry.value, origin),
            ["policy", ..] | ["workflow", ..] => {
                self.problems.push(format!("{origin}: unknown key `{}`", path.join(".")));
            }
            [table, ..] => {
                let meant = suggest_name(table, ["policy", "workflow"]);
                self.problems.push(format!("{origin}: unknown table `{table}`{meant}"));
            }
            [] => {}
        }
    }

    fn add_value(&mut self, workflow: Option<&str>, name: &str, value: toml::Value, origin: Origin) {
        if let Some(Err(problem)) = workflow.map(Workflow::new) {
            self.problems.push(format!("{origin}: {problem}"));
            return;
        }
        let Some(key) = self.keys.iter().find(|key| key.name == name) else {
            let meant = suggest_name(name, self.keys.iter().map(|key| key.name.as_str()));
            self.problems.push(format!("{origin}: unknown key `{name}`{meant}"));
            return;
        };
        if let Some(problem) = key.find_mismatch::<Policy>(&value) {
            self.problems.push(format!("{origin}: `{name}` {problem}"));
            return;
        }
        let given = match workflow {
            Some(workflow) => self.workflows.entry(workflow.to_owned()).or_default(),
            None => &mut self.common,
        };
        given.values.insert(name.to_owned(), value);
        given.origins.insert(name.to_owned(), origin);
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
        Ok(PolicySet { common, workflows })
    }

    /// Returns the location of the invalid value. If that value is a default, returns the location of the
    /// value that it conflicts with; if there is none, the path of the file.
    fn format_place(&self, effective: &EffectivePolicy, error: &PolicyError) -> String {
        let other = error.because_of.and_then(|other| effective.origins.get(other));
        let given = effective.origins.get(&error.key).or(other);
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
            "[policy]\nthreshold_runs = 20\n[workflow.\"fix ci\"]\nharmed_delta = -300\n[workflow.none]\n";
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
        let text = "[polcy]\nx = 1\n[policy]\nhelped_dleta = 100\nthreshold_runs = \"ten\"\nsample_order = \"newest\"\n\
                    archive_weight = 200\n[workflow.a]\nhelped_delta = -1\ninject_weight_min = 400\n\
                    [workflow.\"\"]\nhelped_delta = 1\n[policy.deep]\nx = 1\n";
        assert_eq!(
            parse(text).unwrap_err().sentences(),
            [
                "pipeline.toml:2: unknown table `polcy`; did you mean `policy`?",
                "pipeline.toml:4: unknown key `helped_dleta`; did you mean `helped_delta`?",
                "pipeline.toml:5: `threshold_runs` is \"ten\"; it must be a whole number, 1 to 100000",
                "pipeline.toml:6: `sample_order` is \"newest\"; it must be \"random\" or \"most_recent\"",
                "pipeline.toml:9: `helped_delta` is -1; it must be a whole number, 0 to 1000",
                "pipeline.toml:12: workflow is empty",
                "pipeline.toml:14: unknown key `policy.deep.x`",
                "pipeline.toml:7: `archive_weight` is 200; it must be 0 to 100, because of `inject_weight_min`",
                "pipeline.toml:10: `confirmed_weight` is 300; it must be 400 to 1000, because of `inject_weight_min`",
            ]
        );
    }

    #[test]
    fn differences_from_an_earlier_policy_set_name_the_workflow() {
        let earlier = parse("[policy]\nthreshold_runs = 5\n[workflow.a]\nhelped_delta = 90\n").unwrap();
        let later = parse("[policy]\nthreshold_runs = 6\n[workflow.b]\nthreshold_runs = 7\n").unwrap();
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
