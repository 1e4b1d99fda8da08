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

/// The ports that a replay needs: reading dead letters, replaying them, reopening a failed retrospective, and the
/// counter's facts, from which a dry run predicts the result. The writer's port is intentionally not included, because
/// a replay must not be able to change memories.
pub trait ReplayPorts: CounterStore + OperatorStore + CancelStore + ReplayStore {}

impl<T: CounterStore + OperatorStore + CancelStore + ReplayStore + ?Sized> ReplayPorts for T {}

/// Reason why a call to a port failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database is unreachable, busy or full, and the same call may succeed later. Nothing was committed, or it is
    /// unknown whether anything was. Calling again is safe in both cases.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The caller no longer holds the claim on the investigation, for example because another worker took it over. The
    /// caller must stop and must not publish anything.
    #[error("fenced: the lease of investigation {number} of retrospective {retrospective} was taken over")]
    Fenced {
        /// Retrospective to which the investigation belongs.
        retrospective: retro_core::id::RetrospectiveId,
        /// Number of the investigation within its retrospective, from 1.
        number: u32,
    },
    /// The decision needs embeddings that were not loaded. Nothing was committed. The same call succeeds once they are
    /// loaded.
    #[error(transparent)]
    MissingEmbeddings(#[from] retro_core::similarity::MissingEmbeddings),
    /// Stored data cannot be read or is inconsistent. Retrying does not help; a person has to inspect it.
    #[error("{place} is damaged: {problem}")]
    Damaged {
        /// Table, column and key of the damaged data.
        place: String,
        /// Description of the damage, for people.
        problem: String,
    },
}

/// Result of a port method, which fails with a [`StoreError`].
pub type Result<T> = std::result::Result<T, StoreError>;

/// Outcome of a transaction that may safely be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitResult {
    /// The transaction was performed by this call.
    Done,
    /// The transaction had already been performed. Nothing changed.
    AlreadyDone,
    /// The tenant has no such object. Nothing changed.
    NotFound,
}
