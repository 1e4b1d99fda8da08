//! Merges what the gateway recorded about a run's memories with what the run's event reports and what its
//! retrospectives said.

use retro_core::id::MemoryId;
use retro_core::run::RunFacts;
use retro_store::RunMemory;
use serde::Serialize;
use utoipa::ToSchema;

/// A memory or rule that a run met, or that chance withheld from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct RunMemoryView {
    /// Id of the memory, a UUID.
    #[schema(value_type = String)]
    pub memory: MemoryId,
    /// The lesson in one sentence; null if the tenant has no such memory.
    #[schema(required = true)]
    pub title: Option<String>,
    /// `true` if the memory was in the run's prompt, as the gateway recorded or the event reports.
    pub presented: bool,
    /// `true` if the run's agent opened the memory, as the gateway recorded or the event reports.
    pub read: bool,
    /// `true` if a closed retrospective found the memory applied in the run.
    pub applied: bool,
    /// `true` if chance withheld the memory from the run, `false` if chance handed it out; null if chance decided
    /// nothing.
    #[schema(required = true)]
    pub withheld: Option<bool>,
}

/// Builds the view of a run's memories, in the order of their ids.
pub(super) fn memory_views(memories: &[RunMemory], facts: Option<&RunFacts>) -> Vec<RunMemoryView> {
    let reports =
        |ids: fn(&RunFacts) -> &Vec<MemoryId>, id| facts.is_some_and(|facts| ids(facts).contains(&id));
    let view = |one: &RunMemory| RunMemoryView {
        memory: one.id,
        title: one.memory.as_ref().map(|memory| memory.lesson.title.clone()),
        presented: one.presented_at.is_some() || reports(|facts| &facts.memories.presented, one.id),
        read: one.read_at.is_some() || reports(|facts| &facts.memories.read, one.id),
        applied: one.applied_in.is_some(),
        withheld: one.withheld,
    };
    memories.iter().map(view).collect()
}
