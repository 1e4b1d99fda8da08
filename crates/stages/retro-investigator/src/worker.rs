//! Claims investigations, runs each one under a lease and stores its result.
//!
//! A stalled worker that wakes up late commits nothing: every write carries the fencing token of its claim,
//! and `Fenced` means stop. A worker that takes over resumes from the journal, so a kill repeats at most the
//! one engine call that was in flight. The claim counts the attempts, so a run that kills the process is
//! given up like any other failed run. An attempt that still computes after its deadline has also failed, and
//! the watchdog ends the process, because nothing else can stop the thread.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_consumer::{Consumer, HandlerOutcome, PassLoop, Watch, Watchdog, catch_panic, run_blocking};
use retro_core::calls::{CallCounts, count_calls};
use retro_core::finding::InvestigatorAnswer;
use retro_core::investigate::{NextStage, RetryDecision, decide_next_stage, decide_retry};
use retro_core::learn::{Mutation, build_batch};
use retro_core::message::Notice;
use retro_core::report::InvestigationTiming;
use retro_core::retrospective::{Investigation, InvestigationResult};
use retro_events::Delivery;
use retro_store::trace::InvestigationTraces;
use retro_store::{
    Claim, FollowUp, InvestigationSequence, InvestigatorStore, JournalEntry, JournalStage, StoreError,
};
use retro_telemetry::trace::{Kind, Span, SpanParent};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::brief::{BodyError, BodySources, build_brief, fetch_body};
use crate::engine::{Engine, InvestigationTask};
use crate::journal::ClaimJournal;
use crate::play::conclude;
use crate::summarizer::Summarizer;

/// Settings of a worker. The defaults are meant for production; tests use shorter times.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Name of this worker, as shown to operators.
    pub worker: String,
    /// Lease of a claim, in seconds. The claim expires if it is not renewed for this long.
    pub lease_s: u64,
    /// Deadline of one attempt, in seconds.
    pub investigation_timeout_s: u64,
    /// Interval at which the worker polls for investigations that no message announced.
    pub sweep_interval: Duration,
    /// Time that a running investigation may still take after shutdown is requested. Its claim is then
    /// released.
    pub shutdown_grace: Duration,
    /// Ends the process if an attempt keeps running after its deadline.
    pub watchdog: Watchdog,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self {
            worker: "investigator".to_owned(),
            lease_s: 60,
            investigation_timeout_s: 600,
            sweep_interval: Duration::from_secs(2),
            shutdown_grace: Duration::from_secs(10),
            watchdog: Watchdog::default(),
        }
    }
}

/// Investigates sampled runs, one at a time.
pub struct Worker {
    store: Arc<dyn InvestigatorStore>,
    bodies: BodySources,
    engine: Arc<dyn Engine>,
    outbox: Arc<Notify>,
    wake: Notify,
    settings: WorkerSettings,
}

/// Outcome of one attempt.
enum AttemptOutcome {
    /// The investigation has a final result.
    Final(InvestigationResult),
    /// The attempt failed and may be retried. This result becomes final if no attempt is left.
    Retryable(InvestigationResult),
    /// The attempt has no result, because the process is shutting down.
    Stopped,
}

impl Worker {
    /// Creates a worker. It notifies `outbox` after each commit that may have added a message.
    pub fn new(
        store: Arc<dyn InvestigatorStore>,
        bodies: BodySources,
        engine: Arc<dyn Engine>,
        outbox: Arc<Notify>,
        settings: WorkerSettings,
    ) -> Self {
        Self { store, bodies, engine, outbox, wake: Notify::new(), settings }
    }

    /// Runs until `stop` is cancelled. Claims work on each wake-up, and at the latest every
    /// [`WorkerSettings::sweep_interval`]. After `stop`, a running investigation may take
    /// [`WorkerSettings::shutdown_grace`] longer; its claim is then released, so another worker can claim it
    /// immediately.
    pub async fn run(&self, stop: CancellationToken) {
        let what = "the investigator's claim".to_owned();
        let claims = PassLoop::new(what, self.settings.sweep_interval, stop.clone()).woken_by(&self.wake);
        // Boxed, because the future of an investigation is large and the loop passes it on by value.
        claims.run(|| Box::pin(self.process_next_claim(&stop))).await;
    }

    /// Claims and processes one investigation; on shutdown, releases it unfinished. Returns the number of
    /// investigations that there were to claim: 0 or 1. Fails if nothing could be claimed.
    async fn process_next_claim(&self, stop: &CancellationToken) -> Result<usize, StoreError> {
        let WorkerSettings { worker, lease_s, .. } = &self.settings;
        let Some(claim) = self.store.claim_investigation(worker, *lease_s).await? else { return Ok(0) };
        if claim.taken_over {
            retro_telemetry::metrics::TAKEOVERS.add(1, []);
        }
        let span = self.begin_span(&claim).await;
        let began = Instant::now();
        // Boxed: an answer with all that belongs to it is large, and the span passes the future on by value.
        let worked = span.instrument(Box::pin(self.process_claim(&claim, stop, &span))).await;
        retro_telemetry::metrics::INVESTIGATION_DURATION.record(began.elapsed().as_secs_f64(), []);
        if let Err(problem) = worked {
            if matches!(problem, StoreError::Fenced { .. }) {
                retro_telemetry::metrics::CLAIMS_FENCED.add(1, []);
            }
            let (id, number) = (claim.retrospective.id, claim.number);
            span.set_error(if matches!(problem, StoreError::Fenced { .. }) {
                "fenced"
            } else {
                "not_stored"
            });
            warn!(retrospective.id = %id, number, "stopped investigation {number} of {id}: {problem}");
        }
        Ok(1)
    }

    /// Begins the span of one attempt. The first attempt continues the trace that made the investigation due;
    /// later attempts are linked to it.
    async fn begin_span(&self, claim: &Claim) -> Span {
        let Claim { retrospective, number, attempt, .. } = claim;
        let loaded =
            self.store.load_investigation_traces(&retrospective.key.tenant, retrospective.id, *number).await;
        let traces = loaded.unwrap_or_else(|problem| {
            debug!("investigation {number} of {} starts a new trace: {problem}", retrospective.id);
            InvestigationTraces::default()
        });
        let work = Span::start(
            "investigate run",
            Kind::Internal,
            SpanParent::from_trace(traces.due.as_ref(), *attempt > 1),
        );
        traces.run.iter().for_each(|run| work.add_link(run, "run"));
        work.set_attribute("retro.retrospective.id", retrospective.id.to_string());
        work.set_attribute("retro.investigation.number", i64::from(*number));
        work.set_attribute("retro.investigation.attempt", i64::from(*attempt));
        work.set_attribute("cicd.pipeline.name", retrospective.key.workflow.as_str().to_owned());
        work.set_attribute("cicd.pipeline.run.id", claim.run.run_id.as_str().to_owned());
        work
    }

    async fn process_claim(
        &self,
        claim: &Claim,
        stop: &CancellationToken,
        span: &Span,
    ) -> Result<(), StoreError> {
        let attempt = self.attempt_under_lease(claim, stop).await?;
        let attempts_max = claim.retrospective.policy.investigation_attempts_max;
        let result = match attempt {
            AttemptOutcome::Stopped => return self.release_claim(claim).await,
            AttemptOutcome::Final(result) => result,
            AttemptOutcome::Retryable(result) => match decide_retry(claim.attempt, attempts_max) {
                RetryDecision::GiveUp => result,
                RetryDecision::After(pause_s) => {
                    span.set_error(result.as_str());
                    let reason = result.problem().unwrap_or("no reason given").to_owned();
                    self.store.schedule_retry(claim, pause_s, &reason).await?;
                    retro_telemetry::metrics::INVESTIGATION_RETRIES.add(1, []);
                    return Ok(());
                }
            },
        };
        self.store
            .finish_investigation(claim, &result, InvestigationTiming::default(), &decide_finish)
            .await?;
        span.set_attribute("retro.investigation.result", result.as_str());
        let (id, run, number) = (claim.retrospective.id, &claim.run.run_id, claim.number);
        info!(retrospective.id = %id, number, run.id = %run, "investigated run {run}: {}", result.as_str());
        record_metrics(&result);
        // Only after the commit: a relay that wakes earlier finds no message.
        self.outbox.notify_one();
        Ok(())
    }

    async fn release_claim(&self, claim: &Claim) -> Result<(), StoreError> {
        self.store.release_claim(claim).await?;
        let (id, number) = (claim.retrospective.id, claim.number);
        info!(retrospective.id = %id, number, "released investigation {number} of {id}: the process is shutting down");
        Ok(())
    }

    /// Summarises the calls of the window, and then runs one attempt within its deadline, while renewing the
    /// lease. Fails if the lease is lost.
    async fn attempt_under_lease(
        &self,
        claim: &Claim,
        stop: &CancellationToken,
    ) -> Result<AttemptOutcome, StoreError> {
        // A killed worker cannot report its failure, so the number of claims limits the attempts.
        if claim.attempt > claim.retrospective.policy.investigation_attempts_max {
            let reason = format!("the worker was lost in each of its {} attempts", claim.attempt - 1);
            return Ok(AttemptOutcome::Final(InvestigationResult::Failed { reason }));
        }
        let deadline = Duration::from_secs(self.settings.investigation_timeout_s);
        let what = format!("investigation {} of {}", claim.number, claim.retrospective.id);
        let summarizer = Summarizer {
            store: &*self.store,
            bodies: &self.bodies,
            deadline,
            watchdog: &self.settings.watchdog,
        };
        // Summaries have a deadline of their own for each run, because a window may have thousands of runs.
        let attempt = async {
            summarizer.summarize_window(claim).await?;
            let attempt = catch_panic(self.run_attempt(claim, self.settings.watchdog.watch(what, deadline)));
            Ok(tokio::time::timeout(deadline, attempt).await)
        };
        let failed = |reason: String| Ok(AttemptOutcome::Retryable(InvestigationResult::Failed { reason }));
        // The first branch to finish drops the others. Blocking work of a dropped attempt may run on, but its
        // result is never stored.
        tokio::select! {
            attempt = attempt => match attempt? {
                Ok(Ok(attempt)) => attempt,
                Ok(Err(panicked)) => failed(panicked.to_string()),
                Err(_) => failed(format!("no answer within {} s", self.settings.investigation_timeout_s)),
            },
            lost = self.hold_lease(claim) => Err(lost),
            () = self.wait_for_shutdown_grace(stop) => Ok(AttemptOutcome::Stopped),
        }
    }

    /// Waits until shutdown is requested and the grace period has passed.
    async fn wait_for_shutdown_grace(&self, stop: &CancellationToken) {
        stop.cancelled().await;
        tokio::time::sleep(self.settings.shutdown_grace).await;
    }

    /// Renews the lease every third of its duration. Returns only if the lease is lost.
    async fn hold_lease(&self, claim: &Claim) -> StoreError {
        let pause = Duration::from_millis(self.settings.lease_s * 1000 / 3);
        loop {
            tokio::time::sleep(pause).await;
            match self.store.extend_lease(claim, self.settings.lease_s).await {
                Ok(()) => {}
                Err(fenced @ StoreError::Fenced { .. }) => return fenced,
                // Not fatal: the lease may still be valid, and if it is not, the fencing token protects every
                // write.
                Err(problem) => warn!("could not renew a lease: {problem}"),
            }
        }
    }

    async fn run_attempt(&self, claim: &Claim, watch: Watch) -> Result<AttemptOutcome, StoreError> {
        let fetched = match fetch_body(&claim.retrospective.key.tenant, &claim.body, &self.bodies).await {
            Ok(fetched) => fetched,
            Err(BodyError::Gone(reason)) => {
                return Ok(AttemptOutcome::Final(InvestigationResult::BodyGone { reason }));
            }
            Err(BodyError::Unavailable(reason)) => {
                return Ok(AttemptOutcome::Retryable(InvestigationResult::Failed { reason }));
            }
        };
        let claimed = claim.clone();
        // The watch moves into the closure, so a parse that outlives this future is still watched.
        let (brief, watch) = run_blocking(move || (build_brief(&claimed, fetched), watch)).await;
        let brief = match brief {
            Ok(brief) => Arc::new(brief),
            Err(reason) => return Ok(AttemptOutcome::Final(InvestigationResult::BodyGone { reason })),
        };
        let answer = match journalled_answer(claim) {
            Some(answer) => answer,
            None => {
                let (store, bodies) = (self.store.clone(), self.bodies.clone());
                let journal = ClaimJournal { store, bodies, claim: claim.clone() };
                let (brief, last_error) = (brief.clone(), claim.last_error.clone());
                let policy = claim.retrospective.policy.clone();
                let journal = Arc::new(journal);
                let task = InvestigationTask { brief, journal, last_error, policy, watch };
                self.engine.investigate(task).await?
            }
        };
        match answer {
            InvestigatorAnswer::Answered(looked) => {
                // Stored before the check, so a takeover need not call the engine again.
                self.write_journal_entry(
                    claim,
                    JournalStage::Answered,
                    &InvestigatorAnswer::Answered(looked.clone()),
                )
                .await?;
                let (engine, presented) = (self.engine.name(), claim.presented.clone());
                let result = run_blocking(move || conclude(&brief, looked, engine, presented)).await;
                Ok(AttemptOutcome::Final(result))
            }
            InvestigatorAnswer::Invalid { reason } => {
                Ok(AttemptOutcome::Retryable(InvestigationResult::Invalid { reason }))
            }
            InvestigatorAnswer::Failed { reason } => {
                Ok(AttemptOutcome::Retryable(InvestigationResult::Failed { reason }))
            }
        }
    }

    async fn write_journal_entry(
        &self,
        claim: &Claim,
        stage: JournalStage,
        entry: &impl serde::Serialize,
    ) -> Result<(), StoreError> {
        let body = serde_json::to_value(entry).expect("a journal entry serialises to JSON");
        self.store.append_journal(claim, &JournalEntry { stage, body }).await
    }
}

fn record_metrics(result: &InvestigationResult) {
    retro_telemetry::metrics::INVESTIGATIONS_ENDED.add(1, [result.as_str()]);
}

/// Returns the answer that a lost attempt stored in the journal, so the engine is not called twice. Logs an
/// unreadable answer and returns `None`.
fn journalled_answer(claim: &Claim) -> Option<InvestigatorAnswer> {
    let entry = claim.journal.iter().find(|entry| entry.stage == JournalStage::Answered)?;
    let unreadable = |problem: &serde_json::Error| {
        let (id, number) = (claim.retrospective.id, claim.number);
        warn!(retrospective.id = %id, number, "the journalled answer of investigation {number} of {id} is unreadable: {problem}");
    };
    serde_json::from_value(entry.body.clone()).inspect_err(unreadable).ok()
}

/// Decides the follow-up of an investigation: the next investigation, or settling with its batch of
/// mutations.
fn decide_finish(sequence: &InvestigationSequence) -> FollowUp {
    let retrospective = &sequence.retrospective;
    let results: Vec<_> = sequence.ended.iter().filter_map(|one| one.result.clone()).collect();
    let next = decide_next_stage(&sequence.sample, &results);
    let mut calls = None;
    let (batch, notice) = match next {
        NextStage::Investigate { number, .. } => {
            (Vec::new(), Notice::InvestigationDue { retrospective: retrospective.id, investigation: number })
        }
        NextStage::Settle => {
            calls = count_window(sequence);
            (build_mutations(sequence), Notice::MutationsDue { retrospective: retrospective.id })
        }
    };
    FollowUp { next, batch, calls, message: notice.into_message(&retrospective.key) }
}

/// Counts the calls of the window; `None` for a manual retrospective, whose runs are chosen.
fn count_window(sequence: &InvestigationSequence) -> Option<CallCounts> {
    let answered =
        |one: &&Investigation| one.result.as_ref().is_some_and(|result| result.checked_answer().is_some());
    let investigated = sequence.ended.iter().filter(answered).map(|one| one.run.clone()).collect();
    let automatic = sequence.retrospective.manual_request.is_none();
    automatic.then(|| count_calls(&sequence.window, &investigated))
}

/// Builds the batch of mutations that the findings and verdicts request.
fn build_mutations(sequence: &InvestigationSequence) -> Vec<Mutation> {
    let work = Span::start("settle", Kind::Internal, SpanParent::Current);
    let batch = build_batch(&sequence.retrospective, &sequence.ended, &sequence.window);
    work.set_attribute("retro.investigations", i64::try_from(sequence.ended.len()).unwrap_or(i64::MAX));
    work.set_attribute("retro.mutations", i64::try_from(batch.len()).unwrap_or(i64::MAX));
    batch
}

/// Messages only wake the worker; the claim in the database decides what it works on.
#[async_trait]
impl Consumer for Worker {
    fn name(&self) -> &'static str {
        "investigator"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        // `notify_one` stores a permit, so a message that arrives while the worker is busy is not lost.
        self.wake.notify_one();
        vec![HandlerOutcome::Done; batch.len()]
    }
}
