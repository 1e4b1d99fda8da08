//! What is measured of a closing, once it stands.

use retro_core::dead_letter::Code;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::learn::Closing;
use retro_store::WriterStore;
use tracing::debug;

/// Of a closing, what measurements need.
pub(crate) struct Closed {
    outcome: &'static str,
    changes: Vec<&'static str>,
    failure: Option<Code>,
}

impl Closed {
    pub(crate) fn of(closing: &Closing) -> Self {
        Self {
            outcome: closing.retrospective.as_str(),
            changes: closing.applied.changes.iter().map(|change| change.effect.kind()).collect(),
            failure: closing.failure.as_ref().map(|rejection| rejection.code),
        }
    }

    /// Measures it. How long a confirmation took is asked of what is stored; when that fails, it goes unmeasured.
    pub(crate) async fn measure(self, store: &dyn WriterStore, tenant: &Tenant, id: RetrospectiveId) {
        retro_meter::RETROSPECTIVES_CLOSED.add(1, [self.outcome]);
        for kind in &self.changes {
            retro_meter::CHANGES.add(1, [kind]);
        }
        if let Some(code) = self.failure {
            retro_meter::BURIED.add(1, ["writer", code.as_str()]);
        }
        if !self.changes.iter().any(|kind| ["created", "promoted"].contains(kind)) {
            return;
        }
        match store.confirmed_after_ms(tenant, id).await {
            Ok(waits) => {
                for wait in waits {
                    retro_meter::INJECTABLE.record(wait as f64 / 1000.0, []);
                }
            }
            Err(problem) => debug!("how long confirmations took goes unmeasured: {problem}"),
        }
    }
}
