//! Defines the arguments of `retro reports` and `retro outcomes`.

use clap::{Args, Subcommand};
use retro_core::id::{ObjectRef, Workflow};

#[derive(Debug, Subcommand)]
pub(crate) enum ReportCommand {
    /// List the reports of retrospectives, newest first.
    List(ListReports),
    /// Show one report of a retrospective or a review.
    Show {
        /// Id of the retrospective or the review report, or at least its first 8 digits.
        id: ObjectRef,
        /// Print Markdown instead of a table, like `-o markdown`.
        #[arg(long)]
        markdown: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListReports {
    /// Filter by workflow.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Maximum number of reports to print.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Subcommand)]
pub(crate) enum OutcomeCommand {
    /// List the outcomes of the runs' pull requests by workflow.
    List(ListOutcomes),
    /// Show the outcomes of one workflow.
    Show {
        /// Name of the workflow.
        workflow: Workflow,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListOutcomes {
    /// Filter by workflow.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
}
