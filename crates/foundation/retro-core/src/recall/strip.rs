//! Removes from runs and their trajectories what Retrospect itself wrote into them, because the system must
//! not learn from its own output.

use super::fence::strip_injected;
use super::memory_content::MemoryContent;
use crate::memory::Memory;
use crate::run::RunFacts;
use crate::trajectory::Trajectory;

impl RunFacts {
    /// Removes injected memory blocks from the agent's self-feedback. An agent asked for its lessons tends to
    /// repeat the memories in its prompt, which would then confirm themselves.
    pub fn without_injected_blocks(mut self) -> Self {
        for remark in &mut self.self_feedback {
            if let Some(stripped) = strip_injected(&remark.text) {
                remark.text = stripped;
            }
        }
        self
    }
}

impl Trajectory {
    /// Removes injected memory blocks from all text, because the system must not learn from its own output.
    pub fn without_injected_blocks(self) -> Self {
        self.map_texts(strip_injected)
    }

    /// Removes the content of these memories from all text. The trajectory of a run that opened a memory
    /// repeats its words and errors, which would otherwise confirm the memory.
    pub fn without_memory_content(self, memories: &[&Memory]) -> Self {
        let content = MemoryContent::of_memories(memories);
        self.map_texts(|text| content.strip(text))
    }
}
