//! Conformance cases for deleting a memory.

use futures::future::join;
use retro_core::id::{ChangeId, MemoryId, WorkflowKey};
use retro_core::learn::delete_by_operator;
use retro_core::memory::{ChangeCause, FoldError, Memory, MemoryStatus, change_id};
use retro_core::message::Notice;
use retro_core::policy::Policy;

use super::Database;
use super::scenario::{Scenario, time_at};
use crate::{CommitResult, Deletion};

/// Checks that a deletion stores its change, tombstone and announcement in one transaction.
pub async fn a_deletion_leaves_a_change_a_tombstone_and_an_announcement(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    scenario.mark_all_sent().await;
    assert_eq!(delete_memory(&scenario, memory.id, "request 1").await, Ok(CommitResult::Done));
    let removed = database
        .two
        .find_memory(&scenario.key.tenant, memory.id)
        .await
        .expect("reading")
        .expect("its row stays");
    assert_eq!(removed.status, MemoryStatus::Deleted);
    let history = database.two.list_memory_changes(&scenario.key.tenant, memory.id).await.expect("history");
    let last = history.last().expect("it was deleted");
    assert_eq!((last.effect.kind(), last.reason.as_str()), ("deleted", "because"));
    let stones = database.two.list_tombstones(&scenario.key).await.expect("tombstones");
    assert_eq!((stones.len(), stones[0].memory), (1, memory.id));
    assert!(
        matches!(&scenario.list_notices().await[..], [Notice::MemoryChanged { change, .. }] if *change == last.id)
    );
}

/// Checks that a repeated or concurrent request deletes a memory once.
pub async fn the_same_deletion_happens_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    let other = scenario.with_store(&*database.two);
    let both =
        join(delete_memory(&scenario, memory.id, "request 1"), delete_memory(&other, memory.id, "request 1"))
            .await;
    assert!(
        both == (Ok(CommitResult::Done), Ok(CommitResult::AlreadyDone))
            || both == (Ok(CommitResult::AlreadyDone), Ok(CommitResult::Done))
    );
    let history = database.one.list_memory_changes(&scenario.key.tenant, memory.id).await.expect("history");
    assert_eq!(history.iter().filter(|change| change.effect.kind() == "deleted").count(), 1);
}

/// Checks that deleting an already deleted memory in another request is refused and stores nothing.
pub async fn a_refused_deletion_writes_nothing(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    delete_memory(&scenario, memory.id, "request 1").await.expect("the memory is living");
    scenario.mark_all_sent().await;
    let before = database.one.list_workflow_changes(&scenario.key).await.expect("changes");
    let error = delete_memory(&scenario, memory.id, "request 2").await.expect_err("it is deleted");
    assert!(error.problem.contains("deleted"), "{error}");
    assert_eq!(database.one.list_workflow_changes(&scenario.key).await.expect("changes"), before);
    assert_eq!(scenario.list_notices().await, []);
    let nobody = MemoryId(retro_core::id::derive_uuid("nobody", &[]));
    assert_eq!(delete_memory(&scenario, nobody, "request 3").await, Ok(CommitResult::NotFound));
}

/// Deletes a memory as an operator's request does.
pub(super) async fn delete_memory(
    scenario: &Scenario<'_>,
    id: MemoryId,
    request: &str,
) -> Result<CommitResult, FoldError> {
    let decide = |key: &WorkflowKey, memory: &Memory| {
        let policy = Policy::default();
        let (change, memory, tombstone) =
            delete_by_operator(key, memory, request, "because", time_at(20), &policy)?;
        let notice = Notice::MemoryChanged {
            change: change.id,
            memory: memory.id,
            kind: change.effect.kind().to_owned(),
            at: change.at,
        };
        Ok(Deletion { message: notice.into_message(key), change, memory, tombstone })
    };
    scenario.store.delete_memory(&scenario.key.tenant, id, &decide).await.expect("deleting")
}

/// Deletes a memory for any cause, and returns the id of the change.
pub(super) async fn delete_because_of(scenario: &Scenario<'_>, id: MemoryId, cause: ChangeCause) -> ChangeId {
    let change_id = change_id(&scenario.key, id, &cause, "deleted");
    let decide = |key: &WorkflowKey, memory: &Memory| {
        let (mut change, memory, tombstone) =
            delete_by_operator(key, memory, "", "because", time_at(20), &Policy::default())?;
        (change.id, change.cause) = (change_id, cause.clone());
        let kind = change.effect.kind().to_owned();
        let notice = Notice::MemoryChanged { change: change_id, memory: memory.id, kind, at: change.at };
        Ok(Deletion { message: notice.into_message(key), change, memory, tombstone })
    };
    let deleted = scenario.store.delete_memory(&scenario.key.tenant, id, &decide).await;
    assert_eq!(deleted.expect("deleting"), Ok(CommitResult::Done));
    change_id
}
