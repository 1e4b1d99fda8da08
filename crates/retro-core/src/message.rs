//! The messages that our own stages send each other. They are written to the outbox in the transaction that makes
//! them true, and only wake: what may be worked on is decided by the database.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::dead_letter::Code;
use crate::id::{
    ChangeId, DeadLetterId, Epoch, MemoryId, MessageId, RetrospectiveId, ReviewBatchId, Tenant, Workflow,
    WorkflowKey, derive,
};
use crate::outcome::PullRequestRef;
use crate::trace::TraceContext;

/// A message of ours, with the workflow that it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The same cause makes the same id: the broker drops the second within its window.
    pub id: MessageId,
    /// The tenant.
    pub tenant: Tenant,
    /// The workflow.
    pub workflow: Workflow,
    /// What it says.
    pub notice: Notice,
    /// What it continues, where somebody traces it. It travels beside what is said, so neither id nor bytes have it.
    #[serde(skip)]
    pub trace: Option<TraceContext>,
}

/// What a message says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "notice", rename_all = "snake_case")]
pub enum Notice {
    /// A retrospective was opened and wants its sample.
    RetrospectiveDue {
        /// Which.
        retrospective: RetrospectiveId,
    },
    /// An investigation may be claimed.
    InvestigationDue {
        /// Of which retrospective.
        retrospective: RetrospectiveId,
        /// Its place in the sequence, from 1.
        investigation: u32,
    },
    /// A batch of mutations waits for the writer.
    MutationsDue {
        /// Of which retrospective.
        retrospective: RetrospectiveId,
    },
    /// A batch that asks something of a repository's rules waits for the writer.
    RulesDue {
        /// Which.
        batch: ReviewBatchId,
    },
    /// Memories that were applied in runs of a pull request wait for the writer, since it has ended.
    OutcomesDue {
        /// The pull request.
        pull_request: PullRequestRef,
        /// What made it known: each of the things that have to come together asks for itself.
        because: String,
    },
    /// A memory changed.
    MemoryChanged {
        /// The change.
        change: ChangeId,
        /// The memory.
        memory: MemoryId,
        /// The kind of change.
        kind: String,
        /// The policy moment.
        at: Timestamp,
    },
    /// A message was given up and stored as a dead letter.
    DeadLettered {
        /// The letter.
        letter: DeadLetterId,
        /// Why.
        code: Code,
    },
    /// A report stands.
    ReportReady {
        /// Of which retrospective.
        retrospective: RetrospectiveId,
        /// Its epoch; 0 for a manual one.
        epoch: Epoch,
    },
}

impl Notice {
    /// The kinds that wake our own stages; each names a retrospective. Not among them is `rules.due`: a batch of rules whose wake-up
    /// is lost with the broker is found by the writer.
    pub const WAKE_UPS: [&str; 3] = ["retrospective.due", "investigation.due", "mutations.due"];
    /// The kinds that tell others what happened.
    pub const ANNOUNCEMENTS: [&str; 3] = ["memory.changed", "dead_letter.stored", "report.ready"];

    /// The kind as it stands in subjects: `retrospective.due` and so on.
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

    /// The message that carries this notice about a workflow.
    pub fn about(self, key: &WorkflowKey) -> Message {
        let cause =
            crate::canonical::canonical_json(&serde_json::to_value(&self).expect("a notice is plain data"));
        let id = MessageId(derive("message", &[key.tenant.as_str(), key.workflow.as_str(), &cause]));
        Message { id, tenant: key.tenant.clone(), workflow: key.workflow.clone(), notice: self, trace: None }
    }
}
