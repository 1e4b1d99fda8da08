#![doc = include_str!("../README.md")]

mod credit;
mod measure;
mod proposals;
mod rules;
mod vectors;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{MemoryId, RetrospectiveId, Tenant, WorkflowKey};
use retro_core::learn::{ClosingFacts, close, delete_by_operator};
use retro_core::memory::{FoldError, Memory};
use retro_core::message::{Message, Notice};
use retro_core::policy::Policies;
use retro_core::time::Clock;
use retro_events::{Consumer, Delivery, Verdict, subject};
use retro_store::{Deletion, Step, StoreError, VectorSource, WriterStore};
use retro_trace::{Cause, Kind, Work};
use retro_watchdog::caught;
use tokio::sync::Notify;
use tracing::{debug, error, info};

use measure::Closed;
pub use proposals::Outcome;
use vectors::Pass;

/// How long a message waits when the database is away.
const STORE_AWAY: Duration = Duration::from_secs(2);
/// A retrospective that is settling for longer has lost its wake-up.
const OVERDUE_S: u64 = 5;
/// Retrospectives taken up in one sweep, and as many credits.
const CLOSINGS_PER_SWEEP: u32 = 100;

/// Writes memory.
pub struct Writer {
    store: Arc<dyn WriterStore>,
    policies: Arc<dyn Policies>,
    vectors: Option<Arc<dyn VectorSource>>,
    pass: Mutex<Pass>,
    clock: Arc<dyn Clock>,
    outbox: Arc<Notify>,
}

impl Writer {
    /// A writer over its ports, which compares texts by the built-in embedder; `outbox` is rung when there may be something to
    /// send.
    pub fn new(
        store: Arc<dyn WriterStore>,
        policies: Arc<dyn Policies>,
        clock: Arc<dyn Clock>,
        outbox: Arc<Notify>,
    ) -> Self {
        Self { store, policies, vectors: None, pass: Mutex::default(), clock, outbox }
    }

    /// The same, comparing texts by the vectors of a source, if there is one.
    pub fn comparing_by(self, vectors: Option<Arc<dyn VectorSource>>) -> Self {
        Self { vectors, ..self }
    }

    /// Closes and credits what a lost wake-up left. Returns how many retrospectives, batches of rules and pull requests
    /// were taken up.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let overdue = self.store.overdue_closings(OVERDUE_S, CLOSINGS_PER_SWEEP).await?;
        for (tenant, id) in &overdue {
            info!(retrospective.id = %id, "retrospective {id} was settling without a wake-up");
            let opened = self.store.trace_of_retrospective(tenant, *id).await.unwrap_or_default();
            let work = Work::begin("sweep closings", Kind::Internal, Cause::of(opened.as_ref(), false));
            work.note("retro.retrospective.id", id.to_string());
            // What is wrong with one is no reason to leave the others.
            match caught(work.around(self.close(tenant, *id))).await {
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

    async fn close(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Step, StoreError> {
        let now = self.clock.now();
        let closed = Mutex::new(None);
        let mut rounds = self.rounds(tenant);
        let step = loop {
            let hand = rounds.hand();
            let decide = |facts: ClosingFacts| {
                let closing = hand.ready(close(facts, hand.embedder(), &*self.policies, now))?;
                *closed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Closed::of(&closing));
                Ok(closing)
            };
            match self.store.close(tenant, id, now, &decide).await {
                Err(StoreError::Unready(_)) => {}
                done => break done?,
            }
            let missed = hand.missed();
            rounds.get(missed).await?;
        };
        if step == Step::Done {
            info!(%tenant, retrospective.id = %id, "closed retrospective {id}");
            self.outbox.notify_one();
            if let Some(closed) = closed.into_inner().unwrap_or_else(PoisonError::into_inner) {
                closed.measure(&*self.store, tenant, id).await;
            }
        }
        Ok(step)
    }

    /// Deletes a memory because a person asks for it, and leaves a tombstone. `request` identifies the asking: the
    /// same request deletes once. The inner error says why the memory cannot be deleted as it stands; `Unknown`
    /// that the tenant has no such memory.
    pub async fn delete(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        request: &str,
        reason: &str,
    ) -> Result<Result<Step, FoldError>, StoreError> {
        let now = self.clock.now();
        let decide = |key: &WorkflowKey, memory: &Memory| self.deletion(key, memory, request, reason, now);
        let done = self.store.delete_memory(tenant, id, &decide).await?;
        if matches!(done, Ok(Step::Done)) {
            retro_meter::CHANGES.add(1, ["deleted"]);
        }
        self.outbox.notify_one();
        Ok(done)
    }

    fn deletion(
        &self,
        key: &WorkflowKey,
        memory: &Memory,
        request: &str,
        reason: &str,
        now: Timestamp,
    ) -> Result<Deletion, FoldError> {
        let policy = self.policies.of(key);
        let (change, memory, tombstone) = delete_by_operator(key, memory, request, reason, now, &policy)?;
        let kind = change.effect.kind().to_owned();
        let message = Notice::MemoryChanged { change: change.id, memory: change.memory, kind, at: change.at }
            .about(key);
        Ok(Deletion { change, memory, tombstone, message })
    }

    async fn answer(&self, message: &Message, work: &Work) -> Verdict {
        let retrospective = match &message.notice {
            Notice::MutationsDue { retrospective } => *retrospective,
            Notice::RulesDue { batch } => return self.answer_rules(&message.tenant, *batch).await,
            Notice::OutcomesDue { pull_request, .. } => {
                let key = WorkflowKey { tenant: message.tenant.clone(), workflow: message.workflow.clone() };
                return self.answer_credit(&key, pull_request).await;
            }
            other => {
                let detail = format!("the writer was sent {}", other.kind());
                return Verdict::DeadLetter(Rejection::at(Code::FieldInvalid, "notice", detail));
            }
        };
        work.note("retro.retrospective.id", retrospective.to_string());
        match self.close(&message.tenant, retrospective).await {
            Ok(Step::Done) => Verdict::Done,
            Ok(Step::AlreadyDone) => {
                debug!(retrospective.id = %retrospective, "retrospective {retrospective} is closed already");
                Verdict::Known
            }
            Ok(Step::Unknown) => Verdict::DeadLetter(Rejection::at(
                Code::UnknownReference,
                "notice.retrospective",
                format!("there is no retrospective {retrospective} in tenant {}", message.tenant),
            )),
            Err(StoreError::Unavailable(reason)) => Verdict::Snooze { wait: STORE_AWAY, reason },
            Err(problem) => Verdict::RetryAfter { wait: STORE_AWAY, reason: problem.to_string() },
        }
    }
}

#[async_trait]
impl Consumer for Writer {
    fn name(&self) -> &'static str {
        "writer"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for delivery in batch {
            let work = retro_trace::process(delivery, self.name(), subject::MUTATIONS_DUE);
            let verdict = match delivery.message() {
                Ok(message) => work.around(self.answer(&message, &work)).await,
                Err(rejection) => Verdict::DeadLetter(rejection),
            };
            retro_trace::answered(&work, &verdict);
            verdicts.push(verdict);
        }
        verdicts
    }
}
