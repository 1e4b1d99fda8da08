//! Port of the operator's read-only queries, which the CLI and the web pages show.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::dead_letter::Code;
use retro_core::effect::Trial;
use retro_core::id::{
    DeadLetterId, MemoryId, Ordinal, RetrospectiveId, ReviewBatchId, RunId, Step, Tenant, Workflow,
    WorkflowKey,
};
use retro_core::memory::{Change, Memory, MemoryStatus, Tombstone};
use retro_core::report::Report;
use retro_core::retrospective::{Investigation, Retrospective, WorkflowState};
use retro_core::review::ReviewReport;
use retro_core::run::{BodyRef, HttpsRef, RunFacts};
use retro_core::sample::Sample;
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::audit::AuditRow;
use crate::delivery::{DeadLetter, DeadLetterStatus};
use crate::{DeadLetterStore, MemoryRefStore, OutcomeStore, ProposalStore, Result, VerifyStore};

/// A workflow and the state of its window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowRow {
    /// Tenant and name of the workflow.
    pub key: WorkflowKey,
    /// State of the workflow, including its window.
    pub state: WorkflowState,
    /// Number of recorded runs, including counted ones.
    pub recorded: u64,
}

/// A stored run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Workflow of the run.
    pub key: WorkflowKey,
    /// Ordinal of the run; `None` when it was recorded but not counted.
    pub ordinal: Option<Ordinal>,
    /// Facts of the run, as its event stated them.
    pub facts: RunFacts,
    /// Where the trajectory of the run is stored. An address is serialised without its query, because the query may
    /// contain credentials.
    #[serde(serialize_with = "without_query")]
    pub body: BodyRef,
    /// Time at which the run was first stored, by the database's clock.
    pub received_at: Timestamp,
}

fn without_query<S: Serializer>(body: &BodyRef, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    match body {
        // The query of a signed address grants access to the body.
        BodyRef::Https(at) => {
            BodyRef::Https(HttpsRef { url: at.display_url().to_owned(), ..at.clone() }).serialize(serializer)
        }
        other => other.serialize(serializer),
    }
}

/// Filter for a list of runs.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only runs of this workflow; `None` matches every workflow.
    pub workflow: Option<Workflow>,
    /// Only runs with this id; `None` matches every run. Runs of different workflows may share an id.
    pub run: Option<RunId>,
    /// Maximum number of results. The newest run comes first.
    pub limit: u32,
}

/// A counted run, and whether one particular memory was presented to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunExposure {
    /// Ordinal of the run.
    pub ordinal: Ordinal,
    /// Whether the memory was presented to the run, and the run's result. The run's start is the time in its event or,
    /// if the event has none, the time at which the run was first stored.
    pub trial: Trial,
}

/// Filter for a list of memories.
#[derive(Debug, Clone, Default)]
pub struct MemoryFilter {
    /// Only memories of this workflow; `None` matches every workflow.
    pub workflow: Option<Workflow>,
    /// Only memories of this step; `None` matches every step.
    pub step: Option<Step>,
    /// Only memories with this status; `None` matches every status.
    pub status: Option<MemoryStatus>,
    /// `true` to list only rules of repositories.
    pub rules_only: bool,
    /// Maximum number of results. The memory with the highest weight comes first, and memories of equal weight are
    /// ordered by id.
    pub limit: u32,
}

/// Filter for a list of dead letters. A field that is `None` matches every dead letter. There is no text search: the
/// stored text is not redacted, so callers search the redacted text that they show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Only dead letters with one of these ids; when empty, every id matches.
    pub ids: Vec<DeadLetterId>,
    /// Only dead letters with this code.
    pub code: Option<Code>,
    /// Only dead letters of this consumer, given by the name of its role.
    pub consumer: Option<String>,
    /// Only dead letters of this workflow.
    pub workflow: Option<Workflow>,
    /// Only dead letters that were stored at this time or later, by the database's clock.
    pub since: Option<Timestamp>,
    /// Only dead letters that were stored before this time, by the database's clock.
    pub until: Option<Timestamp>,
    /// Only dead letters with this status.
    pub status: Option<DeadLetterStatus>,
    /// Only dead letters that come after this one in the tenant's list; `None` for the first page.
    pub after: Option<DeadLetterId>,
    /// Maximum number of results. The newest dead letter comes first.
    pub limit: u32,
}

impl DeadLetterFilter {
    /// Default of `limit`. A person can still read a page of this size. It is not 0, because a caller that only checks
    /// whether any dead letter exists would then never find one.
    pub const DEFAULT_LIMIT: u32 = 100;
}

impl Default for DeadLetterFilter {
    fn default() -> Self {
        Self {
            ids: Vec::new(),
            code: None,
            consumer: None,
            workflow: None,
            since: None,
            until: None,
            status: None,
            after: None,
            limit: Self::DEFAULT_LIMIT,
        }
    }
}

/// A retrospective in a list, with its totals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetrospectiveRow {
    /// Retrospective as stored when it opened, with its current state.
    pub retrospective: Retrospective,
    /// Number of ended investigations.
    pub investigated: u32,
    /// Number of changes to memories that the retrospective made.
    pub changes: u32,
}

/// A retrospective with its sample and investigations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetrospectiveDetail {
    /// Retrospective as stored when it opened, with its current state.
    pub retrospective: Retrospective,
    /// Sample of the retrospective; `None` until it is drawn.
    pub sample: Option<Sample>,
    /// Investigations of the retrospective so far, including those that have not ended.
    pub investigations: Vec<Investigation>,
}

/// Summary of the database's condition, over all tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseHealth {
    /// Number of unsent outbox messages.
    pub outbox_unsent: u64,
    /// Number of open dead letters.
    pub dead_letters_open: u64,
    /// Number of events that were handled since the database was created.
    pub events_seen: u64,
    /// Number of applied migrations.
    pub migrations: u64,
}

/// Queries for operators. Except for `list_tenants` and `load_health`, each is limited to one tenant, and an object of
/// another tenant is treated as missing.
#[async_trait]
pub trait OperatorStore:
    MemoryRefStore + ProposalStore + DeadLetterStore + OutcomeStore + VerifyStore
{
    /// Returns every tenant that has stored data, sorted by name.
    async fn list_tenants(&self) -> Result<Vec<Tenant>>;
    /// Returns the tenant's workflows that have recorded runs, sorted by name.
    async fn list_workflows(&self, tenant: &Tenant) -> Result<Vec<WorkflowRow>>;
    /// Returns the tenant's runs that match the filter.
    async fn list_runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>>;
    /// Returns every assigned ordinal of a workflow, in ascending order.
    async fn list_ordinals(&self, key: &WorkflowKey) -> Result<Vec<Ordinal>>;
    /// Returns counted runs of a workflow whose facts are still stored, each with whether the memory was presented to
    /// it according to the gateway's records or the run's event. The newest run comes first. Starts after the ordinal
    /// `behind`, or with the newest run when it is `None`. Returns at most `limit`.
    async fn list_run_exposures(
        &self,
        key: &WorkflowKey,
        memory: MemoryId,
        behind: Option<Ordinal>,
        limit: u32,
    ) -> Result<Vec<RunExposure>>;
    /// Returns the tenant's memories that match the filter, by default of every status.
    async fn list_memories(&self, tenant: &Tenant, filter: &MemoryFilter) -> Result<Vec<Memory>>;
    /// Returns the changes of one memory in the order in which they were made.
    async fn list_memory_changes(&self, tenant: &Tenant, memory: MemoryId) -> Result<Vec<Change>>;
    /// Returns the changes of a workflow's memories in the order in which they were made.
    async fn list_workflow_changes(&self, key: &WorkflowKey) -> Result<Vec<Change>>;
    /// Returns the tombstones of a workflow, sorted by the id of their memory.
    async fn list_tombstones(&self, key: &WorkflowKey) -> Result<Vec<Tombstone>>;
    /// Returns retrospectives of one workflow, or of all when `workflow` is `None`, including manual ones. They are
    /// sorted by workflow, and within a workflow the newest comes first.
    async fn list_retrospectives(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        limit: u32,
    ) -> Result<Vec<RetrospectiveRow>>;
    /// Returns a retrospective by its id; `None` when the tenant has no such retrospective.
    async fn find_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<Option<RetrospectiveDetail>>;
    /// Returns the report of a retrospective; `None` when there is none.
    async fn find_report(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Option<Report>>;
    /// Returns the report of a review batch; `None` when there is none.
    async fn find_review_report(&self, tenant: &Tenant, id: ReviewBatchId) -> Result<Option<ReviewReport>>;
    /// Returns the review reports of the repository with the rule scope `keeper`, or of all repositories when it is
    /// `None`. The newest report comes first. Returns at most `limit`.
    async fn list_review_reports(
        &self,
        tenant: &Tenant,
        keeper: Option<&Workflow>,
        limit: u32,
    ) -> Result<Vec<ReviewReport>>;
    /// Returns the tenant's rule scopes in which at least one batch was applied, in sorted order. The rules of a
    /// repository and their changes are stored under its rule scope.
    async fn list_rule_scopes(&self, tenant: &Tenant) -> Result<Vec<WorkflowKey>>;
    /// Returns the tenant's dead letters that match the filter. The default tenant also gets those whose tenant could
    /// not be read.
    async fn list_dead_letters(&self, tenant: &Tenant, filter: &DeadLetterFilter) -> Result<Vec<DeadLetter>>;
    /// Returns a dead letter by its id; `None` when the tenant has no such dead letter.
    async fn find_dead_letter(&self, tenant: &Tenant, id: DeadLetterId) -> Result<Option<DeadLetter>>;
    /// Returns the audit rows of the retrospective, dead letter or replay batch with this id. The oldest row comes
    /// first.
    async fn list_audit_rows(&self, tenant: &Tenant, subject: Uuid) -> Result<Vec<AuditRow>>;
    /// Returns a summary of the database's condition.
    async fn load_health(&self) -> Result<DatabaseHealth>;
}
