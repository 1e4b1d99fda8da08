//! Estimates the effect of a memory on the success rate of its workflow's runs.

use retro_core::effect::{
    Arm, ComparisonMethod, Estimate, MemoryEffect, Trial, active_periods, estimate_effect,
};
use retro_core::id::{MemoryId, Ordinal, Tenant, WorkflowKey};
use retro_core::memory::{Change, Memory, MemoryScope};
use retro_store::{OperatorStore, Result};
use serde::Serialize;
use utoipa::ToSchema;

use crate::history::MemoryHistory;
use crate::memory::MemoryWithEffect;
use crate::text;

/// Number of runs loaded per page. The facts of a run usually take one kilobyte, but up to half a megabyte if
/// they include long remarks of the agent.
const RUNS_PER_PAGE: u32 = 250;

/// Maximum number of runs compared, newest first. Beyond a few thousand runs the confidence interval hardly
/// narrows, and an operator is waiting.
const RUNS_MAX: usize = 4_000;

/// Estimated effect of a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct MemoryEffectView {
    /// Id of the memory, a UUID.
    #[schema(value_type = String)]
    pub id: MemoryId,
    /// Title of the lesson; null for a lesson that was suppressed before it became a memory.
    #[schema(required = true)]
    pub title: Option<String>,
    /// Comparison of the runs; null if there are no runs of one workflow to compare.
    #[schema(required = true)]
    pub effect: Option<MemoryEffect>,
    /// Conclusion of the comparison in one sentence.
    pub conclusion: String,
}

/// Compares the runs of a memory's workflow that were presented with the memory to the runs that were not.
/// Returns `None` if the id is unknown. A rule has no comparison, because it is presented to runs of any
/// workflow, and those are not comparable.
pub async fn find_memory_effect(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    id: MemoryId,
) -> Result<Option<MemoryEffectView>> {
    let history = store.list_memory_changes(tenant, id).await?;
    let Some(why) = MemoryHistory::from_changes(id, &history) else { return Ok(None) };
    let title = why.memory.as_ref().map(|memory| memory.lesson.title.clone());
    let (effect, conclusion) = match compare_runs(store, tenant, &why, &history).await? {
        Comparison::NotComparable => (
            None,
            "a rule of a repository, or no memory: there are no runs of one workflow to compare".to_owned(),
        ),
        Comparison::NeverActive(effect) => (Some(effect), NEVER_ACTIVE.to_owned()),
        Comparison::Compared(effect) => (Some(effect), describe_effect(&effect)),
    };
    Ok(Some(MemoryEffectView { id, title, effect, conclusion }))
}

/// Loads the history of a memory with its effect. Returns `None` if the id is unknown.
pub async fn find_history_with_effect(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    id: MemoryId,
) -> Result<Option<MemoryHistory>> {
    let history = store.list_memory_changes(tenant, id).await?;
    let Some(why) = MemoryHistory::from_changes(id, &history) else { return Ok(None) };
    let effect = compare_runs(store, tenant, &why, &history).await?.render_line();
    Ok(Some(MemoryHistory { effect, ..why }))
}

/// Adds the effect to a memory.
pub async fn memory_with_effect(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    memory: Memory,
) -> Result<MemoryWithEffect> {
    let effect = find_history_with_effect(store, tenant, memory.id).await?.and_then(|why| why.effect);
    Ok(MemoryWithEffect { memory, effect })
}

const NEVER_ACTIVE: &str = "it was never active, so no run was presented with it";

/// Result of comparing the runs with and without a memory.
enum Comparison {
    NotComparable,
    NeverActive(MemoryEffect),
    Compared(MemoryEffect),
}

impl Comparison {
    fn render_line(&self) -> Option<String> {
        match self {
            Self::NotComparable => None,
            Self::NeverActive(_) => Some(NEVER_ACTIVE.to_owned()),
            Self::Compared(effect) => Some(effect.summary_line()),
        }
    }
}

async fn compare_runs(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    why: &MemoryHistory,
    history: &[Change],
) -> Result<Comparison> {
    let Some(key) = why.memory.as_ref().and_then(|memory| memory_workflow(tenant, memory)) else {
        return Ok(Comparison::NotComparable);
    };
    let spans = active_periods(history);
    if spans.is_empty() {
        return Ok(Comparison::NeverActive(estimate_effect(&[], &spans)));
    }
    Ok(Comparison::Compared(estimate_effect(&load_trials(store, &key, why.id).await?, &spans)))
}

/// Returns the workflow whose runs are presented with the memory; `None` for scopes that span workflows.
fn memory_workflow(tenant: &Tenant, memory: &Memory) -> Option<WorkflowKey> {
    match &memory.scope {
        MemoryScope::Step { workflow, .. } | MemoryScope::Workflow { workflow } => {
            Some(WorkflowKey { tenant: tenant.clone(), workflow: workflow.clone() })
        }
        _ => None,
    }
}

async fn load_trials(store: &dyn OperatorStore, key: &WorkflowKey, id: MemoryId) -> Result<Vec<Trial>> {
    let mut trials = Vec::new();
    let mut after: Option<Ordinal> = None;
    while trials.len() < RUNS_MAX {
        let runs = store.list_run_exposures(key, id, after, RUNS_PER_PAGE).await?;
        // A short page is the last one.
        let is_full = runs.len() == RUNS_PER_PAGE as usize;
        after = runs.last().map(|run| run.ordinal);
        trials.extend(runs.into_iter().map(|run| run.trial));
        if !is_full {
            break;
        }
    }
    Ok(trials)
}

impl MemoryEffectView {
    /// Renders the comparison for a terminal.
    pub fn render_text(&self) -> String {
        let title = self.title.as_deref().map_or_else(|| self.id.to_string(), text::single_line);
        let arms =
            self.effect.iter().flat_map(|effect| [("with it", effect.with), ("without it", effect.without)]);
        let arms: String = arms.map(|(name, arm)| format!("  {name:<11} {}\n", format_rate(arm))).collect();
        format!("{title}\n{arms}{}\n", self.conclusion)
    }
}

fn format_rate(arm: Arm) -> String {
    format!("{} of {} succeeded", arm.succeeded, text::format_count(arm.runs.into(), "run"))
}

/// Describes the effect in one sentence: the conclusion and the method, or the number of observations and how
/// tasks are counted.
fn describe_effect(effect: &MemoryEffect) -> String {
    let more = match &effect.estimate {
        Some(estimate) => format!(", {}; not randomised", describe_method(effect, estimate)),
        None => {
            "; a task tried both with and without it counts as one, and so does a run of another task on each side"
                .to_owned()
        }
    };
    format!("{}{more}", effect.summary_line())
}

fn describe_method(effect: &MemoryEffect, estimate: &Estimate) -> String {
    match estimate.method {
        ComparisonMethod::Paired => {
            format!("task by task over {}", text::format_count(effect.paired_tasks.into(), "task"))
        }
        ComparisonMethod::Unpaired => "all runs against all: no task was tried both ways".to_owned(),
    }
}

#[cfg(test)]
mod tests;
