//! Settles a retrospective: turns the findings and verdicts of its investigations into one batch of
//! mutations.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::no_lesson::NoLessonReason;
use super::remedies::{ContrastSupport, is_replaced, judge_failures, refuting_reason};
use crate::calls::{Contrast, QuoteCheck, SummaryContent, UnneededMemory, WindowSummaries};
use crate::feedback::Feedback;
use crate::finding::{
    CheckedAnswer, Contradiction, EvidenceOrigin, Finding, FindingKind, MemoryVerdict, Quote, RefutedFinding,
    SAME_CALL_AGAIN, VerdictRecord,
};
use crate::id::{MemoryId, MutationId, RetrospectiveId, RunId, Step};
use crate::memory::MutationSummary;
use crate::retrospective::{Investigation, PresentedMemory, Retrospective, find_transient_run};
use crate::trajectory::QuotePlace;

/// A request to change memories, addressed to the writer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutation {
    /// Id derived from the retrospective, the kind, the investigation and an index.
    pub id: MutationId,
    /// Requested change with its arguments.
    pub request: MutationKind,
}

/// Kind of a mutation, with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a batch holds a few dozen of them; a box would only hide the finding"
)]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum MutationKind {
    /// A run shows a pattern.
    Observe {
        /// Id of the memory if the lesson is new.
        memory: MemoryId,
        /// Run that shows the pattern.
        run: RunId,
        /// Pattern with a quote from the run.
        finding: Finding,
        /// Reason why the pattern is not a lesson, found by comparing all investigations of the
        /// retrospective; `None` if it is a lesson.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        no_lesson: Option<NoLessonReason>,
        /// Other runs that show the same, as far as call summaries tell; `None` if only this run does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        support: Option<ContrastSupport>,
    },
    /// The quote that the agent of a run gave when it saved a lesson was looked for in the trace of the run.
    CheckQuote {
        /// Memory of the lesson.
        memory: MemoryId,
        /// Run of the agent.
        run: RunId,
        /// Place in the trace where the quote was found; `None` if the trace does not contain it.
        place: Option<QuotePlace>,
        /// Origin of what the run shows.
        #[serde(default, skip_serializing_if = "EvidenceOrigin::is_unknown")]
        origin: EvidenceOrigin,
    },
    /// A run shows that a memory is wrong.
    Contradict {
        /// Memory that the run contradicts.
        memory: MemoryId,
        /// Run that contradicts the memory.
        run: RunId,
        /// Step in which the contradiction was seen. A contradiction applies only to memories of the same
        /// workflow, step and subject.
        step: Step,
        /// Tool, command or file that the contradiction is about.
        subject: String,
        /// Reason why the memory is wrong, in one sentence.
        reason: String,
        /// Verbatim quote from the run that shows the contradiction.
        quote: Quote,
    },
    /// A memory that was presented to a run got a verdict in that run.
    Credit {
        /// Memory that was presented.
        memory: MemoryId,
        /// Run to which the memory was presented.
        run: RunId,
        /// Verdict on the memory.
        verdict: MemoryVerdict,
        /// `true` if the agent opened the memory in the run.
        read: bool,
        /// Reason for the verdict, in one sentence.
        reason: String,
    },
    /// Somebody says what a memory did. Only the closing of a retrospective requests it; no stored batch contains it.
    Feedback {
        /// What was said.
        feedback: Feedback,
    },
    /// Every active memory of the workflow is checked for limbo decay and archiving.
    Sweep {
        /// Memories without which calls work as well.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unneeded: Vec<UnneededMemory>,
    },
}

impl MutationKind {
    /// Returns the kind of the mutation as stored and shown, such as `observe`.
    pub fn as_str(&self) -> &'static str {
        self.into()
    }

    /// Summarizes the mutation for reports.
    pub(super) fn summarize(&self) -> MutationSummary {
        let (run, about) = match self {
            Self::Observe { run, finding, .. } => (Some(run.clone()), finding.title.clone()),
            Self::CheckQuote { memory, run, .. } | Self::Contradict { memory, run, .. } => {
                (Some(run.clone()), memory.to_string())
            }
            Self::Credit { memory, run, verdict, .. } => {
                (Some(run.clone()), format!("{memory}: {}", verdict.as_str()))
            }
            Self::Feedback { feedback } => feedback.summarize(),
            Self::Sweep { .. } => (None, "every active memory".to_owned()),
        };
        MutationSummary { kind: self.as_str().to_owned(), run, about }
    }
}

/// Builds the batch of mutations that a retrospective requests. The batch of a manual retrospective is empty,
/// because its findings become proposals when it closes.
///
/// `window` has the call summaries against which the findings are held.
pub fn build_batch(
    retrospective: &Retrospective,
    investigations: &[Investigation],
    window: &WindowSummaries,
) -> Vec<Mutation> {
    if retrospective.manual_request.is_some() {
        return Vec::new();
    }
    let contrast = Contrast::of_window(window);
    let widens = retrospective.policy.widen_repositories;
    let contrast = if widens { contrast } else { contrast.confine_to_repositories() };
    // First, so that an observation finds the runs that are witnesses.
    let mut batch = request_quote_checks(retrospective.id, window);
    let refuted = retrospective.policy.model_refutes;
    batch.extend(settle_with(retrospective.id, investigations, &contrast, refuted));
    batch
}

/// Requests what follows from the checks of saved quotes, for all runs of the window.
fn request_quote_checks(retrospective: RetrospectiveId, window: &WindowSummaries) -> Vec<Mutation> {
    let checked = window.summaries.iter().filter_map(|stored| match &stored.content {
        SummaryContent::Summary(summary) => Some((&stored.run, summary.saved_quotes.as_ref()?)),
        SummaryContent::Unreadable(_) => None,
    });
    let requests = checked.flat_map(|(run, quotes)| {
        quotes.checks.iter().map(|QuoteCheck { memory, place }| MutationKind::CheckQuote {
            memory: *memory,
            run: run.clone(),
            place: *place,
            origin: quotes.origin.clone(),
        })
    });
    let id = |index| MutationId::of_investigation(retrospective, "quote", 0, index);
    (0u32..).zip(requests).map(|(index, request)| Mutation { id: id(index), request }).collect()
}

/// Turns the results of investigations into a batch of mutations, in the order observe, contradict, credit,
/// sweep. Unsuccessful investigations contribute nothing, and neither do findings that a model refutes.
pub fn settle_investigations(
    retrospective: RetrospectiveId,
    investigations: &[Investigation],
    contrast: &Contrast<'_>,
) -> Vec<Mutation> {
    settle_with(retrospective, investigations, contrast, RefutedFinding::Neutral)
}

fn settle_with(
    retrospective: RetrospectiveId,
    investigations: &[Investigation],
    contrast: &Contrast<'_>,
    refuted: RefutedFinding,
) -> Vec<Mutation> {
    let mut batch = Vec::new();
    let answered = || {
        investigations.iter().filter_map(|one| {
            one.result.as_ref()?.checked_answer().map(|(checked, presented)| (one, checked, presented))
        })
    };
    let id = |kind, one: &Investigation, index| {
        MutationId::of_investigation(retrospective, kind, one.number, index)
    };
    for (one, checked, _) in answered() {
        let lessons = collect_lessons(investigations, contrast, one, checked, refuted);
        batch.extend(lessons.into_iter().map(|(index, finding, no_lesson, support)| {
            let memory = MemoryId::of_finding(retrospective, one.number, index);
            let run = one.run.clone();
            let request = MutationKind::Observe { memory, run, finding, no_lesson, support };
            Mutation { id: id("observe", one, index), request }
        }));
    }
    for (one, checked, _) in answered() {
        for (index, finding) in (0u32..).zip(&checked.findings) {
            if checked.find_dispute(finding, refuted).is_some() {
                continue;
            }
            batch.extend(
                contradiction_from_finding(one, finding)
                    .map(|request| Mutation { id: id("contradict", one, index), request }),
            );
        }
        for (index, against) in (0u32..).zip(&checked.contradictions) {
            batch.push(Mutation {
                // A separate kind, or the ids would collide with those of the contradicting findings above.
                id: id("against", one, index),
                request: contradiction_from_answer(one, against),
            });
        }
    }
    for (one, checked, presented) in answered() {
        // Rules of a repository change under another lock: `build_rule_use_batches` requests those changes.
        let own = presented.iter().filter(|shown| shown.repo.is_none());
        // The index is part of stored ids, so neither the order nor the filter above may change.
        for (index, shown) in (0u32..).zip(own) {
            let request =
                decide_credit(one, checked, shown, findings_without_memory(investigations, shown.memory));
            batch.push(Mutation { id: id("credit", one, index), request });
        }
    }
    batch.extend(credit_harm(retrospective, contrast));
    // The sweep comes last, because it applies the weight changes that the credits and contradictions have
    // collected.
    batch.push(Mutation {
        id: MutationId::of_investigation(retrospective, "sweep", 0, 0),
        request: MutationKind::Sweep {
            unneeded: contrast
                .memories_tried()
                .into_iter()
                .filter_map(|id| contrast.find_unneeded(id))
                .collect(),
        },
    });
    batch
}

/// Pattern of a run with its index, which is part of stored ids, the reason why it is no lesson, and the runs beside it.
type CollectedLesson = (u32, Finding, Option<NoLessonReason>, Option<ContrastSupport>);

/// Collects the patterns of a run: the findings, and behind them the lessons that the contrast states in their place.
fn collect_lessons(
    investigations: &[Investigation],
    contrast: &Contrast<'_>,
    one: &Investigation,
    checked: &CheckedAnswer,
    refuted: RefutedFinding,
) -> Vec<CollectedLesson> {
    let judged = judge_failures(contrast, one, checked);
    let mut lessons = Vec::new();
    for (index, finding) in (0u32..).zip(&checked.findings) {
        if is_replaced(&judged, finding) {
            continue;
        }
        let no_lesson = refuting_reason(contrast, &judged, finding)
            .or_else(|| find_no_lesson_reason(investigations, one, finding))
            .or_else(|| {
                let because = checked.find_dispute(finding, refuted)?.reason;
                Some(NoLessonReason::Disputed { because })
            })
            .or_else(|| only_warns_of_repeating(finding).then_some(NoLessonReason::NoRemedy));
        lessons.push((index, finding.clone(), no_lesson, None));
    }
    let first = u32::try_from(checked.findings.len()).unwrap_or(u32::MAX);
    for (index, failure) in (first..).zip(judged) {
        if let Some((finding, support)) = failure.into_lesson() {
            let no_lesson = find_no_lesson_reason(investigations, one, &finding);
            lessons.push((index, finding, no_lesson, Some(support)));
        }
    }
    lessons
}

/// Credits memories with the failures of the calls that followed them, in any run of the window, if such calls fail
/// more often than others. Words are not needed to see it.
fn credit_harm(retrospective: RetrospectiveId, contrast: &Contrast<'_>) -> Vec<Mutation> {
    let mut credits = Vec::new();
    for memory in contrast.memories_tried() {
        let Some((numbers, runs)) = contrast.find_harmed_runs(memory) else { continue };
        for run in runs {
            let reason = format!(
                "followed, and the call failed: of calls as it says {} of {} failed, of others {} of {}",
                numbers.followed_failed, numbers.followed, numbers.others_failed, numbers.others
            );
            let verdict = MemoryVerdict::Harmed;
            let request = MutationKind::Credit { memory, run, verdict, read: false, reason };
            let index = u32::try_from(credits.len()).unwrap_or(u32::MAX);
            credits.push(Mutation {
                id: MutationId::of_investigation(retrospective, "harm", 0, index),
                request,
            });
        }
    }
    credits
}

fn contradiction_from_finding(one: &Investigation, finding: &Finding) -> Option<MutationKind> {
    let memory = finding.contradicts?;
    Some(MutationKind::Contradict {
        memory,
        run: one.run.clone(),
        step: finding.step.clone(),
        subject: finding.subject.clone(),
        reason: format!("the run shows the opposite: {}", finding.title),
        quote: finding.quote.clone(),
    })
}

/// Returns `true` if a finding says no more than that repeating the call does not help.
fn only_warns_of_repeating(finding: &Finding) -> bool {
    finding.kind == FindingKind::RetryLoop
        && finding.cue.prefer.is_none()
        && finding.cue.avoid.as_deref() == Some(SAME_CALL_AGAIN)
}

fn find_no_lesson_reason(
    investigations: &[Investigation],
    one: &Investigation,
    finding: &Finding,
) -> Option<NoLessonReason> {
    let transient = find_transient_run(investigations, finding).map(|run| NoLessonReason::Transient { run });
    transient.or_else(|| {
        // A repair of an error that a memory caused is worth learning; a warning about that error is not.
        let warns = matches!(finding.kind, FindingKind::Failure | FindingKind::RetryLoop);
        let memory = warns.then(|| find_harming_memory(investigations, one, finding))??;
        Some(NoLessonReason::Harm { memory })
    })
}

/// Returns the memory that the investigation blames for the error of the finding. Returns `None` if there is
/// no such memory or `decide_credit` does not uphold the verdict.
fn find_harming_memory(
    investigations: &[Investigation],
    one: &Investigation,
    finding: &Finding,
) -> Option<MemoryId> {
    let (checked, presented) = one.result.as_ref()?.checked_answer()?;
    let harmed = checked.verdicts.iter().filter(|record| {
        record.verdict == MemoryVerdict::Harmed
            && findings_quoted_by(checked, record).any(|own| own == finding)
    });
    harmed.map(|record| record.memory).find(|memory| {
        let shown = presented.iter().find(|shown| shown.memory == *memory);
        shown.is_some_and(|shown| {
            let without = findings_without_memory(investigations, *memory);
            matches!(
                decide_credit(one, checked, shown, without),
                MutationKind::Credit { verdict: MemoryVerdict::Harmed, .. }
            )
        })
    })
}

fn contradiction_from_answer(one: &Investigation, against: &Contradiction) -> MutationKind {
    MutationKind::Contradict {
        memory: against.memory,
        run: one.run.clone(),
        step: against.step.clone(),
        subject: against.subject.clone(),
        reason: against.reason.clone(),
        quote: against.quote.clone(),
    }
}

/// Decides the verdict on a presented memory. Without a valid verdict, the memory counts as ignored. A
/// failure counts as harm only if no run without the memory has the same error; otherwise the memory made no
/// visible difference and counts as applied.
fn decide_credit<'i>(
    one: &Investigation,
    checked: &CheckedAnswer,
    presented_memory: &PresentedMemory,
    mut without: impl Iterator<Item = (&'i RunId, &'i Finding)>,
) -> MutationKind {
    let valid = checked.verdicts.iter().find(|verdict| verdict.memory == presented_memory.memory);
    let (verdict, reason) = match valid {
        None => (MemoryVerdict::Ignored, "no verdict on it stands".to_owned()),
        Some(found) if found.verdict == MemoryVerdict::Harmed => {
            let same = |(_, other): &(&RunId, &Finding)| {
                findings_quoted_by(checked, found).any(|own| is_same_error(own, other))
            };
            match without.find(same) {
                Some((run, _)) => {
                    let reason = format!("{}, as it did in run {run}, which did not have it", found.reason);
                    (MemoryVerdict::Applied, reason)
                }
                None => (MemoryVerdict::Harmed, found.reason.clone()),
            }
        }
        Some(found) => (found.verdict, found.reason.clone()),
    };
    MutationKind::Credit {
        memory: presented_memory.memory,
        run: one.run.clone(),
        verdict,
        read: presented_memory.read,
        reason,
    }
}

/// Returns the findings of those runs of the retrospective to which the memory was not presented.
fn findings_without_memory(
    investigations: &[Investigation],
    memory: MemoryId,
) -> impl Iterator<Item = (&RunId, &Finding)> {
    let answered =
        investigations.iter().filter_map(|one| Some((one, one.result.as_ref()?.checked_answer()?)));
    let without = answered.filter(move |(_, (_, met))| met.iter().all(|shown| shown.memory != memory));
    without.flat_map(|(one, (checked, _))| checked.findings.iter().map(move |finding| (&one.run, finding)))
}

/// Returns the findings with the same quote as the verdict, which are about the same failure.
fn findings_quoted_by<'c>(
    checked: &'c CheckedAnswer,
    record: &'c VerdictRecord,
) -> impl Iterator<Item = &'c Finding> {
    let quotes =
        |finding: &&Finding| record.quote.as_ref().is_some_and(|quote| quote.text == finding.quote.text);
    checked.findings.iter().filter(quotes)
}

fn is_same_error(one: &Finding, other: &Finding) -> bool {
    one.cue.error.is_some()
        && one.step == other.step
        && one.cue.tool == other.cue.tool
        && one.cue.error == other.cue.error
}

#[cfg(test)]
mod tests;
