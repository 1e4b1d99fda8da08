//! One reading of `pipelines/retrospective/pipeline.toml`: the policy of each workflow.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use retro_core::id::{Workflow, WorkflowKey};
use retro_core::policy::{Policies, Policy, PolicyError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml::Table;

use crate::document::{self, Entry};
use crate::keys::{Key, keys};
use crate::layers::Origin;
use crate::problem::{Problems, did_you_mean};

/// The file within the pipelines folder.
pub const FILE: &str = "retrospective/pipeline.toml";

/// What the file may hold: common values, and single values that a workflow has of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyFile {
    /// Holds for every workflow.
    pub policy: Policy,
    /// By the workflow's name, only what differs.
    pub workflow: BTreeMap<String, Policy>,
}

/// The policy of every workflow, and where each value came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edition {
    common: Effective,
    workflows: BTreeMap<String, Effective>,
}

/// A whole policy: of a workflow's own, the common and the default values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Effective {
    policy: Policy,
    /// By key; a key that is not here has its default.
    origins: BTreeMap<String, Origin>,
}

/// A value in force, and where it came from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// The key, as written in the file.
    pub key: String,
    /// What is in force.
    pub value: Value,
    /// What the built-in policy has.
    pub default: Value,
    /// File and line; none when nothing was given.
    pub from: Option<Origin>,
    /// What it means.
    pub doc: String,
}

impl Edition {
    /// Reads the pipelines folder; without one the built-in policy holds. Fails with every mistake, each with its line.
    pub fn read(pipelines: Option<&Path>) -> Result<Self, Problems> {
        let Some(folder) = pipelines else { return Ok(Self::default()) };
        let path = folder.join(FILE);
        Self::parse(&path, &document::read(&path)?)
    }

    /// Reads the text of a file; the path is only told.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Problems> {
        let mut reading = Reading { path: path.to_owned(), keys: keys::<Policy>(), ..Reading::default() };
        for entry in document::entries(path, text, 3)? {
            reading.add(entry);
        }
        reading.finish()
    }

    /// Every value of a workflow's policy, in the order of the file; of none, of what is common.
    pub fn explained(&self, workflow: Option<&Workflow>) -> Vec<Explained> {
        let effective = workflow.map_or(&self.common, |workflow| self.effective(workflow));
        let values = serde_json::to_value(&effective.policy).expect("a policy is plain data");
        let explain = |key: Key| Explained {
            value: values[&key.name].clone(),
            from: effective.origins.get(&key.name).cloned(),
            default: key.default,
            doc: key.doc,
            key: key.name,
        };
        keys::<Policy>().into_iter().map(explain).collect()
    }

    /// What differs from an earlier edition, for people: `threshold_runs 10 -> 20`, with the workflow when it is its own.
    pub fn changed_since(&self, earlier: &Self) -> Vec<String> {
        let mut told = differing("", &earlier.common.policy, &self.common.policy);
        let names = self
            .workflows
            .keys()
            .chain(earlier.workflows.keys().filter(|name| !self.workflows.contains_key(*name)));
        for name in names {
            let of = |book: &Self| book.workflows.get(name).unwrap_or(&book.common).policy.clone();
            let own = differing(&format!("workflow {name}: "), &of(earlier), &of(self));
            told.extend(own);
        }
        told
    }

    fn effective(&self, workflow: &Workflow) -> &Effective {
        self.workflows.get(workflow.as_str()).unwrap_or(&self.common)
    }
}

impl Policies for Edition {
    fn of(&self, key: &WorkflowKey) -> Policy {
        self.effective(&key.workflow).policy.clone()
    }
}

fn differing(whose: &str, before: &Policy, after: &Policy) -> Vec<String> {
    let value = |policy: &Policy| serde_json::to_value(policy).expect("a policy is plain data");
    let (before, after) = (value(before), value(after));
    let keys = keys::<Policy>().into_iter().map(|key| key.name).filter(|key| before[key] != after[key]);
    keys.map(|key| format!("{whose}{key} {} -> {}", before[&key], after[&key])).collect()
}

/// Values of one table of the file, with their places.
#[derive(Default)]
struct Given {
    values: Table,
    origins: BTreeMap<String, Origin>,
}

#[derive(Default)]
struct Reading {
    path: PathBuf,
    keys: Vec<Key>,
    common: Given,
    workflows: BTreeMap<String, Given>,
    problems: Vec<String>,
}

impl Reading {
    fn add(&mut self, entry: Entry) {
        let origin = Origin::File(self.path.clone(), entry.line);
        let path: Vec<&str> = entry.path.iter().map(String::as_str).collect();
        match path[..] {
            // A table that says nothing.
            ["policy" | "workflow"] | ["workflow", _]
                if entry.value.as_table().is_some_and(Table::is_empty) => {}
            ["policy", key] => self.add_value(None, key, entry.value, origin),
            ["workflow", name, key] => self.add_value(Some(name), key, entry.value, origin),
            ["policy", ..] | ["workflow", ..] => {
                self.problems.push(format!("{origin}: unknown key `{}`", path.join(".")));
            }
            [table, ..] => {
                let meant = did_you_mean(table, ["policy", "workflow"]);
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
            let meant = did_you_mean(name, self.keys.iter().map(|key| key.name.as_str()));
            self.problems.push(format!("{origin}: unknown key `{name}`{meant}"));
            return;
        };
        if let Some(problem) = key.misfit::<Policy>(&value) {
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

    fn finish(mut self) -> Result<Edition, Problems> {
        let common = Effective::of(&[&self.common]);
        let workflows: BTreeMap<_, _> = std::mem::take(&mut self.workflows)
            .into_iter()
            .map(|(name, own)| (name, Effective::of(&[&self.common, &own])))
            .collect();
        for effective in [&common].into_iter().chain(workflows.values()) {
            for error in effective.policy.check().err().unwrap_or_default() {
                let told = format!("{}{error}", self.place(effective, &error));
                // What is wrong for all is not told again for each workflow.
                if !self.problems.contains(&told) {
                    self.problems.push(told);
                }
            }
        }
        Problems::none_or(self.problems)?;
        Ok(Edition { common, workflows })
    }

    /// Where the value was given, or the one that it does not fit.
    fn place(&self, effective: &Effective, error: &PolicyError) -> String {
        let other = error.beside.and_then(|other| effective.origins.get(other));
        let given = effective.origins.get(&error.key).or(other);
        given.map_or_else(|| self.path.display().to_string(), ToString::to_string) + ": "
    }
}

impl Effective {
    /// The later table wins.
    fn of(tables: &[&Given]) -> Self {
        let (mut values, mut origins) = (Table::new(), BTreeMap::new());
        for table in tables {
            values.extend(table.values.clone());
            origins.extend(table.origins.clone());
        }
        let policy = Policy::deserialize(values).expect("each value was tried by itself");
        Self { policy, origins }
    }
}

#[cfg(test)]
mod tests {
    use retro_core::id::Tenant;

    use super::*;

    fn parse(text: &str) -> Result<Edition, Problems> {
        Edition::parse(Path::new("pipeline.toml"), text)
    }

    fn of(book: &Edition, workflow: &str) -> Policy {
        let workflow = Workflow::new(workflow).unwrap();
        book.of(&WorkflowKey { tenant: Tenant::default_tenant(), workflow })
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
        let explained = book.explained(Some(&Workflow::new("fix ci").unwrap()));
        let from = |key: &str| {
            let one = explained.iter().find(|one| one.key == key).unwrap();
            one.from.as_ref().map_or("default".to_owned(), ToString::to_string)
        };
        assert_eq!(from("threshold_runs"), "pipeline.toml:2");
        assert_eq!(from("harmed_delta"), "pipeline.toml:4");
        assert_eq!(from("helped_delta"), "default");
    }

    #[test]
    fn every_mistake_is_told_at_once_with_file_line_and_key() {
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
    fn what_differs_from_an_earlier_book_is_told_with_its_workflow() {
        let earlier = parse("[policy]\nthreshold_runs = 5\n[workflow.a]\nhelped_delta = 90\n").unwrap();
        let later = parse("[policy]\nthreshold_runs = 6\n[workflow.b]\nthreshold_runs = 7\n").unwrap();
        assert_eq!(
            later.changed_since(&earlier),
            [
                "threshold_runs 5 -> 6",
                "workflow b: threshold_runs 5 -> 7",
                "workflow a: threshold_runs 5 -> 6",
                "workflow a: helped_delta 90 -> 100",
            ]
        );
        assert!(later.changed_since(&later).is_empty());
    }
}
