//! Defines the arguments of `retro retrospectives` and `retro proposals`.

use clap::{Args, Subcommand};
use retro_core::id::{ProposalId, RetrospectiveId, RunId, Workflow};
use retro_store::ProposalStatus;

use super::audit::{AuditArgs, RequestArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum Retrospectives {
    /// List retrospectives, newest first.
    List {
        /// Filter by workflow.
        #[arg(long)]
        workflow: Option<Workflow>,
        /// Maximum number of retrospectives to print.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one retrospective: its window, sample and investigations and, if it is manual, its proposals.
    Show {
        /// Id of the retrospective.
        id: RetrospectiveId,
    },
    /// Cancel an open retrospective: its runs return to the window, and the workflow pauses before its next one.
    Cancel {
        /// Id of the retrospective.
        id: RetrospectiveId,
        #[command(flatten)]
        act: AuditArgs,
    },
    /// Start a manual retrospective of the given runs. It makes proposals and does not change any memory.
    Trigger(Trigger),
}

#[derive(Debug, Args)]
pub(crate) struct Trigger {
    /// Workflow of the runs.
    #[arg(long)]
    pub(crate) workflow: Workflow,
    /// Runs to investigate, at most 20, separated by commas; may be repeated. The runs stay in the window.
    #[arg(long, required = true, value_delimiter = ',', value_name = "RUN,…")]
    pub(crate) runs: Vec<RunId>,
    /// Question behind the request. Affects only the order: proposals that share words with the question come
    /// first.
    #[arg(long, value_name = "QUESTION")]
    pub(crate) focus: Option<String>,
    #[command(flatten)]
    pub(crate) request: RequestArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Proposals {
    /// List proposals, those of the newest retrospective first.
    List {
        /// Filter by workflow.
        #[arg(long)]
        workflow: Option<Workflow>,
        /// Filter by the id of the retrospective.
        #[arg(long)]
        retrospective: Option<RetrospectiveId>,
        /// Filter by status: open, accepted or refused.
        #[arg(long, value_parser = parse_proposal_status)]
        status: Option<ProposalStatus>,
        /// Maximum number of proposals to print.
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Show one proposal: its text, the runs that support it, and the decision.
    Show {
        /// Id of the proposal.
        id: ProposalId,
    },
    /// Accept a proposal: store it as an active memory, with the runs that support it as evidence.
    Accept {
        /// Id of the proposal.
        id: ProposalId,
        /// Reason for accepting the proposal even if a tombstone blocks it, stored in the change log.
        #[arg(long, value_name = "REASON")]
        despite_tombstone: Option<String>,
        #[command(flatten)]
        request: RequestArgs,
    },
    /// Refuse a proposal; it stays stored with the reason for the refusal.
    Refuse {
        /// Id of the proposal.
        id: ProposalId,
        /// Reason for the refusal.
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        request: RequestArgs,
    },
}

fn parse_proposal_status(text: &str) -> Result<ProposalStatus, String> {
    let known = || ProposalStatus::ALL.map(ProposalStatus::as_str).join(", ");
    ProposalStatus::ALL
        .into_iter()
        .find(|one| one.as_str() == text)
        .ok_or_else(|| format!("expected one of: {}", known()))
}
