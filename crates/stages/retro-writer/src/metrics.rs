//! Records the metrics of a closed retrospective after its commit.

use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::learn::ClosedRetrospective;
use retro_store::WriterStore;
use tracing::debug;

/// Values of a closed retrospective that are recorded as metrics.
pub(crate) struct ClosingMetrics {
    outcome: &'static str,
    changes: Vec<&'static str>,
    failure: Option<DeadLetterCode>,
}

impl ClosingMetrics {
    pub(crate) fn from_closing(closing: &ClosedRetrospective) -> Self {
        Self {
            outcome: closing.retrospective_state.as_str(),
            changes: closing.applied.changes.iter().map(|change| change.effect.kind()).collect(),
            failure: closing.failure.as_ref().map(|rejection| rejection.code),
        }
    }

    /// Records the metrics. The delays from event to confirmation are loaded from the store, and are not
    /// recorded if that fails.
    pub(crate) async fn record(self, store: &dyn WriterStore, tenant: &Tenant, id: RetrospectiveId) {
        retro_telemetry::metrics::RETROSPECTIVES_CLOSED.add(1, [self.outcome]);
        for kind in &self.changes {
            retro_telemetry::metrics::MEMORY_CHANGES.add(1, [kind]);
        }
        if let Some(code) = self.failure {
            retro_telemetry::metrics::DEAD_LETTERS_STORED.add(1, ["writer", code.as_str()]);
        }
        // Only these changes can confirm a memory; others do not need the query.
        if !self.changes.iter().any(|kind| ["created", "promoted"].contains(kind)) {
            return;
        }
        match store.load_confirmation_delays_ms(tenant, id).await {
            Ok(waits) => {
                for wait in waits {
                    retro_telemetry::metrics::EVENT_TO_INJECTABLE.record(wait as f64 / 1000.0, []);
                }
            }
            Err(problem) => debug!("cannot measure the time until confirmation: {problem}"),
        }
    }
}
