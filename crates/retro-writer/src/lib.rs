#![doc = include_str!("../README.md")]

mod credit;
mod metrics;
mod proposals;
mod rules;
mod vectors;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{MemoryId, RetrospectiveId, Tenant, WorkflowKey};
use retro_core::learn::{ClosingFacts, close_retrospective, delete_by_operator};
use retro_core::memory::{FoldError, Memory};
use retro_core::message::{Message, Notice};
use retro_core::policy::Policies;
use retro_core::time::Clock;
use retro_events::{Consumer, Delivery, HandlerOutcome, subject};
use retro_store::{CommitResult, Deletion, EmbeddingSource, StoreError, WriterStore};
use retro_trace::{Kind, Span, SpanParent};
use retro_watchdog::catch_panic;
use tokio::sync::Notify;
use tracing::{debug, error, info};

use metrics::ClosingMetrics;
pub use proposals::ProposalOutcome;
use vectors::SweepCursor;

/// Delay before a message is retried if the database is unavailable.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(2);
/// Seconds after which a retrospective that is still settling is assumed to have lost its wake-up message.
const OVERDUE_S: u64 = 5;
/// Maximum number of retrospectives closed per sweep. Credits and batches of rules have the same limit.
const CLOSINGS_PER_SWEEP: u32 = 100;

/// The only component that changes memories.
pub struct Writer {
    store: Arc<dyn WriterStore>,
    policies: Arc<dyn Policies>,
    vectors: Option<Arc<dyn EmbeddingSource>>,
    vector_cursor: Mutex<SweepCursor>,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
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
        Self { store, policies, vectors: None, vector_cursor: Mutex::default(), clock, outbox }
    }

    /// Sets the source of vectors for comparing texts. `None` selects the built-in embedder.
    pub fn with_vector_source(self, vectors: Option<Arc<dyn EmbeddingSource>>) -> Self {
        Self { vectors, ..self }
    }

    /// Closes retrospectives, gives credits and applies batches of rules whose wake-up messages were lost.
    /// Returns the total number of retrospectives, batches of rules and pull requests processed.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let overdue = self.store.list_overdue_closings(OVERDUE_S, CLOSINGS_PER_SWEEP).await?;
        for (tenant, id) in &overdue {
            info!(retrospective.id = %id, "retrospective {id} was settling without a wake-up");
            let opened = self.store.find_retrospective_trace(tenant, *id).await.unwrap_or_default();
            let work =
                Span::start("sweep closings", Kind::Internal, SpanParent::from_trace(opened.as_ref(), false));
            work.set_attribute("retro.retrospective.id", id.to_string());
            // A failure of one item must not stop the sweep.
            match catch_panic(work.instrument(self.close_retrospective(tenant, *id))).await {
                // An unavailable database fails for every retrospective, so the sweep ends.
                Ok(Err(away @ StoreError::Unavailable(_))) => return Err(away),
                Ok(Err(problem)) => {
                    error!(retrospective.id = %id, "retrospective {id} cannot be closed: {problem}")
                }
                Err(panicked) => {
                    error!(retrospective.id = %id, "closing retrospective {id} failed: {panicked}")
                }
                Ok(Ok(_)) => {}
            }
        }
        Ok(overdue.len() + self.sweep_rules().await? + self.sweep_credits().await?)
    }

    async fn close_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<CommitResult, StoreError> {
        let now = self.clock.now();
        // The decision runs once per pass, but only the committed pass may be measured.
        let closed = Mutex::new(None);
        let mut fetcher = self.embedding_fetcher(tenant);
        let step = loop {
            let pass = fetcher.next_pass();
            let decide = |facts: ClosingFacts| {
                let closing =
                    pass.ensure_complete(close_retrospective(facts, pass.embedder(), &*self.policies, now))?;
                *closed.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(ClosingMetrics::from_closing(&closing));
                Ok(closing)
            };
            match self.store.close_retrospective(tenant, id, now, &decide).await {
                // Nothing is stored: the missing vectors are fetched, and the decision is made again.
                Err(StoreError::MissingEmbeddings(_)) => {}
                done => break done?,
            }
            let missing = pass.missing_texts();
            fetcher.fetch_missing(missing).await?;
        };
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
        let decide =
            |key: &WorkflowKey, memory: &Memory| self.build_deletion(key, memory, request, reason, now);
        let done = self.store.delete_memory(tenant, id, &decide).await?;
        if matches!(done, Ok(CommitResult::Done)) {
            retro_meter::MEMORY_CHANGES.add(1, ["deleted"]);
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
        let kind = change.effect.kind().to_owned();
        let message = Notice::MemoryChanged { change: change.id, memory: change.memory, kind, at: change.at }
            .into_message(key);
        Ok(Deletion { change, memory, tombstone, message })
    }

    async fn handle_message(&self, message: &Message, work: &Span) -> HandlerOutcome {
        let retrospective = match &message.notice {
            Notice::MutationsDue { retrospective } => *retrospective,
            Notice::RulesDue { batch } => return self.handle_rules_due(&message.tenant, *batch).await,
            Notice::OutcomesDue { pull_request, .. } => {
                let key = WorkflowKey { tenant: message.tenant.clone(), workflow: message.workflow.clone() };
                return self.handle_outcomes_due(&key, pull_request).await;
            }
            other => {
                let detail = format!("the writer was sent {}", other.kind());
                return HandlerOutcome::DeadLetter(Rejection::of_field(
                    DeadLetterCode::FieldInvalid,
                    "notice",
                    detail,
                ));
            }
        };
        work.set_attribute("retro.retrospective.id", retrospective.to_string());
        match self.close_retrospective(&message.tenant, retrospective).await {
            Ok(CommitResult::Done) => HandlerOutcome::Done,
            Ok(CommitResult::AlreadyDone) => {
                debug!(retrospective.id = %retrospective, "retrospective {retrospective} is closed already");
                HandlerOutcome::Duplicate
            }
            Ok(CommitResult::NotFound) => HandlerOutcome::DeadLetter(Rejection::of_field(
                DeadLetterCode::UnknownReference,
                "notice.retrospective",
                format!("there is no retrospective {retrospective} in tenant {}", message.tenant),
            )),
            Err(StoreError::Unavailable(reason)) => {
                HandlerOutcome::Snooze { wait: STORE_RETRY_DELAY, reason }
            }
            Err(problem) => {
                HandlerOutcome::RetryAfter { wait: STORE_RETRY_DELAY, reason: problem.to_string() }
            }
        }
    }
}

#[async_trait]
impl Consumer for Writer {
    fn name(&self) -> &'static str {
        "writer"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for delivery in batch {
            let work = retro_trace::start_process_span(delivery, self.name(), subject::MUTATIONS_DUE);
            let verdict = match delivery.parse_message() {
                Ok(message) => work.instrument(self.handle_message(&message, &work)).await,
                Err(rejection) => HandlerOutcome::DeadLetter(rejection),
            };
            retro_trace::record_outcome(&work, &verdict);
            verdicts.push(verdict);
        }
        verdicts
    }
}
