//! Manual retrospectives, in which a person names the runs to investigate and may ask a question about them.
//!
//! A manual retrospective claims no runs. They stay in the window, where the next automatic retrospective may sample
//! them as usual, and any number of manual retrospectives may be open at the same time. The findings of its
//! investigations change no memory. They become *proposals*, one for each pattern, which a person accepts or refuses.
//! No weight changes, no sweep takes place, no tombstone is created, and the state of the workflow does not change.
//!
//! A run that is investigated by both a manual and an automatic retrospective still counts as one run. A proposal is
//! not evidence until it is accepted. Then each of its runs causes a change, exactly as in an automatic retrospective.
//! If an automatic retrospective investigates the same run, the change has already been made.

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
use crate::retrospective::{Retrospective, RetrospectiveState};
use crate::sample::Sample;

pub use accept::{
    Acceptance, DecideError, DecidedProposal, DecisionRecord, ProposalDecision, ProposalFacts, Refusal,
    accept_proposal, refuse_proposal,
};
pub use propose::{Proposal, build_proposals};

pub(crate) use close::close_manual;

/// Maximum number of runs in one manual retrospective: four times the largest default sample. Each run needs an
/// investigation, for which a model may cost money.
pub const RUNS_MAX: usize = 20;

/// Maximum length of the question, in characters. This is as long as a reason and about one paragraph of a prompt.
pub const FOCUS_CHARS_MAX: usize = REASON_CHARS_MAX;

/// A person's request for a manual retrospective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualRequest {
    /// Id of the request, 1 to [`NAME_BYTES_MAX`] bytes. Requests with the same id open only one retrospective.
    pub request: String,
    /// Name of the person who makes the request, 1 to [`NAME_BYTES_MAX`] bytes.
    pub by: String,
    /// Ids of the runs to investigate, 1 to [`RUNS_MAX`]; sorted by ordinal once the request is stored.
    pub runs: Vec<RunId>,
    /// Question about the runs, at most [`FOCUS_CHARS_MAX`] characters; `None` if the person asks none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
}

/// Stored facts about a run that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRun {
    /// Id of the run.
    pub run: RunId,
    /// Ordinal of the run; `None` when the run was recorded but not counted.
    pub ordinal: Option<Ordinal>,
    /// True if the details of the run's event are still stored, that is, not purged.
    pub has_facts: bool,
}

/// A manual retrospective that was just opened, with its sample.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggeredRetrospective {
    /// Retrospective to be stored, in state `Investigating`.
    pub retrospective: Retrospective,
    /// Sample that contains exactly the named runs, sorted by ordinal. No run is drawn at random, so the seed is empty.
    pub sample: Sample,
    /// Message that the first investigation of the retrospective is due.
    pub message: Message,
}

/// Reason why a manual retrospective was not opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// The request names no run.
    #[error("name at least one run")]
    NoRuns,
    /// The request names more than [`RUNS_MAX`] runs.
    #[error("{0} runs are named; one manual retrospective investigates at most {RUNS_MAX}")]
    TooManyRuns(usize),
    /// A text of the request is empty or too long.
    #[error("{what} must have 1 to {max} {unit}")]
    TextLength {
        /// Name of the field: `request`, `by` or `focus`.
        what: &'static str,
        /// Maximum length of the field, in `unit`.
        max: usize,
        /// Unit of `max`: `bytes` or `characters`.
        unit: &'static str,
    },
    /// A named run does not exist.
    #[error("there is no run {run} of workflow {workflow} in this tenant")]
    UnknownRun {
        /// Id of the run.
        run: RunId,
        /// Workflow in which the run was looked up.
        workflow: Workflow,
    },
    /// A named run was recorded but not counted.
    #[error(
        "run {0} was recorded and not counted (cancelled, skipped or internal); only counted runs are investigated"
    )]
    NotCounted(RunId),
    /// The details of a named run were purged.
    #[error("the details of run {0} were purged, so it cannot be investigated")]
    Purged(RunId),
    /// The same request id was used before with other runs or another question.
    #[error("request id {0} was used before for other runs or another question; use a new id")]
    RequestConflict(String),
}

impl ManualRequest {
    /// Validates the texts of the request and the number of runs. [`trigger_retrospective`] checks whether the runs
    /// exist.
    pub fn validate(&self) -> Result<(), TriggerError> {
        let named = |what, text: &str| {
            let unit = "bytes";
            let fits = (1..=NAME_BYTES_MAX).contains(&text.len());
            if fits { Ok(()) } else { Err(TriggerError::TextLength { what, max: NAME_BYTES_MAX, unit }) }
        };
        named("request", &self.request)?;
        named("by", &self.by)?;
        let question = self.focus.as_ref().map(|focus| focus.chars().count());
        if question.is_some_and(|chars| !(1..=FOCUS_CHARS_MAX).contains(&chars)) {
            return Err(TriggerError::TextLength { what: "focus", max: FOCUS_CHARS_MAX, unit: "characters" });
        }
        match self.distinct_runs().len() {
            0 => Err(TriggerError::NoRuns),
            1..=RUNS_MAX => Ok(()),
            more => Err(TriggerError::TooManyRuns(more)),
        }
    }

    /// Returns whether both requests name the same runs and ask the same question. The persons and the order of the
    /// runs are not compared.
    pub fn is_same_request(&self, other: &Self) -> bool {
        self.distinct_runs() == other.distinct_runs() && self.focus == other.focus
    }

    fn distinct_runs(&self) -> BTreeSet<&RunId> {
        self.runs.iter().collect()
    }
}

/// Opens a manual retrospective over exactly the runs that `asked` names. `known` contains the stored facts about these
/// runs. Fails on the first run that cannot be investigated.
pub fn trigger_retrospective(
    key: &WorkflowKey,
    asked: &ManualRequest,
    known: &[NamedRun],
    policy: &Policy,
    as_of: Timestamp,
) -> Result<TriggeredRetrospective, TriggerError> {
    asked.validate()?;
    let mut runs = asked
        .distinct_runs()
        .into_iter()
        .map(|run| Ok((find_ordinal(key, run, known)?, run.clone())))
        .collect::<Result<Vec<_>, _>>()?;
    // Sorted by ordinal, so that the same request in another order gives the same sample.
    runs.sort_unstable();
    let (order, runs): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
    let size = u32::try_from(order.len()).expect("at most RUNS_MAX");
    let id = RetrospectiveId::of_request(key, &asked.request);
    let retrospective = Retrospective {
        id,
        key: key.clone(),
        epoch: 0,
        first: 0,
        last: 0,
        as_of,
        policy: policy.clone(),
        state: RetrospectiveState::Investigating,
        asked: Some(ManualRequest { runs, ..asked.clone() }),
    };
    let message = Notice::InvestigationDue { retrospective: id, investigation: 1 }.into_message(key);
    Ok(TriggeredRetrospective { retrospective, sample: Sample { seed: String::new(), order, size }, message })
}

fn find_ordinal(key: &WorkflowKey, run: &RunId, known: &[NamedRun]) -> Result<Ordinal, TriggerError> {
    let Some(named) = known.iter().find(|named| named.run == *run) else {
        return Err(TriggerError::UnknownRun { run: run.clone(), workflow: key.workflow.clone() });
    };
    match named.ordinal {
        None => Err(TriggerError::NotCounted(run.clone())),
        Some(_) if !named.has_facts => Err(TriggerError::Purged(run.clone())),
        Some(ordinal) => Ok(ordinal),
    }
}
