//! `retro retrospectives`, and what manual ones propose.

use clap::{Args, Subcommand};
use retro_core::id::{ProposalId, RetrospectiveId, RunId, Workflow};
use retro_store::ProposalStatus;

use super::who::{ActArgs, Request};

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

fn proposal_status(text: &str) -> Result<ProposalStatus, String> {
    let known = || ProposalStatus::ALL.map(ProposalStatus::as_str).join(", ");
    ProposalStatus::ALL
        .into_iter()
        .find(|one| one.as_str() == text)
        .ok_or_else(|| format!("one of: {}", known()))
}
