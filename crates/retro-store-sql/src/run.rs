//! Rows of `runs` with their facts.

use jiff::Timestamp;
use retro_core::effect::Trial;
use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_core::report::{Sighting, Spent, WindowRun};
use retro_core::retrospective::{Investigation, Retrospective};
use retro_core::run::{MemoryUse, Outcome, RunFacts};
use retro_store::{Result, RunMet, RunRow};
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

/// What an effect needs of a run's facts.
#[derive(Deserialize)]
struct Tried {
    outcome: Outcome,
    started_at: Option<Timestamp>,
    task: Option<String>,
    #[serde(default)]
    memories: MemoryUse,
}

/// Reads a counted run beside a memory: ordinal, facts, when it was stored, and whether the gateway recorded that they met.
pub fn run_met(key: &WorkflowKey, memory: MemoryId, row: &(i64, String, i64, bool)) -> Result<RunMet> {
    let (ordinal, facts, received_ms, recorded) = row;
    let name = format!("{key}, ordinal {ordinal}");
    let tried: Tried = at("run_facts.facts", &name).json(facts)?;
    let place = at("runs", &name);
    let trial = Trial {
        began_at: tried.started_at.map_or_else(|| place.millis(*received_ms), Ok)?,
        task: tried.task,
        met: *recorded || [tried.memories.presented, tried.memories.read].concat().contains(&memory),
        succeeded: tried.outcome.succeeded(),
    };
    Ok(RunMet { ordinal: place.unsigned(*ordinal)?, trial })
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

/// Reads what a counted run took: ordinal and facts.
pub fn spent(key: &WorkflowKey, (ordinal, facts): &(i64, String)) -> Result<Spent> {
    let name = format!("{key}, ordinal {ordinal}");
    let facts: RunFacts = at("run_facts.facts", &name).json(facts)?;
    Ok(Spent::of(at("runs.ordinal", &name).unsigned(*ordinal)?, &facts))
}

/// Reads what an investigation saw beside how its run ended: number, ordinal, run, whether it took another's place, result and
/// the run's facts. `None` when it has no answer, or nobody said how the run ended.
pub fn sighting(
    key: &WorkflowKey,
    (number, ordinal, run, replacement, result, facts): &(i64, i64, String, bool, String, String),
) -> Result<Option<Sighting>> {
    let name = format!("{key}, ordinal {ordinal}");
    let (of_run, of_result) = (at("run_facts.facts", &name), at("investigations.result", &name));
    let Ended { outcome } = of_run.json(facts)?;
    let one = Investigation {
        number: of_result.unsigned(*number)?,
        ordinal: of_result.unsigned(*ordinal)?,
        run: of_result.parse(run)?,
        replacement: *replacement,
        result: Some(of_result.json(result)?),
    };
    Ok(outcome.succeeded().and_then(|succeeded| Sighting::of(&one, succeeded)))
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
