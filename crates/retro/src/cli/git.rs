//! `retro git`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Git {
    /// Name an agent's run in the commits that it makes, so that what becomes of their pull request is known to be the run's.
    ///
    /// Installs a hook `prepare-commit-msg` where git looks for it (`core.hooksPath`, or the folder that all working trees
    /// of the repository share). It adds the trailers `Retro-Run` and `Retro-Prompt-Version` from the variables RETRO_RUN_ID,
    /// RETRO_WORKFLOW and RETRO_PROMPT_VERSION; without the first it does nothing, and it never stops a commit. Commits that a
    /// rebase moves stay those of the runs that made them.
    InstallHook(InstallHook),
}

#[derive(Debug, Args)]
pub(crate) struct InstallHook {
    /// The repository, or a folder in it [default: where you are].
    #[arg(long, value_name = "DIR")]
    pub(crate) repository: Option<PathBuf>,
    /// Where somebody else's hook stands at the place: keep it, and run it before ours.
    #[arg(long, conflicts_with = "uninstall")]
    pub(crate) chain: bool,
    /// Take the hook away, and put back the one that was kept.
    #[arg(long)]
    pub(crate) uninstall: bool,
}
