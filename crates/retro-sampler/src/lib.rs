#![doc = include_str!("../README.md")]

mod manual;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{Ordinal, RetrospectiveId, Tenant};
use retro_core::message::{Message, Notice};
use retro_core::retrospective::Retrospective;
use retro_core::{investigate, sample};
use retro_events::{Consumer, Delivery, HandlerOutcome, subject};
use retro_store::{CommitResult, DrawnSample, SamplerStore, StoreError};
use retro_trace::{Kind, LINKS_MAX, Span, SpanParent};
use retro_watchdog::catch_panic;
use tokio::sync::Notify;
use tracing::{debug, error, info};

pub use manual::ManualRetrospectives;

/// Delay before a message is redelivered if the database is unavailable.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(2);
/// Seconds after which a retrospective that is still due is assumed to have lost its wake-up message.
const OVERDUE_S: u64 = 5;
/// Maximum number of retrospectives that one sweep samples.
const SAMPLES_PER_SWEEP: u32 = 100;

/// Consumer that draws the samples of due retrospectives.
pub struct Sampler {
    store: Arc<dyn SamplerStore>,
    outbox: Arc<Notify>,
}

impl Sampler {
    /// Creates a sampler over its port. `outbox` is notified when there may be messages to send.
    pub fn new(store: Arc<dyn SamplerStore>, outbox: Arc<Notify>) -> Self {
        Self { store, outbox }
    }

    /// Samples the retrospectives whose wake-up message was lost. Returns the number of retrospectives
    /// processed.
    pub async fn sweep(&self) -> Result<usize, StoreError> {
        let overdue = self.store.list_overdue_samples(OVERDUE_S, SAMPLES_PER_SWEEP).await?;
        for (tenant, id) in &overdue {
            info!(retrospective.id = %id, "retrospective {id} was due without a wake-up");
            let opened = self.store.find_retrospective_trace(tenant, *id).await.unwrap_or_default();
            let work =
                Span::start("sweep samples", Kind::Internal, SpanParent::from_trace(opened.as_ref(), false));
            // A failure of one item must not stop the sweep.
            match catch_panic(work.instrument(self.sample_retrospective(tenant, *id, &work))).await {
                // An unavailable database fails for every retrospective, so the sweep ends.
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

    async fn sample_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        work: &Span,
    ) -> Result<CommitResult, StoreError> {
        let step = self.store.draw_sample(tenant, id, &draw_sample).await?;
        work.set_attribute("retro.retrospective.id", id.to_string());
        if step == CommitResult::Done {
            info!(%tenant, retrospective.id = %id, "sampled retrospective {id}");
            self.outbox.notify_one();
            // The traces are loaded only if the links are recorded.
            if work.is_recording() {
                self.link_window(tenant, id, work).await;
            }
        }
        Ok(step)
    }

    /// Links the span to the traces of the runs in the window.
    async fn link_window(&self, tenant: &Tenant, id: RetrospectiveId, work: &Span) {
        match self.store.list_window_traces(tenant, id, LINKS_MAX as u32).await {
            Ok(traces) => traces.iter().for_each(|trace| work.add_link(trace, "window")),
            Err(problem) => debug!("the sampling of {id} is not linked to its runs: {problem}"),
        }
    }
}

fn draw_sample(retrospective: &Retrospective, window: Vec<Ordinal>) -> DrawnSample {
    let sample = sample::draw_sample(retrospective.id, window, &retrospective.policy);
    let first = investigate::decide_next_stage(&sample, &[]);
    DrawnSample { sample, first }
}

#[async_trait]
impl Consumer for Sampler {
    fn name(&self) -> &'static str {
        "sampler"
    }

    async fn handle(&self, batch: &[Delivery]) -> Vec<HandlerOutcome> {
        let mut verdicts = Vec::with_capacity(batch.len());
        for delivery in batch {
            let work = retro_trace::start_process_span(delivery, self.name(), subject::RETROSPECTIVE_DUE);
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

impl Sampler {
    async fn handle_message(&self, message: &Message, work: &Span) -> HandlerOutcome {
        let Notice::RetrospectiveDue { retrospective } = message.notice else {
            let detail = format!("the sampler was sent {}", message.notice.kind());
            return HandlerOutcome::DeadLetter(Rejection::of_field(
                DeadLetterCode::FieldInvalid,
                "notice",
                detail,
            ));
        };
        match self.sample_retrospective(&message.tenant, retrospective, work).await {
            Ok(CommitResult::Done) => HandlerOutcome::Done,
            Ok(CommitResult::AlreadyDone) => {
                debug!(retrospective.id = %retrospective, "retrospective {retrospective} has its sample already");
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
