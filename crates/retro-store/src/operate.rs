//! The people's port: reading what is kept. Nothing here writes.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::dead_letter::Code;
use retro_core::effect::Trial;
use retro_core::id::{
    DeadLetterId, MemoryId, Ordinal, RetrospectiveId, ReviewBatchId, RunId, Step, Tenant, Workflow,
    WorkflowKey,
};
use retro_core::memory::{Change, Memory, Status, Tombstone};
use retro_core::report::Report;
use retro_core::retrospective::{Investigation, Retrospective, WorkflowState};
use retro_core::review::ReviewReport;
use retro_core::run::{BodyRef, HttpsRef, RunFacts};
use retro_core::sample::Sample;
use serde::{Deserialize, Serialize, Serializer};
use uuid::Uuid;

use crate::audit::ActRow;
use crate::delivery::{DeadLetter, LetterStatus};
use crate::{LetterStore, NameStore, OutcomeStore, ProposalStore, Result, VerifyStore};

/// A workflow and where its window stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkflowRow {
    /// The workflow.
    pub key: WorkflowKey,
    /// Its state.
    pub state: WorkflowState,
    /// Runs recorded, counted ones included.
    pub recorded: u64,
}

/// A stored run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    /// The workflow.
    pub key: WorkflowKey,
    /// Its ordinal; `None` when it was recorded and not counted.
    pub ordinal: Option<Ordinal>,
    /// What its event said.
    pub facts: RunFacts,
    /// Where its trajectory is. Written without the query of an address: it may be a right to read.
    #[serde(serialize_with = "without_query")]
    pub body: BodyRef,
    /// When it was first stored, by the database's clock.
    pub received_at: Timestamp,
}

fn without_query<S: Serializer>(body: &BodyRef, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    match body {
        BodyRef::Https(at) => {
            BodyRef::Https(HttpsRef { url: at.shown().to_owned(), ..at.clone() }).serialize(serializer)
        }
        other => other.serialize(serializer),
    }
}

/// Which runs.
#[derive(Debug, Clone, Default)]
pub struct RunFilter {
    /// Only of this workflow.
    pub workflow: Option<Workflow>,
    /// Only this run.
    pub run: Option<RunId>,
    /// At most so many; the newest first.
    pub limit: u32,
}

/// A counted run, as far as it says something about one memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunMet {
    /// Its ordinal.
    pub ordinal: Ordinal,
    /// What it says about the memory. It began when its event says so, or when it was first stored.
    pub trial: Trial,
}

/// Which memories.
#[derive(Debug, Clone, Default)]
pub struct MemoryFilter {
    /// Only of this workflow.
    pub workflow: Option<Workflow>,
    /// Only of this step.
    pub step: Option<Step>,
    /// Only of this status.
    pub status: Option<Status>,
    /// Only rules of repositories.
    pub rules: bool,
    /// At most so many; heaviest first, then id.
    pub limit: u32,
}

/// Which dead letters. What is not said does not matter; searching for a text is the business of whoever shows letters,
/// since what is shown is redacted and what is stored is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterFilter {
    /// Only these; empty: any.
    pub ids: Vec<DeadLetterId>,
    /// Only with this code.
    pub code: Option<Code>,
    /// Only what this consumer gave up: the name of its role.
    pub consumer: Option<String>,
    /// Only of this workflow.
    pub workflow: Option<Workflow>,
    /// Only those given up at this moment of the database's clock or later.
    pub since: Option<Timestamp>,
    /// Only those given up before this moment.
    pub until: Option<Timestamp>,
    /// Only those that stand there.
    pub status: Option<LetterStatus>,
    /// Only those behind this one of the tenant's in the list: where to go on.
    pub behind: Option<DeadLetterId>,
    /// At most so many; the newest first.
    pub limit: u32,
}

impl DeadLetterFilter {
    /// So many where nobody says how many: a page that a person can still read through, and enough that whoever looks
    /// for any letter at all finds one. A limit of none would find none, whatever there is.
    pub const LIMIT: u32 = 100;
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
            behind: None,
            limit: Self::LIMIT,
        }
    }
}

/// A retrospective in one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetrospectiveRow {
    /// As stored when it opened, with its present state.
    pub retrospective: Retrospective,
    /// Investigations that have ended.
    pub investigated: u32,
    /// Changes it made.
    pub changes: u32,
}

/// A retrospective in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetrospectiveDetail {
    /// As stored when it opened, with its present state.
    pub retrospective: Retrospective,
    /// Its sample, once it is drawn.
    pub sample: Option<Sample>,
    /// Its investigations so far, ended or not.
    pub investigations: Vec<Investigation>,
}

/// How the database is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Messages that wait to be sent.
    pub outbox_unsent: u64,
    /// Dead letters that nobody has acted on.
    pub dead_letters_open: u64,
    /// Events seen.
    pub events_seen: u64,
    /// Migrations applied.
    pub migrations: u64,
}

/// Reading. Every question is asked within a tenant; another tenant's object answers exactly like a missing one.
#[async_trait]
pub trait OperatorStore: NameStore + ProposalStore + LetterStore + OutcomeStore + VerifyStore {
    /// Every tenant that has something stored, in order.
    async fn tenants(&self) -> Result<Vec<Tenant>>;
    /// The tenant's workflows, in order.
    async fn workflows(&self, tenant: &Tenant) -> Result<Vec<WorkflowRow>>;
    /// Runs.
    async fn runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>>;
    /// Every ordinal given in a workflow, in order.
    async fn ordinals(&self, key: &WorkflowKey) -> Result<Vec<Ordinal>>;
    /// Counted runs of a workflow whose facts are still kept, the newest first, behind that ordinal, and whether each met
    /// the memory: by what the gateway recorded, or by what its own event says. At most `limit`.
    async fn runs_met(
        &self,
        key: &WorkflowKey,
        memory: MemoryId,
        behind: Option<Ordinal>,
        limit: u32,
    ) -> Result<Vec<RunMet>>;
    /// Memories of every status.
    async fn memories(&self, tenant: &Tenant, filter: &MemoryFilter) -> Result<Vec<Memory>>;
    /// The changes of one memory, in order.
    async fn history(&self, tenant: &Tenant, memory: MemoryId) -> Result<Vec<Change>>;
    /// The changes of a workflow, in order.
    async fn changes(&self, key: &WorkflowKey) -> Result<Vec<Change>>;
    /// The tombstones of a workflow, by memory.
    async fn tombstones(&self, key: &WorkflowKey) -> Result<Vec<Tombstone>>;
    /// Retrospectives of a workflow, or of all, manual ones among them; by workflow, the newest first.
    async fn retrospectives(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        limit: u32,
    ) -> Result<Vec<RetrospectiveRow>>;
    /// One retrospective.
    async fn retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<Option<RetrospectiveDetail>>;
    /// One report.
    async fn report(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Option<Report>>;
    /// One report about reviews.
    async fn review_report(&self, tenant: &Tenant, id: ReviewBatchId) -> Result<Option<ReviewReport>>;
    /// Reports about reviews, of one repository or of all; the newest first, at most `limit`.
    async fn review_reports(
        &self,
        tenant: &Tenant,
        keeper: Option<&Workflow>,
        limit: u32,
    ) -> Result<Vec<ReviewReport>>;
    /// Whoever keeps a repository's rules: the names under which their changes stand, in order.
    async fn keepers(&self, tenant: &Tenant) -> Result<Vec<WorkflowKey>>;
    /// Dead letters of the tenant, and those whose tenant could not be read when `tenant` is the default one.
    async fn dead_letters(&self, tenant: &Tenant, filter: &DeadLetterFilter) -> Result<Vec<DeadLetter>>;
    /// One dead letter.
    async fn dead_letter(&self, tenant: &Tenant, id: DeadLetterId) -> Result<Option<DeadLetter>>;
    /// What people did about the retrospective, dead letter or batch with this id, the first act first.
    async fn acts(&self, tenant: &Tenant, subject: Uuid) -> Result<Vec<ActRow>>;
    /// How the database is.
    async fn health(&self) -> Result<Health>;
}
