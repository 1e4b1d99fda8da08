//! Collects lookup keys for closing a retrospective, and builds the dead letter of a failed one.

use jiff::Timestamp;
use retro_core::dead_letter::Rejection;
use retro_core::id::{Epoch, MemoryId, RetrospectiveId, Tenant, Workflow};
use retro_core::learn::{Mutation, MutationKind};
use retro_core::memory::ChangeCause;
use retro_core::retrospective::{Investigation, Retrospective};
use retro_store::{DeliveryPosition, NewDeadLetter};
use serde::Serialize;

use super::memory::cause_columns;
use crate::to_json;

/// Returns the memories that a batch of mutations contradicts or credits, or whose quotes it checks.
pub(crate) fn named_memories(batch: &[Mutation]) -> Vec<MemoryId> {
    let named = batch.iter().filter_map(|mutation| match &mutation.request {
        MutationKind::Contradict { memory, .. }
        | MutationKind::Credit { memory, .. }
        | MutationKind::CheckQuote { memory, .. } => Some(*memory),
        MutationKind::Observe { .. } | MutationKind::Feedback { .. } | MutationKind::Sweep { .. } => None,
    });
    named.collect()
}

/// Returns the `cause` and `cause_id` columns of the changes that this retrospective or its runs may already
/// have caused.
pub(crate) fn possible_causes(
    retrospective: &Retrospective,
    investigations: &[Investigation],
) -> Vec<(&'static str, String)> {
    let workflow = &retrospective.key.workflow;
    let run = |one: &Investigation| ChangeCause::Run { workflow: workflow.clone(), run: one.run.clone() };
    let causes = investigations.iter().map(run).chain([ChangeCause::Retrospective { id: retrospective.id }]);
    causes.map(|one| cause_columns(&one)).collect()
}

/// Payload of the dead letter of a failed retrospective, from which the retrospective can be reopened.
#[derive(Serialize)]
struct FailedRetrospective<'a> {
    // The order of the fields is fixed: the id of the dead letter is derived from the hash of this payload.
    epoch: Epoch,
    retrospective: RetrospectiveId,
    tenant: &'a Tenant,
    workflow: &'a Workflow,
}

/// Builds the dead letter of a failed retrospective. It has no broker message, so its position is the epoch
/// in a pseudo stream named `retrospectives`.
pub(crate) fn failure_dead_letter(
    retrospective: &Retrospective,
    rejection: &Rejection,
    attempts: u32,
    now: Timestamp,
) -> NewDeadLetter {
    let Retrospective { id, key, epoch, .. } = retrospective;
    let payload = FailedRetrospective {
        epoch: *epoch,
        retrospective: *id,
        tenant: &key.tenant,
        workflow: &key.workflow,
    };
    NewDeadLetter {
        position: DeliveryPosition {
            consumer: "writer".to_owned(),
            stream: "retrospectives".to_owned(),
            sequence: *epoch,
        },
        tenant: Some(key.tenant.clone()),
        workflow: Some(key.workflow.clone()),
        subject: "retrospective.failed".to_owned(),
        headers: Vec::new(),
        payload: to_json(&payload).into_bytes(),
        rejection: rejection.clone(),
        attempts,
        stored_at: now,
    }
}
