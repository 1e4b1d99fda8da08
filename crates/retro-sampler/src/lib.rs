#![doc = include_str!("../README.md")]

mod manual;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{Ordinal, RetrospectiveId, Tenant};
use retro_core::message::{Message, Notice};
use retro_core::retrospective::Retrospective;
use retro_core::{investigate, sample};
use retro_events::{Consumer, Delivery, Verdict, subject};
use retro_store::{SamplerStore, Sampling, Step, StoreError};
use retro_trace::{Cause, Kind, LINKS_MAX, Work};
use retro_watchdog::caught;
use tokio::sync::Notify;
use tracing::{debug, error, info};

pub use manual::Manual;

/// How long a message waits when the database is away.
const STORE_AWAY: Duration = Duration::from_secs(2);
/// A retrospective that is due for longer has lost its wake-up.
const OVERDUE_S: u64 = 5;
/// Retrospectives taken up in one sweep.
const SAMPLES_PER_SWEEP: u32 = 100;

/// Draws samples.
pub struct Sampler {
    store: Arc<dyn SamplerStore>,
    outbox: Arc<Notify>,
}

impl Sampler {
    /// A sampler over its port; `outbox` is rung when there may be something to send.
    pub fn new(store: Arc<dyn SamplerStore>, outbox: Arc<Notify>) -> Self {
        Self { store, outbox }
    }

    /// Samples what a lost wake-up left. Returns how many retrospectives were taken up.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let overdue = self.store.overdue_samples(OVERDUE_S, SAMPLES_PER_SWEEP).await?;
        for (tenant, id) in &overdue {
            info!(retrospective.id = %id, "retrospective {id} was due without a wake-up");
            let opened = self.store.trace_of_retrospective(tenant, *id).await.unwrap_or_default();
            let work = Work::begin("sweep samples", Kind::Internal, Cause::of(opened.as_ref(), false));
            // What is wrong with one is no reason to leave the others.
            match caught(work.around(self.sample(tenant, *id, &work))).await {
                Ok(Err(away @ StoreError::Unavailable(_))) => return Err(away),
                Ok(Err(problem)) => {
                    error!(retrospective.id = %id, "retrospective {id} cannot be sampled: {problem}")
                }
                Err(panicked) => {
                    error!(retrospective.id = %id, "sampling retrospective {id} failed: {panicked}")
                }
                Ok(Ok(_)) => {}
            }
        }
        Ok(overdue.len())
    }

    async fn sample(&self, tenant: &Tenant, id: RetrospectiveId, work: &Work) -> Result<Step, StoreError> {
        let step = self.store.sample(tenant, id, &draw).await?;
        work.note("retro.retrospective.id", id.to_string());
        if step == Step::Done {
            info!(%tenant, retrospective.id = %id, "sampled retrospective {id}");
            self.outbox.notify_one();
            if work.is_recording() {
                self.link_window(tenant, id, work).await;
            }
        }
        Ok(step)
    }

    /// Links to what caused the other runs of the window.
    async fn link_window(&self, tenant: &Tenant, id: RetrospectiveId, work: &Work) {
        match self.store.traces_of_window(tenant, id, LINKS_MAX as u32).await {
            Ok(traces) => traces.iter().for_each(|trace| work.link(trace, "window")),
            Err(problem) => debug!("the sampling of {id} is not linked to its runs: {problem}"),
        }
    }
}

fn draw(retrospective: &Retrospective, window: Vec<Ordinal>) -> Sampling {
    let sample = sample::draw(retrospective.id, window, &retrospective.policy);
    let first = investigate::next(&sample, &[]);
    Sampling { sample, first }
}

#[async_trait]
impl Consumer for Sampler {
    fn name(&self) -> &'static str {
        "sampler"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<Verdict> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for delivery in batch {
            let work = retro_trace::process(delivery, self.name(), subject::RETROSPECTIVE_DUE);
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

impl Sampler {
    async fn answer(&self, message: &Message, work: &Work) -> Verdict {
        let Notice::RetrospectiveDue { retrospective } = message.notice else {
            let detail = format!("the sampler was sent {}", message.notice.kind());
            return Verdict::DeadLetter(Rejection::at(Code::FieldInvalid, "notice", detail));
        };
        match self.sample(&message.tenant, retrospective, work).await {
            Ok(Step::Done) => Verdict::Done,
            Ok(Step::AlreadyDone) => {
                debug!(retrospective.id = %retrospective, "retrospective {retrospective} has its sample already");
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
