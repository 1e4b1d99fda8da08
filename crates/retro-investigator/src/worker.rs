//! The worker: claims an investigation, holds its lease, looks, and ends it.
//!
//! A stalled worker that wakes up late commits nothing: every write carries the fencing token of its claim, and
//! `Fenced` means stop. A takeover resumes from the journal, so that a kill repeats at most the one call in flight.
//! Attempts are counted by the claim itself; a run that kills the process is given up like any other failure. So is one that is
//! computed on without end: after its deadline it has failed, and the process is ended, since nothing else ends it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_core::finding::{Answer, Brief, check};
use retro_core::investigate::{Next, Retry, next, retry};
use retro_core::learn::{Mutation, Timing, batch_of};
use retro_core::message::Notice;
use retro_core::retrospective::{InvestigationResult, Presented};
use retro_events::{Consumer, Delivery, Verdict};
use retro_store::trace::InvestigationTraces;
use retro_store::{Claim, Finish, InvestigatorStore, JournalEntry, Sequence, Stage, StoreError};
use retro_trace::{Cause, Kind, Work};
use retro_watchdog::{Watch, Watchdog, caught};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::apart::apart;
use crate::brief::{Bodies, NoBody, brief, fetch};
use crate::engine::Engine;

/// Bounds of a worker's waiting; the defaults suit production, tests shorten them.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Name of this worker, for people.
    pub worker: String,
    /// How long a claim holds without a heartbeat, seconds.
    pub lease_s: u64,
    /// Hard deadline of one attempt, seconds.
    pub deadline_s: u64,
    /// How often to look for work that no message announced.
    pub sweep: Duration,
    /// How long an investigation in hand may go on after the stop; then its claim is released.
    pub finish_within: Duration,
    /// Ends the process over an attempt that goes on after its deadline.
    pub watchdog: Watchdog,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            worker: "investigator".to_owned(),
            lease_s: 60,
            deadline_s: 600,
            sweep: Duration::from_secs(2),
            finish_within: Duration::from_secs(10),
            watchdog: Watchdog::default(),
        }
    }
}

/// Looks into one sampled run after another.
pub struct Worker {
    store: Arc<dyn InvestigatorStore>,
    bodies: Bodies,
    engine: Arc<dyn Engine>,
    outbox: Arc<Notify>,
    wake: Notify,
    settings: Settings,
}

/// How an attempt ended.
enum Attempt {
    /// With a result that stands for good.
    Ended(InvestigationResult),
    /// It may be tried again; the result stands if it may not.
    Failed(InvestigationResult),
    /// Not at all: the process stops.
    Stopped,
}

impl Worker {
    /// A worker over its ports; `outbox` is rung when there may be something to send.
    pub fn new(
        store: Arc<dyn InvestigatorStore>,
        bodies: Bodies,
        engine: Arc<dyn Engine>,
        outbox: Arc<Notify>,
        settings: Settings,
    ) -> Self {
        Self { store, bodies, engine, outbox, wake: Notify::new(), settings }
    }

    /// Works until stopped: on a wake-up, and every so often without one. The investigation in hand when the stop
    /// comes may take [`Settings::finish_within`]; then its claim is released, and any other worker has it at once.
    pub async fn run(&self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            if self.work_once(&stop).await {
                continue;
            }
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.wake.notified() => {}
                () = tokio::time::sleep(self.settings.sweep) => {}
            }
        }
    }

    /// Claims and carries out one investigation, or as much of it as the stop leaves time for. Returns whether there
    /// was one.
    async fn work_once(&self, stop: &CancellationToken) -> bool {
        let claim = match self.store.claim(&self.settings.worker, self.settings.lease_s).await {
            Ok(Some(claim)) => claim,
            Ok(None) => return false,
            Err(problem) => {
                warn!("could not claim an investigation: {problem}");
                return false;
            }
        };
        if claim.taken_over {
            retro_meter::TAKEOVERS.add(1, []);
        }
        let span = self.begin(&claim).await;
        let began = Instant::now();
        let worked = span.around(self.work(&claim, stop, &span)).await;
        retro_meter::INVESTIGATION_DURATION.record(began.elapsed().as_secs_f64(), []);
        if let Err(problem) = worked {
            if matches!(problem, StoreError::Fenced { .. }) {
                retro_meter::FENCED.add(1, []);
            }
            let (id, number) = (claim.retrospective.id, claim.number);
            span.failed(if matches!(problem, StoreError::Fenced { .. }) { "fenced" } else { "not_stored" });
            warn!(retrospective.id = %id, number, "stopped investigation {number} of {id}: {problem}");
        }
        true
    }

    /// The span of one attempt. What made the investigation due continues in the first one; a later one is linked to it.
    async fn begin(&self, claim: &Claim) -> Work {
        let Claim { retrospective, number, attempt, .. } = claim;
        let asked =
            self.store.traces_of_investigation(&retrospective.key.tenant, retrospective.id, *number).await;
        let traces = asked.unwrap_or_else(|problem| {
            debug!("investigation {number} of {} begins a trace of its own: {problem}", retrospective.id);
            InvestigationTraces::default()
        });
        let work =
            Work::begin("investigate run", Kind::Internal, Cause::of(traces.due.as_ref(), *attempt > 1));
        traces.run.iter().for_each(|run| work.link(run, "run"));
        work.note("retro.retrospective.id", retrospective.id.to_string());
        work.note("retro.investigation.number", i64::from(*number));
        work.note("retro.investigation.attempt", i64::from(*attempt));
        work.note("cicd.pipeline.name", retrospective.key.workflow.as_str().to_owned());
        work.note("cicd.pipeline.run.id", claim.run.run_id.as_str().to_owned());
        work
    }

    async fn work(&self, claim: &Claim, stop: &CancellationToken, span: &Work) -> Result<(), StoreError> {
        let attempt = self.attempt_under_lease(claim, stop).await?;
        let attempts_max = claim.retrospective.policy.investigation_attempts_max;
        let result = match attempt {
            Attempt::Stopped => return self.release(claim).await,
            Attempt::Ended(result) => result,
            Attempt::Failed(result) => match retry(claim.attempt, attempts_max) {
                Retry::GiveUp => result,
                Retry::After(pause_s) => {
                    span.failed(result.as_str());
                    let reason = result.problem().unwrap_or("no reason given").to_owned();
                    self.store.retry_later(claim, pause_s, &reason).await?;
                    retro_meter::INVESTIGATION_RETRIES.add(1, []);
                    return Ok(());
                }
            },
        };
        self.store.finish(claim, &result, Timing::default(), &finish).await?;
        span.note("retro.investigation.result", result.as_str());
        let (id, run, number) = (claim.retrospective.id, &claim.run.run_id, claim.number);
        info!(retrospective.id = %id, number, run.id = %run, "investigated run {run}: {}", result.as_str());
        measure(&result);
        self.outbox.notify_one();
        Ok(())
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        self.store.release(claim).await?;
        let (id, number) = (claim.retrospective.id, claim.number);
        info!(retrospective.id = %id, number, "released investigation {number} of {id}: this process stops");
        Ok(())
    }

    /// One attempt, within its deadline, with the lease held beside it.
    async fn attempt_under_lease(
        &self,
        claim: &Claim,
        stop: &CancellationToken,
    ) -> Result<Attempt, StoreError> {
        if claim.attempt > claim.retrospective.policy.investigation_attempts_max {
            let reason = format!("the worker was lost in each of its {} attempts", claim.attempt - 1);
            return Ok(Attempt::Ended(InvestigationResult::Failed { reason }));
        }
        let deadline = Duration::from_secs(self.settings.deadline_s);
        let what = format!("investigation {} of {}", claim.number, claim.retrospective.id);
        let attempt = caught(self.attempt(claim, self.settings.watchdog.watch(what, deadline)));
        let failed = |reason: String| Ok(Attempt::Failed(InvestigationResult::Failed { reason }));
        tokio::select! {
            attempt = tokio::time::timeout(deadline, attempt) => match attempt {
                Ok(Ok(attempt)) => attempt,
                Ok(Err(panicked)) => failed(panicked.to_string()),
                Err(_) => failed(format!("no answer within {} s", self.settings.deadline_s)),
            },
            lost = self.hold(claim) => Err(lost),
            () = self.patience(stop) => Ok(Attempt::Stopped),
        }
    }

    /// Returns when the process stops and the time to finish is over.
    async fn patience(&self, stop: &CancellationToken) {
        stop.cancelled().await;
        tokio::time::sleep(self.settings.finish_within).await;
    }

    /// Renews the lease three times as often as needed; returns only when it is lost.
    async fn hold(&self, claim: &Claim) -> StoreError {
        let pause = Duration::from_millis(self.settings.lease_s * 1000 / 3);
        loop {
            tokio::time::sleep(pause).await;
            match self.store.heartbeat(claim, self.settings.lease_s).await {
                Ok(()) => {}
                Err(fenced @ StoreError::Fenced { .. }) => return fenced,
                Err(problem) => warn!("could not renew a lease: {problem}"),
            }
        }
    }

    async fn attempt(&self, claim: &Claim, watch: Watch) -> Result<Attempt, StoreError> {
        let fetched = match fetch(claim, &self.bodies).await {
            Ok(fetched) => fetched,
            Err(NoBody::Gone(reason)) => return Ok(Attempt::Ended(InvestigationResult::BodyGone { reason })),
            Err(NoBody::Unavailable(reason)) => {
                return Ok(Attempt::Failed(InvestigationResult::Failed { reason }));
            }
        };
        let of = claim.clone();
        let (brief, watch) = apart(move || (brief(&of, fetched), watch)).await;
        let brief = match brief {
            Ok(brief) => Arc::new(brief),
            Err(reason) => return Ok(Attempt::Ended(InvestigationResult::BodyGone { reason })),
        };
        self.journal(claim, Stage::Briefed, &seen(&brief)).await?;
        let answer = match journalled_answer(claim) {
            Some(answer) => answer,
            None => self.engine.investigate(Arc::clone(&brief), watch).await,
        };
        match answer {
            Answer::Looked(looked) => {
                self.journal(claim, Stage::Answered, &Answer::Looked(looked.clone())).await?;
                let checked = apart(move || check(&brief, looked)).await;
                let presented = claim.presented.clone();
                Ok(Attempt::Ended(if checked.findings.is_empty() {
                    InvestigationResult::Nothing { checked, presented }
                } else {
                    InvestigationResult::Found { checked, presented }
                }))
            }
            Answer::Invalid { reason } => Ok(Attempt::Failed(InvestigationResult::Invalid { reason })),
            Answer::Failed { reason } => Ok(Attempt::Failed(InvestigationResult::Failed { reason })),
        }
    }

    async fn journal(
        &self,
        claim: &Claim,
        stage: Stage,
        left: &impl serde::Serialize,
    ) -> Result<(), StoreError> {
        let body = serde_json::to_value(left).expect("a journal entry is plain data");
        self.store.journal(claim, &JournalEntry { stage, body }).await
    }
}

fn measure(result: &InvestigationResult) {
    retro_meter::INVESTIGATED.add(1, [result.as_str()]);
    // Rules are read in the block itself: their titles are the whole of them.
    let own = |one: &&Presented| one.repo.is_none();
    if let Some((_, presented)) = result.looked()
        && presented.iter().any(|one| own(&one))
    {
        let read = presented.iter().filter(own).any(|one| one.read);
        retro_meter::READ_SIGNAL.add(1, [if read { "read" } else { "none" }]);
    }
}

/// What the journal keeps of a brief: which memories the engine saw, without the trajectory.
fn seen(brief: &Brief) -> serde_json::Value {
    serde_json::json!({
        "run": brief.run.run_id,
        "turns": brief.trajectory.turns.len(),
        "memories": brief.memories.iter().map(|memory| memory.id).collect::<Vec<_>>(),
        "earlier": brief.earlier.len(),
    })
}

/// The answer of an attempt that was lost after it. One that cannot be read is asked for again, and that is said.
fn journalled_answer(claim: &Claim) -> Option<Answer> {
    let entry = claim.journal.iter().find(|entry| entry.stage == Stage::Answered)?;
    let unreadable = |problem: &serde_json::Error| {
        let (id, number) = (claim.retrospective.id, claim.number);
        warn!(retrospective.id = %id, number, "the journalled answer of investigation {number} of {id} is unreadable: {problem}");
    };
    serde_json::from_value(entry.body.clone()).inspect_err(unreadable).ok()
}

/// What follows the end of an investigation: the next one, or the batch of mutations.
fn finish(sequence: &Sequence) -> Finish {
    let retrospective = &sequence.retrospective;
    let results: Vec<_> = sequence.ended.iter().filter_map(|one| one.result.clone()).collect();
    let next = next(&sequence.sample, &results);
    let (batch, notice) = match next {
        Next::Investigate { number, .. } => {
            (Vec::new(), Notice::InvestigationDue { retrospective: retrospective.id, investigation: number })
        }
        Next::Settle => (settle(sequence), Notice::MutationsDue { retrospective: retrospective.id }),
    };
    Finish { next, batch, message: notice.about(&retrospective.key) }
}

/// What the findings and verdicts ask of memory.
fn settle(sequence: &Sequence) -> Vec<Mutation> {
    let work = Work::begin("settle", Kind::Internal, Cause::Current);
    let batch = batch_of(&sequence.retrospective, &sequence.ended);
    work.note("retro.investigations", i64::try_from(sequence.ended.len()).unwrap_or(i64::MAX));
    work.note("retro.mutations", i64::try_from(batch.len()).unwrap_or(i64::MAX));
    batch
}

/// Messages only wake the worker: what may be worked on is decided by the database.
#[async_trait]
impl Consumer for Worker {
    fn name(&self) -> &'static str {
        "investigator"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<Verdict> {
        self.wake.notify_one();
        vec![Verdict::Done; batch.len()]
    }
}
