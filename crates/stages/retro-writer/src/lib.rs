#![doc = include_str!("../README.md")]

mod credit;
mod decide;
mod metrics;
mod proposals;
mod rules;
mod vector_cursor;
mod vectors;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use jiff::Timestamp;
use retro_consumer::{
    HandlerError, HandlerOutcome, ITEMS_PER_SWEEP, MessageHandler, OVERDUE_S, Sweep, process_item,
};
use retro_core::attribution::DecisionToken;
use retro_core::id::{MemoryId, RetrospectiveId, Tenant, WorkflowKey};
use retro_core::learn::{
    ClosedRetrospective, ClosingFacts, close_retrospective, delete_by_operator, release_by_operator,
};
use retro_core::memory::{Change, FoldError, Memory};
use retro_core::message::{Message, Notice};
use retro_core::policy::Policies;
use retro_core::similarity::ResolvedVectors;
use retro_core::time::Clock;
use retro_events::{Delivery, subject};
use retro_store::{CommitResult, Decision, Deletion, EmbeddingSource, Release, StoreError, WriterStore};
use retro_telemetry::trace::{Kind, Span, SpanParent};
use tokio::sync::Notify;
use tracing::{debug, error, info};

use metrics::ClosingMetrics;
pub use proposals::ProposalOutcome;
use vector_cursor::SweepCursor;
pub use vectors::VectorSweep;

/// The only component that changes memories.
pub struct Writer {
    store: Arc<dyn WriterStore>,
    policies: Arc<dyn Policies>,
    vectors: Option<Arc<dyn EmbeddingSource>>,
    vector_cursor: Mutex<SweepCursor>,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
    deciding_token: fn() -> Option<DecisionToken>,
}

impl Writer {
    /// Creates a writer over its ports that compares texts with the built-in embedder. `outbox` is notified
    /// when there may be messages to send.
    pub fn new(
        store: Arc<dyn WriterStore>,
        policies: Arc<dyn Policies>,
        clock: Arc<dyn Clock>,
        outbox: Arc<Notify>,
    ) -> Self {
        let (vector_cursor, deciding_token) = (Mutex::default(), || None);
        Self { store, policies, vectors: None, vector_cursor, clock, outbox, deciding_token }
    }

    /// Sets the function that returns the access token of the request that is being carried out. It is stored with the
    /// changes that a person requests.
    pub fn with_deciding_token(self, deciding_token: fn() -> Option<DecisionToken>) -> Self {
        Self { deciding_token, ..self }
    }

    /// Sets the source of vectors for comparing texts. `None` selects the built-in embedder.
    pub fn with_vector_source(self, vectors: Option<Arc<dyn EmbeddingSource>>) -> Self {
        Self { vectors, ..self }
    }

    async fn close_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<CommitResult, StoreError> {
        let now = self.clock.now();
        // Measured only after the commit, because a decision may be made without being committed.
        let closed = Mutex::new(None);
        let measured = &closed;
        let collect = || self.store.load_closing_facts(tenant, id);
        let decide = |vectors: ResolvedVectors| async move {
            let decide = |facts: ClosingFacts| -> Decision<ClosedRetrospective> {
                let embedder = vectors.embedder_for(&facts)?;
                let closing = close_retrospective(facts, embedder, &*self.policies, now);
                *measured.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(ClosingMetrics::from_closing(&closing));
                Ok(closing)
            };
            self.store.close_retrospective(tenant, id, now, &decide).await
        };
        let step = self.decide_with_vectors(tenant, collect, decide).await?;
        if step == CommitResult::Done {
            info!(%tenant, retrospective.id = %id, "closed retrospective {id}");
            self.outbox.notify_one();
            if let Some(closed) = closed.into_inner().unwrap_or_else(PoisonError::into_inner) {
                closed.record(&*self.store, tenant, id).await;
            }
        }
        Ok(step)
    }

    /// Deletes a memory at an operator's request and leaves a tombstone. `request` identifies the request;
    /// repeating it has no further effect. The inner error says why the memory cannot be deleted in its
    /// current state. Returns [`CommitResult::NotFound`] if the tenant has no such memory.
    pub async fn delete_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        request: &str,
        reason: &str,
    ) -> Result<Result<CommitResult, FoldError>, StoreError> {
        let now = self.clock.now();
        let token = (self.deciding_token)();
        let decide = |key: &WorkflowKey, memory: &Memory| {
            let mut deletion = self.build_deletion(key, memory, request, reason, now)?;
            deletion.change.with_token.clone_from(&token);
            Ok(deletion)
        };
        let done = self.store.delete_memory(tenant, id, &decide).await?;
        if matches!(done, Ok(CommitResult::Done)) {
            retro_telemetry::metrics::MEMORY_CHANGES.add(1, ["deleted"]);
        }
        self.outbox.notify_one();
        Ok(done)
    }

    /// Releases a memory or a rule from quarantine at an operator's request. From then on agents are shown it as
    /// its status and weight allow. `request` identifies the request; repeating it has no further effect. The
    /// inner error says why the memory cannot be released, such as that it is not held. Returns
    /// [`CommitResult::NotFound`] if the tenant has no such memory.
    pub async fn release_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        request: &str,
        by: &str,
        reason: &str,
    ) -> Result<Result<CommitResult, FoldError>, StoreError> {
        let now = self.clock.now();
        let token = (self.deciding_token)();
        let decide = |key: &WorkflowKey, memory: &Memory| {
            let (mut change, memory) = release_by_operator(key, memory, request, by, reason, now)?;
            change.with_token.clone_from(&token);
            Ok(Release { message: announce_change(key, &change), change, memory })
        };
        let done = self.store.release_memory(tenant, id, &decide).await?;
        if matches!(done, Ok(CommitResult::Done)) {
            retro_telemetry::metrics::MEMORY_CHANGES.add(1, ["released"]);
        }
        self.outbox.notify_one();
        Ok(done)
    }

    fn build_deletion(
        &self,
        key: &WorkflowKey,
        memory: &Memory,
        request: &str,
        reason: &str,
        now: Timestamp,
    ) -> Result<Deletion, FoldError> {
        let policy = self.policies.policy_for(key);
        let (change, memory, tombstone) = delete_by_operator(key, memory, request, reason, now, &policy)?;
        Ok(Deletion { message: announce_change(key, &change), change, memory, tombstone })
    }

    async fn handle_mutations_due(
        &self,
        tenant: &Tenant,
        retrospective: RetrospectiveId,
    ) -> Result<HandlerOutcome, HandlerError> {
        match self.close_retrospective(tenant, retrospective).await? {
            CommitResult::Done => Ok(HandlerOutcome::Done),
            CommitResult::AlreadyDone => {
                debug!(retrospective.id = %retrospective, "retrospective {retrospective} is closed already");
                Ok(HandlerOutcome::Duplicate)
            }
            CommitResult::NotFound => Err(HandlerError::unknown_reference(
                "notice.retrospective",
                format!("there is no retrospective {retrospective} in tenant {tenant}"),
            )),
        }
    }

    /// Closes the retrospectives whose wake-up message was lost. Returns the number of retrospectives processed.
    async fn sweep_closings(&self) -> Result<usize, StoreError> {
        let overdue = self.store.list_overdue_closings(OVERDUE_S, ITEMS_PER_SWEEP).await?;
        for (tenant, id) in &overdue {
            info!(retrospective.id = %id, "retrospective {id} was settling without a wake-up");
            let opened = self.store.find_retrospective_trace(tenant, *id).await.unwrap_or_default();
            let span =
                Span::start("sweep closings", Kind::Internal, SpanParent::from_trace(opened.as_ref(), false));
            span.set_attribute("retro.retrospective.id", id.to_string());
            process_item(span.instrument(self.close_retrospective(tenant, *id)), |problem| {
                error!(retrospective.id = %id, "retrospective {id} cannot be closed: {problem}");
            })
            .await?;
        }
        Ok(overdue.len())
    }
}

/// Returns the message that announces a change.
fn announce_change(key: &WorkflowKey, change: &Change) -> Message {
    let kind = change.effect.kind().to_owned();
    Notice::MemoryChanged { change: change.id, memory: change.memory, kind, at: change.at }.into_message(key)
}

#[async_trait]
impl MessageHandler for Writer {
    fn name(&self) -> &'static str {
        "writer"
    }

    fn subject(&self) -> &'static str {
        subject::MUTATIONS_DUE
    }

    async fn handle_message(&self, delivery: &Delivery, span: &Span) -> Result<HandlerOutcome, HandlerError> {
        let message = delivery.parse_message()?;
        match &message.notice {
            Notice::MutationsDue { retrospective } => {
                span.set_attribute("retro.retrospective.id", retrospective.to_string());
                self.handle_mutations_due(&message.tenant, *retrospective).await
            }
            Notice::RulesDue { batch } => self.handle_rules_due(&message.tenant, *batch).await,
            Notice::OutcomesDue { pull_request, .. } => {
                let key = WorkflowKey { tenant: message.tenant.clone(), workflow: message.workflow.clone() };
                self.handle_outcomes_due(&key, pull_request).await
            }
            other => Err(HandlerError::unexpected_notice("writer", other)),
        }
    }
}

#[async_trait]
impl Sweep for Writer {
    /// Closes retrospectives, gives credits and applies batches of rules whose wake-up messages were lost.
    /// Returns the total number of retrospectives, batches of rules and pull requests processed.
    async fn sweep(&self) -> Result<usize, StoreError> {
        Ok(self.sweep_closings().await? + self.sweep_rules().await? + self.sweep_credits().await?)
    }
}
