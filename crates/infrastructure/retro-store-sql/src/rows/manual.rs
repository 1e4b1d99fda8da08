//! Converts rows of `proposals` and of the runs named by a manual retrospective.

use retro_core::id::WorkflowKey;
use retro_core::manual::NamedRun;
use retro_core::memory::{ChangeCause, Proposal};
use retro_store::{ProposalRow, Result};

use super::memory::cause_columns;
use crate::at;

/// Row of `proposals`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct ProposalRecord {
    id: String,
    workflow: String,
    proposal: String,
    decision: Option<String>,
}

impl ProposalRecord {
    /// Returns the workflow of the proposal.
    pub(crate) fn workflow(&self) -> &str {
        &self.workflow
    }

    /// Converts the row to the proposal and its decision. Fails if a value is damaged.
    pub(crate) fn to_proposal_row(&self) -> Result<ProposalRow> {
        let decision =
            self.decision.as_deref().map(|text| at("proposals.decision", &self.id).parse_json(text));
        let proposal = at("proposals.proposal", &self.id).parse_json(&self.proposal)?;
        Ok(ProposalRow { proposal, decision: decision.transpose()? })
    }
}

/// Converts a run named by a manual retrospective. The row has its id, its ordinal, and `true` if its facts
/// are still stored.
pub(crate) fn named_run_from_row(key: &WorkflowKey, row: &(String, Option<i64>, bool)) -> Result<NamedRun> {
    let (run, ordinal, has_facts) = row;
    let place = at("runs", format!("{key}/{run}"));
    let ordinal = ordinal.map(|ordinal| place.parse_unsigned(ordinal)).transpose()?;
    Ok(NamedRun { run: place.parse(run)?, ordinal, has_facts: *has_facts })
}

/// Returns the `cause` and `cause_id` columns of the changes that the runs of a proposal may already have
/// caused.
pub(crate) fn possible_causes(key: &WorkflowKey, proposal: &Proposal) -> Vec<(&'static str, String)> {
    let run = |run| ChangeCause::Run { workflow: key.workflow.clone(), run };
    proposal.evidence.iter().map(|shown| cause_columns(&run(shown.run.clone()))).collect()
}
