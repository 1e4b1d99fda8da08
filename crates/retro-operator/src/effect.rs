//! What a memory does to the success of its workflow's runs.

use retro_core::effect::{Arm, Estimate, MemoryEffect, Method, Trial, active_spans, effect};
use retro_core::id::{MemoryId, Ordinal, Tenant, WorkflowKey};
use retro_core::memory::{Change, Memory, Scope};
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
    let (effect, told) = match compared(store, tenant, &why, &history).await? {
        Compared::Nothing => (
            None,
            "a rule of a repository, or no memory: there are no runs of one workflow to compare".to_owned(),
        ),
        Compared::NeverActive(effect) => (Some(effect), NEVER_ACTIVE.to_owned()),
        Compared::Runs(effect) => (Some(effect), told(&effect)),
    };
    Ok(Some(Effect { id, title, effect, told }))
}

/// Something about a memory, and what that does, in one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WithEffect<T> {
    /// What it is about.
    #[serde(flatten)]
    pub of: T,
    /// The effect; `None` where there is none to compare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
}

/// The life of a memory, with its effect; `None` for an id that nobody has.
pub async fn why_with_effect(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    id: MemoryId,
) -> Result<Option<WithEffect<Why>>> {
    let history = store.history(tenant, id).await?;
    let Some(of) = Why::of(id, &history) else { return Ok(None) };
    let effect = compared(store, tenant, &of, &history).await?.line();
    Ok(Some(WithEffect { of, effect }))
}

/// A memory with its effect.
pub async fn memory_with_effect(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    of: Memory,
) -> Result<WithEffect<Memory>> {
    let effect = why_with_effect(store, tenant, of.id).await?.and_then(|why| why.effect);
    Ok(WithEffect { of, effect })
}

const NEVER_ACTIVE: &str = "it was never active, so no run was handed it";

/// What there was to compare.
enum Compared {
    Nothing,
    NeverActive(MemoryEffect),
    Runs(MemoryEffect),
}

impl Compared {
    fn line(&self) -> Option<String> {
        match self {
            Self::Nothing => None,
            Self::NeverActive(_) => Some(NEVER_ACTIVE.to_owned()),
            Self::Runs(effect) => Some(effect.told()),
        }
    }
}

async fn compared(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    why: &Why,
    history: &[Change],
) -> Result<Compared> {
    let Some(key) = why.memory.as_ref().and_then(|memory| home(tenant, memory)) else {
        return Ok(Compared::Nothing);
    };
    let spans = active_spans(history);
    if spans.is_empty() {
        return Ok(Compared::NeverActive(effect(&[], &spans)));
    }
    Ok(Compared::Runs(effect(&trials(store, &key, why.id).await?, &spans)))
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

/// One sentence: what can be said, and how it was compared or what is missing.
fn told(effect: &MemoryEffect) -> String {
    let more = match &effect.estimate {
        Some(estimate) => format!(", {}; compared, not drawn by lot", how(effect, estimate)),
        None => {
            "; a task tried both with and without it is one, and so is a run of another task on each side"
                .to_owned()
        }
    };
    format!("{}{more}", effect.told())
}

fn how(effect: &MemoryEffect, estimate: &Estimate) -> String {
    match estimate.method {
        Method::Paired => format!("task by task over {}", words::count(effect.paired_tasks.into(), "task")),
        Method::Unpaired => "all runs against all, for want of tasks tried both ways".to_owned(),
    }
}

#[cfg(test)]
mod tests;
