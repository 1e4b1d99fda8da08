//! Results of an investigation: findings with quotes, verdicts on memories, and three different kinds of answer
//! without findings.

mod check;

pub use check::{check_answer, is_verbatim_quote};

use serde::{Deserialize, Serialize};

use crate::id::{MemoryId, RunId, Step};
use crate::outcome::PullRequestOutcome;
use crate::run::RunFacts;
use crate::trajectory::{QuotePlace, Trajectory};
use crate::weight::Weight;

/// Words taken verbatim from a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// Place in the run that the words come from.
    pub place: QuotePlace,
    /// The words; at most [`QUOTE_CHARS_MAX`] characters.
    pub text: String,
}

/// Maximum length of a quote, in characters.
pub const QUOTE_CHARS_MAX: usize = 400;
/// Maximum length of a memory's title, in characters: one line of a prompt.
pub const TITLE_CHARS_MAX: usize = 240;
/// Maximum length of a memory's content, in characters.
pub const CONTENT_CHARS_MAX: usize = 2000;
/// Maximum length of a subject, in characters: a tool, a command or a file with its path.
pub const SUBJECT_CHARS_MAX: usize = 240;
/// Maximum length of each part of a cue, in characters: a whole call with its arguments, as long as a
/// content.
pub const CUE_CHARS_MAX: usize = 2000;
/// Maximum length of a verdict's reason, in characters: a sentence or two with a quote.
pub const REASON_CHARS_MAX: usize = 1000;

/// Kinds of pattern that investigators look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A call failed and a changed call of the same tool succeeded; the difference is the lesson.
    Repair,
    /// The same failure occurred and no repair was seen.
    Failure,
    /// The same failing call was repeated.
    RetryLoop,
    /// Advice that the agent itself gives to the next run.
    SelfFeedback,
}

/// A pattern seen in a step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Kind of pattern.
    pub kind: FindingKind,
    /// Step in which it was seen.
    pub step: Step,
    /// Tool, command or file that it is about. Contradictions apply only within one subject.
    pub subject: String,
    /// The lesson as one imperative sentence with its cue.
    pub title: String,
    /// Details that an agent gets on request: the case, and what to do.
    pub content: String,
    /// Situation in which the lesson applies, and how a trace shows that it was followed.
    pub cue: LessonCue,
    /// Words that show the pattern.
    pub quote: Quote,
    /// Presented or known memory that the finding contradicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicts: Option<MemoryId>,
}

/// Machine-readable part of a lesson: when it applies, and what following it looks like.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LessonCue {
    /// Tool whose use is the situation; `None` when the lesson is only text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Error that the lesson is about, normalised over numbers, paths, identifiers and quoted names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Part of the failing call that the succeeding one does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid: Option<String>,
    /// Part of the succeeding call that the failing one does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefer: Option<String>,
}

impl LessonCue {
    /// Returns a string that is equal for equal lessons. `None` for a lesson that is only text, or that names a tool
    /// and nothing else, because all lessons about that tool would be equal. The direction is part of it: "x instead
    /// of y" and "y instead of x" are two lessons.
    pub fn signature(&self) -> Option<String> {
        let tool = self.tool.as_deref()?;
        self.error.as_ref().or(self.avoid.as_ref()).or(self.prefer.as_ref())?;
        let part = |text: &Option<String>| text.as_deref().unwrap_or("").to_owned();
        Some([tool, &part(&self.error), &part(&self.avoid), &part(&self.prefer)].join("\u{1f}"))
    }

    /// Returns whether both are about the same error of the same tool, and only this one has a remedy.
    pub fn adds_remedy_to(&self, other: &Self) -> bool {
        self.tool.is_some()
            && self.error.is_some()
            && self.tool == other.tool
            && self.error == other.error
            && self.prefer.is_some()
            && other.prefer.is_none()
            && other.avoid.is_none()
    }

    /// Returns whether the two give opposite advice: each prefers what the other avoids, with the same tool.
    pub fn opposes(&self, other: &Self) -> bool {
        self.tool.is_some()
            && self.tool == other.tool
            && self.prefer.is_some()
            && self.avoid.is_some()
            && self.prefer == other.avoid
            && self.avoid == other.prefer
    }
}

/// Effect of a memory in a run, the strongest first. Of several verdicts, the first in this order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryVerdict {
    /// Following the memory preceded a failure.
    Harmed,
    /// The memory was followed, and the failure that it names did not occur or was overcome.
    Helped,
    /// The trace shows the agent acting on the memory.
    Applied,
    /// The memory's situation occurred and the agent did not act on it.
    Ignored,
    /// The memory's situation did not occur.
    CueNotMet,
}

impl MemoryVerdict {
    /// Returns the verdict as stored in a column.
    pub const fn as_key(self) -> &'static str {
        match self {
            Self::CueNotMet => "cue_not_met",
            other => other.as_str(),
        }
    }

    /// Returns the words as stored in reports and shown.
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

/// A verdict on one memory in one run, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictRecord {
    /// Memory that was judged.
    pub memory: MemoryId,
    /// Verdict on that memory.
    pub verdict: MemoryVerdict,
    /// Reason in one sentence.
    pub reason: String,
    /// Words that show it; `None` for a cue that was not met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<Quote>,
}

/// Input of an investigator: one run, the memories in its prompt, and earlier findings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InvestigationBrief {
    /// Facts from the run's event.
    pub run: RunFacts,
    /// Trajectory of the run, without injected blocks.
    pub trajectory: Trajectory,
    /// Memories of the workflow, and presented rules, that a verdict may be about; presented ones are marked.
    pub memories: Vec<BriefMemory>,
    /// Findings of earlier investigations of the same retrospective.
    pub earlier: Vec<EarlierFinding>,
    /// Known outcomes of the run's pull requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<PullRequestOutcome>,
    /// Question that a person asked with a manual retrospective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
}

/// A memory in the form that an investigator gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BriefMemory {
    /// Id of the memory.
    pub id: MemoryId,
    /// Step that it belongs to; `None` for a rule of the repository, which applies to the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// Subject of its lesson.
    pub subject: String,
    /// Title of its lesson.
    pub title: String,
    /// When it applies, and what following it looks like.
    pub cue: LessonCue,
    /// Current weight.
    pub weight: Weight,
    /// True if it was in this run's prompt.
    pub presented: bool,
    /// True if the agent of this run opened it.
    pub read: bool,
}

/// A finding of an earlier investigation of the same retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierFinding {
    /// Run in which it was seen.
    pub run: RunId,
    /// Finding of that investigation.
    pub finding: Finding,
}

/// Probable place where a failed run went wrong: a guess for readers of the report, and never a lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Step of the fault; in a conversation, the agent that spoke.
    pub step: Step,
    /// Evidence for it, in a short clause.
    pub sign: String,
    /// Words of that turn.
    pub quote: Quote,
}

/// An error that passed when the same call was simply repeated. A changed call that succeeded after this
/// error in another run is therefore not evidence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransientError {
    /// Step in which it occurred.
    pub step: Step,
    /// Tool that returned it.
    pub tool: String,
    /// Error, normalised as in a [`LessonCue`].
    pub error: String,
    /// Words of the error.
    pub quote: Quote,
}

impl TransientError {
    /// Returns whether a lesson of this step with this cue is about this error.
    pub fn matches_cue(&self, step: &Step, cue: &LessonCue) -> bool {
        self.step == *step && cue.tool.as_ref() == Some(&self.tool) && cue.error.as_ref() == Some(&self.error)
    }
}

/// Evidence against a known memory that is not part of a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contradiction {
    /// Contradicted memory.
    pub memory: MemoryId,
    /// Step of the memory, in which the evidence was seen.
    pub step: Step,
    /// Subject of the memory.
    pub subject: String,
    /// Reason in one sentence.
    pub reason: String,
    /// Words that show it.
    pub quote: Quote,
}

/// Unchecked answer of an investigator. When all of it is empty, the investigator found nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RawAnswer {
    /// Patterns seen in the run.
    pub findings: Vec<Finding>,
    /// Verdicts on presented memories.
    pub verdicts: Vec<VerdictRecord>,
    /// Probable place where a failed run went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Errors that passed without a change of the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transients: Vec<TransientError>,
    /// Evidence against known memories, besides the contradictions in findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
}

/// Result of asking an investigator. "Found nothing", "answer invalid" and "failed" are three different results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum InvestigatorAnswer {
    /// The investigator examined the run and returned this.
    Looked(RawAnswer),
    /// The investigator answered, but the answer cannot be used.
    Invalid {
        /// Description of the problem.
        reason: String,
    },
    /// The investigator could not examine the run.
    Failed {
        /// Description of the problem.
        reason: String,
    },
}

/// The part of an answer that passed the mechanical checks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckedAnswer {
    /// Findings whose quotes are in the run.
    pub findings: Vec<Finding>,
    /// Verdicts on presented memories whose quotes are in the run; one per memory.
    pub verdicts: Vec<VerdictRecord>,
    /// Probable place where a failed run went wrong, if its quote is in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Errors that passed without a change of the call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transients: Vec<TransientError>,
    /// Evidence against known memories, besides the contradictions in findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
    /// Number of entries that were dropped because a quote was not found, a text was too long or a memory was
    /// unknown.
    pub dropped: u32,
}

/// Maximum number of findings of one investigation; far more than a real run has.
pub const FINDINGS_MAX: usize = 50;

impl InvestigationBrief {
    /// Returns the step that a place of the run belongs to; `None` when there is no such place.
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
