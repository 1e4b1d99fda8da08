//! The results of a world, from which the figures are computed.

use serde::Serialize;

use crate::closed_loop::simulation::WorkflowResult;
use crate::closed_loop::truth::MemoryTruth;
use crate::closed_loop::world::World;

/// Results of one world under one policy.
#[derive(Debug, Clone)]
pub(crate) struct WorldResult<'a> {
    pub(crate) world: &'a World,
    pub(crate) workflow_results: Vec<WorkflowResult>,
}

/// A memory at the end of a simulation, with its truth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct FinalMemory {
    /// Workflow of the memory, as `world/workflow`.
    pub(crate) workflow: String,
    pub(crate) seed: u64,
    pub(crate) status: String,
    pub(crate) truth: MemoryTruth,
    /// Weight of the memory, in thousandths.
    pub(crate) weight: u32,
    pub(crate) line: String,
}

/// Lists every memory of every workflow at the end, in whatever status.
pub(crate) fn list_final_memories(results: &[WorldResult<'_>]) -> Vec<FinalMemory> {
    let mut memories = Vec::new();
    for world in results {
        for story in &world.workflow_results {
            let name = &world.world.workflows[story.workflow].name;
            for memory in story.windows.last().map_or(&[][..], |look| &look.memories) {
                memories.push(FinalMemory {
                    workflow: format!("{}/{name}", world.world.name),
                    seed: story.seed,
                    status: memory.status.clone(),
                    truth: memory.truth,
                    weight: memory.weight,
                    line: memory.lesson.line.clone(),
                });
            }
        }
    }
    memories
}
