//! Defines the arguments of `retro workflows`.

use clap::{Args, Subcommand};
use retro_core::id::Workflow;
use retro_operator::{PROMPT_RUNS_DEFAULT, PROMPT_RUNS_MAX, STATISTICS_RUNS_DEFAULT, STATISTICS_RUNS_MAX};

#[derive(Debug, Args)]
pub(crate) struct Workflows {
    #[command(subcommand)]
    pub(crate) command: Option<WorkflowCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// List workflows with the size of their window and any pause.
    List,
    /// Show what the runs of a workflow called: runs, calls, failures and times of each operation, over the
    /// newest runs and over the last 7 days.
    #[command(visible_alias = "show")]
    Stats {
        /// Name of the workflow.
        workflow: Workflow,
        /// Number of newest runs to count, at most 2000.
        #[arg(long, default_value_t = STATISTICS_RUNS_DEFAULT,
              value_parser = clap::value_parser!(u32).range(1..=i64::from(STATISTICS_RUNS_MAX)))]
        runs: u32,
    },
    /// Compare how the runs of a workflow and their pull requests ended, by the version of the prompt that the event
    /// of a run names, or the trailer `Retro-Prompt-Version` of its commits.
    Prompts {
        /// Name of the workflow.
        workflow: Workflow,
        /// Number of newest counted runs, at most 10000.
        #[arg(long, default_value_t = PROMPT_RUNS_DEFAULT,
              value_parser = clap::value_parser!(u32).range(1..=i64::from(PROMPT_RUNS_MAX)))]
        runs: u32,
    },
    /// List the recurring failures that no memory which agents get is about, each with the reason and what can
    /// be done, as of the newest retrospective.
    Missed {
        /// Name of the workflow.
        workflow: Workflow,
    },
}
