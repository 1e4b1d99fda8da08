//! Defines the [`Engine`] port, which investigates a run, and the engine that needs no model.

use std::sync::Arc;

use async_trait::async_trait;
use retro_consumer::Watch;
use retro_core::finding::{InvestigationBrief, InvestigatorAnswer};

use crate::heuristics;

/// Investigates one run. Engines are not trusted: the caller checks every finding and verdict against the
/// run.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Returns the name of the engine, as shown in reports.
    fn name(&self) -> &'static str;

    /// Investigates the run in `brief`. Must not panic on any brief; a panic fails the attempt. Work that
    /// outlives this future, such as a blocking task, must own `watch`, so the watchdog keeps observing it.
    async fn investigate(&self, brief: Arc<InvestigationBrief>, watch: Watch) -> InvestigatorAnswer;
}

/// Engine that investigates with heuristics, without a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeuristicEngine;

#[async_trait]
impl Engine for HeuristicEngine {
    fn name(&self) -> &'static str {
        "heuristics"
    }

    /// Runs the heuristics on a blocking thread, because they never await and a long run would stall the
    /// runtime.
    async fn investigate(&self, brief: Arc<InvestigationBrief>, watch: Watch) -> InvestigatorAnswer {
        let compute = move || {
            // The task outlives this future if it is dropped, and the watchdog must still see the task.
            let _watch = watch;
            retro_fault::apply_poison("engine", brief.run.run_id.as_str().as_bytes());
            heuristics::investigate_run(&brief)
        };
        match tokio::task::spawn_blocking(compute).await {
            Ok(answer) => answer,
            Err(problem) => {
                InvestigatorAnswer::Failed { reason: format!("the heuristics stopped: {problem}") }
            }
        }
    }
}
