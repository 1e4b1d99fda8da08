//! Worlds: folders of files that define the errors in invented workflows, their remedies, and the form of a
//! true memory.
//!
//! The README documents the format. Invalid files are rejected with file and line.

mod validate;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

pub(crate) use values::{DrawnValues, Values};

/// File that holds the habits of a world's agents.
const WORLD_FILE: &str = "world.toml";
/// Largest number of workflows in a world.
const WORKFLOWS_MAX: usize = 100;
/// Largest file of a world, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A simulated world.
#[derive(Debug, Clone)]
pub struct World {
    /// Name of the world's folder.
    pub name: String,
    /// Description in one sentence.
    pub about: String,
    pub(crate) agents: AgentHabits,
    pub(crate) workflows: Vec<Workflow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorldFile {
    about: String,
    #[serde(default)]
    agents: AgentHabits,
}

/// Habits of a world's agents, as probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AgentHabits {
    /// Opens a memory that it was handed.
    pub(crate) read: f64,
    /// Follows a memory.
    pub(crate) follow: f64,
    /// Finds the remedy without a memory.
    pub(crate) finds_out: f64,
    /// Fails for a reason that no memory can prevent.
    pub(crate) fails_anyway: f64,
}

impl Default for AgentHabits {
    fn default() -> Self {
        Self { read: 0.3, follow: 0.8, finds_out: 0.6, fails_anyway: 0.03 }
    }
}

/// A workflow of a world, from one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workflow {
    /// File name without `.toml`.
    #[serde(skip)]
    pub(crate) name: String,
    /// True when the harness records a failure flag with each answer; otherwise only the text of the answer
    /// shows it.
    #[serde(default)]
    pub(crate) flags: bool,
    /// Values that differ between runs, by name.
    #[serde(default)]
    pub(crate) values: Values,
    #[serde(rename = "step")]
    pub(crate) steps: Vec<Spanned<Step>>,
    #[serde(default, rename = "cause")]
    pub(crate) causes: Vec<Spanned<Cause>>,
    #[serde(default, rename = "trap")]
    pub(crate) traps: Vec<Spanned<Trap>>,
    #[serde(default, rename = "noise")]
    pub(crate) noises: Vec<Spanned<Noise>>,
    #[serde(default, rename = "fact")]
    pub(crate) facts: Vec<Spanned<Fact>>,
}

/// A step, and the calls that every run makes in it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// Task given to the agent.
    pub(crate) task: String,
    #[serde(default, rename = "routine")]
    pub(crate) routines: Vec<Routine>,
}

/// A call that succeeds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Routine {
    pub(crate) tool: String,
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    pub(crate) answers: Vec<String>,
    #[serde(default = "always")]
    pub(crate) chance: f64,
}

/// Words that the single line of a matching memory contains, ignoring case. `a|b` matches either word.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryPattern {
    /// Words of the error; all must occur. When empty, the remedy alone must match.
    #[serde(default)]
    pub(crate) error: Vec<String>,
    /// Words of the remedy; all must occur.
    pub(crate) remedy: Vec<String>,
}

/// A preparatory call and its answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LookUp {
    pub(crate) tool: String,
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    pub(crate) answer: String,
}

/// A cause of failures, with its remedy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cause {
    pub(crate) id: String,
    pub(crate) step: String,
    pub(crate) tool: String,
    /// Share of runs that meet the cause while it is present.
    pub(crate) chance: f64,
    /// First run that can meet it, from 1.
    #[serde(default = "first_run")]
    pub(crate) from: u32,
    /// Last run that can meet it; afterwards the cause is fixed. `None`: never fixed.
    pub(crate) until: Option<u32>,
    pub(crate) rhythm: Option<Rhythm>,
    /// Arguments of the call that fails.
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    /// Possible answers of the failing call.
    pub(crate) errors: Vec<String>,
    /// Preparatory call that the remedy needs.
    pub(crate) look_up: Option<LookUp>,
    /// Arguments of the call that succeeds.
    pub(crate) right: Value,
    pub(crate) answer: String,
    /// Message of an agent that follows the memory.
    #[serde(default)]
    pub(crate) minds: String,
    /// Possible numbers of failing calls before the agent reacts.
    #[serde(default = "one_try")]
    pub(crate) tries: Vec<u32>,
    /// Probability of finding the remedy without a memory. `None`: the agents' habit.
    pub(crate) finds_out: Option<f64>,
    /// Probability of failing although the remedy was found, because time or money ran out.
    #[serde(default)]
    pub(crate) costs: f64,
    /// Use of the tool in runs that do not meet the cause.
    #[serde(default)]
    pub(crate) otherwise: Otherwise,
    /// Effect of following the memory once the cause is fixed.
    #[serde(default)]
    pub(crate) after: AfterFix,
    /// Answer of the remedy's call once the cause is fixed and `after` is `harmful`.
    pub(crate) harm: Option<String>,
    pub(crate) memory: MemoryPattern,
}

/// Restricts a cause to some runs of a cycle, such as runs at night or on Mondays.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rhythm {
    /// Runs per cycle.
    pub(crate) every: u32,
    /// First and last run of the cycle that can meet the cause, from 1.
    pub(crate) runs: [u32; 2],
}

/// Use of the tool in a run that does not meet the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Otherwise {
    /// Calls the tool successfully.
    #[default]
    Works,
    /// Does not call the tool.
    Skips,
}

/// Effect of following a memory once its cause is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AfterFix {
    /// The call succeeds with and without it.
    #[default]
    Harmless,
    /// The call fails with it.
    Harmful,
    /// The tool is no longer called.
    Gone,
}

/// A false lesson that looks true for a while: the change helped by coincidence, and following it makes calls
/// fail.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trap {
    pub(crate) id: String,
    pub(crate) step: String,
    pub(crate) tool: String,
    /// Share of a period's runs in which it looks true.
    pub(crate) chance: f64,
    /// First and last run of each period in which it looks true.
    pub(crate) periods: Vec<[u32; 2]>,
    /// Arguments of the call that succeeds except during the coincidence.
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    /// Possible answers of that call during the coincidence.
    #[serde(default)]
    pub(crate) errors: Vec<String>,
    /// Arguments of the changed call: succeeds during the coincidence and fails otherwise.
    pub(crate) superstition: Value,
    pub(crate) answer: String,
    /// Answer of the changed call outside the coincidence.
    pub(crate) harm: String,
    /// Remark of the agent during the coincidence. In that case the calls do not show the coincidence.
    pub(crate) remark: Option<String>,
    /// Run after which a person accepts the proposal of a manual retrospective over the runs that showed the
    /// trap.
    pub(crate) accepted_at: Option<u32>,
    /// Probability of noticing that the changed call is the mistake. `None`: the agents' habit.
    pub(crate) finds_out: Option<f64>,
    pub(crate) memory: MemoryPattern,
}

/// An error that disappears without a change.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noise {
    pub(crate) id: String,
    pub(crate) step: String,
    pub(crate) tool: String,
    /// Share of runs that meet it.
    pub(crate) chance: f64,
    /// Periods in which it is frequent.
    pub(crate) burst: Option<Burst>,
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    pub(crate) errors: Vec<String>,
    pub(crate) answer: String,
    /// Probability that the agent changes the call when it retries; otherwise it repeats the same call.
    #[serde(default)]
    pub(crate) changes: f64,
    /// Possible arguments of the changed call.
    #[serde(default)]
    pub(crate) changed: Vec<Value>,
    /// Use of the tool in runs that do not meet it.
    #[serde(default)]
    pub(crate) otherwise: Otherwise,
}

/// Consecutive runs in which noise is frequent.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Burst {
    /// Runs per cycle; each cycle has one burst, at a position drawn from the seed.
    pub(crate) every: u32,
    /// Runs in a burst.
    pub(crate) runs: u32,
    /// Share of the burst's runs that meet the noise.
    pub(crate) chance: f64,
}

/// A true statement that is not a cause. A memory that states it is correct, but no memory is expected to.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fact {
    pub(crate) step: String,
    pub(crate) tool: String,
    pub(crate) memory: MemoryPattern,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

const fn always() -> f64 {
    1.0
}

const fn first_run() -> u32 {
    1
}

fn one_try() -> Vec<u32> {
    vec![1]
}

impl World {
    /// Reads `world.toml`, and every other `.toml` file as a workflow, sorted by name.
    ///
    /// Fails with file and line at the first file that cannot be read or is invalid.
    pub fn read_folder(folder: &Path) -> Result<Self> {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        ensure!(!name.is_empty(), "{}: the folder of a world has no name", folder.display());
        let mut files = BTreeMap::new();
        let listed = std::fs::read_dir(folder)
            .with_context(|| format!("{}: the folder of a world cannot be read", folder.display()))?;
        for entry in listed {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let size = path.metadata()?.len();
                ensure!(
                    size <= FILE_BYTES_MAX,
                    "{}: {size} bytes are too large for a file of a world",
                    path.display()
                );
                files.insert(path.clone(), std::fs::read_to_string(&path)?);
            }
        }
        let world_file = folder.join(WORLD_FILE);
        let Some(text) = files.remove(&world_file) else {
            bail!("{}: missing; it describes the world", world_file.display());
        };
        let WorldFile { about, agents } = parse_toml(&world_file, &text)?;
        validate::validate_agents(&world_file, &agents)?;
        let workflows: Vec<Workflow> =
            files.iter().map(|(path, text)| parse_workflow(path, text)).collect::<Result<_>>()?;
        ensure!(!workflows.is_empty(), "{}: a world needs a file for each workflow", folder.display());
        ensure!(
            workflows.len() <= WORKFLOWS_MAX,
            "{}: more than {WORKFLOWS_MAX} workflows",
            folder.display()
        );
        Ok(Self { name, about, agents, workflows })
    }
}

fn parse_workflow(path: &Path, text: &str) -> Result<Workflow> {
    let mut workflow: Workflow = parse_toml(path, text)?;
    workflow.name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    validate::validate_workflow(path, text, &workflow)?;
    Ok(workflow)
}

/// Parses a file. Fails with `file:line: problem`.
fn parse_toml<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        anyhow::anyhow!("{}:{line}: {}", path.display(), error.message())
    })
}

/// Returns the line of a byte offset, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
pub(crate) mod tests;
