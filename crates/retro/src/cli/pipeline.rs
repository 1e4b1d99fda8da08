//! Defines the subcommands of `retro pipeline`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use retro_core::id::Workflow;

use super::audit::AuditArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum PipelineCommand {
    /// Check the settings and the prompts of all pipelines; report file, line and key of every mistake.
    Check {
        /// Pipelines folder to check [default: the configured one].
        folder: Option<PathBuf>,
    },
    /// Print the effective settings and prompts of all pipelines: each value, its source and its meaning.
    Explain {
        /// Include the values of this workflow [default: common values only].
        #[arg(long)]
        workflow: Option<Workflow>,
    },
    /// Show what the pipelines change: their values and the lines of their prompts.
    Diff(DiffArgs),
    /// List the versions of the pipelines under which there were retrospectives or reviews, newest first, with what became of
    /// their memories.
    Versions,
    /// Write a stored version back into the configured folder. What it replaces is kept beside it.
    Revert(RevertArgs),
    /// Play the cases of the pipelines, in memory and without a network; report each expectation that was not met.
    Test(TestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RevertArgs {
    /// Version to write, by the first 4 or more digits of its hash.
    pub(crate) version: String,
    #[command(flatten)]
    pub(crate) act: AuditArgs,
}

#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Pipelines folder to test [default: the configured one].
    pub(crate) folder: Option<PathBuf>,
    /// Case to play, or folder of cases [default: `retrospective/cases` and `review/cases` of the folder].
    #[arg(long, value_name = "PATH")]
    pub(crate) cases: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// What to compare with: another pipelines folder, or a stored version by the first 4 or more digits of its hash
    /// [default: the built-in pipeline].
    pub(crate) other: Option<String>,
    /// Pipelines folder to compare [default: the configured one].
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: Option<PathBuf>,
}
