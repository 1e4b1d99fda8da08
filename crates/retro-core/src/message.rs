//! Messages between our own stages. They are written to the outbox in the transaction that makes them true. A message
//! only wakes its receiver; the database decides what may be worked on.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::dead_letter::Code;
use crate::id::{
    ChangeId, DeadLetterId, Epoch, MemoryId, MessageId, RetrospectiveId, ReviewBatchId, Tenant, Workflow,
    WorkflowKey, derive_uuid,
};
use crate::outcome::PullRequestRef;
use crate::trace::TraceContext;

/// An internal message about a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Id derived from the cause, so that the broker drops duplicates within its window.
    pub id: MessageId,
    /// Tenant of the workflow.
    pub tenant: Tenant,
    /// Workflow that the message is about.
    pub workflow: Workflow,
    /// Content of the message.
    pub notice: Notice,
    /// Trace context that the message continues, if it is traced. It travels in headers, so neither the id nor the
    /// body depends on it.
    #[serde(skip)]
    pub trace: Option<TraceContext>,
}

/// Content of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum Notice {
    /// A retrospective was opened and needs its sample.
    RetrospectiveDue {
        /// Id of the retrospective.
        retrospective: RetrospectiveId,
    },
    /// An investigation may be claimed.
    InvestigationDue {
        /// Id of its retrospective.
        retrospective: RetrospectiveId,
        /// Number of the investigation in the sequence, from 1.
        investigation: u32,
    },
    /// A batch of mutations waits for the writer.
    MutationsDue {
        /// Id of its retrospective.
        retrospective: RetrospectiveId,
    },
    /// A batch of mutations of a repository's rules waits for the writer.
    RulesDue {
        /// Id of the batch.
        batch: ReviewBatchId,
    },
    /// A pull request ended, and memories applied in its runs wait for credit by the writer.
    OutcomesDue {
        /// Pull request that ended.
        pull_request: PullRequestRef,
        /// Fact that completed the information. Each fact that can do so sends a separate message.
        because: String,
    },
    /// A memory changed.
    MemoryChanged {
        /// Id of the change.
        change: ChangeId,
        /// Id of the memory.
        memory: MemoryId,
        /// Kind of the change.
        kind: String,
        /// Policy moment of the change.
        at: Timestamp,
    },
    /// A message was stored as a dead letter.
    DeadLettered {
        /// Id of the dead letter.
        letter: DeadLetterId,
        /// Reason code.
        code: Code,
    },
    /// A report was stored.
    ReportReady {
        /// Id of its retrospective.
        retrospective: RetrospectiveId,
        /// Epoch of the retrospective; 0 for a manual one.
        epoch: Epoch,
    },
}

impl Notice {
    /// Kinds that wake our own stages; each names a retrospective. `rules.due` is not among them, because the
    /// writer polls for batches of rules whose messages were lost with the broker.
    pub const WAKE_UPS: [&str; 3] = ["retrospective.due", "investigation.due", "mutations.due"];
    /// Kinds that announce events to others.
    pub const ANNOUNCEMENTS: [&str; 3] = ["memory.changed", "dead_letter.stored", "report.ready"];

    /// Returns the kind as used in subjects, such as `retrospective.due`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::RetrospectiveDue { .. } => "retrospective.due",
            Self::InvestigationDue { .. } => "investigation.due",
            Self::MutationsDue { .. } => "mutations.due",
            Self::RulesDue { .. } => "rules.due",
            Self::OutcomesDue { .. } => "outcomes.due",
            Self::MemoryChanged { .. } => "memory.changed",
            Self::DeadLettered { .. } => "dead_letter.stored",
            Self::ReportReady { .. } => "report.ready",
        }
    }

    /// Returns the message that carries this notice about a workflow.
    pub fn into_message(self, key: &WorkflowKey) -> Message {
        // The id covers the notice only: with the trace context in it, the same cause would give two ids.
        let cause =
            crate::canonical::canonical_json(&serde_json::to_value(&self).expect("a notice is plain data"));
        let id = MessageId(derive_uuid("message", &[key.tenant.as_str(), key.workflow.as_str(), &cause]));
        Message { id, tenant: key.tenant.clone(), workflow: key.workflow.clone(), notice: self, trace: None }
    }
}
