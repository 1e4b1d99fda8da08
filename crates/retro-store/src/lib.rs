#![doc = include_str!("../README.md")]

pub mod audit;
pub mod broker;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod count;
pub mod delivery;
pub mod investigate;
pub mod keep;
pub mod letter;
pub mod level;
pub mod manual;
pub mod name;
pub mod operate;
pub mod recall;
pub mod replay;
pub mod request;
pub mod review;
pub mod sample;
pub mod schema;
pub mod steer;
pub mod trace;
pub mod track;
pub mod vectors;
pub mod verify;
pub mod write;

pub use audit::{ActRow, AuditStore, Deed};
pub use broker::BrokerStore;
pub use count::{CounterStore, IncomingBody, IncomingRun};
pub use delivery::{
    AttemptStart, DeadLetter, DeliveryStore, LetterStatus, NewDeadLetter, OutboxStore, Position, Redelivery,
};
pub use investigate::{Claim, Finish, InvestigatorStore, JournalEntry, Sequence, Stage, StoredBody};
pub use keep::{PurgeRow, Purged, RetentionStore};
pub use letter::{Attempt, Content, Failure, LetterCount, LetterStore, LetterVersion, MendStore, VersionRow};
pub use level::{LevelStore, Levels};
pub use manual::{ManualStore, ProposalFilter, ProposalRow, ProposalStatus, ProposalStore};
pub use name::{NameStore, Unnamed, resolve};
pub use operate::{
    DeadLetterFilter, Health, MemoryFilter, OperatorStore, RetrospectiveDetail, RetrospectiveRow, RunFilter,
    RunMet, RunRow, WorkflowRow,
};
pub use recall::{AGENT_READERS_MAX, RecallStore};
pub use replay::{
    BatchCancelled, BatchLetter, BatchRow, BatchState, Discarded, NewBatch, ReplayRow, ReplayState,
    ReplayStore, Replayed, Resent, Sending,
};
pub use request::{Begun, KeptAnswer, RequestName, RequestStore, RequestTimes};
pub use review::{
    Collected, DecidedReview, Heard, PullRequestKey, ReviewerStore, Said, SettledReview, Taken,
};
pub use sample::{SamplerStore, Sampling};
pub use schema::SchemaStore;
pub use steer::{Cancelled, Reopened, SteerStore};
pub use trace::TraceStore;
pub use track::{OutcomeStore, TrackerStore};
pub use vectors::{
    LackingPage, MemoryText, SourceError, TEXTS_PER_ROUND_MAX, VectorSource, VectorStore, made,
};
pub use verify::{
    MemoryBooks, OrdinalSummary, RetrospectiveBooks, RetrospectiveCursor, RetrospectivePage, VerifyStore,
    WindowRow, WorkflowBooks,
};
pub use write::{Deletion, WriterStore};

/// Everything a database has to offer.
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
    + LevelStore
    + ManualStore
    + SchemaStore
    + SteerStore
    + AuditStore
    + ReplayStore
    + HandStore
    + RequestStore
    + ReviewerStore
    + TraceStore
    + MendStore
    + TrackerStore
    + VectorStore
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
        + LevelStore
        + ManualStore
        + SchemaStore
        + SteerStore
        + AuditStore
        + ReplayStore
        + HandStore
        + ReplayStore
        + RequestStore
        + ReviewerStore
        + TraceStore
        + MendStore
        + TrackerStore
        + VectorStore
{
}

/// What people's hands on dead letters need: reading, replaying, following a failed retrospective, and what the counter
/// knows, to say beforehand what would happen. Not the writer's port.
pub trait HandStore: CounterStore + OperatorStore + SteerStore + ReplayStore {}

impl<T: CounterStore + OperatorStore + SteerStore + ReplayStore + ?Sized> HandStore for T {}

/// Why the database did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It is away, busy or full; the same call may succeed later. Nothing was committed, or the outcome is unknown
    /// and calling again is safe.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// Somebody else holds the lease now: stop, and publish nothing.
    #[error("fenced: the lease of investigation {number} of retrospective {retrospective} was taken over")]
    Fenced {
        /// The retrospective.
        retrospective: retro_core::id::RetrospectiveId,
        /// The investigation's number.
        number: u32,
    },
    /// A decision wants vectors that are not at hand. Nothing was committed; the same call with them succeeds.
    #[error(transparent)]
    Unready(#[from] retro_core::similar::Unready),
    /// What is stored cannot be read, or contradicts itself; a person has to look.
    #[error("{place} is damaged: {problem}")]
    Damaged {
        /// Table, column and key.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// What a port answers.
pub type Result<T> = std::result::Result<T, StoreError>;

/// What came of a step that may find its work done, or find nothing to work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It was done now.
    Done,
    /// It had been done before: nothing changed.
    AlreadyDone,
    /// There is no such thing in this tenant.
    Unknown,
}
