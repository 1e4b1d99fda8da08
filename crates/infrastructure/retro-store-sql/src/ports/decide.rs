//! Loads the facts for people's decisions about memories, and stores what was decided.

use retro_core::id::WorkflowKey;
use retro_core::learn::{
    AddedMemory, AdditionFacts, DecidedMemory, LessonSaving, MemoryDecisionFacts, SaveFacts, SavedLesson,
    WrittenMemory,
};
use retro_core::memory::Memory;
use retro_store::Result;

use super::dialect::Connection;
use super::memory::{
    append_changes, delete_tombstones, list_changes, list_living_and_named, list_tombstones, store_memories,
};
use super::outbox;

/// Loads the facts for a decision about one memory.
pub(crate) async fn load_decision_facts(
    connection: &mut Connection,
    key: WorkflowKey,
    memory: Memory,
) -> Result<MemoryDecisionFacts> {
    let history = list_changes(connection, &key.tenant, memory.id).await?;
    let tombstones = list_tombstones(connection, &key).await?;
    let tombstone = tombstones.into_iter().find(|tombstone| tombstone.memory == memory.id);
    Ok(MemoryDecisionFacts { key, memory, history, tombstone })
}

/// Stores the effects of a decision about one memory.
pub(crate) async fn store_decision(
    connection: &mut Connection,
    key: &WorkflowKey,
    decided: &DecidedMemory,
) -> Result<()> {
    append_changes(connection, key, &decided.changes).await?;
    store_memories(connection, key, std::slice::from_ref(&decided.memory)).await?;
    if decided.lifts_tombstone {
        delete_tombstones(connection, key, &[decided.memory.id]).await?;
    }
    outbox::enqueue_messages(connection, decided.messages.iter()).await
}

/// Loads the facts for adding a memory that a person wrote.
pub(crate) async fn load_addition_facts(
    connection: &mut Connection,
    key: &WorkflowKey,
    written: &WrittenMemory,
) -> Result<AdditionFacts> {
    Ok(AdditionFacts {
        key: key.clone(),
        written: written.clone(),
        memories: list_living_and_named(connection, key, &[written.id]).await?,
        tombstones: list_tombstones(connection, key).await?,
    })
}

/// Stores the effects of adding a memory.
pub(crate) async fn store_addition(
    connection: &mut Connection,
    key: &WorkflowKey,
    added: &AddedMemory,
) -> Result<()> {
    append_changes(connection, key, &added.changes).await?;
    store_memories(connection, key, std::slice::from_ref(&added.memory)).await?;
    outbox::enqueue_messages(connection, added.messages.iter()).await
}

/// Loads the facts for saving a lesson.
pub(crate) async fn load_save_facts(
    connection: &mut Connection,
    key: &WorkflowKey,
    saved: &SavedLesson,
) -> Result<SaveFacts> {
    Ok(SaveFacts {
        key: key.clone(),
        saved: saved.clone(),
        memories: list_living_and_named(connection, key, &[saved.id]).await?,
        tombstones: list_tombstones(connection, key).await?,
    })
}

/// Stores the effects of saving a lesson.
pub(crate) async fn store_saving(
    connection: &mut Connection,
    key: &WorkflowKey,
    saving: &LessonSaving,
) -> Result<()> {
    append_changes(connection, key, &saving.changes).await?;
    store_memories(connection, key, std::slice::from_ref(&saving.memory)).await?;
    outbox::enqueue_messages(connection, saving.messages.iter()).await
}
