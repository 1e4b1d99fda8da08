//! Defines the [`Engine`] port, which investigates a run, and the engine that needs no model.

use std::sync::Arc;

use async_trait::async_trait;
use retro_consumer::Watch;
use retro_core::finding::{InvestigationBrief, InvestigatorAnswer};
use retro_core::policy::{InvestigationStage, Policy};
use retro_core::report::HEURISTICS;
use retro_store::StoreError;

use crate::heuristics;
use crate::journal::InvestigationJournal;

/// Everything that an engine needs to investigate one run.
pub struct InvestigationTask {
    /// The run, the memories to judge and the earlier findings.
    pub brief: Arc<InvestigationBrief>,
    /// Calls of models that earlier attempts at the investigation have paid for, and where new ones are stored.
    pub journal: Arc<dyn InvestigationJournal>,
    /// Reason why the last attempt failed; `None` if none failed.
    pub last_error: Option<String>,
    /// Policy of the retrospective: who investigates, and within which bounds.
    pub policy: Policy,
    /// Work that outlives the engine's future, such as a blocking task, must own it, so the watchdog keeps observing it.
    pub watch: Watch,
}

/// Investigates one run. Engines are not trusted: the caller checks every finding and verdict against the
/// run.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Returns the name of the engine, as shown in reports.
    fn name(&self) -> &'static str;

    /// Investigates the run in the task. Must not panic on any brief; a panic fails the attempt. Fails if a call of a
    /// model could not be stored: the answer is then not used.
    async fn investigate(&self, task: InvestigationTask) -> Result<InvestigatorAnswer, StoreError>;
}

/// Reason why a run is not investigated by a process without a model, if only a model may.
const NO_MODEL: &str = "`stages` lists only \"model\", and no language model is configured: set `model_url`, or add \"heuristics\"";

/// Engine that investigates with heuristics, without a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeuristicEngine;

#[async_trait]
impl Engine for HeuristicEngine {
    fn name(&self) -> &'static str {
        HEURISTICS
    }

    async fn investigate(&self, task: InvestigationTask) -> Result<InvestigatorAnswer, StoreError> {
        if !task.policy.has_stage(InvestigationStage::Heuristics) {
            return Ok(InvestigatorAnswer::Failed { reason: NO_MODEL.to_owned() });
        }
        Ok(run_heuristics(task.brief, task.watch).await)
    }
}

/// Runs the heuristics on a blocking thread, because they never await and a long run would stall the runtime.
pub(crate) async fn run_heuristics(brief: Arc<InvestigationBrief>, watch: Watch) -> InvestigatorAnswer {
    let compute = move || {
        // The task outlives this future if it is dropped, and the watchdog must still see the task.
        let _watch = watch;
        retro_fault::apply_poison("engine", brief.run.run_id.as_str().as_bytes());
        heuristics::investigate_run(&brief)
    };
    match tokio::task::spawn_blocking(compute).await {
        Ok(answer) => answer,
        Err(problem) => InvestigatorAnswer::Failed { reason: format!("the heuristics stopped: {problem}") },
    }
}
