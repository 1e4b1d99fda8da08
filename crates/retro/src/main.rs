#![doc = include_str!("../README.md")]

mod allocator;
mod cli;
mod clock;
mod commands;
mod data_folder;
mod embedder;
mod emit;
mod hands;
mod instance;
mod logging;
mod output;
mod policies;
mod process;
mod serve;
mod store;
mod telemetry;
mod up;

#[cfg(test)]
#[path = "shipped/tests.rs"]
mod shipped;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use retro_config::{Loaded, Origin, Problems};
use retro_core::printable::is_printable;
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command, ConfigCommand};
use crate::commands::Exit;

fn main() -> ExitCode {
    allocator::give_back_freed_memory();
    logging::tell_panics();
    let cli = Cli::try_parse().unwrap_or_else(|problem| refuse_arguments(&problem));
    // Git's hooks are for whoever works with the repository.
    if !matches!(cli.command, Command::Git(_)) {
        data_folder::restrict_umask();
    }
    match run(&cli) {
        Ok(exit) => exit.into(),
        Err(problem) => {
            output::told(&format!("retro: {}", sentence(&problem)));
            ExitCode::from(1)
        }
    }
}

/// Prints help or what is wrong with the arguments, and ends. An argument may be anybody's: one that is not printable is told
/// without the colours, which would be lost among its codes.
fn refuse_arguments(problem: &clap::Error) -> ! {
    let printable = std::env::args_os().all(|argument| is_printable(&argument.to_string_lossy()));
    if printable {
        problem.exit()
    }
    output::told(problem.render().to_string().trim_end());
    std::process::exit(problem.exit_code())
}

/// The problem with its causes; one that its consequence has told already is not told again.
fn sentence(problem: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in problem.chain().map(ToString::to_string) {
        if parts.last().is_none_or(|last| !last.contains(&cause)) {
            parts.push(cause);
        }
    }
    parts.join(": ")
}

fn run(cli: &Cli) -> anyhow::Result<Exit> {
    let loaded = match (load(cli), &cli.command) {
        (Err(problems), Command::Config(ConfigCommand::Check)) => {
            return commands::configuration::not_in_order(cli.global.output, problems.sentences());
        }
        (loaded, _) => loaded?,
    };
    logging::log_to_stderr(&loaded.config, matches!(cli.command, Command::Up(_) | Command::Serve(_)));
    let telemetry = telemetry::start(&cli.command, &loaded.config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit = runtime.block_on(commands::run(cli, loaded, telemetry::scrape(telemetry.as_ref())));
    // An investigation that was released may still compute on a thread of its own; nobody waits for it.
    runtime.shutdown_background();
    match (&telemetry, &exit) {
        // Who asks twice does not want to wait.
        (_, Ok(Exit::Signalled(_))) | (None, _) => {}
        (Some(telemetry), _) => telemetry.flush(),
    }
    exit
}

/// File and environment, and over them the options that every command takes.
fn load(cli: &Cli) -> Result<Loaded, Problems> {
    // What is not UTF-8 is shown so in the error; left out, it would seem not to be there.
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let mut loaded = retro_config::load(cli.global.config.as_deref(), variables)?;
    if let Some(data_dir) = &cli.global.data_dir {
        loaded.config.data_dir.clone_from(data_dir);
        loaded.origins.insert("data_dir".to_owned(), Origin::Option("--data-dir"));
    }
    // Only what writes the log knows its syntax.
    match EnvFilter::try_new(&loaded.config.log) {
        Ok(_) => Ok(loaded),
        Err(problem) => Err(loaded.refuse("log", &format!("is \"{}\": {problem}", loaded.config.log))),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::sentence;

    #[test]
    fn a_cause_is_told_once() {
        let problem =
            anyhow!("in use").context("cannot listen: in use; choose another port").context("no start");
        assert_eq!(sentence(&problem), "no start: cannot listen: in use; choose another port");
        assert_eq!(sentence(&anyhow!("in use").context("cannot listen")), "cannot listen: in use");
    }
}
