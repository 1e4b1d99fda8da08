//! Looks for the quotes that an agent gave when it saved lessons, in the trace of its run.

use serde::{Deserialize, Serialize};

use crate::finding::EvidenceOrigin;
use crate::id::MemoryId;
use crate::memory::Memory;
use crate::run::RunFacts;
use crate::trajectory::{QuotePlace, Trajectory};

/// Quotes that the agent of a run gave when it saved lessons, looked for in its trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedQuotes {
    /// Origin of what the run shows.
    #[serde(default, skip_serializing_if = "EvidenceOrigin::is_unknown")]
    pub origin: EvidenceOrigin,
    /// Outcome for each quote. A run saves a bounded number of lessons (`SAVED_PER_RUN_MAX`).
    pub checks: Vec<QuoteCheck>,
}

/// Outcome of looking for one quote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuoteCheck {
    /// Memory of the lesson.
    pub memory: MemoryId,
    /// Place of the quote in the trace; `None` if the trace does not contain it in the step of the memory.
    pub place: Option<QuotePlace>,
}

impl SavedQuotes {
    /// Looks for the unchecked quotes of a run among the evidence of memories. Returns `None` if the run has none.
    pub fn check(run: &RunFacts, trajectory: &Trajectory, memories: &[Memory]) -> Option<Self> {
        let given =
            memories.iter().filter_map(|memory| Some((memory, memory.unchecked_evidence(&run.run_id)?)));
        let checks: Vec<QuoteCheck> = given
            .map(|(memory, evidence)| QuoteCheck {
                memory: memory.id,
                place: memory
                    .scope
                    .step()
                    .and_then(|step| trajectory.find_answer(step, &evidence.quote.text)),
            })
            .collect();
        (!checks.is_empty()).then(|| Self { origin: EvidenceOrigin::of_run(run, None), checks })
    }
}
