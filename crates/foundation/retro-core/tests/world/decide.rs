//! What people decide about single memories, and memories that they write.

use retro_core::id::MemoryId;
use retro_core::learn::{
    AdditionError, AdditionFacts, DecisionRequest, LessonWording, MemoryDecision, MemoryDecisionError,
    MemoryDecisionFacts, WrittenMemory, add_memory, decide_memory,
};
use retro_core::memory::Memory;

use super::{CollectedTexts, World, key, scope};

impl World {
    /// Decides a memory as an operator, under this request id. Returns the kinds of the new changes, or the reason
    /// for a refusal.
    pub(crate) fn decide_as(
        &mut self,
        id: MemoryId,
        decision: &MemoryDecision,
        request: &str,
    ) -> Result<Vec<&'static str>, MemoryDecisionError> {
        let facts = MemoryDecisionFacts {
            key: key(),
            memory: self.memories[&id].clone(),
            history: self.log.iter().filter(|change| change.memory == id).cloned().collect(),
            tombstone: self.tombstones.get(&id).cloned(),
        };
        let request = DecisionRequest { id: request, by: "anna", reason: "looked at it" };
        let decided = decide_memory(&facts, decision, request, &self.policy, self.now)?;
        if decided.lifts_tombstone {
            self.tombstones.remove(&id);
        }
        self.memories.insert(id, decided.memory);
        let kinds = decided.changes.iter().map(|change| change.effect.kind()).collect();
        self.log.extend(decided.changes);
        Ok(kinds)
    }

    /// Decides a memory as an operator in a new request, which must be possible.
    pub(crate) fn decide(&mut self, id: MemoryId, decision: &MemoryDecision) {
        let request = format!("request {}", self.log.len());
        self.decide_as(id, decision, &request).expect("the decision is possible");
    }

    /// Adds a memory as an operator for the step `main`. Returns its id, and the kinds of the new changes.
    pub(crate) fn add_written(
        &mut self,
        title: &str,
        request: &str,
    ) -> Result<(MemoryId, Vec<&'static str>), AdditionError> {
        let wording = LessonWording { title: Some(title.into()), content: None };
        let written = WrittenMemory::new(&key(), scope("main"), &wording, request, "anna", "policy").unwrap();
        let known = |memory: &&Memory| memory.status.is_living() || memory.id == written.id;
        let facts = AdditionFacts {
            key: key(),
            memories: self.memories.values().filter(known).cloned().collect(),
            tombstones: self.tombstones.values().cloned().collect(),
            written,
        };
        let texts = CollectedTexts::of(&facts);
        let added = add_memory(&facts, &self.policy, &texts, self.now)?;
        let (id, kinds) =
            (added.memory.id, added.changes.iter().map(|change| change.effect.kind()).collect());
        self.memories.insert(id, added.memory);
        self.log.extend(added.changes);
        Ok((id, kinds))
    }
}
