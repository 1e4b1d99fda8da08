//! Runs `retro completions` and `retro man`, which print what a package installs beside the program.

use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Exit;
use crate::output;

/// Prints the completion script of a shell.
pub(crate) fn print_completions(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "retro", &mut script);
    output::print_text(&String::from_utf8(script).context("a completion script is UTF-8")?)?;
    Ok(Exit::Done)
}

/// Writes a manual page for each command into a folder, such as `retro-memories-list.1`. Creates the folder.
pub(crate) fn write_manual(folder: &Path) -> anyhow::Result<Exit> {
    let problem = || format!("{} cannot be written", folder.display());
    std::fs::create_dir_all(folder).with_context(problem)?;
    clap_mangen::generate_to(Cli::command(), folder).with_context(problem)?;
    let pages = std::fs::read_dir(folder).with_context(problem)?.count();
    output::print_notice(&format!("{pages} manual pages are in {}", folder.display()));
    Ok(Exit::Done)
}
