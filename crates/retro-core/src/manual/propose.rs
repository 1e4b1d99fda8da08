//! Groups the findings of a manual retrospective into proposals, one per pattern.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::finding::Finding;
use crate::id::{MemoryId, ProposalId, RetrospectiveId, Step, Workflow};
use crate::learn::find_transient_run;
use crate::memory::{Evidence, Lesson, MemoryScope};
use crate::policy::Policy;
use crate::retrospective::{Investigation, Retrospective};
use crate::similarity::{Embedder, VectorCache, content_words};

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

/// Groups the findings of a manual retrospective into proposals, one per pattern. Two findings show the same
/// pattern if they would be merged into one memory. Transient errors are not proposed. Proposals that share
/// more words with the question come first, then those with more runs, then those found earlier.
pub fn build_proposals(
    retrospective: &Retrospective,
    investigations: &[Investigation],
    embedder: &dyn Embedder,
) -> Vec<Proposal> {
    let vectors = VectorCache::new(embedder);
    let mut proposals: Vec<Proposal> = Vec::new();
    for one in investigations {
        let answer = one.result.as_ref().and_then(|result| result.checked_answer());
        let Some((checked, _)) = answer else { continue };
        for (index, finding) in (0u32..).zip(&checked.findings) {
            if find_transient_run(investigations, finding).is_some() {
                continue;
            }
            let evidence =
                Evidence { run: one.run.clone(), epoch: None, quote: finding.quote.clone(), remark: None };
            let lesson = Lesson::from_finding(finding);
            let joined = proposals
                .iter_mut()
                .find(|known| is_same_pattern(known, finding, &lesson, &vectors, &retrospective.policy));
            match joined {
                // A run that shows the pattern twice is evidence once.
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
    let focus = retrospective
        .manual_request
        .as_ref()
        .and_then(|request| request.focus.as_deref())
        .unwrap_or_default();
    let focus: BTreeSet<_> = content_words(focus).collect();
    // The sort is stable and keeps the order of investigation among equals.
    proposals
        .sort_by_key(|one| (Reverse(count_shared_words(&focus, &one.lesson)), Reverse(one.evidence.len())));
    proposals
}

fn is_same_pattern(
    known: &Proposal,
    finding: &Finding,
    lesson: &Lesson,
    vectors: &VectorCache<'_>,
    policy: &Policy,
) -> bool {
    known.step == finding.step
        && known.contradicts == finding.contradicts
        && vectors.may_merge(&known.lesson, lesson)
        && vectors.lesson_similarity(&known.lesson, lesson) >= policy.merge_similarity
}

/// Counts the distinct words that the question and the lesson share.
fn count_shared_words(focus: &BTreeSet<String>, lesson: &Lesson) -> usize {
    let lesson_words: BTreeSet<_> =
        content_words(&lesson.title).chain(content_words(&lesson.content)).collect();
    focus.intersection(&lesson_words).count()
}
