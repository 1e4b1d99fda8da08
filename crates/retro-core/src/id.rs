//! Names and identities.
//!
//! Names come from the emitter (tenant, workflow, step, run). Ids of our own things are *derived*: a UUIDv8 of
//! SHA-256 over the causing identity and an index, so that the same cause always makes the same id, in whichever
//! process and however often it is handled.

mod memory_ref;

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::review::{RemarkKey, ReviewKey};
use crate::steer::Act;

pub use memory_ref::{MemoryRef, MemoryRefError, SHORT_ID_DIGITS};

/// The longest name we take from an emitter, in bytes. NATS subjects stay well below 4 KiB with two of them.
pub const NAME_BYTES_MAX: usize = 256;

/// A name that is empty, too long or holds control characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {problem}")]
pub struct NameError {
    /// Which name: `tenant`, `workflow`, `run_id` or `step`.
    pub what: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Takes a name of 1 to [`NAME_BYTES_MAX`] bytes without control characters; fails otherwise.
            pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
                let text = text.into();
                check_name($what, &text)?;
                Ok(Self(text))
            }

            /// The name as the emitter wrote it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The owner of everything below it. Nothing crosses a tenant.
    Tenant,
    "tenant"
);
name!(
    /// A workflow, by the stable name that its emitter gives it.
    Workflow,
    "workflow"
);
name!(
    /// A step of a workflow, by the workflow's own name for it.
    Step,
    "step"
);
name!(
    /// One finished execution of a workflow, by the emitter's id.
    RunId,
    "run_id"
);

impl Tenant {
    /// The tenant of a single-tenant installation.
    pub fn default_tenant() -> Self {
        Self("default".to_owned())
    }
}

impl Step {
    /// The step of a trajectory entry that names none.
    pub fn main() -> Self {
        Self("main".to_owned())
    }
}

fn check_name(what: &'static str, text: &str) -> Result<(), NameError> {
    let problem = if text.is_empty() {
        "is empty".to_owned()
    } else if text.len() > NAME_BYTES_MAX {
        format!("is {} bytes long; at most {NAME_BYTES_MAX} are taken", text.len())
    } else if let Some(c) = text.chars().find(|c| c.is_control()) {
        format!("holds the control character {c:?}")
    } else {
        return Ok(());
    };
    Err(NameError { what, problem })
}

/// A workflow of a tenant: the key of windows, counters and retrospectives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WorkflowKey {
    /// The owner.
    pub tenant: Tenant,
    /// The workflow's name.
    pub workflow: Workflow,
}

impl fmt::Display for WorkflowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.workflow)
    }
}

/// The identity of an event within its tenant: CloudEvents `source` and `id`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventKey {
    /// The owner; the subject says who.
    pub tenant: Tenant,
    /// CloudEvents `source`.
    pub source: String,
    /// CloudEvents `id`.
    pub id: String,
}

/// Counts the retrospectives of one workflow, from 1, without gaps.
pub type Epoch = u64;
/// Counts the runs of one workflow that were counted, from 1, without gaps.
pub type Ordinal = u64;

macro_rules! derived_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::str::FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Uuid::parse_str(text).map(Self)
            }
        }
    };
}

derived_id!(
    /// A retrospective: derived from tenant, workflow and epoch; a manual one from tenant, workflow and request.
    RetrospectiveId
);
derived_id!(
    /// A memory: derived from what first asked for it and an index.
    MemoryId
);
derived_id!(
    /// What a manual retrospective proposes: derived from the retrospective and the finding that came first.
    ProposalId
);
derived_id!(
    /// One request for a change: derived from retrospective, investigation ordinal and finding index.
    MutationId
);
derived_id!(
    /// One thing the writer did: derived from its effect key.
    ChangeId
);
derived_id!(
    /// A message of ours on its way to the broker; the same cause makes the same id.
    MessageId
);
derived_id!(
    /// A dead letter: derived from consumer, stream and position, so that giving up twice leaves one.
    DeadLetterId
);

derived_id!(
    /// One sending of a dead letter: derived from the letter and its number. The message's id at the broker, too.
    ReplayId
);
derived_id!(
    /// A batch of replays: derived from everything that was asked.
    BatchId
);

derived_id!(
    /// A decision about a review and its remarks: derived from the review and which time it is decided. Its report's
    /// id, too.
    ReviewBatchId
);

impl ReviewBatchId {
    /// The id of the `round`th decision about a review, from 1: what is learnt later has it decided again.
    pub fn of(tenant: &Tenant, review: &ReviewKey, round: u64) -> Self {
        Self(derive("review_batch", &[tenant.as_str(), &review.to_string(), &round.to_string()]))
    }

    /// The id of what a retrospective's verdicts on a repository's rules come to.
    pub fn of_uses(keeper: &WorkflowKey, retrospective: RetrospectiveId) -> Self {
        let parts = [keeper.tenant.as_str(), keeper.workflow.as_str(), &retrospective.to_string()];
        Self(derive("rule_uses", &parts))
    }
}

impl ReplayId {
    /// The id of the `number`th replay of a letter, from 1.
    pub fn of(letter: DeadLetterId, number: u32) -> Self {
        Self(derive("replay", &[&letter.to_string(), &number.to_string()]))
    }
}

impl BatchId {
    /// The id of the batch that somebody asks for over these letters.
    pub fn of<'a>(tenant: &Tenant, act: &Act, letters: impl Iterator<Item = &'a DeadLetterId>) -> Self {
        let letters: Vec<String> = letters.map(ToString::to_string).collect();
        let at = act.at.to_string();
        Self(derive("replay_batch", &[tenant.as_str(), &act.by, &act.reason, &at, &letters.join(",")]))
    }
}

impl RetrospectiveId {
    /// The id of the automatic retrospective `epoch` of a workflow.
    pub fn automatic(key: &WorkflowKey, epoch: Epoch) -> Self {
        Self(derive("retrospective", &[key.tenant.as_str(), key.workflow.as_str(), &epoch.to_string()]))
    }

    /// The id of the manual retrospective that a request asks for.
    pub fn manual(key: &WorkflowKey, request: &str) -> Self {
        Self(derive("manual_retrospective", &[key.tenant.as_str(), key.workflow.as_str(), request]))
    }
}

impl ProposalId {
    /// The id of the proposal that begins with a finding of an investigation.
    pub fn of_finding(retrospective: RetrospectiveId, investigation: u32, finding: u32) -> Self {
        Self(derive(
            "proposal",
            &[&retrospective.to_string(), &investigation.to_string(), &finding.to_string()],
        ))
    }
}

impl MemoryId {
    /// The id of the memory that a finding would make.
    pub fn of_finding(retrospective: RetrospectiveId, investigation: u32, finding: u32) -> Self {
        Self(derive(
            "memory",
            &[&retrospective.to_string(), &investigation.to_string(), &finding.to_string()],
        ))
    }
}

impl MemoryId {
    /// The id of the rule that one edition of a remark would make.
    pub fn of_remark(tenant: &Tenant, remark: &RemarkKey, edition: &str) -> Self {
        Self(derive("memory", &["remark", tenant.as_str(), &remark.to_string(), edition]))
    }
}

impl MutationId {
    /// The id of the `index`th mutation that a decision about a review asks for.
    pub fn of_review(batch: ReviewBatchId, index: usize) -> Self {
        Self(derive("mutation", &["review", &batch.to_string(), &index.to_string()]))
    }

    /// The id of the `index`th mutation of `kind` that an investigation asks for.
    pub fn of(retrospective: RetrospectiveId, kind: &str, investigation: u32, index: u32) -> Self {
        let (retrospective, investigation, index) =
            (retrospective.to_string(), investigation.to_string(), index.to_string());
        Self(derive("mutation", &[&retrospective, kind, &investigation, &index]))
    }
}

/// A UUIDv8 of SHA-256 over a kind and its parts. Parts are length-prefixed, so that no two lists collide.
pub fn derive(kind: &str, parts: &[&str]) -> Uuid {
    let mut hash = Sha256::new();
    for part in std::iter::once(&kind).chain(parts) {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    let mut bytes = [0u8; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_ids_are_version_8_and_tell_their_parts_apart() {
        let id = derive("memory", &["a", "bc"]);
        assert_eq!(id.get_version_num(), 8);
        assert_eq!(id, derive("memory", &["a", "bc"]));
        assert_ne!(id, derive("memory", &["ab", "c"]));
        assert_ne!(id, derive("change", &["a", "bc"]));
    }

    /// Stored ids are derived again whenever a message is: another recipe would make everything happen twice.
    #[test]
    fn derived_ids_never_change_between_versions() {
        let key =
            WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("golden").unwrap() };
        let retrospective = RetrospectiveId::automatic(&key, 1);
        assert_eq!(retrospective.to_string(), "aef6a013-6fcf-8e00-8030-b44d95bda4eb");
        let memory = MemoryId::of_finding(retrospective, 1, 0);
        assert_eq!(memory.to_string(), "0e879f5a-11f2-86d0-acca-aec8c874a811");
    }

    #[test]
    fn a_name_is_refused_with_what_is_wrong() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        for (text, problem) in [("", "is empty"), (long.as_str(), "257 bytes"), ("a\nb", "control character")]
        {
            let error = Workflow::new(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
        assert!(Workflow::new("größe & mehr").is_ok());
    }
}
