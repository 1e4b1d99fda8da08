//! The port of manual retrospectives: triggering them, and reading their proposals.

use async_trait::async_trait;
use retro_core::id::{ProposalId, RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::manual::{
    DecideError, DecidedProposal, DecisionRecord, ManualRequest, NamedRun, Proposal, ProposalFacts,
    TriggerError, TriggeredRetrospective,
};
use retro_core::similarity::MissingEmbeddings;
use serde::{Deserialize, Serialize};

use crate::{CommitResult, Result};

/// A proposal with its decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalRow {
    /// Proposal as reported.
    pub proposal: Proposal,
    /// Decision; `None` while the proposal is open.
    pub decision: Option<DecisionRecord>,
}

/// Status of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalStatus {
    /// No person has decided yet.
    Open,
    /// The proposal became a memory or was merged into one.
    Accepted,
    /// The proposal was refused.
    Refused,
}

impl ProposalStatus {
    /// All statuses, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Open, Self::Accepted, Self::Refused];

    /// Returns the word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Accepted => "accepted",
            Self::Refused => "refused",
        }
    }
}

/// Filter for proposals.
#[derive(Debug, Clone, Default)]
pub struct ProposalFilter {
    /// Only proposals of this workflow.
    pub workflow: Option<Workflow>,
    /// Only proposals of this retrospective.
    pub retrospective: Option<RetrospectiveId>,
    /// Only proposals with this status.
    pub status: Option<ProposalStatus>,
    /// Maximum number of results. The newest retrospective comes first; within it the order is that of its report.
    pub limit: u32,
}

/// Reads proposals. A proposal of another tenant is treated as missing.
#[async_trait]
pub trait ProposalStore: Send + Sync {
    /// Returns the tenant's proposals that match the filter.
    async fn list_proposals(&self, tenant: &Tenant, filter: &ProposalFilter) -> Result<Vec<ProposalRow>>;

    /// Returns one proposal.
    async fn find_proposal(&self, tenant: &Tenant, id: ProposalId) -> Result<Option<ProposalRow>>;
}

/// Decision about a trigger: takes the stored facts about the named runs, returns the retrospective with its sample.
pub type DecideTrigger<'a> =
    &'a (dyn Fn(&[NamedRun]) -> std::result::Result<TriggeredRetrospective, TriggerError> + Send + Sync);

/// Decision about a proposal, at a person's request.
pub type DecideProposal<'a> = &'a (
        dyn Fn(
    &ProposalFacts,
) -> std::result::Result<std::result::Result<DecidedProposal, DecideError>, MissingEmbeddings>
            + Send
            + Sync
    );

/// Triggers manual retrospectives.
#[async_trait]
pub trait ManualStore: Send + Sync {
    /// Stores the retrospective that `decide` opens, with its sample, its first investigation and its message, in
    /// one transaction. Returns `AlreadyDone` when the same request was made before; the inner error says why
    /// nothing was opened. Windows, ordinals and the state of the workflow do not change.
    async fn trigger_retrospective(
        &self,
        key: &WorkflowKey,
        request: &ManualRequest,
        decide: DecideTrigger<'_>,
    ) -> Result<std::result::Result<CommitResult, TriggerError>>;
}
