//! Manual retrospectives: asking for one, and what becomes of its proposals.

use async_trait::async_trait;
use retro_core::id::{ProposalId, RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::manual::{
    Asked, Decided, Decision, NamedRun, Proposal, ProposalFacts, Triggered, Undecided, Untriggered,
};
use retro_core::similar::Unready;
use serde::{Deserialize, Serialize};

use crate::{Result, Step};

/// A proposal, and what was decided about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProposalRow {
    /// The proposal.
    pub proposal: Proposal,
    /// The decision; `None` while it is open.
    pub decision: Option<Decision>,
}

/// Where a proposal stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProposalStatus {
    /// Nobody has decided.
    Open,
    /// It became a memory, or joined one.
    Accepted,
    /// It did not.
    Refused,
}

impl ProposalStatus {
    /// Every status, in the order in which people read them.
    pub const ALL: [Self; 3] = [Self::Open, Self::Accepted, Self::Refused];

    /// The word as stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Accepted => "accepted",
            Self::Refused => "refused",
        }
    }
}

/// Which proposals.
#[derive(Debug, Clone, Default)]
pub struct ProposalFilter {
    /// Only of this workflow.
    pub workflow: Option<Workflow>,
    /// Only of this retrospective.
    pub retrospective: Option<RetrospectiveId>,
    /// Only of this status.
    pub status: Option<ProposalStatus>,
    /// At most so many; the newest retrospective first, and within it in the order of its report.
    pub limit: u32,
}

/// Reading proposals. Another tenant's answers exactly like a missing one.
#[async_trait]
pub trait ProposalStore: Send + Sync {
    /// Proposals of the tenant.
    async fn proposals(&self, tenant: &Tenant, filter: &ProposalFilter) -> Result<Vec<ProposalRow>>;

    /// One proposal.
    async fn proposal(&self, tenant: &Tenant, id: ProposalId) -> Result<Option<ProposalRow>>;
}

/// What a trigger is decided with: what is stored of the named runs in, the retrospective with its sample out.
pub type DecideTrigger<'a> =
    &'a (dyn Fn(&[NamedRun]) -> std::result::Result<Triggered, Untriggered> + Send + Sync);

/// What a person's decision about a proposal is made with.
pub type DecideProposal<'a> = &'a (
        dyn Fn(&ProposalFacts) -> std::result::Result<std::result::Result<Decided, Undecided>, Unready>
            + Send
            + Sync
    );

/// Asking for manual retrospectives.
#[async_trait]
pub trait ManualStore: Send + Sync {
    /// One transaction: stores the retrospective that `decide` opens, with its sample, its first investigation and the
    /// message. `AlreadyDone` when the same request asked for the same before; the inner error says why nothing was
    /// opened. Windows, ordinals and the state of the workflow are left alone.
    async fn trigger(
        &self,
        key: &WorkflowKey,
        asked: &Asked,
        decide: DecideTrigger<'_>,
    ) -> Result<std::result::Result<Step, Untriggered>>;
}
