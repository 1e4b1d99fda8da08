//! Defines the command line: the global options and the commands without subcommands. Each group of
//! subcommands has its own file.

mod audit;
mod dead_letter_args;
mod dead_letter_filter;
mod dead_letters;
mod git;
mod github;
mod import;
mod kill_switches;
mod log_format;
mod losses;
mod markdown;
mod memories;
mod noun;
mod pipeline;
mod reports;
mod repository;
mod retrospectives;
mod rules;
mod runs;
mod tokens;
mod variant;
mod workflows;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use retro_core::audience::RepoVisibility;
use retro_core::id::{Repository, RunId, Step, Tenant, Workflow};

pub(crate) use self::audit::AuditArgs;
pub(crate) use self::dead_letter_args::{EditDeadLetter, ExportDeadLetters, ListDeadLetters, ShowDeadLetter};
pub(crate) use self::dead_letter_filter::DeadLetterFilterArgs;
pub(crate) use self::dead_letters::{DeadLetters, Discard, Replay, SelectionArgs};
pub(crate) use self::git::{Git, InstallHook};
pub(crate) use self::github::{Github, GithubSync};
pub(crate) use self::import::ImportArgs;
pub(crate) use self::kill_switches::{KillSwitches, ListKillSwitches, SetKillSwitch};
pub(crate) use self::log_format::LogFormat;
pub(crate) use self::losses::{ListLosses, Losses};
pub(crate) use self::memories::{
    AttributedArgs, FeedbackArgs, ListMemories, Memories, MemoryChanges, MemoryCommandArgs, SearchMemories,
};
pub(crate) use self::noun::{Noun, refuse_misplaced_options};
pub(crate) use self::pipeline::{DiffArgs, PipelineCommand, RevertArgs, TestArgs};
pub(crate) use self::reports::{ListOutcomes, ListReports, OutcomeCommand, ReportCommand};
pub(crate) use self::repository::parse_repository;
pub(crate) use self::retrospectives::{
    ListProposals, ListRetrospectives, ProposalCommand, Retrospectives, Trigger,
};
pub(crate) use self::rules::{ListRules, Rules};
pub(crate) use self::runs::{ListRuns, RunCommand, ShowRun};
pub(crate) use self::tokens::{CreateToken, ListTokens, Tokens};
use self::variant::parse_variant;
pub(crate) use self::workflows::{WorkflowCommand, Workflows};

/// Retrospect learns from finished runs of agent workflows and gives the next run what it learned.
///
/// Data goes to stdout, everything else to stderr.
///
/// Exit codes: 0 success; 1 failure; 2 usage error; 3 not found; 4 a check found a problem (`verify`,
/// `doctor`, `ready`, `config check`, `pipeline check`, `pipeline test`, and any command that finds mistakes in the
/// configuration or a pipeline), or a file or a request was refused; 5 the process ended itself because work hung and
/// could not be stopped, and should be restarted (`up`, `serve`); 130 or 143 a second signal ended the process
/// immediately (`up`, `serve`).
#[derive(Debug, Parser)]
#[command(name = "retro", version, max_term_width = 110)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Global options, accepted by every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Data folder for the SQLite database, the supervised broker and `instance.json` [default: .retro].
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Configuration file [default: retro.toml if it exists].
    #[arg(long, global = true, value_name = "FILE", env = "RETRO_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Tenant that the command works on.
    #[arg(long, global = true, default_value = "default", env = "RETRO_TENANT")]
    pub(crate) tenant: Tenant,
    /// Format of the log on stderr [default: the configured one, text unless set].
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub(crate) log_format: Option<LogFormat>,
    /// Format of the output on stdout.
    #[arg(short, long, global = true, value_enum, default_value = "table")]
    pub(crate) output: Output,
}

/// Output format of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Human-readable table or text.
    Table,
    /// JSON document.
    Json,
    /// GitHub-flavoured Markdown, for commands that list or show.
    Markdown,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run all roles in one process, by default with a supervised nats-server and SQLite in the data folder.
    Up(Up),
    /// Run one or more roles of a fleet, using the broker at NATS_URL and the database at DATABASE_URL.
    Serve(Serve),
    /// Apply database migrations and, if NATS_URL is set, create the broker's streams and consumers.
    Migrate(Migrate),
    /// Send finished runs from files: CloudEvents, ATIF, transcripts of Claude Code or Codex CLI, chat messages, SWE-agent
    /// `.traj` or tau2 results, plain or `.zst`.
    Emit(Emit),
    /// Say what is understood of the runs in files (steps, calls, failures) without sending them.
    Validate(Validate),
    /// List workflows with the size of their window and any pause, or show the calls and failures of one.
    Workflows(Workflows),
    /// List stored runs, newest first, or show one in full.
    Runs(Noun<RunCommand, ListRuns>),
    /// Show the outcomes of the runs' pull requests by workflow: approved, changes requested, merged, closed.
    Outcomes(Noun<OutcomeCommand, ListOutcomes>),
    /// Install a git hook that records in each commit which run made it.
    #[command(subcommand)]
    Git(Git),
    /// Fetch what a bridge missed from GitHub's REST API.
    #[command(subcommand)]
    Github(Github),
    /// List, inspect, write and change memories.
    Memories(Noun<Memories, ListMemories>),
    /// List and manage the rules learned from code reviews.
    Rules(Noun<Rules, ListRules>),
    /// List, inspect, cancel and trigger retrospectives.
    Retrospectives(Noun<Retrospectives, ListRetrospectives>),
    /// List, accept and refuse the proposals of manual retrospectives.
    Proposals(Noun<ProposalCommand, ListProposals>),
    /// List the reports of retrospectives, or show a single report.
    Reports(Noun<ReportCommand, ListReports>),
    /// List, inspect, edit, replay and discard messages that could not be handled.
    DeadLetters(Noun<DeadLetters, ListDeadLetters>),
    /// List messages that were lost with the broker's data, and close false or accepted losses.
    Losses(Noun<Losses, ListLosses>),
    /// Stop that memories are handed out, for a step, a workflow, a tenant or everybody, and go on.
    KillSwitches(Noun<KillSwitches, ListKillSwitches>),
    /// Create, list and revoke the access tokens of the HTTP API.
    Tokens(Noun<Tokens, ListTokens>),
    /// Show the context (memories and rules) that the next run of a step would get.
    Context(Context),
    /// Serve memories to one agent over the Model Context Protocol on stdin and stdout, from the local database.
    Mcp,
    /// Check all invariants of the stored data, even while Retrospect is running; fails on an empty store.
    Verify,
    /// Print the tenant's memories, changes and reports as canonical JSON lines.
    Export(Export),
    /// Check and print the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check, explain, test and compare the pipeline: the learning policy and the prompts.
    #[command(subcommand)]
    Pipeline(PipelineCommand),
    /// Print the OpenAPI document of the HTTP API, as served at `/v1/openapi.json`.
    Openapi,
    /// Print the completion script of a shell: `source <(retro completions bash)`.
    Completions {
        /// Shell that reads the script.
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command into a folder.
    Man {
        /// Folder, which is created if it does not exist.
        folder: PathBuf,
    },
    /// Check the environment: data folder, database, nats-server, addresses, webhooks, policy, embedder and language model.
    Doctor,
    /// Check that the `retro up` or `retro serve` process on this machine is ready; print what is missing.
    Ready,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// Listen address of the HTTP API; other than on loopback, each request needs an access token. Port 0 picks a
    /// free port [default: 127.0.0.1:7717].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http_listen: Option<std::net::SocketAddr>,
    /// Port of the supervised nats-server [default: a free port].
    #[arg(long, value_name = "PORT")]
    pub(crate) nats_port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Role to run: counter, sampler, investigator, writer, reviewer, tracker, gateway, bridge or relay.
    /// Separate several with commas or repeat the option. Every role may run in any number of processes.
    #[arg(long = "role", required = true, value_delimiter = ',', value_name = "ROLE")]
    pub(crate) roles: Vec<retro_bus::Role>,
    /// Listen address of the gateway's HTTP API; other than on loopback, each request needs an access token. Port 0
    /// picks a free port [default: 127.0.0.1:7717].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http_listen: Option<std::net::SocketAddr>,
    /// Additional listen address for `/livez`, `/readyz` and `/metrics` only; may be reachable from other
    /// machines, port 0 picks a free port [default: none].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) health_listen: Option<std::net::SocketAddr>,
}

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Take over streams that belong to another database. Use this after moving to a new database, while all
    /// processes are stopped.
    #[arg(long)]
    pub(crate) take_over: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Emit {
    /// Files to send.
    #[arg(required_unless_present = "watch", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Watch this folder and the folders in it until a signal arrives, and send each file once when it is finished. Names
    /// that begin with a dot or end like `.tmp` are ignored.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["files", "new_event_ids", "pause_every", "limit", "skip"])]
    pub(crate) watch: Option<PathBuf>,
    /// With `--watch`: time in seconds without a change after which a file is finished. One that is renamed into place, or
    /// was older when it came, is finished at once. A transcript that goes on later is sent again, as the same run.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub(crate) settle_s: u64,
    /// With `--watch`: where sent files are remembered [default: `.retro-emit-sent` in the folder].
    #[arg(long, value_name = "FILE", requires = "watch")]
    pub(crate) sent_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    /// Send every event under a new event id; run ids stay the same.
    #[arg(long)]
    pub(crate) new_event_ids: bool,
    /// Pause after this many runs of a workflow until no retrospective of the workflow is due or open
    /// [default: no pauses].
    #[arg(long, value_name = "RUNS")]
    pub(crate) pause_every: Option<u64>,
    /// Maximum number of runs to send from each file, after `--skip` [default: all].
    #[arg(long, value_name = "RUNS")]
    pub(crate) limit: Option<usize>,
    /// Number of runs to skip at the beginning of each file.
    #[arg(long, value_name = "RUNS", default_value_t = 0)]
    pub(crate) skip: usize,
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Files to read.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
}

#[derive(Debug, Args)]
pub(crate) struct Context {
    /// Workflow of the step.
    #[arg(long)]
    pub(crate) workflow: Workflow,
    /// Name of the step.
    #[arg(long, default_value = "main")]
    pub(crate) step: Step,
    /// Id of the run that receives the context; the memories are recorded as presented to it [default:
    /// preview only, nothing is recorded].
    #[arg(long)]
    pub(crate) run: Option<RunId>,
    /// Repository that the run works on, as [host/]owner/name; adds the repository's rules.
    #[arg(long, value_parser = parse_repository)]
    pub(crate) repo: Option<Repository>,
    /// Who may read the repository: public or private. What several private repositories have shown is handed to
    /// private ones only.
    #[arg(long, value_parser = parse_variant::<RepoVisibility>, requires = "repo")]
    pub(crate) repo_visibility: Option<RepoVisibility>,
    /// Paths that the run touches, separated by commas; leaves out rules for other paths.
    #[arg(long, value_delimiter = ',', value_name = "PATH,…", requires = "repo")]
    pub(crate) paths: Vec<String>,
    /// What the run is about to do, in plain text; memories and rules about it come first.
    #[arg(long, value_name = "TEXT")]
    pub(crate) task: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Export {
    /// Leave out wall-clock times, durations, costs and global sequence numbers, so equal histories give
    /// equal output. This option is required.
    #[arg(long, required = true)]
    pub(crate) canonical: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check the configuration and the learning policy; report file, line and key of every mistake.
    Check,
    /// Print the effective configuration and the source of each value, without secrets.
    Print,
    /// Print the broker users for a fleet with these tenants, in the format of `nats/users.conf`.
    NatsUsers {
        /// Let the users log in with nkeys instead of passwords. The seed of each user is in this folder, in
        /// `<user>.nk`; one that is missing is generated.
        #[arg(long, value_name = "FOLDER")]
        nkeys: Option<PathBuf>,
        /// Tenants, each of which gets the users `engine-<tenant>` and `reader-<tenant>`.
        #[arg(required = true, value_name = "TENANT")]
        tenants: Vec<Tenant>,
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
