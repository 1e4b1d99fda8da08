//! What closing a retrospective looks for, and the letter of one that failed.

use jiff::Timestamp;
use retro_core::dead_letter::Rejection;
use retro_core::id::{Epoch, MemoryId, RetrospectiveId, Tenant, Workflow};
use retro_core::learn::{Ask, Mutation};
use retro_core::memory::Cause;
use retro_core::retrospective::{Investigation, Retrospective};
use retro_store::{NewDeadLetter, Position};
use serde::Serialize;

use crate::json;
use crate::memory::cause;

/// The memories that a batch names.
pub fn named(batch: &[Mutation]) -> Vec<MemoryId> {
    let named = batch.iter().filter_map(|mutation| match &mutation.ask {
        Ask::Contradict { memory, .. } | Ask::Credit { memory, .. } => Some(*memory),
        Ask::Observe { .. } | Ask::Sweep => None,
    });
    named.collect()
}

/// What this retrospective or one of its runs may have caused already: the columns `cause` and `cause_id`.
pub fn causes(
    retrospective: &Retrospective,
    investigations: &[Investigation],
) -> Vec<(&'static str, String)> {
    let workflow = &retrospective.key.workflow;
    let run = |one: &Investigation| Cause::Run { workflow: workflow.clone(), run: one.run.clone() };
    let causes = investigations.iter().map(run).chain([Cause::Retrospective { id: retrospective.id }]);
    causes.map(|one| cause(&one)).collect()
}

/// The payload of a failed retrospective's dead letter: enough to open the workflow again.
#[derive(Serialize)]
struct FailedRetrospective<'a> {
    // In the order of its keys, since letters are known by their payload's hash.
    epoch: Epoch,
    retrospective: RetrospectiveId,
    tenant: &'a Tenant,
    workflow: &'a Workflow,
}

/// A failed retrospective came in no message: its letter stands at its epoch in a stream of our own naming.
pub fn failure_letter(
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
        position: Position {
            consumer: "writer".to_owned(),
            stream: "retrospectives".to_owned(),
            sequence: *epoch,
        },
        tenant: Some(key.tenant.clone()),
        workflow: Some(key.workflow.clone()),
        subject: "retrospective.failed".to_owned(),
        headers: Vec::new(),
        payload: json(&payload).into_bytes(),
        rejection: rejection.clone(),
        attempts,
        stored_at: now,
    }
}
