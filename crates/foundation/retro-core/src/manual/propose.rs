//! Groups the findings of a manual retrospective into proposals, one per pattern.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::audience::Audience;
use crate::finding::Finding;
use crate::id::{MemoryId, ProposalId};
use crate::memory::{Evidence, Lesson, MemoryScope, Proposal};
use crate::policy::Policy;
use crate::retrospective::{Investigation, Retrospective, find_transient_run};
use crate::similarity::{ComparedLessons, Embedder, VectorCache, content_words};

/// Groups the findings of a manual retrospective into proposals, one per pattern. Two findings show the same
/// pattern if they would be merged into one memory. Transient errors are not proposed, and neither is what a model refutes. Proposals that share
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
            if find_transient_run(investigations, finding).is_some()
                || checked.find_dispute(finding, retrospective.policy.model_refutes).is_some()
            {
                continue;
            }
            let evidence = Evidence {
                run: one.run.clone(),
                epoch: None,
                quote: finding.quote.clone(),
                remark: None,
                origin: finding.origin.clone(),
            };
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

/// Returns every text that [`build_proposals`] may compare, each once.
pub fn proposal_texts(retrospective: &Retrospective, investigations: &[Investigation]) -> Vec<String> {
    let answers = investigations.iter().filter_map(|one| one.result.as_ref()?.checked_answer());
    let lessons: Vec<(MemoryScope, Lesson)> = answers
        .flat_map(|(checked, _)| &checked.findings)
        .map(|finding| {
            let (workflow, step) = (retrospective.key.workflow.clone(), finding.step.clone());
            let audience = Audience::of_run(finding.origin.repository.as_ref());
            (MemoryScope::Step { workflow, step, audience }, Lesson::from_finding(finding))
        })
        .collect();
    let mut compared = ComparedLessons::default();
    for (scope, lesson) in &lessons {
        compared.add_new(scope, lesson);
    }
    compared.into_texts()
}

fn is_same_pattern(
    known: &Proposal,
    finding: &Finding,
    lesson: &Lesson,
    vectors: &VectorCache<'_>,
    policy: &Policy,
) -> bool {
    let repository = finding.origin.repository.as_ref().map(|one| &one.repo);
    let is_of_repository = |one: &Evidence| one.origin.repository.as_ref().map(|one| &one.repo) == repository;
    known.step == finding.step
        && (policy.widen_repositories || known.evidence.iter().all(is_of_repository))
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
