//! Puts memories into quarantine.

use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_core::memory::{Change, ChangeCause, ChangeEffect, Memory, change_id, fold_change};
use retro_core::message::Notice;
use retro_store::{CommitResult, Release, Store};

/// Puts a memory into quarantine with the change by which the writer does it, whatever the gate says about the
/// memory.
pub(crate) async fn hold_memory(store: &dyn Store, tenant: &Tenant, id: MemoryId) {
    // The port stores any change of one memory. The writer itself holds memories only while it applies a batch.
    let decide = |key: &WorkflowKey, memory: &Memory| {
        let why = "a person decides".to_owned();
        let cause = ChangeCause::Operator { request: "the story wants it so".to_owned() };
        let effect = ChangeEffect::Held { why: why.clone() };
        let change = Change {
            id: change_id(key, id, &cause, effect.kind()),
            memory: id,
            cause,
            effect,
            mutation: None,
            retrospective: None,
            epoch: None,
            pipeline: None,
            at: memory.changed_at,
            reason: why,
            with_token: None,
        };
        let memory = fold_change(Some(memory.clone()), &change)?.expect("a held memory stays");
        let kind = change.effect.kind().to_owned();
        let notice = Notice::MemoryChanged { change: change.id, memory: id, kind, at: change.at };
        Ok(Release { message: notice.into_message(key), change, memory })
    };
    let held = store.release_memory(tenant, id, &decide).await.expect("holding");
    assert_eq!(held, Ok(CommitResult::Done));
}
