//! Defines the arguments of `retro runs`.

use clap::{Args, Subcommand};
use retro_core::id::{Repository, RunId, Workflow};
use retro_core::run::RunOutcome;
use retro_operator::{RUN_TURNS_DEFAULT, RUN_TURNS_MAX};

use super::dead_letter_filter::{TimeBound, parse_time_bound};
use super::repository::parse_repository;
use super::variant::parse_outcome;

#[derive(Debug, Subcommand)]
pub(crate) enum RunCommand {
    /// List stored runs, newest first.
    List(ListRuns),
    /// Show one run in full: its facts, why it was counted and looked at, what was seen in it, and its trajectory.
    Show(ShowRun),
}

#[derive(Debug, Args)]
pub(crate) struct ListRuns {
    /// Filter by workflow.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Filter by run id.
    #[arg(long)]
    pub(crate) run: Option<RunId>,
    /// Filter by the user who started the run.
    #[arg(long)]
    pub(crate) user: Option<String>,
    /// Filter by the name of the agent.
    #[arg(long)]
    pub(crate) agent: Option<String>,
    /// Filter by the version of the prompt, as the run's event names it.
    #[arg(long, value_name = "VERSION")]
    pub(crate) prompt_version: Option<String>,
    /// Filter by outcome: success, failure, error, timeout, cancellation, skip or unknown.
    #[arg(long, value_parser = parse_outcome)]
    pub(crate) outcome: Option<RunOutcome>,
    /// Filter by repository, as [host/]owner/name; the default host is github.com.
    #[arg(long, value_parser = parse_repository)]
    pub(crate) repo: Option<Repository>,
    /// Filter by the time at which the run arrived: at or after this time, such as 2026-11-20T10:00:00Z, or at most
    /// this long ago, such as 90m, 2h or 3d.
    #[arg(long, value_name = "WHEN", value_parser = parse_time_bound)]
    pub(crate) since: Option<TimeBound>,
    /// Filter by the time at which the run arrived: before this time, or more than this long ago.
    #[arg(long, value_name = "WHEN", value_parser = parse_time_bound)]
    pub(crate) until: Option<TimeBound>,
    /// Maximum number of runs to print.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ShowRun {
    /// Id of the run, as its emitter gave it.
    pub(crate) run: RunId,
    /// Workflow of the run; only needed if several workflows have a run with this id.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Number of the first turn to show, counted from 0.
    #[arg(long, value_name = "TURN", default_value_t = 0)]
    pub(crate) from_turn: u32,
    /// Maximum number of turns to show, at most 500.
    #[arg(long, default_value_t = RUN_TURNS_DEFAULT,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(RUN_TURNS_MAX)))]
    pub(crate) turns: u32,
}
