//! Proposals: patterns that become memories if an operator accepts them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Evidence, Lesson, MemoryScope};
use crate::audience::Audience;
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
    /// Returns the scope of the future memory: the step in which the pattern was seen, in the repository that has
    /// shown it. If several have, it is for all repositories that may read the evidence.
    pub fn scope(&self) -> MemoryScope {
        let seen_in = || self.evidence.iter().filter_map(|one| one.origin.repository.as_ref());
        let names: BTreeSet<_> = seen_in().map(|one| &one.repo).collect();
        let audience = if names.len() > 1 {
            Audience::of_repositories(seen_in())
        } else {
            Audience::of_run(seen_in().next())
        };
        MemoryScope::Step { workflow: self.workflow.clone(), step: self.step.clone(), audience }
    }
}
