//! Observing a rule: a remark makes one, confirms one, adds to one, brings one back, or does nothing.

use super::super::alike::Alike;
use super::super::observe::SHOWING;
use super::RuleWriter;
use crate::id::MemoryId;
use crate::memory::{Cause, Effect, Evidence, Lesson, Memory, Scope, Status};
use crate::review::{RemarkKey, Standing};
use crate::weight::Weight;

/// What a remark states.
pub(super) struct Observation<'a> {
    /// The id that a new memory would get.
    pub(super) candidate: MemoryId,
    pub(super) edition: &'a str,
    pub(super) scope: Scope,
    pub(super) lesson: &'a Lesson,
    pub(super) evidence: &'a Evidence,
    pub(super) quarantine: Option<&'a str>,
}

impl RuleWriter<'_> {
    pub(super) fn observe(&mut self, row: usize, seen: &Observation<'_>) {
        let Some(source) = &seen.evidence.remark else {
            return self.explain(row, "it names no remark: only a review makes rules");
        };
        let (standing, remark) = (source.standing, source.remark.clone());
        let cause = Cause::Review { remark: remark.clone(), edition: seen.edition.to_owned() };
        if self.shown_before(seen.candidate, &cause) {
            return self.explain(row, format!("this has happened before: {remark} has been decided"));
        }
        let known = self.known(seen, false).map(|memory| (memory.id, memory.status));
        if !matches!(known, Some((_, Status::Active)))
            && standing > Standing::Bot
            && self.stopped(row, seen, &cause)
        {
            return;
        }
        let becomes = match (known, seen.quarantine) {
            (Some((id, _)), Some(why)) => {
                let why = format!("rule {id} says so already; nothing is added to it, since {why}");
                self.refuse(row, seen, &cause, why)
            }
            (Some((id, Status::Active)), None) => self.add(row, id, seen, &cause),
            (Some((id, _)), None) if standing <= Standing::Bot => {
                let why = format!(
                    "a program asks for what rule {id} says, which is not active: that counts for nothing"
                );
                self.refuse(row, seen, &cause, why)
            }
            (Some((id, Status::Archived)), None) if standing < Standing::Insider => {
                let (by, run) = (&source.by, &seen.evidence.run);
                let reason = format!("asked for again by {by} on {run}: tentative once more");
                let effect = Effect::Revived { evidence: seen.evidence.clone() };
                self.make(row, id, cause.clone(), effect, reason).then_some(id)
            }
            (Some((id, _)), None) => self.confirm(row, id, standing, seen, &cause),
            (None, _) if standing <= Standing::Bot => {
                let why = "a program asks for it, and programs make no rules by themselves".to_owned();
                self.refuse(row, seen, &cause, why)
            }
            (None, _) => self.create(row, standing, seen, &cause),
        };
        if let Some(id) = becomes {
            self.make_way(row, id, seen, &remark, &cause);
        }
    }

    /// Says why nothing is done for a remark, and keeps that: whatever becomes of the rules later, the same text is not
    /// decided a second time.
    fn refuse(&mut self, row: usize, seen: &Observation<'_>, cause: &Cause, why: String) -> Option<MemoryId> {
        let effect = Effect::Refused { asked: "observe".to_owned() };
        self.make(row, seen.candidate, cause.clone(), effect, why);
        None
    }

    /// Whether an earlier pass over this text of the remark has decided it, whatever became of the memory since.
    fn shown_before(&self, candidate: MemoryId, cause: &Cause) -> bool {
        let kinds = || SHOWING.iter().chain(&["refused"]);
        let shown = |id: MemoryId| kinds().any(|kind| self.happened(id, cause, kind));
        shown(candidate) || self.memories.keys().any(|id| shown(*id))
    }

    /// The living memory of the scope that says the same, from in or out of quarantine.
    fn known(&self, seen: &Observation<'_>, quarantined: bool) -> Option<&Memory> {
        let memories = self.memories.values().filter(|memory| memory.quarantine.is_some() == quarantined);
        self.alike().best_match(memories, &seen.scope, seen.lesson, None)
    }

    fn stopped(&mut self, row: usize, seen: &Observation<'_>, cause: &Cause) -> bool {
        let alike: Alike<'_, '_> = self.alike();
        let Some((stone, similarity)) =
            alike.stopping_tombstone(self.live_tombstones.iter(), &seen.scope, seen.lesson)
        else {
            return false;
        };
        let reason = format!("a tombstone forbids it until {}: {}", stone.until, stone.reason);
        let effect =
            Effect::Suppressed { tombstone_of: stone.memory, similarity, title: seen.lesson.title.clone() };
        self.make(row, seen.candidate, cause.clone(), effect, reason);
        true
    }

    /// Evidence for an active rule: from another pull request, or of a greater standing than spoke for it so far.
    fn add(&mut self, row: usize, id: MemoryId, seen: &Observation<'_>, cause: &Cause) -> Option<MemoryId> {
        let (memory, run) = (&self.memories[&id], &seen.evidence.run);
        let greater = seen.evidence.remark.as_ref().map(|source| source.standing) > memory.authority;
        if !greater && memory.evidence.iter().any(|known| known.run == *run) {
            let why =
                format!("rule {id} says so already, and {run} has shown it: a pull request counts once");
            return self.refuse(row, seen, cause, why);
        }
        let reason = format!("asked for again on {run}: evidence, not weight");
        self.make(row, id, cause.clone(), Effect::Observed { evidence: seen.evidence.clone() }, reason);
        Some(id)
    }

    /// A tentative or archived rule, asked for again by somebody whose word counts.
    fn confirm(
        &mut self,
        row: usize,
        id: MemoryId,
        standing: Standing,
        seen: &Observation<'_>,
        cause: &Cause,
    ) -> Option<MemoryId> {
        let (memory, run) = (&self.memories[&id], &seen.evidence.run);
        let evidence = seen.evidence.clone();
        let insider = standing == Standing::Insider;
        if !insider && memory.tentative_runs.contains(run) {
            let why = format!("{run} has asked for it already; only another pull request confirms");
            return self.refuse(row, seen, cause, why);
        }
        let authority = memory.authority.max(Some(standing));
        let older = self.opposing(id, &seen.scope, &memory.lesson);
        if let Some(older) = older.iter().find(|older| rank(older) > (authority, true)) {
            let reason = format!(
                "asked for again on {run}, but rule {} says the opposite and stands higher: it stays as it is",
                older.id
            );
            if memory.status != Status::Tentative {
                return self.refuse(row, seen, cause, reason);
            }
            self.make(row, id, cause.clone(), Effect::Observed { evidence }, reason);
            return None;
        }
        let reason = if insider {
            format!("asked for on {run} by an insider, whose word is enough")
        } else {
            let by: Vec<_> = memory.tentative_runs.iter().chain([run]).map(ToString::to_string).collect();
            format!("asked for on separate pull requests: {}", by.join(", "))
        };
        let weight = Weight::thousandths(self.facts.policy.confirmed_weight);
        self.make(row, id, cause.clone(), Effect::Promoted { weight, evidence }, reason);
        Some(id)
    }

    fn create(
        &mut self,
        row: usize,
        standing: Standing,
        seen: &Observation<'_>,
        cause: &Cause,
    ) -> Option<MemoryId> {
        let run = &seen.evidence.run;
        if seen.quarantine.is_some()
            && let Some(memory) = self.known(seen, true)
        {
            let why = format!("rule {} says so already and is in quarantine", memory.id);
            return self.refuse(row, seen, cause, why);
        }
        let (status, weight, wait) = match (seen.quarantine, standing) {
            (Some(why), _) => {
                (Status::Tentative, Weight::ZERO, format!("in quarantine: {why}; a person may promote it"))
            }
            (None, Standing::Insider) => {
                let weight = Weight::thousandths(self.facts.policy.confirmed_weight);
                (Status::Active, weight, "an insider's word is enough".to_owned())
            }
            (None, _) => {
                (Status::Tentative, Weight::ZERO, "it has to be asked for on another pull request".to_owned())
            }
        };
        let id = seen.candidate;
        let effect = Effect::Created {
            scope: seen.scope.clone(),
            lesson: seen.lesson.clone(),
            status,
            weight,
            evidence: seen.evidence.clone(),
            quarantine: seen.quarantine.map(str::to_owned),
        };
        let made = self.make(row, id, cause.clone(), effect, format!("asked for on {run}; {wait}"));
        (made && seen.quarantine.is_none()).then_some(id)
    }

    /// What a rule that was made, confirmed or seen again takes the place of: what the same remark said before it was
    /// edited, what a stranger asked for in other words, and the opposite, if it ranks no higher.
    fn make_way(
        &mut self,
        row: usize,
        id: MemoryId,
        seen: &Observation<'_>,
        remark: &RemarkKey,
        cause: &Cause,
    ) {
        for old in self.only_by(remark).into_iter().filter(|old| *old != id) {
            self.supersede(row, old, id, cause, "the remark that it came from says something else now");
        }
        let stranger = self.known(seen, true).map(|memory| memory.id);
        if let Some(stranger) = stranger {
            self.supersede(
                row,
                stranger,
                id,
                cause,
                "somebody whose word counts asked for the same in words of their own",
            );
        }
        let memory = &self.memories[&id];
        let mine = rank(memory);
        let older = self.opposing(id, &memory.scope, &memory.lesson);
        let (beaten, stronger): (Vec<_>, Vec<_>) = older.into_iter().partition(|older| rank(older) <= mine);
        let (beaten, stronger): (Vec<_>, Vec<_>) =
            (beaten.iter().map(|old| old.id).collect(), stronger.iter().map(|old| old.id).collect());
        for old in beaten {
            self.supersede(row, old, id, cause, "the opposite was asked for later, by no lesser standing");
        }
        for old in stronger {
            let mut why = self.outcomes[row].why.clone();
            why.push_str(&format!("; rule {old} says the opposite and stands higher"));
            self.outcomes[row].why = why;
        }
    }

    fn supersede(&mut self, row: usize, old: MemoryId, by: MemoryId, cause: &Cause, why: &str) {
        let reason = format!("rule {old} is superseded by {by}: {why}");
        self.make(row, old, cause.clone(), Effect::Superseded { by }, reason);
    }

    /// Trusted rules of a scope, tentative or active, that say the opposite about the same subject.
    fn opposing(&self, id: MemoryId, scope: &Scope, lesson: &Lesson) -> Vec<&Memory> {
        opposing(self.alike(), self.memories.values(), id, scope, lesson)
    }

    /// Rules that nothing but this remark speaks for, and no person has promoted.
    pub(super) fn only_by(&self, remark: &RemarkKey) -> Vec<MemoryId> {
        let only = |memory: &&Memory| {
            let mut sources = memory.evidence.iter().map(|evidence| evidence.remark.as_ref());
            memory.status.lives()
                && memory.observed_runs as usize == memory.evidence.len()
                && sources.clone().flatten().map(|source| source.standing).max() == memory.authority
                && sources.all(|source| source.is_some_and(|source| source.remark == *remark))
        };
        self.memories.values().filter(only).map(|memory| memory.id).collect()
    }

    /// A remark is gone, or is no rule any more: what only it spoke for goes. Nothing is kept away by that.
    pub(super) fn withdraw(&mut self, row: usize, remark: &RemarkKey, edition: &str, reason: &str) {
        let cause = Cause::Review { remark: remark.clone(), edition: edition.to_owned() };
        for id in self.only_by(remark) {
            let reason = format!("the remark that it came from was taken back: {reason}");
            self.make(row, id, cause.clone(), Effect::Deleted { tombstone_until: None }, reason);
        }
        if self.outcomes[row].did.is_empty() {
            self.explain(row, format!("{reason}; no rule stands on it alone"));
        }
    }
}

/// What decides which of two contradicting rules stays: the greatest standing that speaks for it, then being active.
pub(super) fn rank(memory: &Memory) -> (Option<Standing>, bool) {
    (memory.authority, memory.status == Status::Active)
}

/// Trusted rules of a scope, tentative or active, that say the opposite of `lesson` about the same subject.
pub(super) fn opposing<'m>(
    alike: Alike<'_, '_>,
    memories: impl Iterator<Item = &'m Memory>,
    id: MemoryId,
    scope: &Scope,
    lesson: &Lesson,
) -> Vec<&'m Memory> {
    let contradicts = |memory: &&Memory| {
        memory.id != id
            && matches!(memory.status, Status::Tentative | Status::Active)
            && memory.quarantine.is_none()
            && memory.scope == *scope
            && memory.lesson.subject == lesson.subject
            && alike.vectors.opposite(&memory.lesson, lesson)
            && alike.vectors.similarity(&memory.lesson, lesson) >= alike.policy.rule_contradiction_similarity
    };
    memories.filter(contradicts).collect()
}
