//! Proposals: patterns that become memories if an operator accepts them.

use serde::{Deserialize, Serialize};

use super::{Evidence, Lesson, MemoryScope};
use crate::id::{MemoryId, ProposalId, RetrospectiveId, Step, Workflow};

/// A pattern found by a manual retrospective, which an operator accepts or refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Id derived from the first finding of the pattern.
    pub id: ProposalId,
    /// Manual retrospective that found the pattern.
    pub retrospective: RetrospectiveId,
    /// Id that a new memory gets if the proposal is accepted.
    pub memory: MemoryId,
    /// Workflow of the runs that show the pattern.
    pub workflow: Workflow,
    /// Step in which the pattern was seen.
    pub step: Step,
    /// Lesson of the future memory, as the first finding states it.
    pub lesson: Lesson,
    /// Evidence from each run that shows the pattern, one quote per run, in order of investigation. Never
    /// empty.
    pub evidence: Vec<Evidence>,
    /// Memory that the pattern contradicts, if any. The proposal is never merged into that memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicts: Option<MemoryId>,
}

impl Proposal {
    /// Returns the scope of the future memory: the step in which the pattern was seen.
    pub fn scope(&self) -> MemoryScope {
        MemoryScope::Step { workflow: self.workflow.clone(), step: self.step.clone() }
    }
}
