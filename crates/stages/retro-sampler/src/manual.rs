//! Opens manual retrospectives, whose sample consists of the runs that an operator names.

use std::sync::Arc;

use retro_core::id::{RetrospectiveId, WorkflowKey};
use retro_core::manual::{NamedRun, TriggerError, trigger_retrospective};
use retro_core::policy::Policies;
use retro_core::retrospective::ManualRequest;
use retro_core::time::Clock;
use retro_store::{CommitResult, ManualStore, StoreError};
use tokio::sync::Notify;
use tracing::info;

/// Service that opens manual retrospectives.
pub struct ManualRetrospectives {
    store: Arc<dyn ManualStore>,
    policies: Arc<dyn Policies>,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
}

impl ManualRetrospectives {
    /// Creates the service over its ports. `outbox` is notified when there may be messages to send.
    pub fn new(
        store: Arc<dyn ManualStore>,
        policies: Arc<dyn Policies>,
        clock: Arc<dyn Clock>,
        outbox: Arc<Notify>,
    ) -> Self {
        Self { store, policies, clock, outbox }
    }

    /// Opens a manual retrospective over the named runs; repeating the request does not open a second one.
    /// Returns the id of the retrospective, with [`CommitResult::Done`] if it was opened now. The inner error
    /// says why none was opened.
    pub async fn trigger(
        &self,
        key: &WorkflowKey,
        request: &ManualRequest,
    ) -> Result<Result<(RetrospectiveId, CommitResult), TriggerError>, StoreError> {
        // Checked before the transaction: an invalid request must not wait for a lock.
        if let Err(untriggered) = request.validate() {
            return Ok(Err(untriggered));
        }
        let now = self.clock.now();
        let decide = |known: &[NamedRun]| {
            trigger_retrospective(key, request, known, &self.policies.policy_for(key), now)
        };
        let step = match self.store.trigger_retrospective(key, request, &decide).await? {
            Ok(step) => step,
            Err(untriggered) => return Ok(Err(untriggered)),
        };
        let id = RetrospectiveId::of_request(key, &request.request);
        if step == CommitResult::Done {
            info!(tenant = %key.tenant, retrospective.id = %id, "opened manual retrospective {id}");
            self.outbox.notify_one();
        }
        Ok(Ok((id, step)))
    }
}
