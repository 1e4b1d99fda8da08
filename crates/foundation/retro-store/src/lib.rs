#![doc = include_str!("../README.md")]

pub mod access;
pub mod audit;
pub mod broker;
pub mod cancel;
pub mod claim;
pub mod collected_traces;
pub mod compressed;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod context_lease;
pub mod count;
pub mod dead_letter;
pub mod dead_letter_edit;
pub mod dead_letter_history;
pub mod delivery;
pub mod embeddings;
pub mod feedback;
pub mod idempotency;
pub mod inspect;
pub mod investigate;
pub mod kill_switch;
pub mod manual;
pub mod memory_ref;
pub mod metrics;
pub mod model_calls;
pub mod object_ref;
pub mod operator;
pub mod pipeline;
pub mod recall;
pub mod replay;
pub mod result;
pub mod retention;
pub mod review;
pub mod sample;
pub mod schema;
pub mod trace;
pub mod track;
pub mod vectors;
pub mod verify;
pub mod workflow_brief;
pub mod write;

pub use access::{AccessTokenStore, CreateTokenResult, NewAccessToken, UsableToken};
pub use audit::{AuditAction, AuditRow, AuditStore};
pub use broker::BrokerStore;
pub use cancel::{CancelResult, CancelStore, ReopenResult};
pub use claim::{Claim, JournalEntry, JournalStage, StoredBody};
pub use collected_traces::{
    AddSpansResult, AddedTrace, ArrivingSpan, ArrivingTrace, ClaimedTrace, CollectedTraceStore,
    CollectionBounds, CollectionRules, ReadTrace, StoredSpan, TraceClaim, TraceEnd,
};
pub use compressed::{CompressedDocument, DocumentCompressor, decompress_document};
pub use context_lease::{
    CONTEXT_LEASE, ChangeMark, ContextChanges, ContextLease, ContextLeaseStore, wait_for_context_leases,
};
pub use count::{CounterStore, IncomingBody, IncomingRun, WindowsToCheck};
pub use dead_letter::{
    Attempt, AttemptFailure, DeadLetter, DeadLetterCount, DeadLetterFilter, DeadLetterStatus,
    DeadLetterVersion, DeadLetterVersionRow, DeliveryPosition, MessageContent, NewDeadLetter, Redelivery,
};
pub use dead_letter_edit::DeadLetterEditStore;
pub use dead_letter_history::DeadLetterStore;
pub use delivery::{AttemptStart, DeliveryStore, OutboxStore};
pub use embeddings::{
    EmbeddingSource, EmbeddingSourceError, EmbeddingStore, MemoryText, MissingEmbeddingsPage, embed_texts,
};
pub use feedback::{FEEDBACK_SHOWN_MAX, FeedbackRow, FeedbackStore};
pub use idempotency::{
    BeginRequestResult, IdempotencyStore, IdempotencyTimeouts, RequestKey, StoredResponse,
};
pub use inspect::{
    InspectStore, MemoryUsage, RUN_MEMORIES_MAX, RUN_WORKFLOWS_MAX, RunDetail, RunMemory, RunRetrospective,
};
pub use investigate::{
    FollowUp, InvestigationSequence, InvestigatorStore, RunToSummarize, SUMMARY_ATTEMPTS_MAX, SummaryWrite,
};
pub use kill_switch::{KILL_SWITCHES_MAX, KillSwitchStore};
pub use manual::{ManualStore, ProposalFilter, ProposalRow, ProposalStatus, ProposalStore};
pub use memory_ref::{MemoryRefStore, UnresolvedRef, resolve_memory_ref};
pub use metrics::{DatabaseMetrics, MetricsStore};
pub use model_calls::{ModelCall, ModelCallResult, ModelCallStore};
pub use object_ref::{CANDIDATES_MAX, ObjectKind, ObjectRefStore, UnresolvedObject, resolve_object_ref};
pub use operator::{
    DatabaseHealth, InvestigationAttempts, MemoryFilter, OperatorStore, RUNS_SEARCHED_MAX,
    RetrospectiveDetail, RetrospectiveRow, RunExposure, RunFilter, RunRow, RunSearch, WorkflowRow,
};
pub use pipeline::{PipelineRevert, PipelineRevertRow, PipelineStore, PipelineVersionRow};
pub use recall::{AGENT_CONNECTIONS_MAX, AppliedPresentations, Presentation, RecallStore};
pub use replay::{
    CancelBatchResult, DiscardResult, IncomingReplay, NewReplayBatch, OutgoingReplay, ReplayBatchItem,
    ReplayBatchRow, ReplayBatchState, ReplayRow, ReplayState, ReplayStore, RequestReplayResult,
};
pub use result::{CommitResult, Decision, Result, StoreError};
pub use retention::{PurgeResult, RetentionStore, RetentionTotal};
pub use review::{
    DecidedReview, NewReviewBatch, PullRequestKey, PullRequestReviews, ReviewCall, ReviewClaim, ReviewEvent,
    ReviewEventKind, ReviewEventResult, ReviewerStore,
};
pub use sample::{DrawnSample, SamplerStore};
pub use schema::SchemaStore;
pub use trace::TraceStore;
pub use track::{OutcomeStore, TrackerStore};
pub use vectors::{DECISION_ATTEMPTS_MAX, StoredVectors, TEXTS_EMBEDDED_MAX, VectorResolver};
pub use verify::{
    MemoryRecords, OrdinalSummary, RetrospectiveCursor, RetrospectivePage, RetrospectiveRecords, VerifyStore,
    WindowRow, WorkflowRecords,
};
pub use workflow_brief::WorkflowBriefStore;
pub use write::{Deletion, Release, WriterStore};

/// Ports that agents' requests need, which have connections of their own.
pub trait AgentStore: RecallStore + AccessTokenStore + EmbeddingStore {}

impl<T: RecallStore + AccessTokenStore + EmbeddingStore + ?Sized> AgentStore for T {}

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
    + AccessTokenStore
    + ReplayStore
    + ReplayPorts
    + KillSwitchPorts
    + IdempotencyStore
    + ReviewerStore
    + TraceStore
    + DeadLetterEditStore
    + TrackerStore
    + EmbeddingStore
    + FeedbackStore
    + CollectedTraceStore
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
        + AccessTokenStore
        + ReplayStore
        + ReplayPorts
        + ReplayStore
        + KillSwitchPorts
        + IdempotencyStore
        + ReviewerStore
        + TraceStore
        + DeadLetterEditStore
        + TrackerStore
        + EmbeddingStore
        + FeedbackStore
        + CollectedTraceStore
{
}

/// Ports for kill switches, whose effect a person waits for.
pub trait KillSwitchPorts: KillSwitchStore + ContextLeaseStore {}

impl<T: KillSwitchStore + ContextLeaseStore + ?Sized> KillSwitchPorts for T {}

/// Ports for replaying dead letters, reopening failed retrospectives and predicting the result of a replay
/// (dry run). Excludes [`WriterStore`] because a replay must not change memories.
pub trait ReplayPorts: CounterStore + OperatorStore + CancelStore + ReplayStore {}

impl<T: CounterStore + OperatorStore + CancelStore + ReplayStore + ?Sized> ReplayPorts for T {}

#[cfg(test)]
mod tests;
