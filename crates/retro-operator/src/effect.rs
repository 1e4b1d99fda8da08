//! What a memory does to the success of its workflow's runs.

use retro_core::effect::{
    Arm, Claim, Estimate, MemoryEffect, Method, OBSERVATIONS_MIN, Trial, active_spans, effect,
};
use retro_core::id::{MemoryId, Ordinal, Tenant, WorkflowKey};
use retro_core::memory::{Memory, Scope};
use retro_store::{OperatorStore, Result};
use serde::Serialize;

use crate::why::Why;
use crate::words;

/// Runs that are read at once. A run's facts may take half a megabyte, with the longest remarks of its agent, and mostly
/// take one kilobyte.
const RUNS_PER_LOOK: u32 = 250;

/// The newest runs that are compared: beyond some thousand an interval hardly narrows, and who waits is a person.
const RUNS_MAX: usize = 4_000;

/// A memory and what it does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Effect {
    /// Its id.
    pub id: MemoryId,
    /// What it says; `None` for a lesson that was kept away before it became a memory.
    pub title: Option<String>,
    /// The comparison; `None` where there is none to make.
    pub effect: Option<MemoryEffect>,
    /// What can be said of it, in one sentence.
    pub told: String,
}

/// Compares the runs of a memory's workflow that met it with those that did not; `None` for an id that nobody has. A rule of a
/// repository is handed to runs of any workflow, which nothing makes comparable: it has no comparison.
pub async fn memory_effect(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    id: MemoryId,
) -> Result<Option<Effect>> {
    let history = store.history(tenant, id).await?;
    let Some(why) = Why::of(id, &history) else { return Ok(None) };
    let title = why.memory.as_ref().map(|memory| memory.lesson.title.clone());
    let Some(key) = why.memory.as_ref().and_then(|memory| home(tenant, memory)) else {
        let told =
            "a rule of a repository, or no memory: there are no runs of one workflow to compare".to_owned();
        return Ok(Some(Effect { id, title, effect: None, told }));
    };
    let spans = active_spans(&history);
    let trials = if spans.is_empty() { Vec::new() } else { trials(store, &key, id).await? };
    let effect = effect(&trials, &spans);
    let told = if spans.is_empty() {
        "it was never active, so no run was handed it".to_owned()
    } else {
        told(&effect)
    };
    Ok(Some(Effect { id, title, effect: Some(effect), told }))
}

/// The workflow whose runs are handed a memory.
fn home(tenant: &Tenant, memory: &Memory) -> Option<WorkflowKey> {
    match &memory.scope {
        Scope::Step { workflow, .. } | Scope::Workflow { workflow } => {
            Some(WorkflowKey { tenant: tenant.clone(), workflow: workflow.clone() })
        }
        _ => None,
    }
}

async fn trials(store: &dyn OperatorStore, key: &WorkflowKey, id: MemoryId) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    let mut behind: Option<Ordinal> = None;
    while trials.len() < RUNS_MAX {
        let runs = store.runs_met(key, id, behind, RUNS_PER_LOOK).await?;
        let whole = runs.len() == RUNS_PER_LOOK as usize;
        behind = runs.last().map(|run| run.ordinal);
        trials.extend(runs.into_iter().map(|run| run.trial));
        if !whole {
            break;
        }
    }
    Ok(trials)
}

impl Effect {
    /// The comparison for a terminal.
    pub fn text(&self) -> String {
        let title = self.title.as_deref().map_or_else(|| self.id.to_string(), words::line);
        let arms =
            self.effect.iter().flat_map(|effect| [("with it", effect.with), ("without it", effect.without)]);
        let arms: String = arms.map(|(name, arm)| format!("  {name:<11} {}\n", rate(arm))).collect();
        format!("{title}\n{arms}{}\n", self.told)
    }
}

fn rate(arm: Arm) -> String {
    format!("{} of {} succeeded", arm.succeeded, words::count(arm.runs.into(), "run"))
}

/// One sentence, which claims no more than the interval does.
fn told(effect: &MemoryEffect) -> String {
    let Some(estimate) = effect.estimate else {
        return format!(
            "no claim: it takes {OBSERVATIONS_MIN} tasks tried both with and without it (there are {}), or {OBSERVATIONS_MIN} \
             runs of different tasks on each side",
            effect.paired_tasks
        );
    };
    let claim = match estimate.claim() {
        Claim::Helps => "runs end well more often with it",
        Claim::Harms => "runs end well less often with it",
        Claim::Open => "no difference is shown",
    };
    format!("{claim}: {}, {}; compared, not drawn by lot", interval(&estimate), how(effect, &estimate))
}

fn interval(estimate: &Estimate) -> String {
    let points = |milli: i32| {
        format!("{}{}.{}", if milli < 0 { "−" } else { "+" }, milli.abs() / 10, milli.abs() % 10)
    };
    let Estimate { difference_milli, low_milli, high_milli, .. } = estimate;
    format!(
        "{} points of success, 90 % interval {} to {}",
        points(*difference_milli),
        points(*low_milli),
        points(*high_milli)
    )
}

fn how(effect: &MemoryEffect, estimate: &Estimate) -> String {
    match estimate.method {
        Method::Paired => format!("task by task over {}", words::count(effect.paired_tasks.into(), "task")),
        Method::Unpaired => "all runs against all, for want of tasks tried both ways".to_owned(),
    }
}

#[cfg(test)]
mod tests;
