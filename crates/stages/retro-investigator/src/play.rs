//! Investigates a run without a database: the same brief, engine, checks and summary as the worker's, for the cases of a
//! pipeline.

use std::sync::Arc;

use retro_consumer::Watch;
use retro_core::calls::SummaryContent;
use retro_core::finding::{InvestigationBrief, InvestigatorAnswer, RawAnswer, check_answer};
use retro_core::retrospective::{InvestigationResult, PresentedMemory};
use retro_store::{Claim, StoreError, StoredBody};

use crate::brief::{FetchedBody, active_memories, build_brief};
use crate::engine::{Engine, InvestigationTask};
use crate::journal::InvestigationJournal;
use crate::summary::summarize_run;

/// Result of an investigation, and the summary of the run's calls.
#[derive(Debug, Clone)]
pub struct PlayedInvestigation {
    /// Result, as the worker would have stored it.
    pub result: InvestigationResult,
    /// Summary, as the window's summariser would have stored it.
    pub summary: SummaryContent,
}

/// Investigates a claimed run whose body is stored inline. Attempts that fail are repeated at once, as often as the policy
/// of the retrospective allows. Fails if the journal does.
pub async fn play_investigation(
    claim: &Claim,
    engine: &dyn Engine,
    journal: Arc<dyn InvestigationJournal>,
) -> Result<PlayedInvestigation, StoreError> {
    let gone = |reason: String| PlayedInvestigation {
        result: InvestigationResult::BodyGone { reason: reason.clone() },
        summary: SummaryContent::Unreadable(reason),
    };
    let body = || match &claim.body {
        StoredBody::None => Ok(FetchedBody::Absent),
        StoredBody::Inline(bytes) => Ok(FetchedBody::Stored(bytes.clone())),
        _ => Err("the body is not stored inline".to_owned()),
    };
    let summarized = body().and_then(|body| body.parse_trajectory(&claim.run)).map(|trajectory| {
        summarize_run(&claim.run, &trajectory.without_injected_blocks(), &active_memories(claim, &claim.run))
    });
    let brief = body().and_then(|body| build_brief(claim, body));
    let (summary, brief) = match (summarized, brief) {
        (Ok(summary), Ok(brief)) => (SummaryContent::Summary(summary), Arc::new(brief)),
        (Err(reason), _) | (_, Err(reason)) => return Ok(gone(reason)),
    };
    let mut last_error = None;
    let mut result = InvestigationResult::Failed { reason: "no attempt is allowed".to_owned() };
    for _ in 0..claim.retrospective.policy.investigation_attempts_max {
        let task = InvestigationTask {
            brief: brief.clone(),
            journal: journal.clone(),
            last_error: last_error.take(),
            policy: claim.retrospective.policy.clone(),
            watch: Watch::default(),
        };
        result = match engine.investigate(task).await? {
            InvestigatorAnswer::Answered(answer) => {
                conclude(&brief, answer, engine.name(), claim.presented.clone())
            }
            InvestigatorAnswer::Invalid { reason } => InvestigationResult::Invalid { reason },
            InvestigatorAnswer::Failed { reason } => InvestigationResult::Failed { reason },
        };
        if result.is_success() {
            break;
        }
        last_error = result.problem().map(str::to_owned);
    }
    Ok(PlayedInvestigation { result, summary })
}

/// Checks an answer against the run and makes it the result of the investigation.
pub(crate) fn conclude(
    brief: &InvestigationBrief,
    answer: RawAnswer,
    engine: &str,
    presented: Vec<PresentedMemory>,
) -> InvestigationResult {
    let mut checked = check_answer(brief, answer);
    if checked.engine.is_empty() {
        checked.engine = engine.to_owned();
    }
    if checked.findings.is_empty() && checked.failures.is_empty() {
        InvestigationResult::Nothing { checked, presented }
    } else {
        InvestigationResult::Found { checked, presented }
    }
}
