//! Storage port for the read-only queries of the CLI and the operator API.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::calls::StoredSummary;
use retro_core::effect::{AssignedRun, Trial};
use retro_core::id::{
    DeadLetterId, MemoryId, Ordinal, RemarkKey, RetrospectiveId, ReviewBatchId, RunId, Step, Tenant,
    Workflow, WorkflowKey,
};
use retro_core::inspection::RunProperties;
use retro_core::memory::{Change, Memory, MemoryStatus, Tombstone};
use retro_core::report::Report;
use retro_core::retrospective::{Investigation, Retrospective, WorkflowState};
use retro_core::review::ReviewReport;
use retro_core::run::{BodyRef, HttpsRef, NotCountedReason, RunFacts};
use retro_core::sample::Sample;
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::audit::AuditRow;
use crate::dead_letter::{DeadLetter, DeadLetterFilter};
use crate::{
    DeadLetterStore, FeedbackStore, InspectStore, MemoryRefStore, ObjectRefStore, OutcomeStore,
    ProposalStore, Result, VerifyStore,
};

/// A workflow and its state, in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowRow {
    /// Tenant and name of the workflow.
    pub key: WorkflowKey,
    /// State of the workflow and its window.
    pub state: WorkflowState,
    /// Number of stored runs, counted or not.
    pub recorded: u64,
}

/// A stored run in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "schema", schema(as = Run))]
pub struct RunRow {
    /// Workflow of the run.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub key: WorkflowKey,
    /// Ordinal of the run; `None` if the run is stored but not counted.
    #[cfg_attr(feature = "schema", schema(value_type = Option<u64>, required = true))]
    pub ordinal: Option<Ordinal>,
    /// Reason why the run is not counted; `None` if it is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub not_counted: Option<NotCountedReason>,
    /// Facts of the run as reported by its event.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub facts: RunFacts,
    /// Location of the run's trajectory. A URL is serialised without its query, which may contain
    /// credentials.
    #[serde(serialize_with = "without_query")]
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub body: BodyRef,
    /// Time at which the run was first stored, by the database clock.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub received_at: Timestamp,
}

fn without_query<S: Serializer>(body: &BodyRef, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    match body {
        // The query of a presigned URL grants access to the body, so it must not reach the output.
        BodyRef::Https(at) => {
            BodyRef::Https(HttpsRef { url: at.display_url().to_owned(), ..at.clone() }).serialize(serializer)
        }
        other => other.serialize(serializer),
    }
}

/// Filter for a list of runs.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Workflow of the runs; `None` matches any.
    pub workflow: Option<Workflow>,
    /// Run id; `None` matches any. Runs of different workflows may share an id.
    pub run: Option<RunId>,
    /// Properties that the facts of the runs must have.
    pub properties: RunProperties,
    /// Only runs first stored at or after this time.
    pub since: Option<Timestamp>,
    /// Only runs first stored before this time.
    pub until: Option<Timestamp>,
    /// Maximum number of results, newest run first.
    pub limit: u32,
}

/// Maximum number of runs whose facts are read to find those with the properties of a filter. Facts are a document,
/// which no index covers; so many take a second or two.
pub const RUNS_SEARCHED_MAX: u32 = 50_000;

/// Result of a search for runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunSearch {
    /// Runs that match, newest first.
    pub runs: Vec<RunRow>,
    /// Time at which the last searched run was stored, if the search ended there before it had found enough runs:
    /// older runs were not searched.
    pub stopped_at: Option<Timestamp>,
}

/// A counted run as one observation of a memory's effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunExposure {
    /// Ordinal of the run.
    pub ordinal: Ordinal,
    /// Start, task, exposure to the memory and outcome of the run. The start is the time in the event or, if
    /// absent, the time at which the run was first stored.
    pub trial: Trial,
}

/// Filter for a list of memories.
#[derive(Debug, Clone, Default)]
pub struct MemoryFilter {
    /// Workflow of the memories; `None` matches any.
    pub workflow: Option<Workflow>,
    /// Step of the memories; `None` matches any.
    pub step: Option<Step>,
    /// Status of the memories; `None` matches any.
    pub status: Option<MemoryStatus>,
    /// `true` to list only repository rules.
    pub rules_only: bool,
    /// `true` to list only memories that are held until a person decides: in quarantine, and tentative, active or
    /// archived.
    pub held: bool,
    /// Maximum number of results, sorted by descending weight and then by id.
    pub limit: u32,
}

/// A retrospective with its totals, in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct RetrospectiveRow {
    /// Retrospective as opened, with its current state.
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub retrospective: Retrospective,
    /// Number of ended investigations.
    pub investigated: u32,
    /// Number of memory changes made by the retrospective.
    pub changes: u32,
}

/// A retrospective with its sample and investigations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetrospectiveDetail {
    /// Retrospective as opened, with its current state.
    pub retrospective: Retrospective,
    /// Sample of the retrospective; `None` until drawn.
    pub sample: Option<Sample>,
    /// Investigations scheduled so far, including those that have not ended.
    pub investigations: Vec<Investigation>,
    /// Attempts at the investigations, in the same order.
    pub attempts: Vec<InvestigationAttempts>,
}

/// Attempts at an investigation, for a person who asks why it has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct InvestigationAttempts {
    /// 1-based position of the investigation in its retrospective.
    pub number: u32,
    /// Number of attempts that were started and did not succeed.
    pub attempts: u32,
    /// Worker that claimed the investigation last; `None` if none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// End of the lease of the worker; `None` if nobody works on the investigation.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<String>))]
    pub lease_until: Option<Timestamp>,
    /// Why the last attempt failed; `None` if none has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Health summary of the database across all tenants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseHealth {
    /// Number of unsent outbox messages.
    pub outbox_unsent: u64,
    /// Number of open dead letters.
    pub dead_letters_open: u64,
    /// Number of events handled over the lifetime of the database.
    pub events_seen: u64,
    /// Number of applied migrations.
    pub migrations: u64,
}

/// Read-only queries for operators. Except for `list_tenants` and `load_health`, each query is scoped to one
/// tenant and reports objects of other tenants as missing.
#[async_trait]
pub trait OperatorStore:
    MemoryRefStore
    + ObjectRefStore
    + ProposalStore
    + DeadLetterStore
    + OutcomeStore
    + VerifyStore
    + InspectStore
    + FeedbackStore
{
    /// Returns all tenants with stored data, sorted by name.
    async fn list_tenants(&self) -> Result<Vec<Tenant>>;
    /// Returns the tenant's workflows with stored runs, sorted by name.
    async fn list_workflows(&self, tenant: &Tenant) -> Result<Vec<WorkflowRow>>;
    /// Returns the tenant's runs that match the filter, newest first. If the filter has properties, the facts of at
    /// most [`RUNS_SEARCHED_MAX`] runs are searched.
    async fn search_runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<RunSearch>;
    /// Returns the runs that [`Self::search_runs`] finds.
    async fn list_runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>> {
        Ok(self.search_runs(tenant, filter).await?.runs)
    }
    /// Returns the assigned ordinals of a workflow in ascending order.
    async fn list_ordinals(&self, key: &WorkflowKey) -> Result<Vec<Ordinal>>;
    /// Lists the call summaries of a workflow's newest runs that have one, at most `limit`, newest first. A run
    /// gets one when a retrospective claims it.
    async fn list_call_summaries(&self, key: &WorkflowKey, limit: u32) -> Result<Vec<StoredSummary>>;
    /// Returns at most `limit` counted runs of a workflow whose facts are still stored, newest first, each
    /// with its exposure to the memory. A run is exposed if the gateway's records or the run's event say so.
    /// Starts below the ordinal `after`, or with the newest run if `after` is `None`.
    async fn list_run_exposures(
        &self,
        key: &WorkflowKey,
        memory: MemoryId,
        after: Option<Ordinal>,
        limit: u32,
    ) -> Result<Vec<RunExposure>>;
    /// Returns the counted runs of a workflow about which chance decided whether they were handed the memory, and
    /// whose facts are still stored: the first `limit` by the time of the decision, sorted by ordinal.
    async fn list_assigned_runs(
        &self,
        key: &WorkflowKey,
        memory: MemoryId,
        limit: u32,
    ) -> Result<Vec<AssignedRun>>;
    /// Returns the tenant's memories that match the filter, in any status by default.
    async fn list_memories(&self, tenant: &Tenant, filter: &MemoryFilter) -> Result<Vec<Memory>>;
    /// Returns the changes of a memory, oldest first.
    async fn list_memory_changes(&self, tenant: &Tenant, memory: MemoryId) -> Result<Vec<Change>>;
    /// Returns the changes of all memories of a workflow, oldest first.
    async fn list_workflow_changes(&self, key: &WorkflowKey) -> Result<Vec<Change>>;
    /// Returns the tombstones of a workflow, sorted by memory id.
    async fn list_tombstones(&self, key: &WorkflowKey) -> Result<Vec<Tombstone>>;
    /// Returns at most `limit` retrospectives of one workflow, or of all workflows if `workflow` is `None`,
    /// including manual ones. Sorted by workflow, and newest first within a workflow.
    async fn list_retrospectives(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        limit: u32,
    ) -> Result<Vec<RetrospectiveRow>>;
    /// Returns a retrospective by its id; `None` if the tenant has no such retrospective.
    async fn find_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<Option<RetrospectiveDetail>>;
    /// Returns the report of a retrospective; `None` if no report exists.
    async fn find_report(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Option<Report>>;
    /// Returns the report of a review batch; `None` if no report exists.
    async fn find_review_report(&self, tenant: &Tenant, id: ReviewBatchId) -> Result<Option<ReviewReport>>;
    /// Returns at most `limit` review reports, newest first, of the rule scope `rule_scope`, or of all
    /// repositories if `rule_scope` is `None`.
    async fn list_review_reports(
        &self,
        tenant: &Tenant,
        rule_scope: Option<&Workflow>,
        limit: u32,
    ) -> Result<Vec<ReviewReport>>;
    /// Returns those of the remarks that are stored and were not deleted at GitHub since.
    async fn select_existing_remarks(
        &self,
        tenant: &Tenant,
        remarks: &[RemarkKey],
    ) -> Result<BTreeSet<RemarkKey>>;
    /// Returns the tenant's rule scopes in which at least one batch was applied, sorted by key. A
    /// repository's rules and their changes are stored under its rule scope.
    async fn list_rule_scopes(&self, tenant: &Tenant) -> Result<Vec<WorkflowKey>>;
    /// Returns the tenant's dead letters that match the filter, newest first. The default tenant also sees
    /// dead letters whose tenant is unknown.
    async fn list_dead_letters(&self, tenant: &Tenant, filter: &DeadLetterFilter) -> Result<Vec<DeadLetter>>;
    /// Returns a dead letter by its id; `None` if the tenant has no such dead letter.
    async fn find_dead_letter(&self, tenant: &Tenant, id: DeadLetterId) -> Result<Option<DeadLetter>>;
    /// Returns the audit rows of a retrospective, dead letter or replay batch, oldest first.
    async fn list_audit_rows(&self, tenant: &Tenant, subject: Uuid) -> Result<Vec<AuditRow>>;
    /// Returns the health summary of the database.
    async fn load_health(&self) -> Result<DatabaseHealth>;
}
