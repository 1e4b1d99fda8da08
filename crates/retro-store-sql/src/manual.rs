//! Converts the rows of `proposals` and of the runs that a manual retrospective names.

use retro_core::id::WorkflowKey;
use retro_core::manual::{NamedRun, Proposal};
use retro_core::memory::ChangeCause;
use retro_store::{ProposalRow, Result};

use crate::at;
use crate::memory::cause_columns;

/// A row of `proposals`.
#[derive(Debug, sqlx::FromRow)]
pub struct ProposalRecord {
    id: String,
    workflow: String,
    proposal: String,
    decision: Option<String>,
}

impl ProposalRecord {
    /// Returns the name of the workflow that the proposal is for.
    pub fn workflow(&self) -> &str {
        &self.workflow
    }

    /// Converts the row to the proposal and the decision about it. Fails on a damaged value.
    pub fn to_proposal_row(&self) -> Result<ProposalRow> {
        let decision =
            self.decision.as_deref().map(|text| at("proposals.decision", &self.id).parse_json(text));
        let proposal = at("proposals.proposal", &self.id).parse_json(&self.proposal)?;
        Ok(ProposalRow { proposal, decision: decision.transpose()? })
    }
}

/// Parses a run that a manual retrospective names: its id, its ordinal, and whether its facts are still stored.
pub fn named_run_from_row(key: &WorkflowKey, row: &(String, Option<i64>, bool)) -> Result<NamedRun> {
    let (run, ordinal, has_facts) = row;
    let place = at("runs", format!("{key}/{run}"));
    let ordinal = ordinal.map(|ordinal| place.parse_unsigned(ordinal)).transpose()?;
    Ok(NamedRun { run: place.parse(run)?, ordinal, has_facts: *has_facts })
}

/// Returns the columns `cause` and `cause_id` of all changes that the runs of a proposal may have caused already.
pub fn possible_causes(key: &WorkflowKey, proposal: &Proposal) -> Vec<(&'static str, String)> {
    let run = |run| ChangeCause::Run { workflow: key.workflow.clone(), run };
    proposal.evidence.iter().map(|shown| cause_columns(&run(shown.run.clone()))).collect()
}
