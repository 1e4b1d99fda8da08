#![doc = include_str!("../README.md")]

mod manual;

use std::sync::Arc;

use async_trait::async_trait;
use retro_consumer::{
    HandlerError, HandlerOutcome, ITEMS_PER_SWEEP, MessageHandler, OVERDUE_S, Sweep, process_item,
};
use retro_core::id::{Ordinal, RetrospectiveId, Tenant};
use retro_core::message::Notice;
use retro_core::retrospective::Retrospective;
use retro_core::{investigate, sample};
use retro_events::{Delivery, subject};
use retro_store::{CommitResult, DrawnSample, SamplerStore, StoreError};
use retro_telemetry::trace::{Kind, LINKS_MAX, Span, SpanParent};
use tokio::sync::Notify;
use tracing::{debug, error, info};

pub use manual::ManualRetrospectives;

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
impl MessageHandler for Sampler {
    fn name(&self) -> &'static str {
        "sampler"
    }

    fn subject(&self) -> &'static str {
        subject::RETROSPECTIVE_DUE
    }

    async fn handle_message(&self, delivery: &Delivery, span: &Span) -> Result<HandlerOutcome, HandlerError> {
        let message = delivery.parse_message()?;
        let Notice::RetrospectiveDue { retrospective } = message.notice else {
            return Err(HandlerError::unexpected_notice("sampler", &message.notice));
        };
        match self.sample_retrospective(&message.tenant, retrospective, span).await? {
            CommitResult::Done => Ok(HandlerOutcome::Done),
            CommitResult::AlreadyDone => {
                debug!(retrospective.id = %retrospective, "retrospective {retrospective} has its sample already");
                Ok(HandlerOutcome::Duplicate)
            }
            CommitResult::NotFound => Err(HandlerError::unknown_reference(
                "notice.retrospective",
                format!("there is no retrospective {retrospective} in tenant {}", message.tenant),
            )),
        }
    }
}

#[async_trait]
impl Sweep for Sampler {
    /// Samples the retrospectives whose wake-up message was lost. Returns the number of retrospectives
    /// processed.
    async fn sweep(&self) -> Result<usize, StoreError> {
        let overdue = self.store.list_overdue_samples(OVERDUE_S, ITEMS_PER_SWEEP).await?;
        for (tenant, id) in &overdue {
            info!(retrospective.id = %id, "retrospective {id} was due without a wake-up");
            let opened = self.store.find_retrospective_trace(tenant, *id).await.unwrap_or_default();
            let span =
                Span::start("sweep samples", Kind::Internal, SpanParent::from_trace(opened.as_ref(), false));
            process_item(span.instrument(self.sample_retrospective(tenant, *id, &span)), |problem| {
                error!(retrospective.id = %id, "retrospective {id} cannot be sampled: {problem}");
            })
            .await?;
        }
        Ok(overdue.len())
    }
}
