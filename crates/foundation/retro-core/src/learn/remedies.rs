//! Turns the failing calls of an investigated run into lessons, as far as a contrast over many runs supports them.

use serde::{Deserialize, Serialize};

use std::collections::BTreeSet;

use super::no_lesson::NoLessonReason;
use crate::audience::RunRepository;
use crate::calls::{Contrast, ContrastAnswer, FIRST_SLOT, Reaction, ReactionCounts, SharedRemedy};
use crate::finding::{
    Advice, CONTENT_CHARS_MAX, CheckedAnswer, FORM_SEPARATOR, Finding, FindingKind, LessonCue,
    ObservedFailure, SUBJECT_CHARS_MAX, TITLE_CHARS_MAX, format_advice, format_title,
};
use crate::id::{Repository, RunId};
use crate::retrospective::Investigation;

/// Runs beyond the investigated one that show the same remedy, counted by their call summaries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContrastSupport {
    /// Independent runs of the same repository that got past the error with the remedy, the investigated one
    /// included.
    pub runs: Vec<RunId>,
    /// Numbers of the runs with the error.
    pub counts: ReactionCounts,
    /// Runs of other repositories that show the same remedy, one a repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<SupportElsewhere>,
}

/// Run of another repository that shows the same remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupportElsewhere {
    /// Id of the run.
    pub run: RunId,
    /// Its repository.
    pub repository: RunRepository,
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
    /// What came after the error is what runs without it call as well.
    Routine(ReactionCounts),
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
    let contrasts = RepositoryContrasts::of_run(contrast, &one.run);
    let judge = |failure: &'c ObservedFailure| {
        let same = reactions.iter().find(|reaction| {
            reaction.step == failure.step && reaction.tool == failure.tool && reaction.error == failure.error
        })?;
        let opinion = match contrasts.judge_reaction(same) {
            (ContrastAnswer::Supported(remedy), elsewhere) => match build_finding(failure, &remedy) {
                Some(finding) => {
                    let SharedRemedy { runs, counts, .. } = remedy;
                    Opinion::Lesson(finding, ContrastSupport { runs, counts, elsewhere })
                }
                None => Opinion::Undecided,
            },
            (ContrastAnswer::PassesByItself(counts), _) => Opinion::PassesByItself(counts),
            (ContrastAnswer::Routine(counts), _) => Opinion::Routine(counts),
            (ContrastAnswer::Undecided(_), _) => Opinion::Undecided,
        };
        Some(JudgedFailure { failure, opinion })
    };
    checked.failures.iter().filter_map(judge).collect()
}

/// Contrast over the runs of one repository and, if there are others, over all runs.
///
/// The runs of the repository are asked first, because a value may be right in one repository only. If they are too
/// few, all runs are asked: what they share is less specific, and no part of it comes from another repository alone.
struct RepositoryContrasts<'c, 'a> {
    own: Option<&'a RunRepository>,
    of_repository: Contrast<'a>,
    of_all: Option<&'c Contrast<'a>>,
}

impl<'c, 'a> RepositoryContrasts<'c, 'a> {
    fn of_run(all: &'c Contrast<'a>, run: &RunId) -> Self {
        let own = all.repository_of(run);
        let limited = all.limited_to(own.map(|one| &one.repo));
        Self {
            own,
            of_repository: limited,
            of_all: all.spans_repositories().then_some(all).filter(|_| own.is_some()),
        }
    }

    /// Judges what the run did about an error. A supported remedy names the runs of the repository; those of other
    /// repositories come with it.
    fn judge_reaction(&self, reaction: &Reaction) -> (ContrastAnswer, Vec<SupportElsewhere>) {
        let near = self.of_repository.judge_reaction(reaction);
        let Some(all) = self.of_all else { return (near, Vec::new()) };
        match (near, all.judge_reaction(reaction)) {
            (ContrastAnswer::Supported(near), ContrastAnswer::Supported(far)) if near.parts == far.parts => {
                (ContrastAnswer::Supported(near), self.list_elsewhere(all, &far.runs))
            }
            (ContrastAnswer::Supported(near), _) => (ContrastAnswer::Supported(near), Vec::new()),
            (ContrastAnswer::Undecided(_) | ContrastAnswer::Routine(_), ContrastAnswer::Supported(far)) => {
                let elsewhere = self.list_elsewhere(all, &far.runs);
                let is_own = |run: &RunId| {
                    all.repository_of(run).map(|one| &one.repo) == self.own.map(|one| &one.repo)
                };
                let runs = far.runs.iter().filter(|run| is_own(run)).cloned().collect();
                (ContrastAnswer::Supported(SharedRemedy { runs, ..far }), elsewhere)
            }
            (ContrastAnswer::Undecided(_), far) => (far, Vec::new()),
            (near, _) => (near, Vec::new()),
        }
    }

    /// Returns the newest of these runs of every other repository.
    fn list_elsewhere(&self, all: &Contrast<'_>, runs: &[RunId]) -> Vec<SupportElsewhere> {
        let mut known: BTreeSet<&Repository> = self.own.iter().map(|one| &one.repo).collect();
        let mut found = Vec::new();
        for run in runs {
            if let Some(repository) = all.repository_of(run)
                && known.insert(&repository.repo)
            {
                found.push(SupportElsewhere { run: run.clone(), repository: repository.clone() });
            }
        }
        found
    }
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
            Opinion::PassesByItself(_) | Opinion::Routine(_) | Opinion::Undecided => None,
        }
    }
}

/// Returns `true` if the contrast states a lesson about the error of a finding, which then takes its place.
pub(super) fn is_replaced(judged: &[JudgedFailure<'_>], finding: &Finding) -> bool {
    judged.iter().any(|one| one.is_about(finding) && matches!(one.opinion, Opinion::Lesson(..)))
}

/// Returns why a finding is no lesson if the contrast refutes it: its error passes by itself, or its remedy is another
/// tool that runs without the error call as well. A warning without a remedy is wrong as soon as one run got past the
/// error with the identical call.
pub(super) fn refuting_reason(
    contrast: &Contrast<'_>,
    judged: &[JudgedFailure<'_>],
    finding: &Finding,
) -> Option<NoLessonReason> {
    if matches!(finding.kind, FindingKind::Failure | FindingKind::RetryLoop)
        && let (Some(tool), Some(error)) = (&finding.cue.tool, &finding.cue.error)
    {
        let counts = contrast.count_error(&finding.step, tool, error);
        if counts.repeated > 0 {
            return Some(NoLessonReason::PassesByItself { counts });
        }
    }
    let names_tool = finding.cue.prefer.as_deref().is_some_and(|prefer| prefer.starts_with("tool `"));
    judged.iter().filter(|one| one.is_about(finding)).find_map(|one| match one.opinion {
        Opinion::PassesByItself(counts) => Some(NoLessonReason::PassesByItself { counts }),
        Opinion::Routine(counts) if names_tool => Some(NoLessonReason::Routine { counts }),
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
