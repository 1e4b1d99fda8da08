//! Manual retrospectives: a person names runs, and perhaps asks a question.
//!
//! It claims nothing: its runs stay in the window, the next automatic retrospective samples them as if nobody had
//! looked, and any number may be open beside the automatic one. Its investigations run like any other's. What they
//! find asks nothing of memory: it becomes *proposals*, one a pattern, and a person accepts or refuses each. No weight
//! moves, nothing is swept, no tombstone is left, and the workflow's state stays as it was.
//!
//! A run that both passes look at is one run. A proposal is no evidence; an accepted one leaves a change caused by
//! each of its runs, exactly as an automatic retrospective does, so that whichever comes second finds it done.

mod accept;
mod close;
mod propose;

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::finding::REASON_CHARS_MAX;
use crate::id::{NAME_BYTES_MAX, Ordinal, RetrospectiveId, RunId, Workflow, WorkflowKey};
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::retrospective::{Retrospective, State};
use crate::sample::Sample;

pub use accept::{Acceptance, Decided, Decision, ProposalFacts, Refusal, Undecided, Verdict, accept, refuse};
pub use propose::{Proposal, propose};

pub(crate) use close::close;

/// Most runs that one manual retrospective looks into: four times the largest default sample. Each is an
/// investigation, and a model's answer may be paid for each.
pub const RUNS_MAX: usize = 20;

/// The longest question, in characters: as long as a reason, a paragraph of a prompt.
pub const FOCUS_CHARS_MAX: usize = REASON_CHARS_MAX;

/// What a person asked for with a manual retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The request's id, 1 to [`NAME_BYTES_MAX`] bytes: the same request opens one retrospective.
    pub request: String,
    /// Who asks, for people; 1 to [`NAME_BYTES_MAX`] bytes.
    pub by: String,
    /// The runs to look into, 1 to [`RUNS_MAX`]; by ordinal once it is stored.
    pub runs: Vec<RunId>,
    /// What they want to know, at most [`FOCUS_CHARS_MAX`] characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
}

/// What is stored of a run that was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRun {
    /// The run.
    pub run: RunId,
    /// Its ordinal; `None` when it was recorded and not counted.
    pub ordinal: Option<Ordinal>,
    /// Whether what its event said is still kept.
    pub has_facts: bool,
}

/// A manual retrospective that has just been asked for, with the sample that it begins with.
#[derive(Debug, Clone, PartialEq)]
pub struct Triggered {
    /// To be stored: investigating from the start.
    pub retrospective: Retrospective,
    /// Exactly the named runs, by ordinal; nothing is drawn, so the seed is empty.
    pub sample: Sample,
    /// To be sent: its first investigation is due.
    pub message: Message,
}

/// Why a manual retrospective was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Untriggered {
    /// No run was named.
    #[error("name at least one run")]
    NoRuns,
    /// Too many were.
    #[error("{0} runs are named; one manual retrospective looks into {RUNS_MAX} at most")]
    TooManyRuns(usize),
    /// A text is empty or too long.
    #[error("{what} must have 1 to {max} {unit}")]
    Text {
        /// `request`, `by` or `focus`.
        what: &'static str,
        /// The bound.
        max: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// A run is not there.
    #[error("there is no run {run} of workflow {workflow} in this tenant")]
    UnknownRun {
        /// The run.
        run: RunId,
        /// Where it was looked for.
        workflow: Workflow,
    },
    /// A run was recorded and not counted.
    #[error(
        "run {0} was recorded and not counted (cancelled, skipped or internal): retrospectives look at counted runs"
    )]
    NotCounted(RunId),
    /// What a run's event said was purged.
    #[error("run {0} is known, and its details were purged: there is nothing left to look at")]
    Purged(RunId),
    /// The same request asked for something else before.
    #[error("request {0} asked for other runs or another question before; give this one an id of its own")]
    OtherContent(String),
}

impl Asked {
    /// Whether it can be asked at all; which runs there are is for [`trigger`] to see.
    pub fn check(&self) -> Result<(), Untriggered> {
        let named = |what, text: &str| {
            let unit = "bytes";
            let fits = (1..=NAME_BYTES_MAX).contains(&text.len());
            if fits { Ok(()) } else { Err(Untriggered::Text { what, max: NAME_BYTES_MAX, unit }) }
        };
        named("request", &self.request)?;
        named("by", &self.by)?;
        let question = self.focus.as_ref().map(|focus| focus.chars().count());
        if question.is_some_and(|chars| !(1..=FOCUS_CHARS_MAX).contains(&chars)) {
            return Err(Untriggered::Text { what: "focus", max: FOCUS_CHARS_MAX, unit: "characters" });
        }
        match self.distinct().len() {
            0 => Err(Untriggered::NoRuns),
            1..=RUNS_MAX => Ok(()),
            more => Err(Untriggered::TooManyRuns(more)),
        }
    }

    /// Whether it asks for the same, whoever asks and in whatever order.
    pub fn asks_the_same_as(&self, other: &Self) -> bool {
        self.distinct() == other.distinct() && self.focus == other.focus
    }

    fn distinct(&self) -> BTreeSet<&RunId> {
        self.runs.iter().collect()
    }
}

/// Opens a manual retrospective over exactly the runs that `asked` names; `known` is what is stored of them. Fails with
/// the first run that cannot be looked at.
pub fn trigger(
    key: &WorkflowKey,
    asked: &Asked,
    known: &[NamedRun],
    policy: &Policy,
    as_of: Timestamp,
) -> Result<Triggered, Untriggered> {
    asked.check()?;
    let mut runs = asked
        .distinct()
        .into_iter()
        .map(|run| Ok((ordinal(key, run, known)?, run.clone())))
        .collect::<Result<Vec<_>, _>>()?;
    runs.sort_unstable();
    let (order, runs): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
    let size = u32::try_from(order.len()).expect("at most RUNS_MAX");
    let id = RetrospectiveId::manual(key, &asked.request);
    let retrospective = Retrospective {
        id,
        key: key.clone(),
        epoch: 0,
        first: 0,
        last: 0,
        as_of,
        policy: policy.clone(),
        state: State::Investigating,
        asked: Some(Asked { runs, ..asked.clone() }),
    };
    let message = Notice::InvestigationDue { retrospective: id, investigation: 1 }.about(key);
    Ok(Triggered { retrospective, sample: Sample { seed: String::new(), order, size }, message })
}

fn ordinal(key: &WorkflowKey, run: &RunId, known: &[NamedRun]) -> Result<Ordinal, Untriggered> {
    let Some(named) = known.iter().find(|named| named.run == *run) else {
        return Err(Untriggered::UnknownRun { run: run.clone(), workflow: key.workflow.clone() });
    };
    match named.ordinal {
        None => Err(Untriggered::NotCounted(run.clone())),
        Some(_) if !named.has_facts => Err(Untriggered::Purged(run.clone())),
        Some(ordinal) => Ok(ordinal),
    }
}
