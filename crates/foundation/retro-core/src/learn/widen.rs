//! Widens a lesson that two repositories have shown: a new memory, handed beyond both, takes the place of the
//! narrow ones.
//!
//! The new memory is written from the finding at hand. It is handed to everyone if two public repositories have
//! shown the lesson, and otherwise to private ones only. Evidence that its audience may not read stays where it is.
//! A narrow memory is superseded only if the runs of its repository are handed the new one, so nobody loses a lesson.
//! What a person has decided about (pinned, worded, disabled) or must decide about (held) stays narrow.

use std::collections::{BTreeMap, BTreeSet};

use super::remedies::SupportElsewhere;
use super::writer::MemoryWriter;
use crate::audience::{Audience, RepoVisibility, RunRepository};
use crate::finding::Finding;
use crate::id::{MemoryId, Repository};
use crate::memory::{ChangeEffect, Evidence, Lesson, Memory, MemoryScope, MemoryStatus, Tombstone};
use crate::weight::Weight;

/// Lesson of one run, and what is known about it beside the run.
pub(super) struct Sighting<'f> {
    pub(super) finding: &'f Finding,
    pub(super) lesson: &'f Lesson,
    pub(super) evidence: &'f Evidence,
    /// Memory of the run's own repository that contains the lesson.
    pub(super) known: Option<MemoryId>,
    /// Runs of other repositories that show the same remedy.
    pub(super) elsewhere: &'f [SupportElsewhere],
}

/// Memory of another audience that contains the lesson, as far as it counts.
struct NarrowMemory {
    id: MemoryId,
    /// Its repository, with what its evidence says of it.
    repository: RunRepository,
    /// Newest evidence from the repository; `None` if none is kept.
    evidence: Option<Evidence>,
    /// Weight if it is active, and so was confirmed.
    confirmed: Option<Weight>,
}

/// Decision to widen a lesson.
struct Widening {
    audience: Audience,
    repositories: BTreeSet<Repository>,
    /// Memories that contain the lesson.
    narrow: Vec<NarrowMemory>,
    weight: Weight,
}

impl MemoryWriter<'_> {
    /// Creates the memory of a lesson that two repositories have shown, and supersedes the narrow ones that it reaches.
    /// Returns `true` if the run's own repository is handed it, so nothing else is to be done about the finding.
    pub(super) fn widen_lesson(&mut self, row: usize, candidate: MemoryId, sighting: &Sighting<'_>) -> bool {
        let Some(own) = &sighting.finding.origin.repository else { return false };
        let Some(widening) = self.decide_widening(own, sighting) else { return false };
        let Widening { audience, repositories, narrow, weight } = widening;
        let (workflow, step) = (self.workflow.clone(), sighting.finding.step.clone());
        let scope = MemoryScope::Step { workflow, step, audience: audience.clone() };
        if let Some((id, status)) = self.best_match(&scope, sighting.lesson, None) {
            // It was widened before, to readers to whom the run does not belong.
            if status == MemoryStatus::Active {
                self.add_evidence(row, id, sighting.evidence.clone());
            }
            return false;
        }
        let id = MemoryId::of_widened(candidate);
        let run = sighting.evidence.run.clone();
        let names: Vec<_> = repositories.iter().map(Repository::as_str).collect();
        let reason = format!("seen in several repositories ({}); {}", names.join(", "), describe(&audience));
        let created = ChangeEffect::Created {
            scope,
            lesson: sighting.lesson.clone(),
            status: MemoryStatus::Active,
            weight,
            evidence: Some(sighting.evidence.clone()),
            quarantine: None,
            by: None,
        };
        if !self.ledger.make_change(row, id, self.run_cause(&run), created, reason) {
            return false;
        }
        self.observed.insert(id);
        for narrow in narrow {
            let is_reached = audience.includes(Some(&narrow.repository));
            if let Some(evidence) = narrow.evidence
                && audience.may_read(evidence.origin.repository.as_ref())
            {
                let reason = format!("seen in run {} of {}", evidence.run, narrow.repository.repo);
                let cause = self.run_cause(&evidence.run);
                self.ledger.make_change(row, id, cause, ChangeEffect::Observed { evidence }, reason);
            }
            if is_reached {
                let reason =
                    format!("several repositories have shown it: memory {id} says it to more of them");
                let cause = self.retrospective_cause();
                self.ledger.make_change(row, narrow.id, cause, ChangeEffect::Superseded { by: id }, reason);
                self.successors.insert(narrow.id, id);
            }
        }
        audience.includes(Some(own))
    }

    /// Decides whether the lesson is widened, and to whom.
    fn decide_widening(&self, own: &RunRepository, sighting: &Sighting<'_>) -> Option<Widening> {
        let known = sighting.known.map(|id| &self.ledger.memories()[&id]);
        if !self.policy.widen_repositories || known.is_some_and(is_decided_by_person) {
            return None;
        }
        let found = self.find_narrow(sighting, own);
        let known =
            known.map(|memory| NarrowMemory { repository: own.clone(), ..narrow_memory(memory, own) });
        let others = found.iter().map(|one| &one.repository);
        let elsewhere = sighting.elsewhere.iter().map(|one| &one.repository);
        let mut counted = merge_repositories(others.chain(elsewhere));
        if own.is_public() && counted.iter().any(RunRepository::is_public) {
            // Two public repositories are enough, whichever private ones have shown it as well.
            counted.retain(RunRepository::is_public);
        }
        let audience = Audience::of_repositories(counted.iter().chain([own]));
        let narrow: Vec<NarrowMemory> = found.into_iter().chain(known).collect();
        // Otherwise it would be handed to nobody who has shown it.
        let reaches_any = counted.iter().chain([own]).any(|one| audience.includes(Some(one)));
        let reached = || narrow.iter().filter(|one| audience.includes(Some(&one.repository)));
        let weights = || reached().filter_map(|one| one.confirmed);
        let is_confirmed =
            weights().next().is_some() || counted.len() + 1 >= self.policy.confirm_runs as usize;
        if counted.is_empty() || !reaches_any || !is_confirmed || self.is_forbidden(sighting) {
            return None;
        }
        // Neither trust nor distrust that a repository has shown begins anew.
        let weight = weights().max().unwrap_or(Weight::from_thousandths(self.policy.confirmed_weight));
        let repositories = counted.iter().chain([own]).map(|one| one.repo.clone()).collect();
        Some(Widening { audience, repositories, narrow, weight })
    }

    /// Returns the memories of other audiences of the step that contain the lesson and are nobody's decision, if
    /// their witnesses are not the one at hand.
    fn find_narrow(&self, sighting: &Sighting<'_>, own: &RunRepository) -> Vec<NarrowMemory> {
        let witnesses = sighting.evidence.witnesses();
        let counts = |memory: &&Memory| {
            matches!(memory.status, MemoryStatus::Tentative | MemoryStatus::Active)
                && memory.scope.workflow() == Some(&self.workflow)
                && memory.scope.step() == Some(&sighting.finding.step)
                && !is_decided_by_person(memory)
                && Some(memory.id) != sighting.finding.contradicts
                && self.lesson_matcher().same_lesson(&memory.lesson, sighting.lesson).is_some()
        };
        let mut found = Vec::new();
        for memory in self.ledger.memories().values().filter(counts) {
            let mut of_others = memory.evidence.iter().rev().filter_map(|evidence| {
                let repository = evidence.origin.repository.as_ref()?;
                let is_other = !evidence.witnesses().iter().any(|name| witnesses.contains(name));
                (repository.repo != own.repo && is_other).then_some(repository)
            });
            let repository = match memory.scope.audience() {
                Some(Audience::Repository(_)) => of_others.next(),
                // One public repository behind a memory of private ones is enough for everyone, with the one at hand.
                Some(Audience::PrivateRepositories) if own.is_public() => {
                    of_others.find(|one| one.is_public())
                }
                _ => None,
            };
            found.extend(repository.map(|repository| narrow_memory(memory, repository)));
        }
        found
    }

    /// Returns `true` if the lesson was deleted in any repository a short time ago: it must not return there.
    fn is_forbidden(&self, sighting: &Sighting<'_>) -> bool {
        let matcher = self.lesson_matcher();
        let is_of_step = |scope: &MemoryScope| {
            scope.workflow() == Some(&self.workflow) && scope.step() == Some(&sighting.finding.step)
        };
        let forbids = |one: &Tombstone| {
            is_of_step(&one.scope)
                && matcher.blocking_tombstone(std::iter::once(one), &one.scope, sighting.lesson).is_some()
        };
        self.ledger.live_tombstones().iter().any(forbids)
    }
}

/// Returns each repository once. What is said of it in different ways is not said.
fn merge_repositories<'r>(all: impl Iterator<Item = &'r RunRepository>) -> Vec<RunRepository> {
    let mut merged: BTreeMap<&Repository, Option<RepoVisibility>> = BTreeMap::new();
    for one in all {
        let said = merged.entry(&one.repo).or_insert(one.visibility);
        if *said != one.visibility {
            *said = None;
        }
    }
    merged.into_iter().map(|(repo, visibility)| RunRepository { repo: repo.clone(), visibility }).collect()
}

fn is_decided_by_person(memory: &Memory) -> bool {
    memory.quarantine.is_some()
        || memory.disabled_by.is_some()
        || memory.pinned_by.is_some()
        || memory.lesson.worded_by.is_some()
}

/// Describes a memory by its repository. The repository is public if all its evidence says so, and private if the
/// newest says so.
fn narrow_memory(memory: &Memory, repository: &RunRepository) -> NarrowMemory {
    let of_repository = |evidence: &&Evidence| {
        evidence.origin.repository.as_ref().is_some_and(|one| one.repo == repository.repo)
    };
    let shown: Vec<&Evidence> = memory.evidence.iter().filter(of_repository).collect();
    let newest = shown.last().copied();
    let all_public =
        shown.iter().all(|one| one.origin.repository.as_ref().is_some_and(RunRepository::is_public));
    let visibility = newest
        .and_then(|one| one.origin.repository.as_ref()?.visibility)
        .filter(|_| all_public || newest.is_some_and(|one| !is_public(one)));
    NarrowMemory {
        id: memory.id,
        repository: RunRepository { repo: repository.repo.clone(), visibility },
        evidence: newest.cloned(),
        confirmed: (memory.status == MemoryStatus::Active).then_some(memory.weight),
    }
}

fn is_public(evidence: &Evidence) -> bool {
    evidence.origin.repository.as_ref().is_some_and(RunRepository::is_public)
}

fn describe(audience: &Audience) -> &'static str {
    match audience {
        Audience::Everyone => "it is handed to every repository",
        Audience::PrivateRepositories => "it is handed to private repositories only",
        Audience::Repository(_) => "it stays in its repository",
    }
}
