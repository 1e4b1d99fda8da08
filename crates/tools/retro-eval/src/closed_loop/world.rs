//! Reads worlds: folders of files that define the errors in invented workflows, their remedies, and the words
//! of a true memory.
//!
//! The README documents the format. Invalid files are rejected with file and line.

mod cause;
mod fact;
mod format;
mod parts;
mod validate;
mod values;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use validate::line_of;

pub(crate) use cause::{Cause, CauseRemedy, UsualPlace};
pub(crate) use format::{AgentHabits, Noise, Step, Trap, Workflow};
pub(crate) use parts::{AfterFix, MemoryPattern, Otherwise};
pub(crate) use values::{DrawnValues, Values, placeholder_names};

/// Name of the file with the description of a world and the habits of its agents.
const WORLD_FILE: &str = "world.toml";
/// Maximum number of workflows in a world.
const WORKFLOWS_MAX: usize = 100;
/// Maximum size of a file of a world, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A simulated world with its agents and workflows.
#[derive(Debug, Clone)]
pub struct World {
    /// Name of the world's folder.
    pub name: String,
    /// Description of the world in one sentence.
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

impl World {
    /// Reads a world from `world.toml`, and its workflows from all other `.toml` files, sorted by name.
    ///
    /// Fails at the first file that cannot be read or is invalid, with file and line.
    pub fn read_folder(folder: &Path) -> Result<Self> {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        ensure!(!name.is_empty(), "{}: the folder of a world has no name", folder.display());
        let mut files = BTreeMap::new();
        let listed = std::fs::read_dir(folder)
            .with_context(|| format!("{}: the folder of a world cannot be read", folder.display()))?;
        for entry in listed {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                // Checked before reading, so a huge file is never loaded.
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
        // Removed, because all remaining files are workflows.
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
    let facts = workflow.facts.iter().map(|fact| fact.get_ref());
    workflow.fact_causes =
        facts.enumerate().map(|(at, fact)| fact.as_cause(format!("fact {}/{at}", fact.tool))).collect();
    workflow.name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    validate::validate_workflow(path, text, &workflow)?;
    Ok(workflow)
}

/// Parses the text of a file. Fails with `file:line: problem`.
fn parse_toml<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        anyhow::anyhow!("{}:{line}: {}", path.display(), error.message())
    })
}

#[cfg(test)]
pub(crate) mod tests;
