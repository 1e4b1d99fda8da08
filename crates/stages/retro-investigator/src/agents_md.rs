//! Finds what the file `AGENTS.md` of each repository says, in the bodies of the runs that carry it.
//!
//! The text stays in the body and goes with it. The summary of a run only says that there is one, so that no body is read in
//! vain.

use retro_consumer::{catch_panic, run_blocking};
use retro_core::calls::StoredSummary;
use retro_core::id::{Ordinal, RunId};
use retro_core::workflow_brief::{BriefedAgentsMd, choose_agents_md_runs};
use retro_store::{Claim, InvestigatorStore, StoreError};
use tracing::debug;

use crate::brief::{BodyError, BodySources, fetch_body};

/// Loads the text of each repository from its newest run of the window whose body can be read, shortened for a brief.
pub(crate) async fn load_agents_md(
    store: &dyn InvestigatorStore,
    bodies: &BodySources,
    claim: &Claim,
    newest: &[StoredSummary],
) -> Result<Vec<BriefedAgentsMd>, StoreError> {
    let mut found = Vec::new();
    for (repository, runs) in choose_agents_md_runs(newest, &claim.retrospective) {
        for (run, ordinal) in runs {
            if let Some(text) = read_agents_md(store, bodies, claim, &run, ordinal).await? {
                found.push(BriefedAgentsMd::new(repository, run, &text));
                break;
            }
        }
    }
    Ok(found)
}

/// Reads the text in the body of a run. Returns `None` if the body is gone or away, or carries none: a higher attempt may have
/// replaced it.
async fn read_agents_md(
    store: &dyn InvestigatorStore,
    bodies: &BodySources,
    claim: &Claim,
    run: &RunId,
    ordinal: Ordinal,
) -> Result<Option<String>, StoreError> {
    let Some((facts, body)) = store.find_run_at(claim, ordinal).await? else { return Ok(None) };
    let fetched = match fetch_body(&claim.retrospective.key.tenant, &body, bodies).await {
        Ok(fetched) => fetched,
        Err(BodyError::Gone(reason) | BodyError::Unavailable(reason)) => {
            debug!(run.id = %run, "the AGENTS.md of run {run} cannot be read: {reason}");
            return Ok(None);
        }
    };
    // Parsing a large body is slow, and what is wrong with it must not fail the investigation of another run.
    let parsed = catch_panic(run_blocking(move || fetched.parse_trajectory(&facts))).await;
    let trajectory = parsed.ok().and_then(Result::ok);
    // Our own words in the file are no words of its authors.
    Ok(trajectory.and_then(|trajectory| trajectory.without_injected_blocks().agents_md))
}
