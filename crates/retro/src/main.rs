#![doc = include_str!("../README.md")]

mod allocator;
mod broker;
mod cases;
mod cli;
mod clock;
mod commands;
mod data_folder;
mod embedder;
mod emit;
mod exit;
mod github;
mod instance;
mod logging;
mod model;
mod operator_commands;
mod outgoing;
mod output;
mod policies;
mod process;
mod run_importer;
mod serve;
mod store;
mod telemetry;
mod up;
mod validate;

#[cfg(test)]
#[path = "shipped/tests.rs"]
mod shipped;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use retro_config::{LoadedConfig, Origin, Problems};
use retro_core::printable::is_printable;
use tracing_subscriber::EnvFilter;

use crate::cli::{Cli, Command, ConfigCommand, LogFormat, Output, refuse_misplaced_options};
use crate::exit::Exit;

fn main() -> ExitCode {
    // Must run before any other thread starts.
    allocator::limit_retained_memory();
    logging::install_panic_hook();
    let cli = parse_command_line().unwrap_or_else(|problem| exit_with_usage(&problem));
    // A git hook must be readable for everyone who works with the repository.
    if !matches!(cli.command, Command::Git(_)) {
        data_folder::restrict_umask();
    }
    match run_program(&cli) {
        Ok(exit) => exit.into(),
        Err(problem) => {
            output::print_notice(&format!("retro: {}", describe_error(&problem)));
            exit_of_error(&problem)
        }
    }
}

/// Returns the exit code of an error: that of a check for mistakes in the configuration or the pipelines, whichever command
/// found them.
fn exit_of_error(problem: &anyhow::Error) -> ExitCode {
    match problem.downcast_ref::<Problems>() {
        Some(_) => Exit::ProblemFound.into(),
        None => ExitCode::from(1),
    }
}

/// Parses the arguments of the process.
fn parse_command_line() -> Result<Cli, clap::Error> {
    let matches = Cli::command().try_get_matches()?;
    let mut command = Cli::command();
    command.build();
    refuse_misplaced_options(&command, &matches)?;
    Cli::from_arg_matches(&matches).map_err(|problem| problem.format(&mut Cli::command()))
}

/// Prints the help or the usage error and exits. If an argument is not printable, the message is printed
/// without colours, because making it printable would also escape the colour codes.
fn exit_with_usage(problem: &clap::Error) -> ! {
    let printable = std::env::args_os().all(|argument| is_printable(&argument.to_string_lossy()));
    if printable {
        problem.exit()
    }
    output::print_notice(problem.render().to_string().trim_end());
    std::process::exit(problem.exit_code())
}

/// Joins the messages of an error and its causes, leaving out causes that the preceding message already
/// contains.
fn describe_error(problem: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in problem.chain().map(ToString::to_string) {
        if parts.last().is_none_or(|last| !last.contains(&cause)) {
            parts.push(cause);
        }
    }
    parts.join(": ")
}

fn run_program(cli: &Cli) -> anyhow::Result<Exit> {
    if cli.global.output == Output::Markdown && !cli.command.has_markdown_form() {
        output::print_notice("retro: this command has no Markdown form: use -o table or -o json");
        return Ok(Exit::UsageError);
    }
    let loaded = match (load_config(cli), &cli.command) {
        (Err(problems), Command::Config(ConfigCommand::Check)) => {
            return commands::configuration::report_problems(cli.global.output, problems.sentences());
        }
        (loaded, _) => loaded?,
    };
    let serving = matches!(cli.command, Command::Up(_) | Command::Serve(_));
    logging::init_logging(&loaded.config.log, parse_log_format(&loaded)?, serving);
    let telemetry = telemetry::start_telemetry(&cli.command, &loaded.config);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit =
        runtime.block_on(commands::run_command(cli, loaded, telemetry::build_scrape(telemetry.as_ref())));
    // A released investigation may still be computing on its own thread; do not wait for it.
    runtime.shutdown_background();
    match (&telemetry, &exit) {
        // After a second signal, the user does not want to wait for the flush.
        (_, Ok(Exit::Signalled(_))) | (None, _) => {}
        (Some(telemetry), _) => telemetry.shutdown(),
    }
    exit
}

/// Loads the configuration from the file and the environment and applies the global options.
fn load_config(cli: &Cli) -> Result<LoadedConfig, Problems> {
    // Invalid UTF-8 is shown lossily in the error; a skipped variable would seem to be unset.
    let text = |text: OsString| text.to_string_lossy().into_owned();
    let variables = std::env::vars_os().map(|(name, value)| (text(name), text(value)));
    let mut loaded = retro_config::load_config(cli.global.config.as_deref(), variables)?;
    if let Some(data_dir) = &cli.global.data_dir {
        loaded.config.data_dir.clone_from(data_dir);
        loaded.origins.insert("data_dir".to_owned(), Origin::Option("--data-dir"));
    }
    if let Some(format) = cli.global.log_format {
        loaded.config.log_format = format.as_str().to_owned();
        loaded.origins.insert("log_format".to_owned(), Origin::Option("--log-format"));
    }
    parse_log_format(&loaded)?;
    // Only the logging library knows the syntax of this value.
    match EnvFilter::try_new(&loaded.config.log) {
        Ok(_) => Ok(loaded),
        Err(problem) => Err(loaded.reject_value("log", &format!("is \"{}\": {problem}", loaded.config.log))),
    }
}

/// Parses the configured format of the log.
fn parse_log_format(loaded: &LoadedConfig) -> Result<LogFormat, Problems> {
    let format = &loaded.config.log_format;
    let known = LogFormat::parse(format);
    known.ok_or_else(|| {
        loaded.reject_value("log_format", &format!("is {format:?}, which is neither text nor json"))
    })
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::describe_error;

    #[test]
    fn a_cause_is_printed_once() {
        let problem =
            anyhow!("in use").context("cannot listen: in use; choose another port").context("no start");
        assert_eq!(describe_error(&problem), "no start: cannot listen: in use; choose another port");
        assert_eq!(describe_error(&anyhow!("in use").context("cannot listen")), "cannot listen: in use");
    }
}
