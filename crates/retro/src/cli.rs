//! The command line: what every command takes, and the commands that stand alone. A group of commands has a file of its own.

mod dead_letters;
mod git;
mod letter_filter;
mod letters;
mod losses;
mod memories;
mod retrospectives;
mod rules;
mod who;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use retro_adapters::TASK_BYTES_MAX;
use retro_core::id::{RetrospectiveId, RunId, Step, Tenant, Workflow};
use retro_core::review::Repository;
use retro_core::run::Outcome;

pub(crate) use self::dead_letters::{ChosenArgs, DeadLetters, Discard, Replay};
pub(crate) use self::git::{Git, InstallHook};
pub(crate) use self::letter_filter::LetterFilterArgs;
pub(crate) use self::letters::{EditLetter, ExportLetters, ListLetters, ShowLetter};
pub(crate) use self::losses::Losses;
pub(crate) use self::memories::Memories;
pub(crate) use self::retrospectives::{Proposals, Retrospectives, Trigger};
pub(crate) use self::rules::{Rules, repository};
pub(crate) use self::who::ActArgs;

/// Looks back at the runs of agent workflows, keeps what recurs, and hands it to the next run.
///
/// Data goes to stdout, everything else to stderr. Exit codes: 0 done; 1 failed; 2 wrong usage; 3 not found;
/// 4 something was looked at and is not in order (`verify`, `doctor`, `ready`, `config check`, `pipeline check`, refused
/// files of `emit`); 5 it ended itself, since work hung that nothing else could end: start it again (`up`, `serve`); 130 or 143 ended at once by a second signal (`up`, `serve`).
#[derive(Debug, Parser)]
#[command(name = "retro", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Folder of the database, the broker's store and `instance.json` [default: .retro].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Configuration file [default: retro.toml, when it is there].
    #[arg(long, global = true, value_name = "FILE", env = "RETRO_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The tenant to act for.
    #[arg(long, global = true, default_value = "default", env = "RETRO_TENANT")]
    pub(crate) tenant: Tenant,
    /// How data is printed.
    #[arg(short, long, global = true, value_enum, default_value = "table")]
    pub(crate) output: Output,
}

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run everything in one process: SQLite and a supervised nats-server, both under the data folder.
    Up(Up),
    /// Run one or more roles of a fleet, over the broker of NATS_URL and the database of DATABASE_URL.
    Serve(Serve),
    /// Bring the database to this version, and where NATS_URL is set make the broker's streams and consumers.
    Migrate(Migrate),
    /// Send finished runs: CloudEvents, ATIF, SWE-agent `.traj` or tau2 results, plain or `.zst`.
    Emit(Emit),
    /// Workflows: where the window of each stands, and until when it pauses.
    Workflows,
    /// Runs that were counted or recorded.
    Runs(Runs),
    /// What became of the runs' pull requests: approved, sent back, merged, closed; by workflow.
    Outcomes(Outcomes),
    /// Commits that name the run which made them.
    #[command(subcommand)]
    Git(Git),
    /// Memories: what they say, why they are there, and how to be rid of one.
    #[command(subcommand)]
    Memories(Memories),
    /// Rules of repositories, which reviews have taught: who asked for each, and what people do about them.
    #[command(subcommand)]
    Rules(Rules),
    /// Retrospectives: windows, samples and how far they are.
    #[command(subcommand)]
    Retrospectives(Retrospectives),
    /// What manual retrospectives propose: accept or refuse.
    #[command(subcommand)]
    Proposals(Proposals),
    /// Reports of retrospectives.
    #[command(subcommand)]
    Reports(Reports),
    /// Messages that could not be handled.
    #[command(subcommand)]
    DeadLetters(DeadLetters),
    /// What was lost with the broker's data: see it, and close what was told wrongly.
    #[command(subcommand)]
    Losses(Losses),
    /// What the next run of a step is handed.
    Context(Context),
    /// Check every invariant on the live store.
    Verify,
    /// Print memories, changes and reports in a form that is equal for equal histories.
    Export(Export),
    /// The program's configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// The policy of learning, from the pipelines folder.
    #[command(subcommand)]
    Pipeline(PipelineCommand),
    /// Print the HTTP side's description: an OpenAPI document, as served at `/v1/openapi.json`.
    Openapi,
    /// Check what the program needs: folders, database, nats-server, addresses.
    Doctor,
    /// Ask the process that listens here whether it is ready; names what is missing.
    Ready,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Address of the HTTP side; loopback only, port 0 for any free one [default: 127.0.0.1:7717].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http_listen: Option<std::net::SocketAddr>,
    /// Port of the supervised nats-server [default: a free one].
    #[arg(long, value_name = "PORT")]
    pub(crate) nats_port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// What this process does: counter, sampler, investigator, writer, reviewer, tracker, gateway, bridge, relay. Several by commas or by
    /// repeating it; every role may run in any number of processes.
    #[arg(long = "role", required = true, value_delimiter = ',', value_name = "ROLE")]
    pub(crate) roles: Vec<retro_bus::Role>,
    /// Address of the gateway's HTTP side; loopback only, port 0 for any free one [default: 127.0.0.1:7717].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http_listen: Option<std::net::SocketAddr>,
    /// Address of `/livez` and `/readyz` alone; any, port 0 for any free one [default: none].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) health_listen: Option<std::net::SocketAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Makes the broker's streams this database's, although they belong to another one: after a move to another database,
    /// with every process stopped.
    #[arg(long)]
    pub(crate) take_over: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Emit {
    /// Files to send.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Workflow of runs whose file names none, and instead of the one it names.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Task of runs whose file names none: runs of one task are compared with each other by `retro memories effect`. Events keep
    /// their own.
    #[arg(long, value_parser = task)]
    pub(crate) task: Option<String>,
    /// Outcome of runs whose file names none: success, failure, error, timeout, cancellation or skip. Without it theirs is
    /// unknown: they are counted, and evidence for nothing.
    #[arg(long, value_parser = outcome)]
    pub(crate) outcome: Option<Outcome>,
    /// Send every event under a new id; the runs stay the same.
    #[arg(long)]
    pub(crate) new_event_ids: bool,
    /// After so many events of a workflow wait until no retrospective of it is due or open.
    #[arg(long, value_name = "RUNS")]
    pub(crate) pace: Option<u64>,
    /// Send at most so many events of each file, after skipping `--skip`.
    #[arg(long, value_name = "RUNS")]
    pub(crate) take: Option<usize>,
    /// Skip so many events of each file.
    #[arg(long, value_name = "RUNS", default_value_t = 0)]
    pub(crate) skip: usize,
}

fn task(text: &str) -> Result<String, String> {
    let fits = (1..=TASK_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control);
    fits.then(|| text.to_owned())
        .ok_or_else(|| format!("1 to {TASK_BYTES_MAX} bytes without control characters"))
}

fn outcome(text: &str) -> Result<Outcome, String> {
    serde_json::from_value(text.into()).map_err(|problem| problem.to_string())
}

#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Only of this workflow.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Only this run.
    #[arg(long)]
    pub(crate) run: Option<RunId>,
    /// At most so many, the newest first.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Outcomes {
    /// Only of this workflow.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Reports {
    /// List reports, the newest first.
    List {
        /// Only of this workflow.
        #[arg(long)]
        workflow: Option<Workflow>,
        /// At most so many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one report.
    Show {
        /// The retrospective's id, or that of a report about reviews.
        id: RetrospectiveId,
        /// As Markdown instead of a table.
        #[arg(long)]
        markdown: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Context {
    /// The workflow.
    #[arg(long)]
    pub(crate) workflow: Workflow,
    /// The step.
    #[arg(long, default_value = "main")]
    pub(crate) step: Step,
    /// The run that will see the answer: it is recorded as presented. Without one it is a preview.
    #[arg(long)]
    pub(crate) run: Option<RunId>,
    /// The repository that the run works on, owner/name: its rules are handed out as well.
    #[arg(long, value_parser = repository)]
    pub(crate) repo: Option<Repository>,
    /// Paths that it touches, separated by commas: rules for other paths are left out.
    #[arg(long, value_delimiter = ',', value_name = "PATH,…", requires = "repo")]
    pub(crate) paths: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Without wall-clock columns, durations, costs and global sequences.
    #[arg(long, required = true)]
    pub(crate) canonical: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check configuration and pipelines; names file, line and key.
    Check,
    /// Print the configuration in force, without secrets.
    Print,
    /// Print the broker's users of a fleet with these tenants, for `nats/users.conf`.
    NatsUsers {
        /// The tenants whose engines and listeners connect to the broker.
        #[arg(required = true, value_name = "TENANT")]
        tenants: Vec<Tenant>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum PipelineCommand {
    /// Check the pipelines folder; names file, line and key of every mistake.
    Check {
        /// Another folder than the one in force.
        folder: Option<PathBuf>,
    },
    /// Print the policy in force, where each value came from and what it means.
    Explain {
        /// With what this workflow has of its own; without one, what is common.
        #[arg(long)]
        workflow: Option<Workflow>,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
