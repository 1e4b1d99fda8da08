//! Turns the failing calls of an investigated run into lessons, as far as a contrast over many runs supports them.

use serde::{Deserialize, Serialize};

use crate::calls::{Contrast, ContrastAnswer, FIRST_SLOT, ReactionCounts, SharedRemedy};
use crate::finding::{
    Advice, CONTENT_CHARS_MAX, CheckedAnswer, FORM_SEPARATOR, Finding, FindingKind, LessonCue,
    ObservedFailure, SUBJECT_CHARS_MAX, TITLE_CHARS_MAX, format_advice, format_title,
};
use crate::id::RunId;
use crate::retrospective::Investigation;

/// Runs beyond the investigated one that show the same remedy, counted by their call summaries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContrastSupport {
    /// Independent runs that got past the error with the remedy, the investigated one included.
    pub runs: Vec<RunId>,
    /// Numbers of the runs with the error.
    pub counts: ReactionCounts,
}

/// Error of a run, with what the contrast says about it.
pub(super) struct JudgedFailure<'c> {
    failure: &'c ObservedFailure,
    opinion: Opinion,
}

/// What the contrast says about an error.
#[expect(clippy::large_enum_variant, reason = "a run has a few of them; a box would only hide the finding")]
enum Opinion {
    /// Runs share a remedy, which this lesson states.
    Lesson(Finding, ContrastSupport),
    /// The error passes by itself.
    PassesByItself(ReactionCounts),
    /// Nothing can be said, or nothing that a lesson could state.
    Undecided,
}

/// Judges the failing calls of an investigated run.
pub(super) fn judge_failures<'c>(
    contrast: &Contrast<'_>,
    one: &Investigation,
    checked: &'c CheckedAnswer,
) -> Vec<JudgedFailure<'c>> {
    let reactions = contrast.reactions_of(&one.run);
    let judge = |failure: &'c ObservedFailure| {
        let same = reactions.iter().find(|reaction| {
            reaction.step == failure.step && reaction.tool == failure.tool && reaction.error == failure.error
        })?;
        let opinion = match contrast.judge_reaction(same) {
            ContrastAnswer::Supported(remedy) => match build_finding(failure, &remedy) {
                Some(finding) => {
                    Opinion::Lesson(finding, ContrastSupport { runs: remedy.runs, counts: remedy.counts })
                }
                None => Opinion::Undecided,
            },
            ContrastAnswer::PassesByItself(counts) => Opinion::PassesByItself(counts),
            ContrastAnswer::Undecided(_) => Opinion::Undecided,
        };
        Some(JudgedFailure { failure, opinion })
    };
    checked.failures.iter().filter_map(judge).collect()
}

impl JudgedFailure<'_> {
    /// Returns `true` if a finding is about this error.
    fn is_about(&self, finding: &Finding) -> bool {
        finding.step == self.failure.step
            && finding.cue.tool.as_deref() == Some(self.failure.tool.as_str())
            && finding.cue.error.as_deref() == Some(self.failure.error.as_str())
    }

    /// Returns the lesson of the error, or `None` if the contrast supports none.
    pub(super) fn into_lesson(self) -> Option<(Finding, ContrastSupport)> {
        match self.opinion {
            Opinion::Lesson(finding, support) => Some((finding, support)),
            Opinion::PassesByItself(_) | Opinion::Undecided => None,
        }
    }
}

/// Returns `true` if the contrast states a lesson about the error of a finding, which then takes its place.
pub(super) fn is_replaced(judged: &[JudgedFailure<'_>], finding: &Finding) -> bool {
    judged.iter().any(|one| one.is_about(finding) && matches!(one.opinion, Opinion::Lesson(..)))
}

/// Returns the numbers of the runs if the error of a finding passes by itself. A warning without a remedy is wrong as soon
/// as one run got past the error with the identical call.
pub(super) fn passing_counts(
    contrast: &Contrast<'_>,
    judged: &[JudgedFailure<'_>],
    finding: &Finding,
) -> Option<ReactionCounts> {
    if matches!(finding.kind, FindingKind::Failure | FindingKind::RetryLoop)
        && let (Some(tool), Some(error)) = (&finding.cue.tool, &finding.cue.error)
    {
        let counts = contrast.count_error(&finding.step, tool, error);
        if counts.repeated > 0 {
            return Some(counts);
        }
    }
    judged.iter().filter(|one| one.is_about(finding)).find_map(|one| match one.opinion {
        Opinion::PassesByItself(counts) => Some(counts),
        _ => None,
    })
}

fn build_finding(failure: &ObservedFailure, remedy: &SharedRemedy) -> Option<Finding> {
    let forms: Vec<&str> = remedy.parts.iter().map(|part| part.form.as_str()).collect();
    let avoid = match remedy.parts.as_slice() {
        [part] => part.avoid.clone(),
        _ => None,
    };
    let advice = Advice::When(format_advice(&forms, avoid.as_deref()));
    let worked: Vec<&str> = failure.worked.as_deref().into_iter().collect();
    let title = format_title(&failure.tool, &failure.error, &advice, &worked)?;
    if title.chars().count() > TITLE_CHARS_MAX {
        return None;
    }
    let counts = remedy.counts;
    let content = format!(
        "{} {} of {} runs that got past this error did so.",
        failure.content,
        counts.with_remedy,
        counts.changed + counts.repeated
    );
    Some(Finding {
        kind: FindingKind::Repair,
        step: failure.step.clone(),
        subject: subject_of(&failure.tool, remedy),
        title,
        content: content.chars().take(CONTENT_CHARS_MAX).collect(),
        cue: LessonCue {
            tool: Some(failure.tool.clone()),
            error: Some(failure.error.clone()),
            avoid,
            prefer: Some(forms.join(FORM_SEPARATOR)),
            worked: failure.worked.clone(),
        },
        quote: failure.quote.clone(),
        contradicts: None,
        origin: failure.origin.clone(),
    })
}

/// Returns the subject of a lesson: the tool, with the parameter or the program whose way of being given is the
/// lesson. A lesson that a parameter is given, and its reverse, are about the tool.
fn subject_of(tool: &str, remedy: &SharedRemedy) -> String {
    let part = remedy.parts.iter().find(|part| !part.slot.starts_with(FIRST_SLOT));
    let about = part.and_then(|part| match part.slot.split_once(' ') {
        _ if part.form.starts_with("with") || part.form.starts_with("tool ") => None,
        Some((program, _)) => Some(program),
        None => Some(part.slot.as_str()),
    });
    let subject = about.map_or_else(|| tool.to_owned(), |about| format!("{tool} {about}"));
    subject.chars().take(SUBJECT_CHARS_MAX).collect()
}
