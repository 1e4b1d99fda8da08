//! Lists of memories, as reports show them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Memory, MemoryScope, MemoryStatus};
use crate::id::MemoryId;
use crate::weight::Weight;

/// Maximum number of memories in one list. The others are only counted.
pub const MEMORIES_LISTED_MAX: usize = 500;

/// Memories of a workflow at one time, counted by status and listed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MemoryListing {
    /// Number of memories in each status.
    pub by_status: BTreeMap<MemoryStatus, u32>,
    /// Memories by descending weight, at most [`MEMORIES_LISTED_MAX`].
    pub listed: Vec<MemoryLine>,
}

/// One memory in a list of memories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryLine {
    /// Id of the memory.
    pub id: MemoryId,
    /// Scope in which the memory applies.
    pub scope: MemoryScope,
    /// Status of the memory.
    pub status: MemoryStatus,
    /// Weight of the memory.
    pub weight: Weight,
    /// Title of the lesson.
    pub title: String,
}

/// Lists memories by descending weight.
pub(crate) fn list_memories(all: &[Memory]) -> MemoryListing {
    let mut by_status = BTreeMap::new();
    for memory in all {
        *by_status.entry(memory.status).or_insert(0) += 1;
    }
    let mut sorted: Vec<_> = all.iter().collect();
    // The id breaks ties, or the report would depend on the order of rows.
    sorted.sort_by_key(|memory| (Reverse(memory.weight), memory.status, memory.id));
    sorted.truncate(MEMORIES_LISTED_MAX);
    MemoryListing { by_status, listed: sorted.into_iter().map(memory_line).collect() }
}

fn memory_line(memory: &Memory) -> MemoryLine {
    MemoryLine {
        id: memory.id,
        scope: memory.scope.clone(),
        status: memory.status,
        weight: memory.weight,
        title: memory.lesson.title.clone(),
    }
}
