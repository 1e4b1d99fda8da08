//! Messages that Retrospect sends through the outbox: wake-ups for its own stages, and announcements for
//! other programs. Each is written in the same transaction as the state that it announces. A wake-up carries
//! no work: its receiver loads the work from the database.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::dead_letter::DeadLetterCode;
use crate::id::{
    ChangeId, DeadLetterId, Epoch, MemoryId, MessageId, RetrospectiveId, ReviewBatchId, Tenant, Workflow,
    WorkflowKey, derive_uuid,
};
use crate::memory::Change;
use crate::pull_request::PullRequestRef;
use crate::trace::TraceContext;

/// An internal message about a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Id derived from the cause of the message, so the broker drops duplicates within its deduplication
    /// window.
    pub id: MessageId,
    /// Tenant of the workflow.
    pub tenant: Tenant,
    /// Workflow that the message is about.
    pub workflow: Workflow,
    /// Content of the message.
    pub notice: Notice,
    /// Trace context that the message continues; `None` if the work is not traced. Sent in headers, so
    /// neither the id nor the body depends on it.
    #[serde(skip)]
    pub trace: Option<TraceContext>,
}

/// Content of a message: a wake-up or an announcement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum Notice {
    /// A retrospective was opened and needs its sample.
    RetrospectiveDue {
        /// Id of the retrospective.
        retrospective: RetrospectiveId,
    },
    /// An investigation is ready to be claimed.
    InvestigationDue {
        /// Id of the retrospective that includes the investigation.
        retrospective: RetrospectiveId,
        /// 1-based position of the investigation in its retrospective.
        investigation: u32,
    },
    /// A batch of mutations is ready for the writer.
    MutationsDue {
        /// Id of the retrospective that requests the mutations.
        retrospective: RetrospectiveId,
    },
    /// A batch of mutations for a repository's rules is ready for the writer.
    RulesDue {
        /// Id of the batch.
        batch: ReviewBatchId,
    },
    /// A pull request ended, and the writer has to credit the memories that were applied in its runs.
    OutcomesDue {
        /// Pull request that ended.
        pull_request: PullRequestRef,
        /// Fact that made the credit due. Each such fact leads to a separate message.
        because: String,
    },
    /// A memory changed.
    MemoryChanged {
        /// Id of the change to the memory.
        change: ChangeId,
        /// Id of the memory.
        memory: MemoryId,
        /// Kind of the change.
        kind: String,
        /// Time of the change, as stored with it.
        at: Timestamp,
    },
    /// A message was stored as a dead letter.
    DeadLettered {
        /// Id of the dead letter.
        letter: DeadLetterId,
        /// Reason code of the dead letter.
        code: DeadLetterCode,
    },
    /// A report was stored.
    ReportReady {
        /// Id of the retrospective that the report covers.
        retrospective: RetrospectiveId,
        /// Epoch of the retrospective; 0 for a manual one.
        epoch: Epoch,
    },
}

impl Notice {
    /// Kinds of wake-ups that name a retrospective. `rules.due` is not among them: the writer polls for
    /// batches of rules whose messages the broker lost.
    pub const WAKE_UPS: [&str; 3] = ["retrospective.due", "investigation.due", "mutations.due"];
    /// Kinds of messages that announce events to programs outside Retrospect.
    pub const ANNOUNCEMENTS: [&str; 3] = ["memory.changed", "dead_letter.stored", "report.ready"];

    /// Returns the kind of the message as it appears in subjects, such as `retrospective.due`.
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

    /// Creates the announcement of a change to a memory.
    pub(crate) fn of_change(change: &Change) -> Self {
        let kind = change.effect.kind().to_owned();
        Self::MemoryChanged { change: change.id, memory: change.memory, kind, at: change.at }
    }

    /// Wraps the notice in a message about a workflow.
    pub fn into_message(self, key: &WorkflowKey) -> Message {
        // The id covers the notice only: with the trace context in it, the same cause would give two ids.
        let cause =
            crate::canonical::canonical_json(&serde_json::to_value(&self).expect("a notice is plain data"));
        let id = MessageId(derive_uuid("message", &[key.tenant.as_str(), key.workflow.as_str(), &cause]));
        Message { id, tenant: key.tenant.clone(), workflow: key.workflow.clone(), notice: self, trace: None }
    }
}
