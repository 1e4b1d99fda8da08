//! Defines the arguments of `retro retrospectives` and `retro proposals`.

use clap::{Args, Subcommand};
use retro_core::id::{ObjectRef, RunId, Workflow};
use retro_store::ProposalStatus;

use super::audit::{AuditArgs, RequestArgs};
use super::variant::parse_variant;

#[derive(Debug, Subcommand)]
pub(crate) enum Retrospectives {
    /// List retrospectives, newest first.
    List(ListRetrospectives),
    /// Show one retrospective: its window, sample and investigations, and the proposals if it is manual.
    Show {
        /// Id of the retrospective, or at least its first 8 digits.
        id: ObjectRef,
    },
    /// Cancel an open retrospective: its runs return to the window, and the next retrospective of the workflow
    /// waits for the pause of a failed one. The workflow itself is not affected.
    Cancel {
        /// Id of the retrospective, or at least its first 8 digits.
        id: ObjectRef,
        #[command(flatten)]
        act: AuditArgs,
    },
    /// Start a manual retrospective over the given runs. It makes proposals and does not change any memory.
    Trigger(Trigger),
}

#[derive(Debug, Args)]
pub(crate) struct Trigger {
    /// Workflow of the runs.
    #[arg(long)]
    pub(crate) workflow: Workflow,
    /// Ids of the runs to investigate (at most 20), separated by commas or repeated. The runs stay in the
    /// window.
    #[arg(long, required = true, value_delimiter = ',', value_name = "RUN,…")]
    pub(crate) runs: Vec<RunId>,
    /// Question behind the request. Affects only the order: proposals that share words with it come first.
    #[arg(long, value_name = "QUESTION")]
    pub(crate) focus: Option<String>,
    /// Reason for the request, stored with the retrospective.
    #[arg(long)]
    pub(crate) reason: Option<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProposalCommand {
    /// List proposals, newest retrospective first.
    List(ListProposals),
    /// Show one proposal: its text, the runs that support it and the decision.
    Show {
        /// Id of the proposal, or at least its first 8 digits.
        id: ObjectRef,
    },
    /// Accept a proposal and store it as an active memory, with the runs that support it as evidence.
    Accept {
        /// Id of the proposal, or at least its first 8 digits.
        id: ObjectRef,
        /// Accept the proposal even if a tombstone blocks it, for this reason, which is stored in the change
        /// log.
        #[arg(long, value_name = "REASON")]
        override_tombstone: Option<String>,
        /// Reason for the acceptance, stored with the decision and in the change log.
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        request: RequestArgs,
    },
    /// Refuse a proposal; it stays stored with the reason.
    Refuse {
        /// Id of the proposal, or at least its first 8 digits.
        id: ObjectRef,
        /// Reason for the refusal.
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        request: RequestArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ListRetrospectives {
    /// Filter by workflow.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Maximum number of retrospectives to print.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}

#[derive(Debug, Args)]
pub(crate) struct ListProposals {
    /// Filter by workflow.
    #[arg(long)]
    pub(crate) workflow: Option<Workflow>,
    /// Filter by id of the retrospective, or at least its first 8 digits.
    #[arg(long)]
    pub(crate) retrospective: Option<ObjectRef>,
    /// Filter by status: open, accepted or refused.
    #[arg(long, value_parser = parse_variant::<ProposalStatus>)]
    pub(crate) status: Option<ProposalStatus>,
    /// Maximum number of proposals to print.
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: u32,
}
