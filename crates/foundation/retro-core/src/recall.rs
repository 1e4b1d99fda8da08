//! Chooses the memories to present to the next run of a step, and renders them as a block of its prompt.

mod choose;
mod fence;
mod memory_content;
mod prepared;
mod relevance;
mod search;
mod strip;
mod task;
mod terms;
mod withhold;

use serde::{Deserialize, Serialize};

pub use choose::CountTokens;
pub use fence::{
    FENCE_BEGIN, FENCE_END, FENCE_HINT, FENCE_HINTS, FENCE_TOOL_HINT, RecallPlace, RecallReason,
    RecalledMemory, hint_at_tools, render_block, strip_injected,
};
pub use memory_content::MemoryContent;
pub use prepared::PreparedMemories;
pub use relevance::{TaskOrder, TextIndex};
pub use search::{FoundKind, FoundMemories, FoundMemory};
pub use task::{RecallTask, TASK_BYTES_MAX, TaskVectors};
pub use withhold::{Assignment, is_withheld};

use crate::id::MemoryId;
use crate::memory::Memory;

/// A memory that may be presented, with the number of times it was presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallCandidate {
    /// Candidate memory with its scope, lesson and weight.
    pub memory: Memory,
    /// Number of runs to which the memory was presented.
    pub presentations: u64,
}

/// The chosen memories and their rendering as a block of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recall {
    /// Presented memories in the order of their lines: by descending weight, or by weight and relevance if there is a
    /// task, with newcomers last.
    pub memories: Vec<RecalledMemory>,
    /// Block to insert into the prompt; empty if there are no memories.
    pub text: String,
    /// Number of tokens in `text`.
    pub tokens: u32,
    /// Number of eligible memories that did not fit.
    pub omitted: u32,
    /// Number of memories that are heavy enough and blocked: held until a person releases them, or the gate
    /// objects to them.
    #[serde(default)]
    pub blocked: u32,
    /// Decisions by chance: one for each presented memory, and one for each that would have been presented and
    /// was withheld. Empty for a preview, for rules, and if the policy withholds nothing.
    #[serde(default)]
    pub assignments: Vec<Assignment>,
}

/// What a step of a run was handed, by which it gets the same when it asks again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HandedList {
    /// Memories in the order of their lines.
    memories: Vec<HandedMemory>,
    /// Memories that chance withheld.
    withheld: Vec<MemoryId>,
    /// Number of eligible memories that did not fit.
    omitted: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct HandedMemory {
    id: MemoryId,
    /// `true` if it took the place of a newcomer.
    newcomer: bool,
    /// What it owed its place to, and its relevance, if there was a task.
    because: Option<(RecallPlace, u16)>,
}

impl From<&Recall> for HandedList {
    fn from(recall: &Recall) -> Self {
        let withheld = recall.assignments.iter().filter(|assignment| assignment.withheld);
        Self {
            memories: recall.memories.iter().map(HandedMemory::from).collect(),
            withheld: withheld.map(|assignment| assignment.memory).collect(),
            omitted: recall.omitted,
        }
    }
}

impl From<&RecalledMemory> for HandedMemory {
    fn from(memory: &RecalledMemory) -> Self {
        let because = memory.because.as_ref().map(|because| (because.place, because.relevance));
        Self { id: memory.id, newcomer: memory.newcomer, because }
    }
}

impl HandedList {
    /// Returns `true` if nothing was handed out and nothing withheld.
    pub const fn is_empty(&self) -> bool {
        self.memories.is_empty() && self.withheld.is_empty()
    }
}

impl Recall {
    /// Returns the number of memories that chance withheld from the run.
    pub fn withheld(&self) -> usize {
        self.assignments.iter().filter(|assignment| assignment.withheld).count()
    }
}
