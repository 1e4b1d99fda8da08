//! What looks into a run: one port, engines behind it.

use std::sync::Arc;

use async_trait::async_trait;
use retro_core::finding::{Answer, Brief};
use retro_watchdog::Watch;

use crate::heuristics;

/// Looks into one run. Findings and verdicts are checked afterwards; an engine may be wrong, never trusted.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Its name, as reports show it.
    fn name(&self) -> &'static str;

    /// Looks into the run of `brief`. Must not panic on any brief; if it does, the attempt has failed. `watch` is held by
    /// whatever goes on when this is dropped: a thread of its own.
    async fn investigate(&self, brief: Arc<Brief>, watch: Watch) -> Answer;
}

/// The engine without a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Heuristics;

#[async_trait]
impl Engine for Heuristics {
    fn name(&self) -> &'static str {
        "heuristics"
    }

    /// Works on a thread of its own, since a long run takes a while and nothing here waits.
    async fn investigate(&self, brief: Arc<Brief>, watch: Watch) -> Answer {
        let look = move || {
            let _watch = watch;
            retro_fault::poison("engine", brief.run.run_id.as_str().as_bytes());
            heuristics::investigate(&brief)
        };
        match tokio::task::spawn_blocking(look).await {
            Ok(answer) => answer,
            Err(problem) => Answer::Failed { reason: format!("the heuristics stopped: {problem}") },
        }
    }
}
