//! What became of the memories that a version of the pipeline made.

use serde::{Deserialize, Serialize};

use crate::memory::{Change, ChangeEffect, MemoryStatus, WeightReason, fold_change};

/// Counts of a version. A memory counts for the version under which it was made, whatever changed it later.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PipelineQuality {
    /// Retrospectives that were closed under the version, or reviews that were decided under it.
    pub retrospectives: u64,
    /// Retrospectives that failed under the version.
    pub failed: u64,
    /// Memories that these retrospectives or reviews made.
    pub made: u64,
    /// Those of them that were active at some time.
    pub confirmed: u64,
    /// Those that separate runs contradicted, so that they were deleted.
    pub contradicted: u64,
    /// Runs in which one of them helped.
    pub helped: u64,
    /// Runs in which one of them harmed.
    pub harmed: u64,
    /// Memories that a person accepted, pinned, worded or restored and did not remove later.
    pub kept_by_people: u64,
    /// Memories that a person deleted or disabled at last.
    pub removed_by_people: u64,
    /// Memories that are active now and not disabled.
    pub active: u64,
    /// Cost of the investigations, or of reading the reviews, in US dollars, as far as prices are known.
    pub cost_usd: f64,
}

impl PipelineQuality {
    /// Adds a memory by all its changes, in order. A change that cannot be applied is left out.
    pub fn add_memory(&mut self, changes: &[Change]) {
        let (mut memory, mut was_active, mut by_people) = (None, false, None);
        for change in changes {
            match &change.effect {
                ChangeEffect::Reweighted { parts, .. } => {
                    let count = |kind| parts.iter().filter(|part| part.kind == kind).count() as u64;
                    self.helped += count(WeightReason::Helped);
                    self.harmed += count(WeightReason::Harmed) + count(WeightReason::Contradicted);
                }
                ChangeEffect::Deleted { .. } if !change.cause.is_by_person() => self.contradicted += 1,
                ChangeEffect::Deleted { .. } | ChangeEffect::Disabled { .. } => by_people = Some(false),
                ChangeEffect::Pinned { .. }
                | ChangeEffect::Accepted { .. }
                | ChangeEffect::Restored { .. } => {
                    by_people = Some(true);
                }
                ChangeEffect::Revised { .. } if change.cause.is_by_person() => by_people = Some(true),
                ChangeEffect::Enabled { .. } => by_people = None,
                _ => {}
            }
            if let Ok(after) = fold_change(memory.clone(), change) {
                memory = after;
            }
            was_active |= memory.as_ref().is_some_and(|memory| memory.status == MemoryStatus::Active);
        }
        self.made += 1;
        self.confirmed += u64::from(was_active);
        self.kept_by_people += u64::from(by_people == Some(true));
        self.removed_by_people += u64::from(by_people == Some(false));
        let is_active = |memory: &crate::memory::Memory| {
            memory.status == MemoryStatus::Active && memory.disabled_by.is_none()
        };
        self.active += u64::from(memory.as_ref().is_some_and(is_active));
    }

    /// Returns the cost of one memory that is active now, in US dollars; `None` if none is, or nothing was paid.
    pub fn cost_per_active(&self) -> Option<f64> {
        #[expect(clippy::cast_precision_loss, reason = "far fewer memories than 2^52")]
        (self.active > 0 && self.cost_usd > 0.0).then(|| self.cost_usd / self.active as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{EvidenceOrigin, LessonCue, Quote};
    use crate::id::{MemoryId, RunId, Step, Tenant, Workflow, WorkflowKey};
    use crate::memory::{ChangeCause, Evidence, Lesson, MemoryScope, WeightPart};
    use crate::trajectory::QuotePlace;
    use crate::weight::{Weight, WeightDelta};

    fn change(cause: ChangeCause, effect: ChangeEffect) -> Change {
        let key = WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new("w").unwrap() };
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        Change::new(&key, MemoryId(uuid::Uuid::nil()), cause, effect, "why".to_owned(), at)
    }

    fn run(id: &str) -> ChangeCause {
        ChangeCause::Run { workflow: Workflow::new("w").unwrap(), run: RunId::new(id).unwrap() }
    }

    fn operator(request: &str) -> ChangeCause {
        ChangeCause::Operator { request: request.to_owned() }
    }

    fn evidence(id: &str) -> Evidence {
        Evidence {
            run: RunId::new(id).unwrap(),
            epoch: Some(1),
            quote: Quote { place: QuotePlace::Message { turn: 0 }, text: "words".to_owned() },
            remark: None,
            origin: EvidenceOrigin::default(),
        }
    }

    fn confirmed() -> Vec<Change> {
        let scope = MemoryScope::Step {
            workflow: Workflow::new("w").unwrap(),
            step: Step::main(),
            audience: crate::audience::Audience::Everyone,
        };
        let lesson = Lesson {
            subject: "t".to_owned(),
            title: "Do it".to_owned(),
            content: String::new(),
            cue: LessonCue::default(),
            worded_by: None,
        };
        let created = ChangeEffect::Created {
            scope,
            lesson,
            status: MemoryStatus::Tentative,
            weight: Weight::from_thousandths(0),
            evidence: Some(evidence("a")),
            quarantine: None,
            by: None,
        };
        let promoted =
            ChangeEffect::Promoted { weight: Weight::from_thousandths(300), evidence: evidence("b") };
        vec![change(run("a"), created), change(run("b"), promoted)]
    }

    fn quality(more: &[(ChangeCause, ChangeEffect)]) -> PipelineQuality {
        let mut quality = PipelineQuality::default();
        let more = more.iter().map(|(cause, effect)| change(cause.clone(), effect.clone()));
        quality.add_memory(&confirmed().into_iter().chain(more).collect::<Vec<_>>());
        quality
    }

    #[test]
    fn a_memory_counts_by_what_became_of_it() {
        let base = quality(&[]);
        assert_eq!((base.made, base.confirmed, base.active, base.kept_by_people), (1, 1, 1, 0));
        let by = "anna".to_owned();
        let pinned = quality(&[(operator("1"), ChangeEffect::Pinned { by: by.clone() })]);
        assert_eq!((pinned.kept_by_people, pinned.removed_by_people), (1, 0));
        let deletion = ChangeEffect::Deleted { tombstone_until: None };
        let removed = quality(&[
            (operator("1"), ChangeEffect::Pinned { by: by.clone() }),
            (operator("2"), deletion.clone()),
        ]);
        assert_eq!((removed.kept_by_people, removed.removed_by_people, removed.active), (0, 1, 0));
        let contradicted = quality(&[(run("c"), deletion)]);
        assert_eq!((contradicted.contradicted, contradicted.removed_by_people), (1, 0));
        let disabled = quality(&[(operator("1"), ChangeEffect::Disabled { by })]);
        assert_eq!((disabled.active, disabled.removed_by_people), (0, 1));
    }

    #[test]
    fn every_verdict_of_a_run_counts_and_cost_is_shared_by_what_is_active() {
        let part =
            |kind| WeightPart { delta: WeightDelta(0), kind, run: None, by: None, reason: String::new() };
        let parts =
            vec![part(WeightReason::Helped), part(WeightReason::Helped), part(WeightReason::Contradicted)];
        let reweighted = ChangeEffect::Reweighted {
            before: Weight::from_thousandths(300),
            delta: WeightDelta(0),
            after: Weight::from_thousandths(300),
            parts,
            cue_not_met: 0,
            contradicted_by: Vec::new(),
        };
        let mut quality = quality(&[(run("c"), reweighted)]);
        assert_eq!((quality.helped, quality.harmed), (2, 1));
        assert_eq!(quality.cost_per_active(), None);
        quality.cost_usd = 0.5;
        assert_eq!(quality.cost_per_active(), Some(0.5));
    }
}
