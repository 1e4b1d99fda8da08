//! Defines the port through which runs are investigated, and the engine that needs no model.

use std::sync::Arc;

use async_trait::async_trait;
use retro_core::finding::{InvestigationBrief, InvestigatorAnswer};
use retro_watchdog::Watch;

use crate::heuristics;

/// Investigates one run. The caller checks every finding and verdict against the run, because an engine may be
/// wrong and is never trusted.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Name of the engine, as reports show it.
    fn name(&self) -> &'static str;

    /// Investigates the run of `brief`. Must not panic on any brief; a panic fails the attempt. Work that
    /// continues after the future is dropped (on a blocking thread) must hold `watch`, so that the watchdog
    /// still observes it.
    async fn investigate(&self, brief: Arc<InvestigationBrief>, watch: Watch) -> InvestigatorAnswer;
}

/// Engine that investigates by heuristics and needs no model.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeuristicEngine;

#[async_trait]
impl Engine for HeuristicEngine {
    fn name(&self) -> &'static str {
        "heuristics"
    }

    /// Runs on a blocking thread, because a long run takes a while and the computation never awaits.
    async fn investigate(&self, brief: Arc<InvestigationBrief>, watch: Watch) -> InvestigatorAnswer {
        let compute = move || {
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
