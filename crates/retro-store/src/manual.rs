//! Ports for triggering manual retrospectives and for reading their proposals.

use async_trait::async_trait;
use retro_core::id::{ProposalId, RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::manual::{
    DecideError, DecidedProposal, DecisionRecord, ManualRequest, NamedRun, Proposal, ProposalFacts,
    TriggerError, TriggeredRetrospective,
};
use retro_core::similarity::MissingEmbeddings;
use serde::{Deserialize, Serialize};

use crate::{CommitResult, Result};

/// A proposal and the decision about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalRow {
    /// Proposal as the manual retrospective reported it.
    pub proposal: Proposal,
    /// Decision about the proposal; `None` while the proposal is open.
    pub decision: Option<DecisionRecord>,
}

/// Status of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalStatus {
    /// No person has decided on the proposal yet.
    Open,
    /// A person accepted the proposal, which became a memory or was merged into one.
    Accepted,
    /// A person refused the proposal.
    Refused,
}

impl ProposalStatus {
    /// All statuses, in the order in which they are shown.
    pub const ALL: [Self; 3] = [Self::Open, Self::Accepted, Self::Refused];

    /// Returns the name of the status, as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Accepted => "accepted",
            Self::Refused => "refused",
        }
    }
}

/// Filter for a list of proposals.
#[derive(Debug, Clone, Default)]
pub struct ProposalFilter {
    /// Only proposals of this workflow; `None` matches every workflow.
    pub workflow: Option<Workflow>,
    /// Only proposals of this retrospective; `None` matches every retrospective.
    pub retrospective: Option<RetrospectiveId>,
    /// Only proposals with this status; `None` matches every status.
    pub status: Option<ProposalStatus>,
    /// Maximum number of results. The newest retrospective comes first. Proposals of one retrospective have the order
    /// of its report.
    pub limit: u32,
}

/// Reads proposals. A proposal of another tenant is treated as missing.
#[async_trait]
pub trait ProposalStore: Send + Sync {
    /// Returns the tenant's proposals that match the filter.
    async fn list_proposals(&self, tenant: &Tenant, filter: &ProposalFilter) -> Result<Vec<ProposalRow>>;

    /// Returns a proposal by its id; `None` when the tenant has no such proposal.
    async fn find_proposal(&self, tenant: &Tenant, id: ProposalId) -> Result<Option<ProposalRow>>;
}

/// Decides about a trigger: takes the stored facts about the named runs, and returns the retrospective with its sample.
pub type DecideTrigger<'a> =
    &'a (dyn Fn(&[NamedRun]) -> std::result::Result<TriggeredRetrospective, TriggerError> + Send + Sync);

/// Decides the effects of a person's decision about a proposal.
pub type DecideProposal<'a> = &'a (
        dyn Fn(
    &ProposalFacts,
) -> std::result::Result<std::result::Result<DecidedProposal, DecideError>, MissingEmbeddings>
            + Send
            + Sync
    );

/// Triggers manual retrospectives at a person's request.
#[async_trait]
pub trait ManualStore: Send + Sync {
    /// Stores the retrospective that `decide` opens, with its sample, its first investigation and its message, in one
    /// transaction. Returns `AlreadyDone` when the same request was made before. The inner error says why `decide`
    /// opened nothing. Windows, ordinals and the state of the workflow do not change.
    async fn trigger_retrospective(
        &self,
        key: &WorkflowKey,
        request: &ManualRequest,
        decide: DecideTrigger<'_>,
    ) -> Result<std::result::Result<CommitResult, TriggerError>>;
}
