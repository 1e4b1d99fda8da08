//! Defines the results of an investigation: findings with quotes, verdicts on memories, and three different kinds of
//! answer without findings.

mod check;

pub use check::{check_answer, is_verbatim_quote};

use serde::{Deserialize, Serialize};

use crate::id::{MemoryId, RunId, Step};
use crate::outcome::PullRequestOutcome;
use crate::run::RunFacts;
use crate::trajectory::{QuotePlace, Trajectory};
use crate::weight::Weight;

/// Words that were copied verbatim from a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// Place in the run from which the words were copied.
    pub place: QuotePlace,
    /// The copied words, at most [`QUOTE_CHARS_MAX`] characters.
    pub text: String,
}

/// Maximum length of a quote, in characters.
pub const QUOTE_CHARS_MAX: usize = 400;
/// Maximum length of a memory's title, in characters. A title is one line of a prompt.
pub const TITLE_CHARS_MAX: usize = 240;
/// Maximum length of a memory's content, in characters.
pub const CONTENT_CHARS_MAX: usize = 2000;
/// Maximum length of a subject, in characters. A subject is a tool, a command or a file with its path.
pub const SUBJECT_CHARS_MAX: usize = 240;
/// Maximum length of each part of a cue, in characters. A part may be a whole call with its arguments, so it may be as
/// long as the content of a memory.
pub const CUE_CHARS_MAX: usize = 2000;
/// Maximum length of a verdict's reason, in characters. A reason is a sentence or two with a quote.
pub const REASON_CHARS_MAX: usize = 1000;

/// Kind of pattern that an investigator may find in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A call failed, and a changed call of the same tool succeeded. The difference between the calls is the lesson.
    Repair,
    /// A failure occurred, and no repair was seen in the run.
    Failure,
    /// The same failing call was repeated.
    RetryLoop,
    /// The agent itself gave advice for the next run.
    SelfFeedback,
}

/// A pattern seen in a step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Kind of the pattern.
    pub kind: FindingKind,
    /// Step in which the pattern was seen.
    pub step: Step,
    /// Tool, command or file that the finding is about. Findings and memories can contradict each other only if they
    /// have the same subject.
    pub subject: String,
    /// The lesson as one imperative sentence, including its cue.
    pub title: String,
    /// Details that an agent gets on request: what happened, and what to do.
    pub content: String,
    /// Situation in which the lesson applies, and how a trace shows that it was followed.
    pub cue: LessonCue,
    /// Words from the run that show the pattern.
    pub quote: Quote,
    /// Id of the memory in the brief that the finding contradicts, whether or not it was presented to the run. `None`
    /// if the finding contradicts no memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicts: Option<MemoryId>,
}

/// Machine-readable part of a lesson, which says when the lesson applies and how a trace shows that it was followed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LessonCue {
    /// Tool to whose use the lesson applies; `None` when the lesson is only text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Error that the lesson is about. Numbers, paths, identifiers and quoted names are normalised. `None` when the
    /// lesson is not about one error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Part of the failing call that the successful call does not contain; `None` when there is no such part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid: Option<String>,
    /// Part of the successful call that the failing call does not contain; `None` when there is no such part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefer: Option<String>,
}

impl LessonCue {
    /// Returns a string that is equal for equal lessons. Returns `None` for a lesson that is only text, or that names a
    /// tool and nothing else, because otherwise all lessons about that tool would be equal. The direction of the advice
    /// matters: "x instead of y" and "y instead of x" are two lessons.
    pub fn signature(&self) -> Option<String> {
        let tool = self.tool.as_deref()?;
        self.error.as_ref().or(self.avoid.as_ref()).or(self.prefer.as_ref())?;
        let part = |text: &Option<String>| text.as_deref().unwrap_or("").to_owned();
        Some([tool, &part(&self.error), &part(&self.avoid), &part(&self.prefer)].join("\u{1f}"))
    }

    /// Returns whether both cues are about the same error of the same tool, and only this cue has a remedy.
    pub fn adds_remedy_to(&self, other: &Self) -> bool {
        self.tool.is_some()
            && self.error.is_some()
            && self.tool == other.tool
            && self.error == other.error
            && self.prefer.is_some()
            && other.prefer.is_none()
            && other.avoid.is_none()
    }

    /// Returns whether the two cues give opposite advice about the same tool: each prefers what the other avoids.
    pub fn opposes(&self, other: &Self) -> bool {
        self.tool.is_some()
            && self.tool == other.tool
            && self.prefer.is_some()
            && self.avoid.is_some()
            && self.prefer == other.avoid
            && self.avoid == other.prefer
    }
}

/// Effect of a memory on a run. The variants are ordered from the strongest to the weakest; of several verdicts on one
/// memory, the strongest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryVerdict {
    /// The agent followed the memory, and a failure came after that.
    Harmed,
    /// The agent followed the memory, and the failure that the memory names did not occur or was overcome.
    Helped,
    /// The trace shows that the agent followed the memory.
    Applied,
    /// The situation that the memory is about occurred, but the agent did not follow the memory.
    Ignored,
    /// The situation that the memory is about did not occur.
    CueNotMet,
}

impl MemoryVerdict {
    /// Returns the verdict as it is stored in a column.
    pub const fn as_key(self) -> &'static str {
        match self {
            Self::CueNotMet => "cue_not_met",
            other => other.as_str(),
        }
    }

    /// Returns the verdict in the words that are shown and stored in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Harmed => "harmed",
            Self::Helped => "helped",
            Self::Applied => "applied",
            Self::Ignored => "ignored",
            Self::CueNotMet => "cue not met",
        }
    }
}

/// A verdict on the effect of one memory on one run, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictRecord {
    /// Id of the memory that was judged.
    pub memory: MemoryId,
    /// Effect that the memory had on the run.
    pub verdict: MemoryVerdict,
    /// Reason for the verdict, in one sentence.
    pub reason: String,
    /// Words from the run that support the verdict. `None` if the memory's situation did not occur.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<Quote>,
}

/// Input of an investigator: one run, the memories that it may judge, and earlier findings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InvestigationBrief {
    /// Facts about the run, taken from its event.
    pub run: RunFacts,
    /// Trajectory of the run, without the blocks of memories that were injected into its prompts.
    pub trajectory: Trajectory,
    /// Memories of the workflow and rules that were presented to the run; verdicts and contradictions may be about
    /// them. Those that were presented are marked.
    pub memories: Vec<BriefMemory>,
    /// Findings of earlier investigations of the same retrospective.
    pub earlier: Vec<EarlierFinding>,
    /// Known outcomes of the pull requests that the run belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<PullRequestOutcome>,
    /// Question that a person asked with a manual retrospective. `None` if no question was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
}

/// A memory as the investigator sees it in its brief.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BriefMemory {
    /// Id of the memory.
    pub id: MemoryId,
    /// Step that the memory belongs to. `None` for a rule of the repository, which applies to the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// Tool, command or file that the memory is about.
    pub subject: String,
    /// Title of the memory.
    pub title: String,
    /// When the memory applies, and how a trace shows that it was followed.
    pub cue: LessonCue,
    /// Current weight of the memory.
    pub weight: Weight,
    /// True if the memory was in this run's prompt.
    pub presented: bool,
    /// True if the agent of this run opened the memory.
    pub read: bool,
}

/// A finding of an earlier investigation of the same retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierFinding {
    /// Run in which the finding was seen.
    pub run: RunId,
    /// The finding itself.
    pub finding: Finding,
}

/// Probable place where a failed run went wrong. It is a guess for readers of the report and never becomes a lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Step in which the fault occurred. In a conversation, it is the agent that spoke.
    pub step: Step,
    /// Evidence for the fault, in a short clause.
    pub sign: String,
    /// Words from the turn in which the fault occurred.
    pub quote: Quote,
}

/// An error that did not occur again when the same call was repeated. If a changed call succeeded after this error in
/// another run, that is therefore not evidence for the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransientError {
    /// Step in which the error occurred.
    pub step: Step,
    /// Tool that returned the error.
    pub tool: String,
    /// The error, normalised as in a [`LessonCue`].
    pub error: String,
    /// Words of the error, as the run contains them.
    pub quote: Quote,
}

impl TransientError {
    /// Returns whether a lesson with this step and this cue is about this error.
    pub fn matches_cue(&self, step: &Step, cue: &LessonCue) -> bool {
        self.step == *step && cue.tool.as_ref() == Some(&self.tool) && cue.error.as_ref() == Some(&self.error)
    }
}

/// Evidence against a known memory, found without a finding that contradicts it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contradiction {
    /// Id of the contradicted memory.
    pub memory: MemoryId,
    /// Step of the memory, in which the evidence was seen.
    pub step: Step,
    /// Tool, command or file that the memory is about.
    pub subject: String,
    /// Reason why the run contradicts the memory, in one sentence.
    pub reason: String,
    /// Words from the run that contradict the memory.
    pub quote: Quote,
}

/// Answer of an investigator before it is checked. If all its parts are empty, the investigator found nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RawAnswer {
    /// Patterns that the investigator saw in the run.
    pub findings: Vec<Finding>,
    /// Verdicts on memories that were presented to the run.
    pub verdicts: Vec<VerdictRecord>,
    /// Probable place where a failed run went wrong; `None` if the investigator named none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Errors that did not occur again when the same call was repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transients: Vec<TransientError>,
    /// Evidence against known memories that is not part of a finding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
}

/// Result of asking an investigator about a run. "Found nothing", "answer invalid" and "failed" are three different
/// results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum InvestigatorAnswer {
    /// The investigator examined the run and returned this answer.
    Looked(RawAnswer),
    /// The investigator answered, but the answer cannot be used.
    Invalid {
        /// Reason why the answer cannot be used.
        reason: String,
    },
    /// The investigator could not examine the run.
    Failed {
        /// Reason why the run could not be examined.
        reason: String,
    },
}

/// The parts of an answer that passed the mechanical checks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckedAnswer {
    /// Findings whose quotes are in the run.
    pub findings: Vec<Finding>,
    /// Verdicts on presented memories whose quotes are in the run; at most one per memory.
    pub verdicts: Vec<VerdictRecord>,
    /// Probable place where a failed run went wrong. `None` if the investigator named none or its quote is not in the
    /// run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Errors that did not occur again when the same call was repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transients: Vec<TransientError>,
    /// Evidence against known memories that is not part of a finding.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
    /// Number of entries that were dropped because they failed a check or there were too many of them. A dropped fault
    /// is not counted.
    pub dropped: u32,
}

/// Maximum number of findings of one investigation; the same limit applies to its transient errors and to its
/// contradictions. A real run has far fewer.
pub const FINDINGS_MAX: usize = 50;

impl InvestigationBrief {
    /// Returns the step to which a place in the run belongs. Returns `None` when the run has no such place.
    pub fn step_at(&self, place: QuotePlace) -> Option<&Step> {
        match place {
            QuotePlace::SelfFeedback { remark } => Some(&self.run.self_feedback.get(remark as usize)?.step),
            QuotePlace::Message { turn }
            | QuotePlace::Reasoning { turn }
            | QuotePlace::Arguments { turn, .. }
            | QuotePlace::Answer { turn, .. } => Some(&self.trajectory.turns.get(turn as usize)?.step),
            QuotePlace::Review => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cue(tool: Option<&str>, parts: [Option<&str>; 3]) -> LessonCue {
        let [error, avoid, prefer] = parts.map(|part| part.map(str::to_owned));
        LessonCue { tool: tool.map(str::to_owned), error, avoid, prefer }
    }

    #[test]
    fn a_signature_needs_a_tool_and_something_about_it() {
        assert_eq!(cue(None, [Some("not found"), None, None]).signature(), None);
        assert_eq!(cue(Some("sh"), [None, None, None]).signature(), None, "or all lessons about sh were one");
        assert!(cue(Some("sh"), [None, None, Some("rg")]).signature().is_some());
    }

    #[test]
    fn signatures_differ_by_part_and_direction() {
        let one = cue(Some("sh"), [None, Some("grep"), Some("rg")]);
        let other = cue(Some("sh"), [None, Some("rg"), Some("grep")]);
        assert_ne!(one.signature(), other.signature());
        assert!(one.opposes(&other) && !one.opposes(&one));
        assert_ne!(one.signature(), cue(Some("sh"), [Some("grep"), None, Some("rg")]).signature());
    }
}
