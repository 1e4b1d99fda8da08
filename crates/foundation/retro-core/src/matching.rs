//! Finds the memory that already contains a lesson, and the tombstone that forbids it.

use std::cmp::Reverse;

use crate::id::MemoryId;
use crate::memory::{Lesson, Memory, MemoryScope, Tombstone};
use crate::policy::Policy;
use crate::similarity::VectorCache;

/// Matches lessons with memories and tombstones by similarity, with the thresholds of one policy.
#[derive(Clone, Copy)]
pub(crate) struct LessonMatcher<'w, 'e> {
    pub(crate) vectors: &'w VectorCache<'e>,
    pub(crate) policy: &'w Policy,
}

impl LessonMatcher<'_, '_> {
    /// Returns the living memory of the scope that contains the same lesson. If there are several, prefers
    /// the most similar one, then the oldest, then the one with the lowest id. Skips the memory
    /// `contradicts`, because a finding must not confirm the memory that it contradicts, however similar the
    /// words are.
    pub(crate) fn best_match<'m>(
        self,
        memories: impl Iterator<Item = &'m Memory>,
        scope: &MemoryScope,
        lesson: &Lesson,
        contradicts: Option<MemoryId>,
    ) -> Option<&'m Memory> {
        memories
            .filter(|memory| {
                memory.status.is_living() && memory.scope == *scope && Some(memory.id) != contradicts
            })
            .filter_map(|memory| Some((self.same_lesson(&memory.lesson, lesson)?, memory)))
            .min_by_key(|(similar, memory)| (Reverse(*similar), memory.created_at, memory.id))
            .map(|(_, memory)| memory)
    }

    /// Returns the similarity of two lessons of one scope if they are the same, otherwise `None`.
    pub(crate) fn same_lesson(self, known: &Lesson, new: &Lesson) -> Option<u16> {
        self.vectors.same_similarity(self.policy, known, new)
    }

    /// Returns the tombstone of the scope that forbids the lesson, with the similarity of the two. If there
    /// are several, prefers the most similar one. The opposite of a deleted lesson is never forbidden.
    pub(crate) fn blocking_tombstone<'t>(
        self,
        tombstones: impl Iterator<Item = &'t Tombstone>,
        scope: &MemoryScope,
        lesson: &Lesson,
    ) -> Option<(&'t Tombstone, u16)> {
        tombstones
            .filter(|tombstone| {
                tombstone.scope == *scope && !self.vectors.are_opposite(&tombstone.lesson, lesson)
            })
            .map(|tombstone| (tombstone, self.vectors.lesson_similarity(&tombstone.lesson, lesson)))
            .filter(|(_, similar)| *similar >= self.policy.tombstone_similarity)
            // Ties are broken by id, or the result would depend on the order of the rows.
            .max_by_key(|(tombstone, similar)| (*similar, Reverse(tombstone.memory)))
    }
}
