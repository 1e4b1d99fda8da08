//! Estimates the effect of a memory on the success rate of its workflow's runs.

use retro_core::effect::{
    Arm, ComparisonMethod, MemoryEffect, RunComparison, Trial, active_periods, compare_runs, estimate_effect,
};
use retro_core::id::{MemoryId, Ordinal, Tenant, WorkflowKey};
use retro_core::memory::{Memory, MemoryScope};
use retro_store::{FEEDBACK_SHOWN_MAX, OperatorStore, Result};
use serde::Serialize;
use utoipa::ToSchema;

use crate::history::MemoryHistory;
use crate::memory::MemoryWithEffect;
use crate::saved_quotes::check_saved_quotes;
use crate::text;
use crate::usage::load_usage;

/// Number of runs loaded per page. The facts of a run usually take one kilobyte, but up to half a megabyte if
/// they include long remarks of the agent.
const RUNS_PER_PAGE: u32 = 250;

/// Maximum number of runs compared, newest first. More would hardly change the rates, and an operator is
/// waiting.
const RUNS_MAX: usize = 4_000;

/// Maximum number of runs from which the effect is estimated, oldest first: a window that moved with time would
/// forget the looks before it. After so many runs, the interval is less than 20 points wide.
const ASSIGNED_RUNS_MAX: u32 = 4_000;

/// Effect of a memory by chance, and the comparison of all runs with and without it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct MemoryEffectView {
    /// Id of the memory, a UUID.
    #[schema(value_type = String)]
    pub id: MemoryId,
    /// Title of the lesson; null for a lesson that was suppressed before it became a memory.
    #[schema(required = true)]
    pub title: Option<String>,
    /// Effect, from runs about which chance decided whether they were handed the memory; null if there are no
    /// runs of one workflow.
    #[schema(required = true)]
    pub effect: Option<MemoryEffect>,
    /// The effect in one sentence.
    pub conclusion: String,
    /// Comparison of all runs with and without the memory, which is no effect, because chance did not decide
    /// between them; null if there are no runs of one workflow.
    #[schema(required = true)]
    pub comparison: Option<RunComparison>,
}

/// Estimates the effect of a memory on the runs of its workflow. Returns `None` if the id is unknown. A rule has
/// no effect, because it is presented to runs of any workflow, and it is never withheld by chance.
pub async fn find_memory_effect(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    id: MemoryId,
) -> Result<Option<MemoryEffectView>> {
    let history = store.list_memory_changes(tenant, id).await?;
    let Some(why) = MemoryHistory::from_changes(id, &history) else { return Ok(None) };
    let title = why.memory.as_ref().map(|memory| memory.lesson.title.clone());
    let Some(key) = memory_workflow(tenant, &why) else {
        let conclusion =
            "a rule of a repository, or no memory: there are no runs of one workflow to compare".to_owned();
        return Ok(Some(MemoryEffectView { id, title, effect: None, conclusion, comparison: None }));
    };
    let effect = load_effect(store, &key, id).await?;
    let spans = active_periods(&history);
    let (conclusion, trials) = if spans.is_empty() {
        (NEVER_ACTIVE.to_owned(), Vec::new())
    } else {
        (effect.summary_line(), load_trials(store, &key, id).await?)
    };
    let comparison = Some(compare_runs(&trials, &spans));
    Ok(Some(MemoryEffectView { id, title, effect: Some(effect), conclusion, comparison }))
}

/// Loads the history of a memory with its use and its effect. Returns `None` if the id is unknown.
pub async fn find_history_with_effect(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    id: MemoryId,
) -> Result<Option<MemoryHistory>> {
    let history = store.list_memory_changes(tenant, id).await?;
    let Some(why) = MemoryHistory::from_changes(id, &history) else { return Ok(None) };
    let effect = match memory_workflow(tenant, &why) {
        None => None,
        Some(_) if active_periods(&history).is_empty() => Some(NEVER_ACTIVE.to_owned()),
        Some(key) => Some(load_effect(store, &key, id).await?.summary_line()),
    };
    let usage = Some(load_usage(store, tenant, id).await?);
    let feedback = store.list_memory_feedback(tenant, id, FEEDBACK_SHOWN_MAX).await?;
    Ok(Some(MemoryHistory { usage, effect, feedback, ..why }))
}

/// Adds the use and the effect to a memory.
pub async fn memory_with_effect(
    store: &dyn OperatorStore,
    tenant: &Tenant,
    memory: Memory,
) -> Result<MemoryWithEffect> {
    let why = find_history_with_effect(store, tenant, memory.id).await?;
    let (effect, feedback) = why.map(|why| (why.effect, why.feedback)).unwrap_or_default();
    let usage = load_usage(store, tenant, memory.id).await?;
    let saved_quotes = check_saved_quotes(store, tenant, &memory).await?;
    Ok(MemoryWithEffect { memory, usage, effect, feedback, saved_quotes })
}

const NEVER_ACTIVE: &str = "it was never active, so no run was handed it";

async fn load_effect(store: &dyn OperatorStore, key: &WorkflowKey, id: MemoryId) -> Result<MemoryEffect> {
    Ok(estimate_effect(&store.list_assigned_runs(key, id, ASSIGNED_RUNS_MAX).await?))
}

/// Returns the workflow whose runs are presented with the memory; `None` for scopes that span workflows.
fn memory_workflow(tenant: &Tenant, why: &MemoryHistory) -> Option<WorkflowKey> {
    match &why.memory.as_ref()?.scope {
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
    /// Renders the effect and the comparison for a terminal.
    pub fn render_text(&self) -> String {
        let title = self.title.as_deref().map_or_else(|| self.id.to_string(), text::single_line);
        let effect = self
            .effect
            .iter()
            .flat_map(|effect| [("handed", effect.handed), ("withheld", effect.withheld)].map(render_arm));
        let comparison = self.comparison.as_ref().map(render_comparison);
        format!(
            "{title}\n{}{}\n{}",
            effect.collect::<String>(),
            self.conclusion,
            comparison.unwrap_or_default()
        )
    }
}

fn render_arm((name, arm): (&str, Arm)) -> String {
    let runs = text::format_count(arm.runs.into(), "run");
    format!("  {name:<11} {} of {runs} succeeded\n", arm.succeeded)
}

/// Renders the comparison of all runs, with the reason why it shows no effect.
fn render_comparison(comparison: &RunComparison) -> String {
    let arms = [("with it", comparison.with), ("without it", comparison.without)].map(render_arm).concat();
    let difference = comparison.difference_milli.map_or_else(String::new, |milli| {
        let points = f64::from(milli) / 10.0;
        format!("  {points:+.1} points, {}\n", describe_method(comparison))
    });
    format!(
        "\nall runs while it was active, for comparison; not by chance, so not its effect:\n{arms}{difference}"
    )
}

fn describe_method(comparison: &RunComparison) -> String {
    match comparison.method {
        ComparisonMethod::Paired => {
            format!("task by task over {}", text::format_count(comparison.paired_tasks.into(), "task"))
        }
        ComparisonMethod::Unpaired => "all runs against all: no task was tried both ways".to_owned(),
    }
}

#[cfg(test)]
mod tests;
