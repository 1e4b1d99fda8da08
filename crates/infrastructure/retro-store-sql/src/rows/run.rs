//! Converts rows of `runs` and `run_facts`.

use jiff::Timestamp;
use retro_core::effect::{AssignedRun, Trial};
use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_core::report::{InvestigatedRun, RunSpending, WindowRun};
use retro_core::retrospective::{Investigation, Retrospective};
use retro_core::run::{RunFacts, RunMemories, RunOutcome};
use retro_store::{Result, RunExposure, RunRow};
use serde::Deserialize;

use crate::{at, parse_workflow_key};

/// Row of `runs` joined with `run_facts`.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct RunRecord {
    workflow: String,
    run_id: String,
    ordinal: Option<i64>,
    received_ms: i64,
    facts: String,
    body: String,
}

impl RunRecord {
    /// Converts the row of a run of this tenant. Fails if a value is damaged.
    pub(crate) fn into_run_row(self, tenant: &Tenant) -> Result<RunRow> {
        let key = format!("{tenant}/{}/{}", self.workflow, self.run_id);
        let place = at("runs", &key);
        let facts: RunFacts = at("run_facts.facts", &key).parse_json(&self.facts)?;
        let ordinal = self.ordinal.map(|ordinal| place.parse_unsigned(ordinal)).transpose()?;
        Ok(RunRow {
            key: parse_workflow_key(tenant.as_str(), &self.workflow)?,
            ordinal,
            not_counted: facts.not_counted_reason().filter(|_| ordinal.is_none()),
            facts,
            body: at("run_facts.body", &key).parse_json(&self.body)?,
            received_at: place.parse_millis(self.received_ms)?,
        })
    }
}

/// Subset of a run's facts from which the effect of a memory is estimated.
#[derive(Deserialize)]
struct TrialFacts {
    outcome: RunOutcome,
    started_at: Option<Timestamp>,
    task: Option<String>,
    #[serde(default)]
    memories: RunMemories,
}

/// Converts a counted run for estimating the effect of a memory. The row has the ordinal, the facts, the
/// storage time in Unix milliseconds, and `true` if the gateway recorded a presentation of the memory.
pub(crate) fn run_exposure_from_row(
    key: &WorkflowKey,
    memory: MemoryId,
    row: &(i64, String, i64, bool),
) -> Result<RunExposure> {
    let (ordinal, facts, received_ms, recorded) = row;
    let name = format!("{key}, ordinal {ordinal}");
    let tried: TrialFacts = at("run_facts.facts", &name).parse_json(facts)?;
    let place = at("runs", &name);
    let trial = Trial {
        began_at: tried.started_at.map_or_else(|| place.parse_millis(*received_ms), Ok)?,
        task: tried.task,
        // An opened memory counts as exposure even if the event does not list it as presented.
        exposed: *recorded || [tried.memories.presented, tried.memories.read].concat().contains(&memory),
        succeeded: tried.outcome.succeeded(),
    };
    Ok(RunExposure { ordinal: place.parse_unsigned(*ordinal)?, trial })
}

/// Converts a row with a decision by chance: the ordinal and the facts of the run, whether the memory was
/// withheld, and the probability of that, per mille.
pub(crate) fn assigned_run_from_row(
    key: &WorkflowKey,
    row: &(i64, String, bool, i64),
) -> Result<AssignedRun> {
    let (ordinal, facts, withheld, permille) = row;
    let name = format!("{key}, ordinal {ordinal}");
    let OutcomeFacts { outcome } = at("run_facts.facts", &name).parse_json(facts)?;
    Ok(AssignedRun {
        ordinal: at("runs", &name).parse_unsigned(*ordinal)?,
        withheld: *withheld,
        permille: at("memory_assignments.permille", &name).parse_unsigned(*permille)?,
        succeeded: outcome.succeeded(),
    })
}

/// Subset of a run's facts for the report of a window, and for the effect of a memory.
#[derive(Deserialize)]
struct OutcomeFacts {
    outcome: RunOutcome,
}

/// Converts a run of a retrospective's window from its ordinal, id and facts.
pub(crate) fn window_run_from_row(
    retrospective: &Retrospective,
    row: &(i64, String, String),
) -> Result<WindowRun> {
    let (ordinal, run, facts) = row;
    let key = format!("{}/{run}", retrospective.key);
    let place = at("run_facts", &key);
    let OutcomeFacts { outcome } = at("run_facts.facts", &key).parse_json(facts)?;
    let (ordinal, run) = (place.parse_unsigned(*ordinal)?, place.parse(run)?);
    Ok(WindowRun { ordinal, run, outcome, pull_requests: Vec::new(), checks: Vec::new() })
}

/// Converts the spending of a counted run from its ordinal and facts.
pub(crate) fn spending_from_row(key: &WorkflowKey, (ordinal, facts): &(i64, String)) -> Result<RunSpending> {
    let name = format!("{key}, ordinal {ordinal}");
    let facts: RunFacts = at("run_facts.facts", &name).parse_json(facts)?;
    Ok(RunSpending::from_facts(at("runs.ordinal", &name).parse_unsigned(*ordinal)?, &facts))
}

/// Converts an investigated run. The row has the investigation's number, the run's ordinal and id, `true` if
/// the run replaced another one, the result, and the facts. Returns `None` if the investigation has no answer
/// or the run's outcome is neither success nor failure.
pub(crate) fn investigated_run_from_row(
    key: &WorkflowKey,
    (number, ordinal, run, replacement, result, facts): &(i64, i64, String, bool, String, String),
) -> Result<Option<InvestigatedRun>> {
    let name = format!("{key}, ordinal {ordinal}");
    let (of_run, of_result) = (at("run_facts.facts", &name), at("investigations.result", &name));
    let OutcomeFacts { outcome } = of_run.parse_json(facts)?;
    let one = Investigation {
        number: of_result.parse_unsigned(*number)?,
        ordinal: of_result.parse_unsigned(*ordinal)?,
        run: of_result.parse(run)?,
        replacement: *replacement,
        result: Some(of_result.parse_json(result)?),
    };
    Ok(outcome.succeeded().and_then(|succeeded| InvestigatedRun::from_investigation(&one, succeeded)))
}

/// Fails unless the number of found runs equals the size of the retrospective's window.
pub(crate) fn check_window_complete(retrospective: &Retrospective, found: usize) -> Result<()> {
    let Retrospective { key, first, last, manual_request, .. } = retrospective;
    if found as u64 == retrospective.window_runs() {
        return Ok(());
    }
    let what = match manual_request {
        None => format!("window {first} to {last}"),
        Some(manual) => format!("request {}", manual.request),
    };
    Err(at("runs.ordinal", key).damaged_error(format!("{what} holds {found} runs")))
}
