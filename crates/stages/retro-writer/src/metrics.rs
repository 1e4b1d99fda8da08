//! Records the metrics of committed changes, and those of a closed retrospective.

use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::learn::{ClosedRetrospective, RunSignal};
use retro_core::memory::{Change, ChangeEffect};
use retro_store::WriterStore;
use retro_telemetry::metrics::{GATE_DECISIONS, MEMORY_CHANGES, RUN_SIGNALS};
use tracing::debug;

/// Beginning of the reason of a change by which the gate refused a text.
const GATE_REFUSAL: &str = "the gate refuses";

/// Kinds of changes that a decision made, kept until they are committed: a decision may be made again.
#[derive(Debug, Default)]
pub(crate) struct CountedChanges(Vec<(&'static str, Option<&'static str>)>);

impl CountedChanges {
    pub(crate) fn from_changes(changes: &[Change]) -> Self {
        Self(changes.iter().map(|change| (change.effect.kind(), gate_decision(change))).collect())
    }

    /// Adds the changes to the metrics.
    pub(crate) fn record(&self) {
        for (kind, decision) in &self.0 {
            MEMORY_CHANGES.add(1, [kind]);
            if let Some(decision) = decision {
                GATE_DECISIONS.add(1, [decision]);
            }
        }
    }

    fn contain_any(&self, kinds: &[&str]) -> bool {
        self.0.iter().any(|(kind, _)| kinds.contains(kind))
    }
}

/// Returns the decision of the gate that a change carries out, or `None` if it carries out none.
fn gate_decision(change: &Change) -> Option<&'static str> {
    match change.effect {
        ChangeEffect::Held { .. } => Some("held"),
        ChangeEffect::Refused { .. } if change.reason.starts_with(GATE_REFUSAL) => Some("refused"),
        _ => None,
    }
}

/// Values of a closed retrospective that are recorded as metrics.
pub(crate) struct ClosingMetrics {
    outcome: &'static str,
    changes: CountedChanges,
    failure: Option<DeadLetterCode>,
    signals: Vec<RunSignal>,
}

impl ClosingMetrics {
    pub(crate) fn from_closing(closing: &ClosedRetrospective) -> Self {
        Self {
            outcome: closing.retrospective_state.as_str(),
            changes: CountedChanges::from_changes(&closing.applied.changes),
            failure: closing.failure.as_ref().map(|rejection| rejection.code),
            signals: closing.signals.clone(),
        }
    }

    /// Records the metrics. The delays from event to confirmation are loaded from the store, and are not
    /// recorded if that fails.
    pub(crate) async fn record(self, store: &dyn WriterStore, tenant: &Tenant, id: RetrospectiveId) {
        retro_telemetry::metrics::RETROSPECTIVES_CLOSED.add(1, [self.outcome]);
        self.changes.record();
        for signal in &self.signals {
            RUN_SIGNALS.add(1, [signal.as_str()]);
        }
        if let Some(code) = self.failure {
            retro_telemetry::metrics::DEAD_LETTERS_STORED.add(1, ["writer", code.as_str()]);
        }
        // Only these changes can confirm a memory; others do not need the query.
        if !self.changes.contain_any(&["created", "promoted"]) {
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
