//! Rows of `runs` with their facts.

use retro_core::id::Tenant;
use retro_core::report::WindowRun;
use retro_core::retrospective::Retrospective;
use retro_core::run::Outcome;
use retro_store::{Result, RunRow};
use serde::Deserialize;

use crate::{at, workflow_key};

/// A row of `runs` with its facts.
#[derive(Debug, sqlx::FromRow)]
pub struct Record {
    workflow: String,
    run_id: String,
    ordinal: Option<i64>,
    received_ms: i64,
    facts: String,
    body: String,
}

impl Record {
    /// The run, of this tenant.
    pub fn read(self, tenant: &Tenant) -> Result<RunRow> {
        let key = format!("{tenant}/{}/{}", self.workflow, self.run_id);
        let place = at("runs", &key);
        Ok(RunRow {
            key: workflow_key(tenant.as_str(), &self.workflow)?,
            ordinal: self.ordinal.map(|ordinal| place.unsigned(ordinal)).transpose()?,
            facts: at("run_facts.facts", &key).json(&self.facts)?,
            body: at("run_facts.body", &key).json(&self.body)?,
            received_at: place.millis(self.received_ms)?,
        })
    }
}

/// What a window needs of a run's facts.
#[derive(Deserialize)]
struct Ended {
    outcome: Outcome,
}

/// Reads a run of a retrospective's window: ordinal, id and facts.
pub fn window_run(retrospective: &Retrospective, row: &(i64, String, String)) -> Result<WindowRun> {
    let (ordinal, run, facts) = row;
    let key = format!("{}/{run}", retrospective.key);
    let place = at("run_facts", &key);
    let Ended { outcome } = at("run_facts.facts", &key).json(facts)?;
    let (ordinal, run) = (place.unsigned(*ordinal)?, place.parse(run)?);
    Ok(WindowRun { ordinal, run, outcome, pull_requests: Vec::new() })
}

/// Fails unless so many runs are the whole window of a retrospective.
pub fn whole(retrospective: &Retrospective, found: usize) -> Result<()> {
    let Retrospective { key, first, last, asked, .. } = retrospective;
    if found as u64 == retrospective.window_runs() {
        return Ok(());
    }
    let what = match asked {
        None => format!("window {first} to {last}"),
        Some(asked) => format!("what request {} asked for", asked.request),
    };
    Err(at("runs.ordinal", key).damaged(format!("{what} holds {found} runs")))
}
