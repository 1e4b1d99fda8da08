//! Conformance cases for what people decide about single memories, and for the memories that they write.

use std::sync::Arc;

use futures::future::join;
use retro_core::audience::Audience;
use retro_core::id::{MemoryId, Step, WorkflowKey};
use retro_core::learn::{
    AddedMemory, AdditionError, AdditionFacts, DecisionRequest, LessonFields, LessonWording, MemoryDecision,
    MemoryDecisionError, MemoryDecisionFacts, SaveFacts, SavedChange, SavedLesson, WrittenMemory, add_memory,
    decide_memory as decide, save_lesson,
};
use retro_core::memory::{MemoryScope, MemoryStatus, fold_change};
use retro_core::message::Notice;
use retro_core::policy::Policy;
use retro_core::similarity::NgramEmbedder;

use super::Database;
use super::scenario::{Scenario, run_id, test_step, test_tenant, time_at};
use super::write::delete_memory;
use crate::{CommitResult, Decision, Store};

/// Checks that decisions store change, memory and announcement together, and that the memory is their fold.
pub async fn a_disabled_and_pinned_memory_is_the_fold_of_its_changes(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    scenario.mark_all_sent().await;
    let wording = LessonWording { title: Some("in other words".to_owned()), content: None };
    let decisions = [MemoryDecision::Disable, MemoryDecision::Pin, MemoryDecision::Revise(wording)];
    for decision in &decisions {
        let done = decide_memory(&*database.one, memory.id, decision, "request 1").await;
        assert_eq!(done, Ok(CommitResult::Done), "{decision:?}");
    }
    let tenant = &scenario.key.tenant;
    let found = database.two.find_memory(tenant, memory.id).await.expect("reading").expect("its row stays");
    assert_eq!((found.disabled_by.as_deref(), found.pinned_by.as_deref()), (Some("ann"), Some("ann")));
    assert_eq!((found.lesson.title.as_str(), found.weight), ("in other words", memory.weight));
    let history = database.two.list_memory_changes(tenant, memory.id).await.expect("history");
    let kinds: Vec<_> = history.iter().map(|change| change.effect.kind()).collect();
    assert_eq!(kinds[kinds.len() - 3..], ["disabled", "pinned", "revised"]);
    let folded = history.iter().fold(None, |memory, change| fold_change(memory, change).expect("legal"));
    assert_eq!(folded, Some(found));
    assert_eq!(scenario.list_notices().await.len(), 3, "each change is announced");
}

/// Checks that a repeated or concurrent request takes effect once.
pub async fn the_same_decision_happens_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    let both = join(
        decide_memory(&*database.one, memory.id, &MemoryDecision::Disable, "request 1"),
        decide_memory(&*database.two, memory.id, &MemoryDecision::Disable, "request 1"),
    )
    .await;
    assert!(
        both == (Ok(CommitResult::Done), Ok(CommitResult::AlreadyDone))
            || both == (Ok(CommitResult::AlreadyDone), Ok(CommitResult::Done))
    );
    let history = database.one.list_memory_changes(&scenario.key.tenant, memory.id).await.expect("history");
    assert_eq!(history.iter().filter(|change| change.effect.kind() == "disabled").count(), 1);
}

/// Checks that taking back a deletion lifts its tombstone, and that the memory can be deleted again.
pub async fn a_restored_memory_has_no_tombstone(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    for round in 1..=2 {
        let delete = delete_memory(&scenario, memory.id, &format!("deletion {round}")).await;
        assert_eq!(delete, Ok(CommitResult::Done));
        let request = format!("undo {round}");
        let undo = decide_memory(&*database.two, memory.id, &MemoryDecision::Restore, &request).await;
        assert_eq!(undo, Ok(CommitResult::Done));
        assert_eq!(database.one.list_tombstones(&scenario.key).await.expect("tombstones"), []);
        let restored = database.one.find_memory(&scenario.key.tenant, memory.id).await.expect("reading");
        let restored = restored.expect("its row stays");
        assert_eq!((restored.status, restored.evidence), (MemoryStatus::Active, memory.evidence.clone()));
    }
}

/// Checks that a deletion that was taken back is not called done if its request is repeated.
pub async fn a_request_whose_deletion_was_taken_back_is_refused(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    assert_eq!(delete_memory(&scenario, memory.id, "request 1").await, Ok(CommitResult::Done));
    let restored = decide_memory(&*database.two, memory.id, &MemoryDecision::Restore, "request 2").await;
    assert_eq!(restored, Ok(CommitResult::Done));
    let error = delete_memory(&scenario, memory.id, "request 1").await.expect_err("it is living");
    assert!(error.problem.contains("name another request"), "{error}");
    assert_eq!(delete_memory(&scenario, memory.id, "request 3").await, Ok(CommitResult::Done));
}

/// Checks that a refused decision stores nothing, and that a missing memory is not found.
pub async fn a_refused_decision_writes_nothing(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let memory = scenario.learn_lesson("a lesson").await;
    scenario.mark_all_sent().await;
    let before = database.one.list_workflow_changes(&scenario.key).await.expect("changes");
    for decision in [MemoryDecision::Enable, MemoryDecision::Unpin, MemoryDecision::Restore] {
        let refused = decide_memory(&*database.one, memory.id, &decision, "request 1").await;
        assert!(refused.is_err(), "{decision:?}: {refused:?}");
    }
    assert_eq!(database.one.list_workflow_changes(&scenario.key).await.expect("changes"), before);
    assert_eq!(scenario.list_notices().await, []);
    let nobody = MemoryId(retro_core::id::derive_uuid("nobody", &[]));
    let missing = decide_memory(&*database.one, nobody, &MemoryDecision::Pin, "request 1").await;
    assert_eq!(missing, Ok(CommitResult::NotFound));
}

/// Checks that a memory can be written for a workflow that has had no run, and is announced.
pub async fn a_written_memory_needs_no_run(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "a new workflow");
    let added = write_memory(&*database.one, &scenario.key, "request 1").await.expect("it is harmless");
    let found = database.two.find_memory(&scenario.key.tenant, added.memory.id).await.expect("reading");
    assert_eq!(found, Some(added.memory.clone()));
    let history =
        database.two.list_memory_changes(&scenario.key.tenant, added.memory.id).await.expect("history");
    let folded = history.iter().fold(None, |memory, change| fold_change(memory, change).expect("legal"));
    assert_eq!(folded, found);
    assert!(
        matches!(&scenario.list_notices().await[..], [Notice::MemoryChanged { memory, .. }] if *memory == added.memory.id)
    );
    let other = test_tenant("another");
    assert_eq!(database.two.find_memory(&other, added.memory.id).await.expect("reading"), None);
}

/// Checks that two people who write the same at once leave one memory.
pub async fn the_same_memory_is_added_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "a new workflow");
    let (one, two) = join(
        write_memory(&*database.one, &scenario.key, "request 1"),
        write_memory(&*database.two, &scenario.key, "request 2"),
    )
    .await;
    let (one, two) = (one.expect("it is harmless"), two.expect("it is harmless"));
    assert_eq!((one.memory.id, one.changes.len() + two.changes.len()), (two.memory.id, 1));
    let again = write_memory(&*database.one, &scenario.key, "request 1").await.expect("it is harmless");
    assert_eq!((again.memory.id, again.changes), (one.memory.id, vec![]));
    assert_eq!(database.one.list_workflow_changes(&scenario.key).await.expect("changes").len(), 1);
}

/// Decides a memory of tenant `t` as an operator's request does.
pub(super) async fn decide_memory(
    store: &dyn Store,
    id: MemoryId,
    decision: &MemoryDecision,
    request: &str,
) -> Result<CommitResult, MemoryDecisionError> {
    let decide = |facts: &MemoryDecisionFacts| {
        let request = DecisionRequest { id: request, by: "ann", reason: "because" };
        decide(facts, decision, request, &Policy::default(), time_at(21))
    };
    store.decide_memory(&test_tenant("t"), id, &decide).await.expect("deciding")
}

async fn write_memory(
    store: &dyn Store,
    key: &WorkflowKey,
    request: &str,
) -> Result<AddedMemory, AdditionError> {
    let (workflow, step) = (key.workflow.clone(), Step::main());
    let scope = MemoryScope::Step { workflow, step, audience: Audience::Everyone };
    write_memory_of_scope(store, key, scope, "Ask before a deployment.", request).await
}

/// Adds a memory that a person wrote for a scope of the workflow.
pub(super) async fn write_memory_of_scope(
    store: &dyn Store,
    key: &WorkflowKey,
    scope: MemoryScope,
    title: &str,
    request: &str,
) -> Result<AddedMemory, AdditionError> {
    let wording = LessonWording { title: Some(title.to_owned()), content: None };
    let written = WrittenMemory::new(key, scope, &wording, request, "ann", "because").expect("short");
    let decide = |facts: &AdditionFacts| -> Decision<Result<AddedMemory, AdditionError>> {
        Ok(add_memory(facts, &Policy::default(), &NgramEmbedder, time_at(21)))
    };
    let added = store.add_memory(key, &written, &decide).await.expect("adding");
    added.expect("the embedder knows every text")
}

/// Checks that two agents that save the same at once leave one tentative memory, that the same again changes nothing,
/// and that another tenant has none of it.
pub async fn the_same_lesson_is_saved_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "a new workflow");
    let saved = |run: &str| {
        let fields = LessonFields {
            step: test_step(),
            run: run_id(run),
            repository: None,
            change: SavedChange::AddArgument,
            tool: "deploy_service".to_owned(),
            argument: Some("region".to_owned()),
            bad: None,
            good: None,
            error: "Error: 'region' is required".to_owned(),
            cause: None,
        };
        SavedLesson::from_fields(&scenario.key, fields).expect("the fields are complete")
    };
    let save = |store: Arc<dyn Store>, saved: SavedLesson| {
        let key = scenario.key.clone();
        async move {
            let decide =
                |facts: &SaveFacts| Ok(save_lesson(facts, &Policy::default(), &NgramEmbedder, time_at(21)));
            let saving = store.save_lesson(&key, &saved, &decide).await.expect("saving");
            saving.expect("every text can be compared").expect("it is harmless")
        }
    };
    let (one, two) = (database.one.clone(), database.two.clone());
    let (left, right) = join(save(one.clone(), saved("r1")), save(two.clone(), saved("r2"))).await;
    assert_eq!((left.memory.id, left.changes.len() + right.changes.len()), (right.memory.id, 1));
    assert_eq!(left.memory.status, MemoryStatus::Tentative);
    assert_eq!(save(two.clone(), saved("r1")).await.changes, []);
    let changes = one.list_workflow_changes(&scenario.key).await.expect("changes");
    assert_eq!(changes.len(), 1);
    assert_eq!(
        one.find_memory(&scenario.key.tenant, left.memory.id).await.expect("reading"),
        Some(left.memory.clone())
    );
    let facts = one.load_save_facts(&scenario.key, &saved("r3")).await.expect("facts");
    assert_eq!(facts.memories, std::slice::from_ref(&left.memory));
    assert!(
        matches!(&scenario.list_notices().await[..], [Notice::MemoryChanged { memory, .. }] if *memory == left.memory.id)
    );
    assert_eq!(two.find_memory(&test_tenant("another"), left.memory.id).await.expect("reading"), None);
}
