//! Defines the arguments of `retro git`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Git {
    /// Install a git hook that adds the id of the agent's run to each commit, to attribute the outcome of a
    /// pull request to the run.
    ///
    /// Installs the hook `prepare-commit-msg` in the directory where git looks for hooks (`core.hooksPath`,
    /// or the directory shared by all working trees of the repository). The hook adds the trailers
    /// `Retro-Run` and `Retro-Prompt-Version` from the variables RETRO_RUN_ID, RETRO_WORKFLOW and
    /// RETRO_PROMPT_VERSION. Without RETRO_RUN_ID it does nothing. It never blocks a commit itself. Rebased
    /// commits keep the run that made them.
    InstallHook(InstallHook),
}

#[derive(Debug, Args)]
pub(crate) struct InstallHook {
    /// Repository in which to install the hook, or a directory in it [default: current directory].
    #[arg(long, value_name = "DIR")]
    pub(crate) repository: Option<PathBuf>,
    /// Keep an existing hook and run it first.
    #[arg(long, conflicts_with = "uninstall")]
    pub(crate) chain: bool,
    /// Remove the hook and restore the one kept by `--chain`.
    #[arg(long)]
    pub(crate) uninstall: bool,
}
