//! Ids of the program's own objects, each derived from its cause. A method that derives an id is named after
//! the cause. That of a batch of replays is in `replay.rs`, because it includes the attribution.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::name::{Epoch, RunId, Step, Tenant, WorkflowKey};
use super::repository::{RemarkKey, ReviewKey};

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
    /// Id of a retrospective, derived from tenant, workflow and epoch, or from tenant, workflow and request
    /// if the retrospective is manual.
    RetrospectiveId
);
derived_id!(
    /// Id of a memory, derived from the finding or remark that first stated its lesson.
    MemoryId
);
derived_id!(
    /// Id of a proposal, derived from the first finding that led to it.
    ProposalId
);
derived_id!(
    /// Id of a mutation, derived from an index and the investigation or review batch that requested it.
    MutationId
);
derived_id!(
    /// Id of a change, derived from its effect key: memory, cause and kind.
    ChangeId
);
derived_id!(
    /// Id of an internal message, by which the broker deduplicates. The same cause gives the same id.
    MessageId
);
derived_id!(
    /// Id of a dead letter, derived from consumer, stream and sequence, so storing a message twice gives one
    /// dead letter.
    DeadLetterId
);

derived_id!(
    /// Id of a replay, derived from the dead letter and the replay number. The replayed message has the same
    /// id at the broker.
    ReplayId
);
derived_id!(
    /// Id of a batch of replays, derived from tenant, attribution and dead letters.
    ReplayBatchId
);

derived_id!(
    /// Id of a batch of rule mutations, derived from the review and round, or from the retrospective, that
    /// requested it. The report about a review has the id of its batch.
    ReviewBatchId
);

derived_id!(
    /// Id of feedback on a memory, derived from the memory, the author and the verdict.
    FeedbackId
);

impl FeedbackId {
    /// Returns the id of feedback. `author` consists of the source, the workflow, the run and the name. `before` is the
    /// number of times that the author's same feedback was weighed before; 0 for a run, which is heard once.
    pub fn of_author(
        tenant: &Tenant,
        memory: MemoryId,
        author: [&str; 4],
        verdict: &str,
        before: u64,
    ) -> Self {
        let [source, workflow, run, by] = author;
        let (memory, before) = (memory.to_string(), before.to_string());
        let parts = [tenant.as_str(), &memory, source, workflow, run, by, verdict, &before];
        Self(derive_uuid("feedback", &parts))
    }
}

impl ReviewBatchId {
    /// Returns the id of the batch that a review requests. `round` is the 1-based number of the decision
    /// about the review; new facts lead to another round.
    pub fn of_review(tenant: &Tenant, review: &ReviewKey, round: u64) -> Self {
        Self(derive_uuid("review_batch", &[tenant.as_str(), &review.to_string(), &round.to_string()]))
    }

    /// Returns the id of the batch by which a retrospective credits the rules of a repository, given the
    /// repository's rule scope.
    pub fn of_rule_uses(rule_scope: &WorkflowKey, retrospective: RetrospectiveId) -> Self {
        let parts = [rule_scope.tenant.as_str(), rule_scope.workflow.as_str(), &retrospective.to_string()];
        Self(derive_uuid("rule_uses", &parts))
    }
}

impl ReplayId {
    /// Returns the id of a replay of a dead letter. `number` is the 1-based replay number.
    pub fn of_dead_letter(dead_letter: DeadLetterId, number: u32) -> Self {
        Self(derive_uuid("replay", &[&dead_letter.to_string(), &number.to_string()]))
    }
}

impl RetrospectiveId {
    /// Returns the id of a workflow's automatic retrospective with this epoch.
    pub fn of_epoch(key: &WorkflowKey, epoch: Epoch) -> Self {
        Self(derive_uuid("retrospective", &[key.tenant.as_str(), key.workflow.as_str(), &epoch.to_string()]))
    }

    /// Returns the id of the manual retrospective that the request with this id opens.
    pub fn of_request(key: &WorkflowKey, request: &str) -> Self {
        Self(derive_uuid("manual_retrospective", &[key.tenant.as_str(), key.workflow.as_str(), request]))
    }
}

impl ProposalId {
    /// Returns the id of the proposal that starts with this finding. `investigation` is 1-based, `finding` is
    /// 0-based.
    pub fn of_finding(retrospective: RetrospectiveId, investigation: u32, finding: u32) -> Self {
        Self(derive_uuid(
            "proposal",
            &[&retrospective.to_string(), &investigation.to_string(), &finding.to_string()],
        ))
    }
}

impl MemoryId {
    /// Returns the id of the memory that a finding would create. `investigation` is 1-based, `finding` is
    /// 0-based.
    pub fn of_finding(retrospective: RetrospectiveId, investigation: u32, finding: u32) -> Self {
        Self(derive_uuid(
            "memory",
            &[&retrospective.to_string(), &investigation.to_string(), &finding.to_string()],
        ))
    }

    /// Returns the id of the memory that widens a lesson to several repositories. `candidate` is the id of the memory
    /// that the finding would create in its own.
    pub fn of_widened(candidate: Self) -> Self {
        Self(derive_uuid("memory", &["widened", &candidate.to_string()]))
    }

    /// Returns the id of the rule that this edition of a remark would create.
    pub fn of_remark(tenant: &Tenant, remark: &RemarkKey, edition: &str) -> Self {
        Self(derive_uuid("memory", &["remark", tenant.as_str(), &remark.to_string(), edition]))
    }

    /// Returns the id of the memory that the agent of a run saves in a step, given the signature of its cue.
    pub fn of_saved(key: &WorkflowKey, step: &Step, run: &RunId, signature: &str) -> Self {
        let (tenant, workflow) = (key.tenant.as_str(), key.workflow.as_str());
        Self(derive_uuid("memory", &["saved", tenant, workflow, step.as_str(), run.as_str(), signature]))
    }

    /// Returns the id of the memory that an operator's request would add to a workflow.
    pub fn of_request(key: &WorkflowKey, request: &str) -> Self {
        Self(derive_uuid("memory", &["request", key.tenant.as_str(), key.workflow.as_str(), request]))
    }
}

impl MutationId {
    /// Returns the id of the mutation by which a retrospective, or a batch of rules, weighs feedback.
    pub fn of_feedback(weighed_by: Uuid, feedback: FeedbackId) -> Self {
        Self(derive_uuid("mutation", &["feedback", &weighed_by.to_string(), &feedback.to_string()]))
    }

    /// Returns the id of the mutation at the 0-based `index` of a review batch.
    pub fn of_review(batch: ReviewBatchId, index: usize) -> Self {
        Self(derive_uuid("mutation", &["review", &batch.to_string(), &index.to_string()]))
    }

    /// Returns the id of a mutation that an investigation requests. `index` is its 0-based position among the
    /// mutations of this `kind`.
    pub fn of_investigation(
        retrospective: RetrospectiveId,
        kind: &str,
        investigation: u32,
        index: u32,
    ) -> Self {
        let (retrospective, investigation, index) =
            (retrospective.to_string(), investigation.to_string(), index.to_string());
        Self(derive_uuid("mutation", &[&retrospective, kind, &investigation, &index]))
    }
}

/// Derives a UUIDv8 from the SHA-256 of a kind and a list of parts. Each is prefixed with its length, so
/// different lists never give the same hash input.
pub fn derive_uuid(kind: &str, parts: &[&str]) -> Uuid {
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
    use super::super::name::Workflow;
    use super::*;

    #[test]
    fn derived_ids_are_version_8_and_differ_by_part() {
        let id = derive_uuid("memory", &["a", "bc"]);
        assert_eq!(id.get_version_num(), 8);
        assert_eq!(id, derive_uuid("memory", &["a", "bc"]));
        assert_ne!(id, derive_uuid("memory", &["ab", "c"]));
        assert_ne!(id, derive_uuid("change", &["a", "bc"]));
    }

    /// Stored ids are derived again at each redelivery, so a changed derivation would apply everything twice.
    #[test]
    fn derived_ids_never_change_between_versions() {
        let key =
            WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("golden").unwrap() };
        let retrospective = RetrospectiveId::of_epoch(&key, 1);
        assert_eq!(retrospective.to_string(), "aef6a013-6fcf-8e00-8030-b44d95bda4eb");
        let memory = MemoryId::of_finding(retrospective, 1, 0);
        assert_eq!(memory.to_string(), "0e879f5a-11f2-86d0-acca-aec8c874a811");
    }
}
