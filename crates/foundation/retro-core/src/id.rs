//! Defines the names that emitters choose and the ids that the program derives.
//!
//! Tenants, workflows, steps and runs are named by the emitter. Ids of the program's own objects are
//! *derived*: each is a UUIDv8 from the SHA-256 of the causing identity and an index. The same cause gives
//! the same id in every process and on every redelivery.

mod derived;
mod memory_ref;
mod name;
mod object_ref;
mod repository;

pub use derived::{
    ChangeId, DeadLetterId, FeedbackId, MemoryId, MessageId, MutationId, ProposalId, ReplayBatchId, ReplayId,
    RetrospectiveId, ReviewBatchId, derive_uuid,
};
pub use memory_ref::{MemoryRef, MemoryRefError, SHORT_ID_DIGITS};
pub use name::{
    Epoch, EventKey, NAME_BYTES_MAX, NameError, Ordinal, RunId, Step, Tenant, Workflow, WorkflowKey,
};
pub use object_ref::{ObjectRef, ObjectRefError, short_id};
pub use repository::{RemarkKey, RemarkKind, Repository, ReviewKey, ReviewedPullRequest};
