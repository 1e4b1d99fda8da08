//! The operator's port: read-only queries for the CLI and the web pages.

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
    /// Key of the workflow.
    pub key: WorkflowKey,
    /// State of the workflow.
    pub state: WorkflowState,
    /// Number of recorded runs, counted ones included.
    pub recorded: u64,
}

/// A stored run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// Workflow of the run.
    pub key: WorkflowKey,
    /// Ordinal of the run; `None` when it was recorded but not counted.
    pub ordinal: Option<Ordinal>,
    /// Facts of the run, as its event stated them.
    pub facts: RunFacts,
    /// Location of its trajectory. Serialised without the query of an address, because that may contain
    /// credentials.
    #[serde(serialize_with = "without_query")]
    pub body: BodyRef,
    /// Time at which it was first stored, by the database's clock.
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

/// Filter for runs.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only items of this workflow.
    pub workflow: Option<Workflow>,
    /// Only the run with this id.
    pub run: Option<RunId>,
    /// Maximum number of results, the newest first.
    pub limit: u32,
}

/// A counted run and its exposure to one memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunExposure {
    /// Ordinal of the run.
    pub ordinal: Ordinal,
    /// Exposure and result. The run's start is the time in its event or, without one, the time at which it was
    /// first stored.
    pub trial: Trial,
}

/// Filter for memories.
#[derive(Debug, Clone, Default)]
pub struct MemoryFilter {
    /// Only items of this workflow.
    pub workflow: Option<Workflow>,
    /// Only memories of this step.
    pub step: Option<Step>,
    /// Only memories with this status.
    pub status: Option<MemoryStatus>,
    /// `true` to return only rules of repositories.
    pub rules_only: bool,
    /// Maximum number of results, ordered by weight (the highest first) and id.
    pub limit: u32,
}

/// Filter for dead letters; an absent field matches everything. There is no text search here: the stored text
/// is not redacted, so callers search the redacted text that they show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Ids to match; empty matches any.
    pub ids: Vec<DeadLetterId>,
    /// Only dead letters with this code.
    pub code: Option<Code>,
    /// Only dead letters of this consumer, given by the name of its role.
    pub consumer: Option<String>,
    /// Only items of this workflow.
    pub workflow: Option<Workflow>,
    /// Only dead letters stored at this time or later, by the database's clock.
    pub since: Option<Timestamp>,
    /// Only dead letters stored before this time.
    pub until: Option<Timestamp>,
    /// Only dead letters with this status.
    pub status: Option<DeadLetterStatus>,
    /// Only dead letters after this one in the tenant's list; the start of the next page.
    pub after: Option<DeadLetterId>,
    /// Maximum number of results, the newest first.
    pub limit: u32,
}

impl DeadLetterFilter {
    /// Default of `limit`: a page that a person can still read, and enough for a caller that only checks
    /// whether any exist. A default of 0 would never find any.
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

/// A retrospective in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetrospectiveRow {
    /// Retrospective as stored when it opened, with its current state.
    pub retrospective: Retrospective,
    /// Number of ended investigations.
    pub investigated: u32,
    /// Number of changes that it made.
    pub changes: u32,
}

/// A retrospective with its sample and investigations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetrospectiveDetail {
    /// Retrospective as stored when it opened, with its current state.
    pub retrospective: Retrospective,
    /// Sample, once it is drawn.
    pub sample: Option<Sample>,
    /// Investigations so far, ended or not.
    pub investigations: Vec<Investigation>,
}

/// Summary of the database's condition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseHealth {
    /// Number of unsent outbox messages.
    pub outbox_unsent: u64,
    /// Number of open dead letters.
    pub dead_letters_open: u64,
    /// Number of events handled since the database was created.
    pub events_seen: u64,
    /// Number of applied migrations.
    pub migrations: u64,
}

/// Queries for operators. Every query is limited to a tenant; another tenant's object is treated as missing.
#[async_trait]
pub trait OperatorStore:
    MemoryRefStore + ProposalStore + DeadLetterStore + OutcomeStore + VerifyStore
{
    /// Returns every tenant that has stored data, in order.
    async fn list_tenants(&self) -> Result<Vec<Tenant>>;
    /// Returns the tenant's workflows, in order.
    async fn list_workflows(&self, tenant: &Tenant) -> Result<Vec<WorkflowRow>>;
    /// Returns the tenant's runs that match the filter.
    async fn list_runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>>;
    /// Returns every assigned ordinal of a workflow, in order.
    async fn list_ordinals(&self, key: &WorkflowKey) -> Result<Vec<Ordinal>>;
    /// Returns counted runs of a workflow whose facts are still stored, the newest first, starting after the
    /// ordinal `behind`, each with whether the memory was presented to it. Counts both what the gateway recorded
    /// and what the run's event states. At most `limit`.
    async fn list_run_exposures(
        &self,
        key: &WorkflowKey,
        memory: MemoryId,
        behind: Option<Ordinal>,
        limit: u32,
    ) -> Result<Vec<RunExposure>>;
    /// Returns the tenant's memories of every status that match the filter.
    async fn list_memories(&self, tenant: &Tenant, filter: &MemoryFilter) -> Result<Vec<Memory>>;
    /// Returns the changes of one memory, in order.
    async fn list_memory_changes(&self, tenant: &Tenant, memory: MemoryId) -> Result<Vec<Change>>;
    /// Returns the changes of a workflow, in order.
    async fn list_workflow_changes(&self, key: &WorkflowKey) -> Result<Vec<Change>>;
    /// Returns the tombstones of a workflow, by memory.
    async fn list_tombstones(&self, key: &WorkflowKey) -> Result<Vec<Tombstone>>;
    /// Returns retrospectives of one workflow or of all, manual ones included; by workflow, the newest first.
    async fn list_retrospectives(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        limit: u32,
    ) -> Result<Vec<RetrospectiveRow>>;
    /// Returns one retrospective.
    async fn find_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<Option<RetrospectiveDetail>>;
    /// Returns the report of a retrospective.
    async fn find_report(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Option<Report>>;
    /// Returns the report of a review batch.
    async fn find_review_report(&self, tenant: &Tenant, id: ReviewBatchId) -> Result<Option<ReviewReport>>;
    /// Returns review reports of one repository or of all, the newest first, at most `limit`.
    async fn list_review_reports(
        &self,
        tenant: &Tenant,
        keeper: Option<&Workflow>,
        limit: u32,
    ) -> Result<Vec<ReviewReport>>;
    /// Returns the rule scopes under which changes of repositories' rules are stored, in order.
    async fn list_rule_scopes(&self, tenant: &Tenant) -> Result<Vec<WorkflowKey>>;
    /// Returns dead letters of the tenant; for the default tenant also those whose tenant could not be read.
    async fn list_dead_letters(&self, tenant: &Tenant, filter: &DeadLetterFilter) -> Result<Vec<DeadLetter>>;
    /// Returns one dead letter.
    async fn find_dead_letter(&self, tenant: &Tenant, id: DeadLetterId) -> Result<Option<DeadLetter>>;
    /// Returns the audit rows of the retrospective, dead letter or batch with this id, the oldest first.
    async fn list_audit_rows(&self, tenant: &Tenant, subject: Uuid) -> Result<Vec<AuditRow>>;
    /// Returns a summary of the database's condition.
    async fn load_health(&self) -> Result<DatabaseHealth>;
}
