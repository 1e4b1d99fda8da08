//! Decides how a batch of mutations changes the memories of a workflow, as one pure function.

use jiff::Timestamp;

use super::settle::{Mutation, MutationKind};
use super::writer::{MemoryWriter, WriterFacts};
use crate::id::WorkflowKey;
use crate::memory::{
    AppliedBatch, Change, ChangeCause, ChangeEffect, FoldError, Memory, Tombstone, fold_change,
};
use crate::policy::Policy;
use crate::similarity::Embedder;
use crate::time::add_seconds;

/// Decides the effects of a batch of mutations. This is a pure function: the same facts and batch give the
/// same changes, byte for byte.
pub fn apply_mutations(facts: WriterFacts, batch: &[Mutation], embedder: &dyn Embedder) -> AppliedBatch {
    let mut writer = MemoryWriter::new(facts, batch, embedder);
    for (row, mutation) in batch.iter().enumerate() {
        match &mutation.request {
            MutationKind::Observe { run, no_lesson: Some(why), .. } => {
                writer.ledger.explain_outcome(row, why.describe(run));
            }
            MutationKind::Observe { memory, run, finding, support, .. } => {
                writer.apply_observation(row, *memory, run, finding, support.as_ref());
            }
            MutationKind::CheckQuote { memory, run, place, origin } => {
                writer.apply_quote_check(row, *memory, run, *place, origin);
            }
            MutationKind::Contradict { memory, run, step, subject, reason, .. } => {
                writer.apply_contradiction(row, *memory, run, step, subject, reason);
            }
            MutationKind::Credit { memory, run, verdict, read, reason } => {
                writer.apply_credit(row, *memory, run, *verdict, *read, reason);
            }
            MutationKind::Feedback { feedback } => writer.apply_feedback(row, feedback),
            MutationKind::Sweep { unneeded } => writer.sweep_memories(row, unneeded),
        }
    }
    writer.ledger.into_applied()
}

/// Decides the effects of releasing a memory from quarantine at an operator's request: one change. From then on
/// agents are shown the memory as its status and weight allow, and the gate does not hold it again. Fails if
/// the memory is not held.
pub fn release_by_operator(
    key: &WorkflowKey,
    memory: &Memory,
    request: &str,
    by: &str,
    reason: &str,
    as_of: Timestamp,
) -> Result<(Change, Memory), FoldError> {
    let cause = ChangeCause::Operator { request: request.to_owned() };
    let effect = ChangeEffect::Released { by: by.to_owned() };
    let change = Change::new(key, memory.id, cause, effect, format!("released by {by}: {reason}"), as_of);
    let after = fold_change(Some(memory.clone()), &change)?.expect("a release keeps the memory");
    Ok((change, after))
}

/// Decides the effects of deleting a memory at an operator's request: one change and one tombstone. Fails if
/// a memory with this status cannot be deleted.
pub fn delete_by_operator(
    key: &WorkflowKey,
    memory: &Memory,
    request: &str,
    reason: &str,
    as_of: Timestamp,
    policy: &Policy,
) -> Result<(Change, Memory, Tombstone), FoldError> {
    let cause = ChangeCause::Operator { request: request.to_owned() };
    let until = add_seconds(as_of, policy.tombstone_s);
    let effect = ChangeEffect::Deleted { tombstone_until: Some(until) };
    let change = Change::new(key, memory.id, cause, effect, reason.to_owned(), as_of);
    let after = fold_change(Some(memory.clone()), &change)?.expect("a deletion keeps the memory");
    Ok((change, after, Tombstone::of_memory(memory, until, reason.to_owned())))
}
