//! Manual retrospectives: an operator names the runs to investigate and may ask a question about them.
//!
//! A manual retrospective claims no runs. Its runs stay in the window, where the next automatic retrospective
//! may sample them as usual, and any number of manual retrospectives may be open at once. Its findings change
//! no memory but become *proposals*, one per pattern, which an operator accepts or refuses. No weight
//! changes, no sweep runs, no tombstone is created, and the state of the workflow stays the same.
//!
//! A run that is investigated by both a manual and an automatic retrospective still counts as one run. A
//! proposal is not evidence until it is accepted. Each of its runs then causes a change, exactly as in an
//! automatic retrospective. If an automatic retrospective investigates the same run, that change is not made
//! again.

mod accept;
mod propose;

use jiff::Timestamp;

use crate::id::{NAME_BYTES_MAX, Ordinal, RetrospectiveId, RunId, Workflow, WorkflowKey};
use crate::message::{Message, Notice};
use crate::policy::Policy;
use crate::retrospective::{
    FOCUS_CHARS_MAX, MANUAL_RUNS_MAX, ManualRequest, Retrospective, RetrospectiveState,
};
use crate::sample::Sample;

pub use accept::{
    Acceptance, DecideError, DecidedProposal, DecisionRecord, ProposalDecision, ProposalFacts, Refusal,
    accept_proposal, refuse_proposal,
};
pub use propose::{build_proposals, proposal_texts};

/// Stored facts about a run that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedRun {
    /// Id of the run.
    pub run: RunId,
    /// Ordinal of the run; `None` if the run was recorded but not counted.
    pub ordinal: Option<Ordinal>,
    /// `true` if the details of the run's event are still stored, `false` if they were purged.
    pub has_facts: bool,
}

/// A newly opened manual retrospective and its sample.
#[derive(Debug, Clone, PartialEq)]
pub struct TriggeredRetrospective {
    /// Retrospective to store, in state `Investigating`.
    pub retrospective: Retrospective,
    /// Sample of exactly the named runs, sorted by ordinal. No run is drawn at random, so the seed is empty.
    pub sample: Sample,
    /// Message that wakes an investigator for the first investigation.
    pub message: Message,
}

/// Reason why a manual retrospective could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TriggerError {
    /// The request names no run.
    #[error("name at least one run")]
    NoRuns,
    /// The request names more than [`MANUAL_RUNS_MAX`] runs.
    #[error("{0} runs are named; one manual retrospective investigates at most {MANUAL_RUNS_MAX}")]
    TooManyRuns(usize),
    /// A text field of the request is empty or too long.
    #[error("{what} must have 1 to {max} {unit}")]
    TextLength {
        /// Name of the field: `request`, `by` or `focus`.
        what: &'static str,
        /// Maximum length of the field, in `unit`.
        max: usize,
        /// Unit of `max`: `bytes` or `characters`.
        unit: &'static str,
    },
    /// A named run does not exist in the workflow.
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
    /// The request id was used before, with other runs or another question.
    #[error("request id {0} was used before for other runs or another question; use a new id")]
    RequestConflict(String),
}

impl ManualRequest {
    /// Validates the text fields and the number of runs. [`trigger_retrospective`] checks that the runs
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
        let reason = self.reason.as_ref().map(|reason| reason.chars().count());
        if reason.is_some_and(|chars| !(1..=FOCUS_CHARS_MAX).contains(&chars)) {
            return Err(TriggerError::TextLength {
                what: "reason",
                max: FOCUS_CHARS_MAX,
                unit: "characters",
            });
        }
        match self.distinct_runs().len() {
            0 => Err(TriggerError::NoRuns),
            1..=MANUAL_RUNS_MAX => Ok(()),
            more => Err(TriggerError::TooManyRuns(more)),
        }
    }
}

/// Opens a manual retrospective over exactly the runs that `request` names. `known` contains the stored facts
/// about these runs. Fails if the request is invalid, or on the first run that cannot be investigated.
pub fn trigger_retrospective(
    key: &WorkflowKey,
    request: &ManualRequest,
    known: &[NamedRun],
    policy: &Policy,
    as_of: Timestamp,
) -> Result<TriggeredRetrospective, TriggerError> {
    request.validate()?;
    let mut runs = request
        .distinct_runs()
        .into_iter()
        .map(|run| Ok((find_ordinal(key, run, known)?, run.clone())))
        .collect::<Result<Vec<_>, _>>()?;
    // Sorted by ordinal, so the same request in another order gives the same sample.
    runs.sort_unstable();
    let (order, runs): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
    let size = u32::try_from(order.len()).expect("at most MANUAL_RUNS_MAX");
    let id = RetrospectiveId::of_request(key, &request.request);
    let retrospective = Retrospective {
        id,
        key: key.clone(),
        epoch: 0,
        first: 0,
        last: 0,
        as_of,
        policy: policy.clone(),
        pipeline: policy.pipeline.as_ref().map(|version| version.hashes().clone()),
        state: RetrospectiveState::Investigating,
        manual_request: Some(ManualRequest { runs, ..request.clone() }),
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
