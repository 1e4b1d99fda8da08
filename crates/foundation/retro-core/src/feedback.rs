//! Feedback: what an agent, a person or an evaluation says that a memory did.
//!
//! Feedback changes no weight when it arrives. It is stored as it was said, and weighed when the writer holds the lock
//! of the memory's workflow or rule scope the next time: in the next retrospective of the workflow, or with the next
//! batch of rules. `learn/feedback.rs` decides then which of it counts.
//!
//! **One run, one voice.** What is said about a memory in a run is one verdict, whoever says it and however often: it
//! joins the investigator's verdict on the same run, and the strongest of them counts. A person has one voice per
//! memory and retrospective. So neither a repetition nor a flood outvotes anybody.
//!
//! **Words are for people.** The reason that comes with feedback is redacted and judged when it arrives. It is quoted
//! in changes and reports and never handed to an agent or to a model.

use retro_gate::{GateTexts, Speaker, judge_texts, plain_line, quote_as_data};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use uuid::Uuid;

use crate::attribution::DecisionToken;
use crate::finding::MemoryVerdict;
use crate::gate::describe_hostile;
use crate::id::{FeedbackId, MemoryId, RunId, Step, Tenant, Workflow, derive_uuid};
use crate::printable::make_printable;

/// Maximum length of the reason for feedback, in bytes.
pub const FEEDBACK_WHY_BYTES_MAX: usize = 1024;
/// Maximum length of the name of a person or an evaluation, in characters.
pub const FEEDBACK_BY_CHARS_MAX: usize = 100;
/// Maximum number of waiting feedback entries of one memory. More than the runs of the largest window give in total, so
/// only a flood reaches it.
pub const FEEDBACK_WAITING_PER_MEMORY_MAX: u64 = 500;
/// Maximum number of feedback entries that one run may leave, weighed or not: three verdicts on each of the memories and
/// rules that a run of several steps is handed.
pub const FEEDBACK_PER_RUN_MAX: u64 = 200;
/// Maximum number of feedback entries that one closing weighs. The others wait for the next one.
pub const FEEDBACK_PER_CLOSING_MAX: u32 = 2000;
/// Maximum length of quoted words in a change or a report, in characters.
const QUOTED_CHARS_MAX: usize = 300;

/// What a memory did, as somebody says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[derive(IntoStaticStr, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum FeedbackVerdict {
    /// The memory helped.
    Helped,
    /// The memory misled or cost time.
    Hurt,
    /// What the memory says is not so. From a run it counts as a contradiction by that run.
    Wrong,
}

impl FeedbackVerdict {
    /// Returns the verdict as it is stored and shown, such as `helped`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Returns the verdict as which it counts.
    pub const fn memory_verdict(self) -> MemoryVerdict {
        match self {
            Self::Helped => MemoryVerdict::Helped,
            Self::Hurt | Self::Wrong => MemoryVerdict::Harmed,
        }
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::Helped => "it helped",
            Self::Hurt => "it hurt",
            Self::Wrong => "it is wrong",
        }
    }
}

/// Author of feedback.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum FeedbackAuthor {
    /// The agent of a run.
    Agent {
        /// Workflow of the run.
        workflow: Workflow,
        /// Run that the agent speaks of.
        run: RunId,
        /// Step in which it was handed the memory, if it says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        step: Option<Step>,
    },
    /// A program or a model that judged a run.
    Evaluation {
        /// Workflow of the run.
        workflow: Workflow,
        /// Run that was judged.
        run: RunId,
        /// Name of the evaluation.
        by: String,
    },
    /// A person.
    Person {
        /// Name of the person. It is only as reliable as whoever sends it.
        by: String,
    },
}

impl FeedbackAuthor {
    /// Returns the source: `agent`, `evaluation` or `person`.
    pub const fn source(&self) -> &'static str {
        match self {
            Self::Agent { .. } => "agent",
            Self::Evaluation { .. } => "evaluation",
            Self::Person { .. } => "person",
        }
    }

    /// Returns the run that the feedback is about with its workflow, or `None` for a person's.
    pub const fn run(&self) -> Option<(&Workflow, &RunId)> {
        match self {
            Self::Agent { workflow, run, .. } | Self::Evaluation { workflow, run, .. } => {
                Some((workflow, run))
            }
            Self::Person { .. } => None,
        }
    }

    /// Returns the name of a person or an evaluation, or `None` for an agent.
    pub fn by(&self) -> Option<&str> {
        match self {
            Self::Agent { .. } => None,
            Self::Evaluation { by, .. } | Self::Person { by } => Some(by),
        }
    }

    /// Describes the author for people, such as `its agent` or `ann`. The run is named where the author is.
    pub fn describe(&self) -> String {
        match self {
            Self::Agent { .. } => "its agent".to_owned(),
            Self::Evaluation { by, .. } => format!("the evaluation {by}"),
            Self::Person { by } => by.clone(),
        }
    }

    // Stored voices and ids derive from these parts, so they must never change.
    fn identity(&self) -> [&str; 4] {
        match self {
            Self::Agent { workflow, run, .. } => ["agent", workflow.as_str(), run.as_str(), ""],
            Self::Evaluation { workflow, run, by } => ["evaluation", workflow.as_str(), run.as_str(), by],
            Self::Person { by } => ["person", "", "", by],
        }
    }
}

/// Words with which feedback is explained, without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FeedbackWords {
    /// The words, as they came but for secrets.
    pub text: String,
    /// Objection of the gate, in one sentence for people; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objection: Option<String>,
}

impl FeedbackWords {
    /// Judges words at the gate. `text` contains no secrets any more. Returns `None` if there are no words.
    pub fn judge(text: &str) -> Option<Self> {
        let text = text.trim();
        let judged = judge_texts(&GateTexts { parts: vec![text], ..GateTexts::default() });
        let objection = describe_hostile(&judged);
        // What controls a terminal or cannot be seen is for the gate alone. People are shown the codes of it.
        (!text.is_empty()).then(|| Self { text: make_printable(text).into_owned(), objection })
    }

    /// Returns the words for a sentence to people: quoted as data, or what is the matter with them.
    fn quoted(&self, speaker: Option<Speaker>) -> String {
        if self.objection.is_some() {
            return " (in words that the gate refuses)".to_owned();
        }
        let quoted = match speaker {
            Some(speaker) => quote_as_data(&self.text, speaker, &[], QUOTED_CHARS_MAX),
            None => Some(plain_line(&self.text, QUOTED_CHARS_MAX)),
        };
        quoted.map_or_else(|| " (in words that cannot be quoted)".to_owned(), |words| format!(": “{words}”"))
    }
}

/// Feedback as somebody gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenFeedback {
    /// Memory that it is about.
    pub memory: MemoryId,
    /// What the memory did.
    pub verdict: FeedbackVerdict,
    /// Who says so.
    pub author: FeedbackAuthor,
    /// Why, in the author's words.
    pub why: Option<FeedbackWords>,
}

impl GivenFeedback {
    /// Returns the id of what is said by whom of a memory, whenever it is said.
    pub fn voice(&self) -> Uuid {
        derive_voice(&self.author, self.verdict)
    }
}

fn derive_voice(author: &FeedbackAuthor, verdict: FeedbackVerdict) -> Uuid {
    let [source, workflow, run, by] = author.identity();
    derive_uuid("feedback_voice", &[source, workflow, run, by, verdict.as_str()])
}

/// Stored feedback. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Feedback {
    /// Id derived from the memory, the author, the verdict and, for a person, the number of times that the same was
    /// said and weighed before.
    pub id: FeedbackId,
    /// Memory that it is about.
    pub memory: MemoryId,
    /// What the memory did.
    pub verdict: FeedbackVerdict,
    /// Who says so.
    #[serde(flatten)]
    pub author: FeedbackAuthor,
    /// Why, in the author's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<FeedbackWords>,
    /// Access token of the request; `None` if there was none. No decision reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_token: Option<DecisionToken>,
}

impl Feedback {
    /// Returns the voice of the feedback, like that of [`GivenFeedback`].
    pub fn voice(&self) -> Uuid {
        derive_voice(&self.author, self.verdict)
    }

    /// Returns the reason of a verdict in one sentence for people, such as `its agent said that it helped: “…”`.
    pub fn describe(&self) -> String {
        let speaker = (self.author.source() != "person").then_some(Speaker::Agent);
        let words = self.why.as_ref().map(|why| why.quoted(speaker)).unwrap_or_default();
        format!("{} said that {}{words}", self.author.describe(), self.verdict.describe())
    }

    /// Returns the run that it is about, and the memory with what was said of it, for reports.
    pub(crate) fn summarize(&self) -> (Option<RunId>, String) {
        let run = self.author.run().map(|(_, run)| run.clone());
        (run, format!("{}: {}", self.memory, self.describe()))
    }
}

/// Facts for accepting feedback, read while the memory is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FeedbackFacts {
    /// Number of waiting feedback entries of the memory.
    pub waiting: u64,
    /// Number of feedback entries of the run; 0 for a person's.
    pub of_run: u64,
    /// Number of feedback entries of this memory, author and verdict that are settled.
    pub settled: u64,
    /// `true` if one of this memory, author and verdict waits.
    pub waits_already: bool,
}

/// Outcome of accepting feedback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedbackAcceptance {
    /// It is new and to be stored.
    New(Feedback),
    /// The same was said before.
    AlreadyRecorded,
    /// It is not stored, for this reason.
    Refused(&'static str),
}

/// Decides if feedback is stored. What a run or an evaluation says about a memory is stored once for ever; what a person
/// says, once until it is weighed.
pub fn accept_feedback(tenant: &Tenant, given: &GivenFeedback, facts: &FeedbackFacts) -> FeedbackAcceptance {
    let of_run = given.author.run().is_some();
    if facts.waits_already || (of_run && facts.settled > 0) {
        return FeedbackAcceptance::AlreadyRecorded;
    }
    if of_run && facts.of_run >= FEEDBACK_PER_RUN_MAX {
        return FeedbackAcceptance::Refused("the run has given as much feedback as is kept of one run");
    }
    if facts.waiting >= FEEDBACK_WAITING_PER_MEMORY_MAX {
        return FeedbackAcceptance::Refused(
            "as much feedback on the memory waits for the next retrospective as is kept",
        );
    }
    let GivenFeedback { memory, verdict, author, why } = given.clone();
    let id = FeedbackId::of_author(tenant, memory, author.identity(), verdict.as_str(), facts.settled);
    FeedbackAcceptance::New(Feedback { id, memory, verdict, author, why, with_token: None })
}

/// What became of feedback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FeedbackOutcome {
    /// `true` if it was weighed, together with all other verdicts of the retrospective or batch.
    pub weighed: bool,
    /// What came of it, or why it was not weighed, in one sentence for people.
    pub reason: String,
}

#[cfg(test)]
mod tests;
