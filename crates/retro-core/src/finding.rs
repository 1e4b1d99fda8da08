//! What an investigation brings back: findings with quotes, verdicts on memories, and three different ways of
//! having nothing to say.

mod check;

pub use check::{check, quote_stands};

use serde::{Deserialize, Serialize};

use crate::id::{MemoryId, RunId, Step};
use crate::outcome::RunOutcome;
use crate::run::RunFacts;
use crate::trajectory::{Place, Trajectory};
use crate::weight::Weight;

/// Words taken literally from a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quote {
    /// Where it stands.
    pub place: Place,
    /// The words, verbatim; at most [`QUOTE_CHARS_MAX`] characters.
    pub text: String,
}

/// The longest quote that is kept, in characters.
pub const QUOTE_CHARS_MAX: usize = 400;
/// The longest title of a memory, in characters: one line of a prompt.
pub const TITLE_CHARS_MAX: usize = 240;
/// The longest content of a memory, in characters.
pub const CONTENT_CHARS_MAX: usize = 2000;
/// The longest subject, in characters: a tool, a command or a file, with its path.
pub const SUBJECT_CHARS_MAX: usize = 240;
/// The longest part of a cue, in characters: a whole call with its arguments, as long as a content.
pub const CUE_CHARS_MAX: usize = 2000;
/// The longest reason of a verdict, in characters: a sentence or two with a quote in it.
pub const REASON_CHARS_MAX: usize = 1000;

/// The kinds of pattern that are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A call failed, a changed call of the same tool succeeded: the difference is the lesson.
    Repair,
    /// The same failure came up and no way out of it was seen.
    Failure,
    /// The same failing call again and again.
    RetryLoop,
    /// What the agent itself would tell the next run.
    SelfFeedback,
}

/// A pattern seen in a step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What kind of pattern.
    pub kind: FindingKind,
    /// The step it was seen in.
    pub step: Step,
    /// What it is about (a tool, a command, a file); contradiction stays within one subject.
    pub subject: String,
    /// The lesson as one imperative sentence with its cue.
    pub title: String,
    /// What a reader gets on request: the case, and what to do.
    pub content: String,
    /// The situation in which the lesson holds and how a trace shows that it was followed.
    pub cue: Cue,
    /// The words that show it.
    pub quote: Quote,
    /// A presented or known memory that this finding contradicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicts: Option<MemoryId>,
}

/// The machine's side of a lesson: when it applies, and what following it looks like.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Cue {
    /// The tool whose use is the situation; `None` when the lesson is only text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The error it is about, normalised over numbers, paths, identifiers and quoted names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the failing call had and the succeeding one had not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub avoid: Option<String>,
    /// What the succeeding call had and the failing one had not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefer: Option<String>,
}

impl Cue {
    /// One string that is equal for equal lessons; `None` for a lesson that is only text, or names a tool and
    /// nothing else: all lessons about that tool would be one. Direction is part of it: "x instead of y" and "y
    /// instead of x" are two lessons.
    pub fn signature(&self) -> Option<String> {
        let tool = self.tool.as_deref()?;
        self.error.as_ref().or(self.avoid.as_ref()).or(self.prefer.as_ref())?;
        let part = |text: &Option<String>| text.as_deref().unwrap_or("").to_owned();
        Some([tool, &part(&self.error), &part(&self.avoid), &part(&self.prefer)].join("\u{1f}"))
    }

    /// Whether both are about the same error of the same tool, and this one knows a way out of it and the other only the error.
    pub fn says_more_than(&self, other: &Self) -> bool {
        self.tool.is_some()
            && self.error.is_some()
            && self.tool == other.tool
            && self.error == other.error
            && self.prefer.is_some()
            && other.prefer.is_none()
            && other.avoid.is_none()
    }

    /// Whether the two give opposite advice: each prefers what the other avoids, with the same tool.
    pub fn opposes(&self, other: &Self) -> bool {
        self.tool.is_some()
            && self.tool == other.tool
            && self.prefer.is_some()
            && self.avoid.is_some()
            && self.prefer == other.avoid
            && self.avoid == other.prefer
    }
}

/// What a memory did in a run, the strongest first: of several, the first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Following it preceded a failure.
    Harmed,
    /// It was followed and the failure it names did not come, or was left.
    Helped,
    /// The trace shows the agent acting on it.
    Applied,
    /// Its situation came up and the agent did not act on it.
    Ignored,
    /// Its situation never came up.
    CueNotMet,
}

impl Verdict {
    /// One word, as it stands in a column.
    pub const fn key(self) -> &'static str {
        match self {
            Self::CueNotMet => "cue_not_met",
            other => other.as_str(),
        }
    }

    /// The words as stored and shown.
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
pub struct MemoryVerdict {
    /// The memory.
    pub memory: MemoryId,
    /// What it did.
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub reason: String,
    /// The words that show it; a cue that never came up has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<Quote>,
}

/// What an investigator is given: one run, what stood in its prompt, and what was found before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Brief {
    /// What the event said.
    pub run: RunFacts,
    /// What the agent did, without our own injected blocks.
    pub trajectory: Trajectory,
    /// The memories of the workflow, and the rules that were presented, that a verdict may be about; presented ones marked.
    pub memories: Vec<KnownMemory>,
    /// Findings of this retrospective's earlier investigations.
    pub earlier: Vec<EarlierFinding>,
    /// What is known by now of the run's pull requests: whether people wanted what it made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<RunOutcome>,
    /// A question that a person asked with a manual retrospective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
}

/// A memory as an investigator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownMemory {
    /// Its id.
    pub id: MemoryId,
    /// The step it belongs to; `None` for a rule of the repository, which goes for the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// What it is about.
    pub subject: String,
    /// Its one line.
    pub title: String,
    /// When it applies and what following it looks like.
    pub cue: Cue,
    /// Its weight.
    pub weight: Weight,
    /// It stood in this run's prompt.
    pub presented: bool,
    /// The agent of this run opened it.
    pub read: bool,
}

/// A finding of an earlier investigation of the same retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierFinding {
    /// The run it was seen in.
    pub run: RunId,
    /// The finding.
    pub finding: Finding,
}

/// Where a failed run probably went wrong: a guess for whoever reads the report, and never a lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The step, which in a conversation is the agent that spoke.
    pub step: Step,
    /// What speaks for it, in half a sentence.
    pub sign: String,
    /// The words of that turn.
    pub quote: Quote,
}

/// An error that the very same call got past at its next try: it passes by itself, and a changed call that got past it in
/// another run shows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transient {
    /// The step it came in.
    pub step: Step,
    /// The tool that gave it.
    pub tool: String,
    /// The error, normalised as in a [`Cue`].
    pub error: String,
    /// Words of it.
    pub quote: Quote,
}

impl Transient {
    /// Whether a lesson of this step with this cue is about it.
    pub fn is_subject_of(&self, step: &Step, cue: &Cue) -> bool {
        self.step == *step && cue.tool.as_ref() == Some(&self.tool) && cue.error.as_ref() == Some(&self.error)
    }
}

/// What a run shows against a known memory, beside any finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contradiction {
    /// The memory.
    pub memory: MemoryId,
    /// Its step, in which it showed.
    pub step: Step,
    /// What the memory is about.
    pub subject: String,
    /// Why, in one sentence.
    pub reason: String,
    /// The words.
    pub quote: Quote,
}

/// What an investigator saw. All of it may be empty: then it found nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Looked {
    /// Patterns.
    pub findings: Vec<Finding>,
    /// Verdicts on presented memories.
    pub verdicts: Vec<MemoryVerdict>,
    /// Where a failed run probably went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Errors that passed by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transients: Vec<Transient>,
    /// What speaks against known memories, beside what the findings contradict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
}

/// What an investigator answers. "Found nothing", "answer invalid" and "failed" are three different things.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// It looked, and this is what it saw.
    Looked(Looked),
    /// It answered, and the answer cannot be used.
    Invalid {
        /// What is wrong with it.
        reason: String,
    },
    /// It could not look.
    Failed {
        /// What went wrong.
        reason: String,
    },
}

/// What is kept of an answer after the mechanical checks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Checked {
    /// Findings whose quotes stand in the run.
    pub findings: Vec<Finding>,
    /// Verdicts on presented memories whose quotes stand in the run; one a memory.
    pub verdicts: Vec<MemoryVerdict>,
    /// Where a failed run probably went wrong, as far as its quote stands in the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Errors that passed by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transients: Vec<Transient>,
    /// What speaks against known memories, beside what the findings contradict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
    /// How many of all these were dropped because a quote was not there, a text was out of bounds or a memory unknown.
    pub dropped: u32,
}

/// Most findings kept of one investigation: a bound, far above what a run honestly holds.
pub const FINDINGS_MAX: usize = 50;

impl Brief {
    /// The step that a place of the run belongs to; `None` when there is no such place.
    pub fn step_at(&self, place: Place) -> Option<&Step> {
        match place {
            Place::SelfFeedback { remark } => Some(&self.run.self_feedback.get(remark as usize)?.step),
            Place::Message { turn }
            | Place::Reasoning { turn }
            | Place::Arguments { turn, .. }
            | Place::Answer { turn, .. } => Some(&self.trajectory.turns.get(turn as usize)?.step),
            Place::Review => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cue(tool: Option<&str>, parts: [Option<&str>; 3]) -> Cue {
        let [error, avoid, prefer] = parts.map(|part| part.map(str::to_owned));
        Cue { tool: tool.map(str::to_owned), error, avoid, prefer }
    }

    #[test]
    fn a_signature_needs_a_tool_and_something_about_it() {
        assert_eq!(cue(None, [Some("not found"), None, None]).signature(), None);
        assert_eq!(cue(Some("sh"), [None, None, None]).signature(), None, "or all lessons about sh were one");
        assert!(cue(Some("sh"), [None, None, Some("rg")]).signature().is_some());
    }

    #[test]
    fn a_signature_tells_its_parts_and_their_direction_apart() {
        let one = cue(Some("sh"), [None, Some("grep"), Some("rg")]);
        let other = cue(Some("sh"), [None, Some("rg"), Some("grep")]);
        assert_ne!(one.signature(), other.signature());
        assert!(one.opposes(&other) && !one.opposes(&one));
        assert_ne!(one.signature(), cue(Some("sh"), [Some("grep"), None, Some("rg")]).signature());
    }
}
