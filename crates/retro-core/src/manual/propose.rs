//! Proposing: what the investigations of a manual retrospective found, one proposal a pattern.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::id::{MemoryId, ProposalId, RetrospectiveId, Step, Workflow};
use crate::learn::passed_in;
use crate::memory::{Evidence, Lesson, Scope};
use crate::policy::Policy;
use crate::retrospective::{Investigation, Retrospective};
use crate::similar::{Embedder, Vectors, words};

/// A pattern that a manual retrospective found, for a person to accept or refuse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Its id.
    pub id: ProposalId,
    /// The manual retrospective.
    pub retrospective: RetrospectiveId,
    /// The id that a memory made of it gets.
    pub memory: MemoryId,
    /// The workflow.
    pub workflow: Workflow,
    /// The step in which it was seen.
    pub step: Step,
    /// What the memory would say: the first finding's words.
    pub lesson: Lesson,
    /// The runs that show it, each once with its quote, in the order of investigation; never empty.
    pub evidence: Vec<Evidence>,
    /// A memory that it contradicts, which it never joins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicts: Option<MemoryId>,
}

impl Proposal {
    /// What a memory made of it is about.
    pub fn scope(&self) -> Scope {
        Scope::Step { workflow: self.workflow.clone(), step: self.step.clone() }
    }
}

/// Groups the findings of a manual retrospective: one proposal a pattern, by the rule by which findings become one
/// memory; nothing is proposed about an error that passes by itself. Those that share words with the question come first, then those that more runs show, then the earlier found.
pub fn propose(
    retrospective: &Retrospective,
    investigations: &[Investigation],
    embedder: &dyn Embedder,
) -> Vec<Proposal> {
    let vectors = Vectors::new(embedder);
    let mut proposals: Vec<Proposal> = Vec::new();
    for one in investigations {
        let looked = one.result.as_ref().and_then(|result| result.looked());
        let Some((checked, _)) = looked else { continue };
        for (index, finding) in (0u32..).zip(&checked.findings) {
            if passed_in(investigations, finding).is_some() {
                continue;
            }
            let evidence =
                Evidence { run: one.run.clone(), epoch: None, quote: finding.quote.clone(), remark: None };
            let lesson = Lesson::of(finding);
            let joined = proposals
                .iter_mut()
                .find(|known| same_pattern(known, finding, &lesson, &vectors, &retrospective.policy));
            match joined {
                Some(known) if known.evidence.iter().any(|shown| shown.run == one.run) => {}
                Some(known) => known.evidence.push(evidence),
                None => proposals.push(Proposal {
                    id: ProposalId::of_finding(retrospective.id, one.number, index),
                    retrospective: retrospective.id,
                    memory: MemoryId::of_finding(retrospective.id, one.number, index),
                    workflow: retrospective.key.workflow.clone(),
                    step: finding.step.clone(),
                    lesson,
                    evidence: vec![evidence],
                    contradicts: finding.contradicts,
                }),
            }
        }
    }
    let focus = retrospective.asked.as_ref().and_then(|asked| asked.focus.as_deref()).unwrap_or_default();
    let focus: BTreeSet<_> = words(focus).collect();
    proposals.sort_by_key(|one| (Reverse(shared(&focus, &one.lesson)), Reverse(one.evidence.len())));
    proposals
}

fn same_pattern(
    known: &Proposal,
    finding: &Finding,
    lesson: &Lesson,
    vectors: &Vectors<'_>,
    policy: &Policy,
) -> bool {
    known.step == finding.step
        && known.contradicts == finding.contradicts
        && vectors.may_merge(&known.lesson, lesson)
        && vectors.similarity(&known.lesson, lesson) >= policy.merge_similarity
}

/// Words of the question that the lesson has too.
fn shared(focus: &BTreeSet<String>, lesson: &Lesson) -> usize {
    let said: BTreeSet<_> = words(&lesson.title).chain(words(&lesson.content)).collect();
    focus.intersection(&said).count()
}
