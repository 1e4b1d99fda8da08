//! Storage ports that trigger manual retrospectives and read their proposals.

use async_trait::async_trait;
use retro_core::id::{ProposalId, RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::manual::{
    DecideError, DecidedProposal, DecisionRecord, NamedRun, ProposalFacts, TriggerError,
    TriggeredRetrospective,
};
use retro_core::memory::Proposal;
use retro_core::retrospective::ManualRequest;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantNames};

use crate::{CommitResult, Decision, Result};

/// A proposal and the decision about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = Proposal))]
pub struct ProposalRow {
    /// Proposal as reported by the manual retrospective.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub proposal: Proposal,
    /// Decision on the proposal; `None` while the proposal is open.
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>, required = true))]
    pub decision: Option<DecisionRecord>,
}

/// Status of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(EnumString, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum ProposalStatus {
    /// The proposal is awaiting a decision.
    Open,
    /// The proposal was accepted and became a memory or was merged into one.
    Accepted,
    /// The proposal was refused.
    Refused,
}

impl ProposalStatus {
    /// Returns the name of the status, used in the database and in output.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Filter for a list of proposals.
#[derive(Debug, Clone, Default)]
pub struct ProposalFilter {
    /// Workflow of the proposals; `None` matches any.
    pub workflow: Option<Workflow>,
    /// Retrospective of the proposals; `None` matches any.
    pub retrospective: Option<RetrospectiveId>,
    /// Status of the proposals; `None` matches any.
    pub status: Option<ProposalStatus>,
    /// Maximum number of results, sorted by retrospective (newest first) and then in report order.
    pub limit: u32,
}

/// Reads proposals. A proposal of another tenant is reported as missing.
#[async_trait]
pub trait ProposalStore: Send + Sync {
    /// Returns the tenant's proposals that match the filter.
    async fn list_proposals(&self, tenant: &Tenant, filter: &ProposalFilter) -> Result<Vec<ProposalRow>>;

    /// Returns a proposal by its id; `None` if the tenant has no such proposal.
    async fn find_proposal(&self, tenant: &Tenant, id: ProposalId) -> Result<Option<ProposalRow>>;
}

/// Callback that decides a manual trigger, from the stored facts about the named runs.
pub type DecideTrigger<'a> =
    &'a (dyn Fn(&[NamedRun]) -> std::result::Result<TriggeredRetrospective, TriggerError> + Send + Sync);

/// Callback that decides the effects of accepting or refusing a proposal.
pub type DecideProposal<'a> =
    &'a (dyn Fn(&ProposalFacts) -> Decision<std::result::Result<DecidedProposal, DecideError>> + Send + Sync);

/// Triggers manual retrospectives.
#[async_trait]
pub trait ManualStore: Send + Sync {
    /// Stores the retrospective opened by `decide` with its sample, first investigation and message, in one
    /// transaction. Does not change windows, ordinals or the workflow state. Returns `AlreadyDone` if the
    /// same request was stored before. The inner error is that of `decide`.
    async fn trigger_retrospective(
        &self,
        key: &WorkflowKey,
        request: &ManualRequest,
        decide: DecideTrigger<'_>,
    ) -> Result<std::result::Result<CommitResult, TriggerError>>;
}
