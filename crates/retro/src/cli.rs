//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use retro_core::dead_letter::Code;
use retro_core::id::{DeadLetterId, MemoryRef, ProposalId, RetrospectiveId, RunId, Step, Tenant, Workflow};
use retro_store::ProposalStatus;

/// Looks back at the runs of agent workflows, keeps what recurs, and hands it to the next run.
///
/// Data goes to stdout, everything else to stderr. Exit codes: 0 done; 1 failed; 2 wrong usage; 3 not found;
/// 4 something was looked at and is not in order (`verify`, `doctor`, `ready`, `config check`, `pipeline check`, refused
/// files of `emit`); 130 or 143 ended at once by a second signal (`up`, `serve`).
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
    Migrate,
    /// Send finished runs: CloudEvents, ATIF, SWE-agent `.traj` or tau2 results, plain or `.zst`.
    Emit(Emit),
    /// Workflows: where the window of each stands, and until when it pauses.
    Workflows,
    /// Runs that were counted or recorded.
    Runs(Runs),
    /// Memories: what they say, why they are there, and how to be rid of one.
    #[command(subcommand)]
    Memories(Memories),
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
    /// What this process does: counter, sampler, investigator, writer, gateway, relay. Several by commas or by
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
pub(crate) struct Emit {
    /// Files to send.
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Workflow of runs whose file names none, and instead of the one it names.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
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

#[derive(Debug, Subcommand)]
pub(crate) enum Memories {
    /// List memories, heaviest first.
    List {
        /// Only of this workflow.
        #[arg(long)]
        workflow: Option<Workflow>,
        /// Only of this step.
        #[arg(long)]
        step: Option<Step>,
        /// Only of this status: tentative, active, archived, deleted, superseded or graduated.
        #[arg(long, value_parser = status)]
        status: Option<retro_core::memory::Status>,
        /// At most so many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one memory in full.
    Show {
        /// Its id, or 8 or more of the id's first digits.
        id: MemoryRef,
    },
    /// Show every change of a memory and its reason.
    Why {
        /// Its id, or 8 or more of the id's first digits.
        id: MemoryRef,
    },
    /// Delete a memory; a tombstone keeps anything similar away for a time.
    Delete {
        /// Its id, or 8 or more of the id's first digits.
        id: MemoryRef,
        /// Why: it stands in the change log and in every later refusal.
        #[arg(long)]
        reason: String,
        /// Identifies this request, so that repeating it changes nothing [default: derived from id and reason].
        #[arg(long)]
        request: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Retrospectives {
    /// List retrospectives, the newest first.
    List {
        /// Only of this workflow.
        #[arg(long)]
        workflow: Option<Workflow>,
        /// At most so many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one retrospective: window, sample, investigations, and what a manual one proposes.
    Show {
        /// Its id.
        id: RetrospectiveId,
    },
    /// Call off an open retrospective: its runs are released, and the workflow pauses before it opens the next one.
    Cancel {
        /// Its id.
        id: RetrospectiveId,
        #[command(flatten)]
        act: ActArgs,
    },
    /// Look into named runs, whatever the window holds: a manual retrospective, which proposes and changes nothing.
    Trigger(Trigger),
}

#[derive(Debug, Args)]
pub(crate) struct Trigger {
    /// The workflow of the runs.
    #[arg(long)]
    pub(crate) workflow: Workflow,
    /// The runs, separated by commas, or several times; at most 20. They stay in the window.
    #[arg(long, required = true, value_delimiter = ',', value_name = "RUN,…")]
    pub(crate) runs: Vec<RunId>,
    /// What you want to know. The heuristics read no question; proposals that share words with it come first.
    #[arg(long, value_name = "QUESTION")]
    pub(crate) focus: Option<String>,
    #[command(flatten)]
    pub(crate) request: Request,
}

/// Who asks, and how asking again is recognised.
#[derive(Debug, Args)]
pub(crate) struct Request {
    /// Who asks, for the record.
    #[arg(
        long,
        value_name = "NAME",
        env = "USER",
        hide_env_values = true,
        default_value = "somebody at a terminal"
    )]
    pub(crate) by: String,
    /// Identifies this request, so that repeating it changes nothing [default: derived from what is asked].
    #[arg(long)]
    pub(crate) request: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Proposals {
    /// List proposals, those of the newest retrospective first.
    List {
        /// Only of this workflow.
        #[arg(long)]
        workflow: Option<Workflow>,
        /// Only of this retrospective.
        #[arg(long)]
        retrospective: Option<RetrospectiveId>,
        /// Only of this status: open, accepted or refused.
        #[arg(long, value_parser = proposal_status)]
        status: Option<ProposalStatus>,
        /// At most so many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one proposal: what it says, the runs that show it, what was decided.
    Show {
        /// Its id.
        id: ProposalId,
    },
    /// Make a memory of a proposal: active, with its runs as evidence.
    Accept {
        /// Its id.
        id: ProposalId,
        /// Accept although a tombstone forbids it, for this reason; it stands in the change log.
        #[arg(long, value_name = "REASON")]
        despite_tombstone: Option<String>,
        #[command(flatten)]
        request: Request,
    },
    /// Refuse a proposal; it is kept with the reason.
    Refuse {
        /// Its id.
        id: ProposalId,
        /// Why.
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        request: Request,
    },
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
        /// The retrospective's id.
        id: RetrospectiveId,
        /// As Markdown instead of a table.
        #[arg(long)]
        markdown: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadLetters {
    /// List dead letters, the newest first; redacted.
    List {
        /// Only with this code.
        #[arg(long, value_parser = code)]
        code: Option<Code>,
        /// Only of this workflow.
        #[arg(long)]
        workflow: Option<Workflow>,
        /// At most so many.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one dead letter: why, where, and the message itself, redacted.
    Show {
        /// Its id.
        id: DeadLetterId,
    },
    /// Replay the letter of a failed retrospective: the next one opens at once. Other codes are not built yet.
    Replay {
        /// Its id.
        id: DeadLetterId,
        #[command(flatten)]
        act: ActArgs,
    },
}

/// Who does something to a retrospective or a letter, and why; both are kept for ever.
#[derive(Debug, Args)]
pub(crate) struct ActArgs {
    /// Why.
    #[arg(long)]
    pub(crate) reason: String,
    /// Who.
    #[arg(long, env = "USER", hide_env_values = true, default_value = "somebody at a terminal")]
    pub(crate) by: String,
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

fn status(text: &str) -> Result<retro_core::memory::Status, String> {
    use retro_core::memory::Status;
    let known = || Status::ALL.map(Status::as_str).join(", ");
    Status::ALL.into_iter().find(|one| one.as_str() == text).ok_or_else(|| format!("one of: {}", known()))
}

fn proposal_status(text: &str) -> Result<ProposalStatus, String> {
    let known = || ProposalStatus::ALL.map(ProposalStatus::as_str).join(", ");
    ProposalStatus::ALL
        .into_iter()
        .find(|one| one.as_str() == text)
        .ok_or_else(|| format!("one of: {}", known()))
}

fn code(text: &str) -> Result<Code, String> {
    let known = || Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>().join(", ");
    Code::ALL.iter().copied().find(|one| one.as_str() == text).ok_or_else(|| format!("one of: {}", known()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
