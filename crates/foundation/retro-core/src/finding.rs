//! Defines what an investigator receives and returns: a brief, findings with quotes, and verdicts on
//! memories.

mod check;
mod compaction;
mod cue;
mod earlier;
mod focus;
mod line;
mod quote;
mod refutation;
mod stated;

pub use check::{check_answer, is_verbatim_quote};
pub use compaction::Compaction;
pub use cue::{AS_DOCUMENTED, LessonCue, SAME_CALL_AGAIN};
pub use earlier::{COMPACTED_BYTES_MAX, EARLIER_BYTES_MAX, EarlierLine, EarlierLines, LineGroup};
pub use focus::{EarlierFocus, FOCUS_QUOTES_MAX, FocusQuestion, RunFocus, StatedCause};
pub use line::{Advice, FORM_SEPARATOR, TITLE_CHARS_MAX, format_advice, format_title};
pub use quote::{QUOTE_CHARS_MAX, Quote};
pub use refutation::{Refutation, RefutationReason, RefutedFinding};
pub use stated::{LessonFieldError, SavedChange, StatedFields, stated_form};

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::audience::RunRepository;
use crate::id::{MemoryId, RunId, Step};
use crate::run::RunFacts;
use crate::trajectory::{QuotePlace, Trajectory};
use crate::weight::Weight;

/// Maximum length of a memory's content, in characters.
pub const CONTENT_CHARS_MAX: usize = 2000;
/// Maximum length of a subject, in characters. A subject is a tool, a command or a file with its path.
pub const SUBJECT_CHARS_MAX: usize = 240;
/// Maximum length of each part of a cue, in characters. A part may be a whole call with its arguments, so it
/// may be as long as a memory's content.
pub const CUE_CHARS_MAX: usize = 2000;
/// Maximum length of a reason, in characters: a sentence or two with a quote.
pub const REASON_CHARS_MAX: usize = 1000;

/// Kind of pattern that a finding describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// A call failed, and a changed call of the same tool succeeded. The difference between the calls is the
    /// lesson.
    Repair,
    /// A call failed, and the run contains no repair.
    Failure,
    /// The same failing call was repeated.
    RetryLoop,
    /// The agent gave advice for the next run in its self-feedback.
    SelfFeedback,
    /// The answer of a tool states how another tool is used or what it does. The statement, quoted, is the lesson.
    Documented,
}

/// A pattern seen in a step of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Kind of the pattern.
    pub kind: FindingKind,
    /// Step in which the pattern was seen.
    pub step: Step,
    /// Tool, command or file that the finding is about. Findings and memories can contradict each other only
    /// if they have the same subject.
    pub subject: String,
    /// Lesson as one imperative sentence that includes its cue.
    pub title: String,
    /// Details that an agent gets on request: what happened and what to do.
    pub content: String,
    /// Situation in which the lesson applies, and how a trace shows that it was followed.
    pub cue: LessonCue,
    /// Verbatim quote that shows the pattern.
    pub quote: Quote,
    /// Memory of the brief that the finding contradicts, whether or not it was presented to the run; `None`
    /// if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contradicts: Option<MemoryId>,
    /// Origin of the pattern. An investigator states only the source; the check adds the facts of the run.
    #[serde(default, skip_serializing_if = "EvidenceOrigin::is_unknown")]
    pub origin: EvidenceOrigin,
}

/// Origin of evidence, which decides if two sightings are independent. A field is `None` if it is unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct EvidenceOrigin {
    /// User who started the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Task of the run, as named by the emitter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Page or file that the quoted text was read from. `None` for the words of a tool itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Repository that the run worked on. It is no witness: several runs of one repository may confirm a lesson.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<RunRepository>,
}

/// Maximum length of each part of an origin, in characters: an address with its path.
pub const ORIGIN_CHARS_MAX: usize = 240;

impl EvidenceOrigin {
    /// Returns the origin of what a run shows: its user, its task and its repository, and the page or file `source`.
    pub fn of_run(run: &RunFacts, source: Option<String>) -> Self {
        let shorten = |text: String| text.chars().take(ORIGIN_CHARS_MAX).collect();
        Self {
            user: run.user.clone().map(shorten),
            task: run.task.clone().map(shorten),
            source: source.map(shorten),
            repository: run.repository(),
        }
    }

    /// Returns `true` if nothing is known about the origin.
    pub const fn is_unknown(&self) -> bool {
        self.user.is_none() && self.task.is_none() && self.source.is_none() && self.repository.is_none()
    }

    /// Returns the names of the witnesses behind this origin: the page or file, and the user with the task. Two
    /// sightings that share a name are one witness. Empty if the run itself is the witness.
    pub fn witnesses(&self) -> Vec<String> {
        // The unit separator keeps the parts apart.
        let source = self.source.as_ref().map(|source| format!("source\u{1f}{source}"));
        let user = self.user.as_ref().zip(self.task.as_ref());
        let user = user.map(|(user, task)| format!("user\u{1f}{user}\u{1f}{task}"));
        source.into_iter().chain(user).collect()
    }

    /// Describes the origin for people, such as `user anna, task 17`; empty if nothing is known.
    pub fn describe(&self) -> String {
        let named = [("user", &self.user), ("task", &self.task), ("read from", &self.source)];
        let parts = named.iter().filter_map(|(name, part)| Some(format!("{name} {}", part.as_ref()?)));
        let repository = self.repository.as_ref().map(|one| format!("repository {}", one.repo));
        parts.chain(repository).collect::<Vec<_>>().join(", ")
    }
}

/// Effect of a memory on a run. The variants are ordered from strongest to weakest; of several verdicts on
/// one memory, the strongest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum MemoryVerdict {
    /// The agent followed the memory and then ran into a failure.
    Harmed,
    /// The agent followed the memory and avoided or overcame the failure that the memory names.
    Helped,
    /// The agent followed the memory, and the trace shows neither help nor harm.
    Applied,
    /// The situation that the memory is about occurred, but the agent did not follow the memory.
    Ignored,
    /// The situation that the memory is about did not occur.
    CueNotMet,
}

impl MemoryVerdict {
    /// Returns the verdict as stored in the database, such as `cue_not_met`.
    pub fn as_key(self) -> &'static str {
        self.into()
    }

    /// Returns the verdict as shown to people, such as `cue not met`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CueNotMet => "cue not met",
            other => other.as_key(),
        }
    }
}

/// Verdict on the effect of a memory on a run, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictRecord {
    /// Memory that was judged.
    pub memory: MemoryId,
    /// Effect of the memory on the run.
    pub verdict: MemoryVerdict,
    /// Reason for the verdict, in one sentence.
    pub reason: String,
    /// Verbatim quote that supports the verdict. Optional only for [`MemoryVerdict::CueNotMet`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<Quote>,
}

/// Input of an investigator: one run, the memories to judge, and earlier findings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InvestigationBrief {
    /// Facts about the run, taken from its event.
    pub run: RunFacts,
    /// Trajectory of the run, without the memories that were injected into its prompts or opened by the
    /// agent.
    pub trajectory: Trajectory,
    /// Memories of the workflow's steps, and the rules that were presented to the run. Verdicts and
    /// contradictions refer to them.
    pub memories: Vec<BriefMemory>,
    /// Findings of earlier investigations of the same retrospective.
    pub earlier: Vec<EarlierFinding>,
    /// Question of the person who named the run; `None` if nobody asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<FocusQuestion>,
}

/// Excerpt of a memory, as part of a brief.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BriefMemory {
    /// Id of the memory.
    pub id: MemoryId,
    /// Step that the memory applies to; `None` for a rule, which applies to the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// Tool, command or file that the memory is about.
    pub subject: String,
    /// Title of the memory: its lesson as one imperative sentence.
    pub title: String,
    /// Situation in which the memory applies, and how a trace shows that it was followed.
    pub cue: LessonCue,
    /// Current weight of the memory.
    pub weight: Weight,
    /// `true` if the memory was in this run's prompt.
    pub presented: bool,
    /// `true` if the agent of this run opened the memory.
    pub read: bool,
}

/// A finding of an earlier investigation of the same retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierFinding {
    /// Run in which the pattern was seen.
    pub run: RunId,
    /// Finding of the earlier investigation.
    pub finding: Finding,
}

/// Guess at the place where a failed run went wrong. It informs readers of the report and never becomes a
/// lesson.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Step in which the fault occurred. In a conversation of several agents, this is the agent that spoke.
    pub step: Step,
    /// Evidence for the fault, as a short clause.
    pub sign: String,
    /// Verbatim quote from the turn in which the fault occurred.
    pub quote: Quote,
}

/// An error that passed when the identical call was repeated. A changed call that succeeded after this error
/// in another run is therefore no evidence for the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransientError {
    /// Step in which the error occurred.
    pub step: Step,
    /// Tool that returned the error.
    pub tool: String,
    /// Text of the error, masked as in [`LessonCue::error`].
    pub error: String,
    /// Verbatim quote of the error.
    pub quote: Quote,
}

impl TransientError {
    /// Returns `true` if a lesson with this step and cue is about this error.
    pub fn matches_cue(&self, step: &Step, cue: &LessonCue) -> bool {
        self.step == *step && cue.tool.as_ref() == Some(&self.tool) && cue.error.as_ref() == Some(&self.error)
    }
}

/// Evidence against a known memory, given separately from the findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contradiction {
    /// Memory that the run contradicts.
    pub memory: MemoryId,
    /// Step in which the evidence was seen. It must equal the memory's step.
    pub step: Step,
    /// Tool, command or file that the memory is about.
    pub subject: String,
    /// Reason why the run contradicts the memory, in one sentence.
    pub reason: String,
    /// Verbatim quote that contradicts the memory.
    pub quote: Quote,
}

/// A failing call of a run that a later call got past. What helped is decided by a contrast over many runs; this
/// is the evidence of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedFailure {
    /// Step in which the call failed.
    pub step: Step,
    /// Tool that failed.
    pub tool: String,
    /// Text of the error, masked as in [`LessonCue::error`].
    pub error: String,
    /// What happened, in a few sentences.
    pub content: String,
    /// Arguments of the call that worked, shortened; `None` if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worked: Option<String>,
    /// Verbatim quote of the error.
    pub quote: Quote,
    /// Origin of the error. An investigator states only the source; the check adds the facts of the run.
    #[serde(default, skip_serializing_if = "EvidenceOrigin::is_unknown")]
    pub origin: EvidenceOrigin,
}

/// Answer of an investigator, not yet checked. If all its parts are empty, the investigator found nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RawAnswer {
    /// Patterns that the investigator saw in the run.
    pub findings: Vec<Finding>,
    /// Verdicts on memories that were presented to the run.
    pub verdicts: Vec<VerdictRecord>,
    /// Guess at the place where a failed run went wrong; `None` if the investigator made none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Errors that passed when the identical call was repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transients: Vec<TransientError>,
    /// Evidence against known memories, given separately from the findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
    /// Failing calls that the run got past.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ObservedFailure>,
    /// What the run says about the question of a person; `None` if nobody asked, or nothing was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<RunFocus>,
    /// Objections of a model to findings of the heuristics, which stay among the findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refutations: Vec<Refutation>,
    /// Causes in the words of a model, which only people are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatedCause>,
    /// Name of the engine that gave the answer; empty if the caller names it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub engine: String,
    /// Number of entries that could not be built from what a model stated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped: u32,
    /// How the list of earlier findings was shortened for the model; `None` if it was short enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// Reason why a configured model took no part in the answer; `None` if it did, or if none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_note: Option<String>,
}

const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Result of asking an investigator about a run. An answer without findings, an invalid answer and a failure
/// are three different results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[allow(clippy::large_enum_variant, reason = "only one answer is in memory at a time")]
pub enum InvestigatorAnswer {
    /// The investigator examined the run and returned this answer.
    Answered(RawAnswer),
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

/// Parts of an answer that passed the mechanical checks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CheckedAnswer {
    /// Name of the engine that gave the answer, such as `heuristics`; empty in answers that were stored before it was
    /// recorded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub engine: String,
    /// Findings whose quotes occur in the run.
    pub findings: Vec<Finding>,
    /// Verdicts on presented memories, with quotes that occur in the run; at most one per memory.
    pub verdicts: Vec<VerdictRecord>,
    /// Guess at the place where a failed run went wrong; `None` if the investigator made none or it failed a
    /// check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Fault>,
    /// Errors that passed when the identical call was repeated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transients: Vec<TransientError>,
    /// Evidence against known memories, given separately from the findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contradictions: Vec<Contradiction>,
    /// Failing calls that the run got past.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ObservedFailure>,
    /// What the run says about the question of a person; `None` if nobody asked, or nothing was answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<RunFocus>,
    /// Objections of a model to findings of the heuristics, which stay among the findings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refutations: Vec<Refutation>,
    /// Causes in the words of a model, which only people are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<StatedCause>,
    /// How the list of earlier findings was shortened for the model; `None` if it was short enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// Reason why a configured model took no part in the answer; `None` if it did, or if none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_note: Option<String>,
    /// Number of entries that were dropped because they failed a check, exceeded a limit, or were weaker
    /// verdicts on the same memory. A dropped fault is not counted.
    pub dropped: u32,
}

/// Maximum number of findings of one investigation, and likewise of its transient errors and its
/// contradictions. A real run has far fewer.
pub const FINDINGS_MAX: usize = 50;

impl Refutation {
    /// Creates the objection to a finding.
    pub fn new(finding: &Finding, reason: RefutationReason, quote: Quote) -> Self {
        Self { finding: finding.title.clone(), finding_quote: finding.quote.clone(), reason, quote }
    }

    /// Returns `true` if it is about this finding.
    pub fn is_about(&self, finding: &Finding) -> bool {
        self.finding == finding.title && self.finding_quote == finding.quote
    }
}

impl CheckedAnswer {
    /// Returns the objection because of which a finding of this answer counts nothing. Returns `None` if there is none, or if
    /// the policy ignores it.
    pub fn find_dispute(&self, finding: &Finding, refuted: RefutedFinding) -> Option<&Refutation> {
        match refuted {
            RefutedFinding::Neutral => self.refutations.iter().find(|one| one.is_about(finding)),
            RefutedFinding::Ignore => None,
        }
    }
}

impl InvestigationBrief {
    /// Returns the step that contains a place in the run, or `None` if the run has no such place.
    pub fn step_at(&self, place: QuotePlace) -> Option<&Step> {
        match place {
            QuotePlace::SelfFeedback { remark } => Some(&self.run.self_feedback.get(remark as usize)?.step),
            QuotePlace::Message { turn }
            | QuotePlace::Reasoning { turn }
            | QuotePlace::Arguments { turn, .. }
            | QuotePlace::Answer { turn, .. } => Some(&self.trajectory.turns.get(turn as usize)?.step),
            QuotePlace::Review | QuotePlace::Saved => None,
        }
    }
}
