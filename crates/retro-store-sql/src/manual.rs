//! Rows of `proposals`, and of runs that a manual retrospective names.

use retro_core::id::WorkflowKey;
use retro_core::manual::{NamedRun, Proposal};
use retro_core::memory::Cause;
use retro_store::{ProposalRow, Result};

use crate::at;
use crate::memory::cause;

/// A row of `proposals`.
#[derive(Debug, sqlx::FromRow)]
pub struct Record {
    id: String,
    workflow: String,
    proposal: String,
    decision: Option<String>,
}

impl Record {
    /// The workflow's name.
    pub fn workflow(&self) -> &str {
        &self.workflow
    }

    /// The proposal, and what was decided about it.
    pub fn read(&self) -> Result<ProposalRow> {
        let decision = self.decision.as_deref().map(|text| at("proposals.decision", &self.id).json(text));
        let proposal = at("proposals.proposal", &self.id).json(&self.proposal)?;
        Ok(ProposalRow { proposal, decision: decision.transpose()? })
    }
}

/// Reads a run that was named: id, ordinal, and whether it has facts.
pub fn named_run(key: &WorkflowKey, row: &(String, Option<i64>, bool)) -> Result<NamedRun> {
    let (run, ordinal, has_facts) = row;
    let place = at("runs", format!("{key}/{run}"));
    let ordinal = ordinal.map(|ordinal| place.unsigned(ordinal)).transpose()?;
    Ok(NamedRun { run: place.parse(run)?, ordinal, has_facts: *has_facts })
}

/// What the runs of a proposal may have caused already: the columns `cause` and `cause_id`.
pub fn causes(key: &WorkflowKey, proposal: &Proposal) -> Vec<(&'static str, String)> {
    let run = |run| Cause::Run { workflow: key.workflow.clone(), run };
    proposal.evidence.iter().map(|shown| cause(&run(shown.run.clone()))).collect()
}
