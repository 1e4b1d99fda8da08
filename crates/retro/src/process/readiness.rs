//! Holds what the process lacks for its work, reports it on `/readyz` and logs each change once.

use std::sync::Arc;

use retro_http::{Readiness, ReadyCheck};
use tokio::sync::watch;
use tracing::{info, warn};

/// Missing part that is reported from the moment the process stops.
pub(super) const STOPPING: &str = "the process is stopping";

/// Reasons why the process is not ready; empty if it is ready. Clones share the state.
#[derive(Debug, Clone)]
pub(super) struct ReadinessState(Arc<watch::Sender<Vec<String>>>);

impl Default for ReadinessState {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(vec!["the process is starting".to_owned()])))
    }
}

impl ReadinessState {
    /// Waits until nothing is missing.
    pub(super) async fn wait_until_ready(&self) {
        // Cannot fail: `self` keeps the sender, so the wait ends only if nothing is missing.
        let _ = self.0.subscribe().wait_for(Vec::is_empty).await;
    }

    /// Returns the callback for `/readyz`.
    pub(super) fn ready_check(&self) -> ReadyCheck {
        let ready = self.clone();
        Arc::new(move || match ready.0.borrow().as_slice() {
            [] => Readiness::Ready,
            missing => Readiness::NotReady(missing.join("; ")),
        })
    }

    /// Replaces the missing parts.
    pub(super) fn update_missing(&self, missing: Vec<String>) {
        let joined = missing.join("; ");
        let changed = self.0.send_if_modified(|known| {
            let changed = *known != missing;
            *known = missing;
            changed
        });
        match (changed, joined.as_str()) {
            (false, _) => {}
            (true, "") => info!("ready: broker and database are available"),
            (true, STOPPING) => info!("{STOPPING}"),
            (true, joined) => warn!("not ready: {joined}"),
        }
    }
}
