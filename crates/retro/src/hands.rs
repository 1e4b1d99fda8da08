//! What people ask for, carried out: the sampler opens what is looked at, the writer changes memory. Beside a running
//! program by a command, or in it over HTTP.

use std::sync::Arc;

use async_trait::async_trait;
use retro_core::id::{ProposalId, RetrospectiveId, Tenant, WorkflowKey};
use retro_core::manual::{Acceptance, Asked, Refusal, Untriggered};
use retro_core::policy::Policies;
use retro_operator::{DecisionOutcome, Requests};
use retro_redact::Redactor;
use retro_sampler::Manual;
use retro_store::{Step, Store, StoreError, VectorSource};
use retro_writer::Writer;
use tokio::sync::Notify;

use crate::clock::SystemClock;

/// The hands of people.
pub(crate) struct Hands {
    manual: Manual,
    writer: Writer,
}

impl Hands {
    /// Over a store, comparing texts by `vectors`, if given; `outbox` is rung when there may be something to send.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        policies: Arc<dyn Policies>,
        vectors: Option<Arc<dyn VectorSource>>,
        outbox: Arc<Notify>,
    ) -> Self {
        let clock = Arc::new(SystemClock);
        let manual = Manual::new(store.clone(), policies.clone(), clock.clone(), outbox.clone());
        Self { manual, writer: Writer::new(store, policies, clock, outbox).comparing_by(vectors) }
    }
}

/// A person's words are stored; a secret in them is not.
fn redacted(text: &str) -> String {
    Redactor::shared().text(text).into_owned()
}

#[async_trait]
impl Requests for Hands {
    async fn trigger(
        &self,
        key: &WorkflowKey,
        asked: &Asked,
    ) -> Result<Result<(RetrospectiveId, Step), Untriggered>, StoreError> {
        let focus = asked.focus.as_deref().map(redacted);
        self.manual.trigger(key, &Asked { focus, ..asked.clone() }).await
    }

    async fn accept(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        acceptance: &Acceptance,
    ) -> Result<DecisionOutcome, StoreError> {
        let despite_tombstone = acceptance.despite_tombstone.as_deref().map(redacted);
        self.writer.accept(tenant, id, &Acceptance { despite_tombstone, ..acceptance.clone() }).await
    }

    async fn refuse(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        refusal: &Refusal,
    ) -> Result<DecisionOutcome, StoreError> {
        self.writer
            .refuse(tenant, id, &Refusal { reason: redacted(&refusal.reason), ..refusal.clone() })
            .await
    }
}
