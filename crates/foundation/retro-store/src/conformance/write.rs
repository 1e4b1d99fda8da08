//! Conformance cases for deleting a memory, and for releasing one from quarantine.

use futures::future::join;
use retro_core::id::{ChangeId, MemoryId, Tenant, WorkflowKey};
use retro_core::learn::{delete_by_operator, release_by_operator};
use retro_core::memory::{
    Change, ChangeCause, ChangeEffect, FoldError, Memory, MemoryStatus, change_id, fold_change,
};
use retro_core::message::Message;
use retro_core::message::Notice;
use retro_core::policy::Policy;

use super::Database;
use super::review::{a_quarantined_rule, list_rules, test_repository};
use super::scenario::{Scenario, test_tenant, time_at};
use crate::{CommitResult, Deletion, Release, Store};

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

/// Checks that a release stores its change, memory and announcement in one transaction, and that the memory is
/// the fold of its changes.
pub async fn a_release_leaves_a_change_and_an_announcement(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    hold_memory(&scenario, memory.id).await;
    scenario.mark_all_sent().await;
    let tenant = &scenario.key.tenant;
    assert_eq!(release_memory(&*database.one, tenant, memory.id, "request 1").await, Ok(CommitResult::Done));
    let released =
        database.two.find_memory(tenant, memory.id).await.expect("reading").expect("its row stays");
    assert_eq!((released.quarantine.as_deref(), released.released_by.as_deref()), (None, Some("ann")));
    assert_eq!(released.status, MemoryStatus::Active, "a release changes no status");
    let history = database.two.list_memory_changes(tenant, memory.id).await.expect("history");
    let kinds: Vec<_> = history.iter().map(|change| change.effect.kind()).collect();
    assert_eq!(kinds[kinds.len() - 2..], ["held", "released"]);
    let folded = history.iter().fold(None, |memory, change| fold_change(memory, change).expect("legal"));
    assert_eq!(folded, Some(released));
    let last = history.last().expect("it was released");
    assert_eq!(last.reason, "released by ann: it is safe");
    assert!(
        matches!(&scenario.list_notices().await[..], [Notice::MemoryChanged { change, .. }] if *change == last.id)
    );
}

/// Checks that a repeated or concurrent request releases a memory once.
pub async fn the_same_release_happens_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    hold_memory(&scenario, memory.id).await;
    let tenant = &scenario.key.tenant;
    let both = join(
        release_memory(&*database.one, tenant, memory.id, "request 1"),
        release_memory(&*database.two, tenant, memory.id, "request 1"),
    )
    .await;
    assert!(
        both == (Ok(CommitResult::Done), Ok(CommitResult::AlreadyDone))
            || both == (Ok(CommitResult::AlreadyDone), Ok(CommitResult::Done))
    );
    let history = database.one.list_memory_changes(tenant, memory.id).await.expect("history");
    assert_eq!(history.iter().filter(|change| change.effect.kind() == "released").count(), 1);
}

/// Checks that releasing a memory that is not held is refused and stores nothing.
pub async fn a_refused_release_writes_nothing(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    scenario.mark_all_sent().await;
    let tenant = &scenario.key.tenant;
    let before = database.one.list_workflow_changes(&scenario.key).await.expect("changes");
    let error =
        release_memory(&*database.one, tenant, memory.id, "request 1").await.expect_err("it is not held");
    assert!(error.problem.contains("not held"), "{error}");
    assert_eq!(database.one.list_workflow_changes(&scenario.key).await.expect("changes"), before);
    assert_eq!(scenario.list_notices().await, []);
    let nobody = MemoryId(retro_core::id::derive_uuid("nobody", &[]));
    assert_eq!(release_memory(&*database.one, tenant, nobody, "request 1").await, Ok(CommitResult::NotFound));
}

/// Checks that a rule is released from quarantine under the lock of its repository, once, and keeps its status.
pub async fn a_held_rule_is_released_once(database: &Database) {
    let (store, tenant) = (&*database.one, test_tenant("t"));
    let rule = a_quarantined_rule(store, "t").await;
    for (store, result) in [(store, CommitResult::Done), (&*database.two, CommitResult::AlreadyDone)] {
        assert_eq!(release_memory(store, &tenant, rule.id, "one").await, Ok(result));
    }
    let released = list_rules(store, "t").await.remove(0);
    assert_eq!((released.status, released.quarantine), (MemoryStatus::Tentative, None));
    let scope = test_repository().rule_scope(&tenant);
    let changes = database.two.list_workflow_changes(&scope).await.expect("changes");
    assert_eq!(changes.last().map(|change| change.effect.kind()), Some("released"));
}

/// Releases a memory from quarantine as an operator's request does.
pub(super) async fn release_memory(
    store: &dyn Store,
    tenant: &Tenant,
    id: MemoryId,
    request: &str,
) -> Result<CommitResult, FoldError> {
    let decide = |key: &WorkflowKey, memory: &Memory| {
        let (change, memory) = release_by_operator(key, memory, request, "ann", "it is safe", time_at(20))?;
        Ok(Release { message: announce_change(key, &change), change, memory })
    };
    store.release_memory(tenant, id, &decide).await.expect("releasing")
}

/// Puts a memory into quarantine, with the change by which closing a retrospective does it.
pub(super) async fn hold_memory(scenario: &Scenario<'_>, id: MemoryId) {
    let decide = |key: &WorkflowKey, memory: &Memory| {
        let why = "a person decides";
        let cause = ChangeCause::Operator { request: "the tests want it so".to_owned() };
        let effect = ChangeEffect::Held { why: why.to_owned() };
        let change = Change {
            id: change_id(key, id, &cause, effect.kind()),
            memory: id,
            cause,
            effect,
            mutation: None,
            retrospective: None,
            epoch: None,
            pipeline: None,
            at: time_at(15),
            reason: why.to_owned(),
            with_token: None,
        };
        let memory = fold_change(Some(memory.clone()), &change)?.expect("a held memory stays");
        Ok(Release { message: announce_change(key, &change), change, memory })
    };
    let held = scenario.store.release_memory(&scenario.key.tenant, id, &decide).await;
    assert_eq!(held.expect("holding"), Ok(CommitResult::Done));
}

fn announce_change(key: &WorkflowKey, change: &Change) -> Message {
    let kind = change.effect.kind().to_owned();
    Notice::MemoryChanged { change: change.id, memory: change.memory, kind, at: change.at }.into_message(key)
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
        Ok(Deletion { message: announce_change(key, &change), change, memory, tombstone })
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
        Ok(Deletion { message: announce_change(key, &change), change, memory, tombstone })
    };
    let deleted = scenario.store.delete_memory(&scenario.key.tenant, id, &decide).await;
    assert_eq!(deleted.expect("deleting"), Ok(CommitResult::Done));
    change_id
}
