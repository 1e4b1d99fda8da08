#![doc = include_str!("../README.md")]

pub mod audit;
pub mod broker;
pub mod cancel;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod count;
pub mod dead_letter;
pub mod delivery;
pub mod embeddings;
pub mod idempotency;
pub mod investigate;
pub mod manual;
pub mod memory_ref;
pub mod metrics;
pub mod operator;
pub mod recall;
pub mod replay;
pub mod retention;
pub mod review;
pub mod sample;
pub mod schema;
pub mod trace;
pub mod track;
pub mod verify;
pub mod write;

pub use audit::{AuditAction, AuditRow, AuditStore};
pub use broker::BrokerStore;
pub use cancel::{CancelResult, CancelStore, ReopenResult};
pub use count::{CounterStore, IncomingBody, IncomingRun};
pub use dead_letter::{
    Attempt, AttemptFailure, DeadLetterCount, DeadLetterEditStore, DeadLetterStore, DeadLetterVersion,
    DeadLetterVersionRow, MessageContent,
};
pub use delivery::{
    AttemptStart, DeadLetter, DeadLetterStatus, DeliveryPosition, DeliveryStore, NewDeadLetter, OutboxStore,
    Redelivery,
};
pub use embeddings::{
    EmbeddingSource, EmbeddingSourceError, EmbeddingStore, MemoryText, MissingEmbeddingsPage,
    TEXTS_PER_PASS_MAX, embed_texts,
};
pub use idempotency::{
    BeginRequestResult, IdempotencyStore, IdempotencyTimeouts, RequestKey, StoredResponse,
};
pub use investigate::{
    Claim, FollowUp, InvestigationSequence, InvestigatorStore, JournalEntry, JournalStage, StoredBody,
};
pub use manual::{ManualStore, ProposalFilter, ProposalRow, ProposalStatus, ProposalStore};
pub use memory_ref::{MemoryRefStore, UnresolvedRef, resolve_memory_ref};
pub use metrics::{DatabaseMetrics, MetricsStore};
pub use operator::{
    DatabaseHealth, DeadLetterFilter, MemoryFilter, OperatorStore, RetrospectiveDetail, RetrospectiveRow,
    RunExposure, RunFilter, RunRow, WorkflowRow,
};
pub use recall::{AGENT_CONNECTIONS_MAX, RecallStore};
pub use replay::{
    CancelBatchResult, DiscardResult, IncomingReplay, NewReplayBatch, OutgoingReplay, ReplayBatchItem,
    ReplayBatchRow, ReplayBatchState, ReplayRow, ReplayState, ReplayStore, RequestReplayResult,
};
pub use retention::{PurgeResult, RetentionStore, RetentionTotal};
pub use review::{
    DecidedReview, NewReviewBatch, PullRequestKey, PullRequestReviews, ReviewEvent, ReviewEventKind,
    ReviewEventResult, ReviewerStore,
};
pub use sample::{DrawnSample, SamplerStore};
pub use schema::SchemaStore;
pub use trace::TraceStore;
pub use track::{OutcomeStore, TrackerStore};
pub use verify::{
    MemoryRecords, OrdinalSummary, RetrospectiveCursor, RetrospectivePage, RetrospectiveRecords, VerifyStore,
    WindowRow, WorkflowRecords,
};
pub use write::{Deletion, WriterStore};

/// All ports that a database implements.
pub trait Store:
    BrokerStore
    + CounterStore
    + SamplerStore
    + InvestigatorStore
    + WriterStore
    + OutboxStore
    + DeliveryStore
    + RecallStore
    + OperatorStore
    + RetentionStore
    + MetricsStore
    + ManualStore
    + SchemaStore
    + CancelStore
    + AuditStore
    + ReplayStore
    + ReplayPorts
    + IdempotencyStore
    + ReviewerStore
    + TraceStore
    + DeadLetterEditStore
    + TrackerStore
    + EmbeddingStore
{
}

impl<T> Store for T where
    T: BrokerStore
        + CounterStore
        + SamplerStore
        + InvestigatorStore
        + WriterStore
        + OutboxStore
        + DeliveryStore
        + RecallStore
        + OperatorStore
        + RetentionStore
        + MetricsStore
        + ManualStore
        + SchemaStore
        + CancelStore
        + AuditStore
        + ReplayStore
        + ReplayPorts
        + ReplayStore
        + IdempotencyStore
        + ReviewerStore
        + TraceStore
        + DeadLetterEditStore
        + TrackerStore
        + EmbeddingStore
{
}

/// Ports for replaying dead letters, reopening failed retrospectives and predicting the result of a replay
/// (dry run). Excludes [`WriterStore`] because a replay must not change memories.
pub trait ReplayPorts: CounterStore + OperatorStore + CancelStore + ReplayStore {}

impl<T: CounterStore + OperatorStore + CancelStore + ReplayStore + ?Sized> ReplayPorts for T {}

/// Error returned by a storage port.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is unreachable, busy or full. The call may or may not have committed; retrying it is safe
    /// either way.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The caller lost its claim on the investigation, for example because another worker took it over. The
    /// caller must stop and must not publish anything.
    #[error("fenced: the lease of investigation {number} of retrospective {retrospective} was taken over")]
    Fenced {
        /// Retrospective of the investigation.
        retrospective: retro_core::id::RetrospectiveId,
        /// 1-based position of the investigation in its retrospective.
        number: u32,
    },
    /// The decision needs embeddings that were not loaded. Nothing was committed; retry the call with these
    /// embeddings loaded.
    #[error(transparent)]
    MissingEmbeddings(#[from] retro_core::similarity::MissingEmbeddings),
    /// Stored data cannot be decoded or is inconsistent. Retrying does not help; the data needs manual
    /// repair.
    #[error("{place} is damaged: {problem}")]
    Damaged {
        /// Table, column and key of the damaged data.
        place: String,
        /// Human-readable description of the damage.
        problem: String,
    },
}

/// [`Result`](std::result::Result) whose error is a [`StoreError`].
pub type Result<T> = std::result::Result<T, StoreError>;

/// Outcome of an idempotent transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitResult {
    /// This call committed the transaction.
    Done,
    /// An earlier call committed the transaction. Nothing changed.
    AlreadyDone,
    /// The tenant has no such object. Nothing changed.
    NotFound,
}
