//! Which lesson is which: the memory that says the same, and the tombstone that forbids it.

use std::cmp::Reverse;

use crate::id::MemoryId;
use crate::memory::{Lesson, Memory, Scope, Tombstone};
use crate::policy::Policy;
use crate::similar::Vectors;

/// Similarity under a policy.
#[derive(Clone, Copy)]
pub(crate) struct Alike<'w, 'e> {
    pub(crate) vectors: &'w Vectors<'e>,
    pub(crate) policy: &'w Policy,
}

impl Alike<'_, '_> {
    /// The living memory of the scope that says the same: most similar, then oldest, then least id. Never the one that
    /// the finding contradicts, however alike the words are.
    pub(crate) fn best_match<'m>(
        self,
        memories: impl Iterator<Item = &'m Memory>,
        scope: &Scope,
        lesson: &Lesson,
        contradicts: Option<MemoryId>,
    ) -> Option<&'m Memory> {
        memories
            .filter(|memory| {
                memory.status.lives() && memory.scope == *scope && Some(memory.id) != contradicts
            })
            .filter_map(|memory| Some((self.same_lesson(&memory.lesson, lesson)?, memory)))
            .min_by_key(|(similar, memory)| (Reverse(*similar), memory.created_at, memory.id))
            .map(|(_, memory)| memory)
    }

    /// How similar two lessons of one scope are, if similar enough to be one.
    pub(crate) fn same_lesson(self, known: &Lesson, new: &Lesson) -> Option<u16> {
        let similar = || self.vectors.similarity(known, new);
        self.vectors.may_merge(known, new).then(similar).filter(|s| *s >= self.policy.merge_similarity)
    }

    /// The tombstone that forbids the lesson; the opposite of what was deleted is free to come.
    pub(crate) fn stopping_tombstone<'t>(
        self,
        stones: impl Iterator<Item = &'t Tombstone>,
        scope: &Scope,
        lesson: &Lesson,
    ) -> Option<(&'t Tombstone, u16)> {
        stones
            .filter(|stone| stone.scope == *scope && !self.vectors.opposite(&stone.lesson, lesson))
            .map(|stone| (stone, self.vectors.similarity(&stone.lesson, lesson)))
            .filter(|(_, similar)| *similar >= self.policy.tombstone_similarity)
            .max_by_key(|(stone, similar)| (*similar, Reverse(stone.memory)))
    }
}
