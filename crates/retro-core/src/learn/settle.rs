//! Findings and verdicts in, one batch of mutations out.

use serde::{Deserialize, Serialize};

use crate::finding::{Finding, MemoryVerdict, Quote, Verdict};
use crate::id::{MemoryId, MutationId, RetrospectiveId, RunId, Step};
use crate::retrospective::{Investigation, Presented, Retrospective};

/// One thing that is asked of memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutation {
    /// Derived from the retrospective, the investigation and an index.
    pub id: MutationId,
    /// What is asked.
    pub ask: Ask,
}

/// What can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
pub enum Ask {
    /// A run shows this pattern.
    Observe {
        /// The id that a memory made of it gets.
        memory: MemoryId,
        /// The run.
        run: RunId,
        /// The pattern.
        finding: Finding,
    },
    /// A run shows that a memory is wrong.
    Contradict {
        /// The memory.
        memory: MemoryId,
        /// The run.
        run: RunId,
        /// The step in which it showed; contradiction stays within workflow, step and subject.
        step: Step,
        /// The subject of what showed it.
        subject: String,
        /// Why, in one sentence.
        reason: String,
        /// The words.
        quote: Quote,
    },
    /// What a presented memory did in a run.
    Credit {
        /// The memory.
        memory: MemoryId,
        /// The run.
        run: RunId,
        /// What it did.
        verdict: Verdict,
        /// Whether the agent opened it.
        read: bool,
        /// Why, in one sentence.
        reason: String,
    },
    /// Look at every active memory of the workflow: limbo and archive.
    Sweep,
}

impl Ask {
    /// The word as stored and shown.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Observe { .. } => "observe",
            Self::Contradict { .. } => "contradict",
            Self::Credit { .. } => "credit",
            Self::Sweep => "sweep",
        }
    }
}

/// The batch of mutations with which a retrospective settles. A manual one asks nothing of memory: what it found
/// becomes proposals when it closes.
pub fn batch_of(retrospective: &Retrospective, investigations: &[Investigation]) -> Vec<Mutation> {
    if retrospective.asked.is_some() {
        return Vec::new();
    }
    settle(retrospective.id, investigations)
}

/// Turns the results of a retrospective's investigations into its batch of mutations. Failed ones say nothing.
pub fn settle(retrospective: RetrospectiveId, investigations: &[Investigation]) -> Vec<Mutation> {
    let mut batch = Vec::new();
    let looked = || {
        investigations.iter().filter_map(|one| {
            one.result.as_ref()?.looked().map(|(checked, presented)| (one, checked, presented))
        })
    };
    let id = |kind, one: &Investigation, index| MutationId::of(retrospective, kind, one.number, index);
    for (one, checked, _) in looked() {
        for (index, finding) in (0u32..).zip(&checked.findings) {
            let memory = MemoryId::of_finding(retrospective, one.number, index);
            let ask = Ask::Observe { memory, run: one.run.clone(), finding: finding.clone() };
            batch.push(Mutation { id: id("observe", one, index), ask });
        }
    }
    for (one, checked, _) in looked() {
        for (index, finding) in (0u32..).zip(&checked.findings) {
            batch.extend(
                contradiction(one, finding).map(|ask| Mutation { id: id("contradict", one, index), ask }),
            );
        }
    }
    for (one, checked, presented) in looked() {
        // Rules of a repository are another writer's lock: [`super::rules_used`] asks for those.
        let own = presented.iter().filter(|shown| shown.repo.is_none());
        for (index, shown) in (0u32..).zip(own) {
            batch.push(Mutation { id: id("credit", one, index), ask: credit(one, &checked.verdicts, shown) });
        }
    }
    batch.push(Mutation { id: MutationId::of(retrospective, "sweep", 0, 0), ask: Ask::Sweep });
    batch
}

fn contradiction(one: &Investigation, finding: &Finding) -> Option<Ask> {
    let memory = finding.contradicts?;
    Some(Ask::Contradict {
        memory,
        run: one.run.clone(),
        step: finding.step.clone(),
        subject: finding.subject.clone(),
        reason: format!("the run shows the opposite: {}", finding.title),
        quote: finding.quote.clone(),
    })
}

/// A presented memory on which no verdict stands was not used, as far as anyone can show.
fn credit(one: &Investigation, verdicts: &[MemoryVerdict], shown: &Presented) -> Ask {
    let stands = verdicts.iter().find(|verdict| verdict.memory == shown.memory);
    let (verdict, reason) = stands.map_or_else(
        || (Verdict::Ignored, "no verdict on it stands".to_owned()),
        |found| (found.verdict, found.reason.clone()),
    );
    Ask::Credit { memory: shown.memory, run: one.run.clone(), verdict, read: shown.read, reason }
}
