//! Manual retrospectives: nothing is drawn, the sample is what a person names.

use std::sync::Arc;

use retro_core::id::{RetrospectiveId, WorkflowKey};
use retro_core::manual::{Asked, NamedRun, Untriggered, trigger};
use retro_core::policy::Policies;
use retro_core::time::Clock;
use retro_store::{ManualStore, Step, StoreError};
use tokio::sync::Notify;
use tracing::info;

/// Opens manual retrospectives.
pub struct Manual {
    store: Arc<dyn ManualStore>,
    policies: Arc<dyn Policies>,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
}

impl Manual {
    /// Over its ports; `outbox` is rung when there may be something to send.
    pub fn new(
        store: Arc<dyn ManualStore>,
        policies: Arc<dyn Policies>,
        clock: Arc<dyn Clock>,
        outbox: Arc<Notify>,
    ) -> Self {
        Self { store, policies, clock, outbox }
    }

    /// Opens a retrospective over the named runs; the same request opens one. Returns its id, and whether it was
    /// opened now; the inner error says why it was not.
    pub async fn trigger(
        &self,
        key: &WorkflowKey,
        asked: &Asked,
    ) -> Result<Result<(RetrospectiveId, Step), Untriggered>, StoreError> {
        if let Err(untriggered) = asked.check() {
            return Ok(Err(untriggered));
        }
        let now = self.clock.now();
        let decide = |known: &[NamedRun]| trigger(key, asked, known, &self.policies.of(key), now);
        let step = match self.store.trigger(key, asked, &decide).await? {
            Ok(step) => step,
            Err(untriggered) => return Ok(Err(untriggered)),
        };
        let id = RetrospectiveId::manual(key, &asked.request);
        if step == Step::Done {
            info!(tenant = %key.tenant, retrospective.id = %id, "opened manual retrospective {id}");
            self.outbox.notify_one();
        }
        Ok(Ok((id, step)))
    }
}
