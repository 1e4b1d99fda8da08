//! Worlds: folders of files that say what goes wrong in made-up workflows, what helps, and what a true memory looks like.
//!
//! The format stands in the crate's README. Everything that cannot be meant is refused with file and line.

mod check;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use toml::Spanned;

pub(crate) use values::{Drawn, Values};

/// The file of a world that holds its agents' habits.
const WORLD_FILE: &str = "world.toml";
/// The most workflows of a world: each is played to its end.
const WORKFLOWS_MAX: usize = 100;
/// The largest file of a world, in bytes: they are written by people.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A made-up world.
#[derive(Debug, Clone)]
pub struct World {
    /// Its folder's name.
    pub name: String,
    /// What it is about, in a sentence.
    pub about: String,
    pub(crate) agents: Agents,
    pub(crate) workflows: Vec<Workflow>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorldFile {
    about: String,
    #[serde(default)]
    agents: Agents,
}

/// The habits of a world's agents, as probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Agents {
    /// Opens a memory that it was handed.
    pub(crate) read: f64,
    /// Does what a memory says.
    pub(crate) follow: f64,
    /// Finds a way out by itself.
    pub(crate) finds_out: f64,
    /// Fails for a reason that nobody can learn.
    pub(crate) fails_anyway: f64,
}

impl Default for Agents {
    fn default() -> Self {
        Self { read: 0.3, follow: 0.8, finds_out: 0.6, fails_anyway: 0.03 }
    }
}

/// A workflow of a world: one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workflow {
    /// The file's name without `.toml`.
    #[serde(skip)]
    pub(crate) name: String,
    /// Whether the harness notes beside each answer if the call failed; else only the answer's words tell.
    #[serde(default)]
    pub(crate) flags: bool,
    /// What differs between runs: a name and what it is drawn from.
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

/// A step, and what every run does in it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// What the agent is asked.
    pub(crate) task: String,
    #[serde(default, rename = "routine")]
    pub(crate) routines: Vec<Routine>,
}

/// A call that works.
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

/// What a memory about it looks like from outside: words of its one line, in any case; `a|b` is one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Looks {
    /// Words of the error; all of them stand in the line. Without any, only the remedy tells.
    #[serde(default)]
    pub(crate) error: Vec<String>,
    /// Words of the remedy; all of them stand in the line.
    pub(crate) remedy: Vec<String>,
}

/// A call that is made before another one, and its answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LookUp {
    pub(crate) tool: String,
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    pub(crate) answer: String,
}

/// Something that makes runs fail, and its way out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cause {
    pub(crate) id: String,
    pub(crate) step: String,
    pub(crate) tool: String,
    /// Share of the runs that meet it while it is there.
    pub(crate) chance: f64,
    /// First run that may meet it, from 1.
    #[serde(default = "first_run")]
    pub(crate) from: u32,
    /// Last run that may meet it: then it is fixed.
    pub(crate) until: Option<u32>,
    pub(crate) rhythm: Option<Rhythm>,
    /// The call of an agent that does not know better.
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    /// What that call answers, one of them.
    pub(crate) errors: Vec<String>,
    /// What gets the answer.
    pub(crate) look_up: Option<LookUp>,
    /// The call that works.
    pub(crate) right: Value,
    pub(crate) answer: String,
    /// What an agent says that minds the memory.
    #[serde(default)]
    pub(crate) minds: String,
    /// How often the failing call is made before anything else happens, one of them.
    #[serde(default = "one_try")]
    pub(crate) tries: Vec<u32>,
    /// Finds the way out by itself; otherwise the agents' habit.
    pub(crate) finds_out: Option<f64>,
    /// Fails all the same though it found the way out: time and money are gone.
    #[serde(default)]
    pub(crate) costs: f64,
    /// What the other runs do with the tool.
    #[serde(default)]
    pub(crate) otherwise: Otherwise,
    /// What following the memory does once the cause is fixed.
    #[serde(default)]
    pub(crate) after: After,
    /// What the call that worked answers then.
    pub(crate) harm: Option<String>,
    pub(crate) memory: Looks,
}

/// What comes only in some runs of a cycle: at night, on Mondays.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rhythm {
    /// Runs of a cycle.
    pub(crate) every: u32,
    /// First and last run of the cycle that may meet it, from 1.
    pub(crate) runs: [u32; 2],
}

/// What a run does with the tool when nothing goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Otherwise {
    /// It calls it, and the call works.
    #[default]
    Works,
    /// It does not call it.
    Skips,
}

/// What following a memory does once its cause is fixed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum After {
    /// The call works with it and without it.
    #[default]
    Harmless,
    /// The call fails with it.
    Harmful,
    /// The tool is not called any more.
    Gone,
}

/// A lesson that looks true for a while and never is: what helped was chance, and following it makes calls fail.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trap {
    pub(crate) id: String,
    pub(crate) step: String,
    pub(crate) tool: String,
    /// Share of the runs of a period in which it looks true.
    pub(crate) chance: f64,
    /// First and last run of each time in which it looks true.
    pub(crate) periods: Vec<[u32; 2]>,
    /// The call that works, but for the moment of the coincidence.
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    /// What it answers in that moment, one of them.
    #[serde(default)]
    pub(crate) errors: Vec<String>,
    /// The changed call that then works by chance, and otherwise harms.
    pub(crate) superstition: Value,
    pub(crate) answer: String,
    /// What the changed call answers otherwise.
    pub(crate) harm: String,
    /// What an agent remarks on its run in such a moment; then nothing of it shows in the calls.
    pub(crate) remark: Option<String>,
    /// A person takes the proposal of a manual retrospective over the runs that showed it, once this run is over.
    pub(crate) accepted_at: Option<u32>,
    /// Sees by itself that the changed call is the mistake; otherwise the agents' habit.
    pub(crate) finds_out: Option<f64>,
    pub(crate) memory: Looks,
}

/// What passes by itself.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Noise {
    pub(crate) id: String,
    pub(crate) step: String,
    pub(crate) tool: String,
    /// Share of the runs that meet it.
    pub(crate) chance: f64,
    /// Times in which it is frequent.
    pub(crate) burst: Option<Burst>,
    #[serde(default = "no_arguments")]
    pub(crate) arguments: Value,
    pub(crate) errors: Vec<String>,
    pub(crate) answer: String,
    /// Probability that the agent changes the call when it tries again; otherwise it sends the same.
    #[serde(default)]
    pub(crate) changes: f64,
    /// What it may change the call to, one of them.
    #[serde(default)]
    pub(crate) changed: Vec<Value>,
    /// What the other runs do with the tool.
    #[serde(default)]
    pub(crate) otherwise: Otherwise,
}

/// Runs in a row in which noise is frequent.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Burst {
    /// One burst in so many runs, at a place that the seed draws.
    pub(crate) every: u32,
    /// How many runs it lasts.
    pub(crate) runs: u32,
    /// Share of those runs that meet it.
    pub(crate) chance: f64,
}

/// Something that is true besides: a memory that says it is no mistake, and nobody has to have it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fact {
    pub(crate) step: String,
    pub(crate) tool: String,
    pub(crate) memory: Looks,
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
    /// Reads a folder: `world.toml`, and every other `.toml` file as a workflow, in the order of their names.
    ///
    /// Fails with file and line at the first thing that cannot be read or meant.
    pub fn read(folder: &Path) -> Result<Self> {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        ensure!(!name.is_empty(), "{}: a world is a folder with a name", folder.display());
        let mut files = BTreeMap::new();
        let listed = std::fs::read_dir(folder)
            .with_context(|| format!("{}: the folder of a world cannot be read", folder.display()))?;
        for entry in listed {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let size = path.metadata()?.len();
                ensure!(size <= FILE_BYTES_MAX, "{}: {size} bytes are too many for a world", path.display());
                files.insert(path.clone(), std::fs::read_to_string(&path)?);
            }
        }
        let world_file = folder.join(WORLD_FILE);
        let Some(text) = files.remove(&world_file) else {
            bail!("{}: not there; it says what the world is about", world_file.display());
        };
        let WorldFile { about, agents } = parsed(&world_file, &text)?;
        check::agents(&world_file, &agents)?;
        let workflows: Vec<Workflow> =
            files.iter().map(|(path, text)| workflow(path, text)).collect::<Result<_>>()?;
        ensure!(!workflows.is_empty(), "{}: a world has a file for each workflow besides", folder.display());
        ensure!(
            workflows.len() <= WORKFLOWS_MAX,
            "{}: more than {WORKFLOWS_MAX} workflows",
            folder.display()
        );
        Ok(Self { name, about, agents, workflows })
    }
}

fn workflow(path: &Path, text: &str) -> Result<Workflow> {
    let mut workflow: Workflow = parsed(path, text)?;
    workflow.name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    check::workflow(path, text, &workflow)?;
    Ok(workflow)
}

/// A file as it was meant; otherwise `file:line: what is wrong`.
fn parsed<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        anyhow::anyhow!("{}:{line}: {}", path.display(), error.message())
    })
}

/// The line of a byte, from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
pub(crate) mod tests;
