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
use retro_events::{Consumer, Delivery, Verdict};
use retro_store::{SamplerStore, Sampling, Step, StoreError};
use tokio::sync::Notify;
use tracing::{debug, info};

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
            self.sample(tenant, *id).await?;
        }
        Ok(overdue.len())
    }

    async fn sample(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Step, StoreError> {
        let step = self.store.sample(tenant, id, &draw).await?;
        if step == Step::Done {
            info!(%tenant, retrospective.id = %id, "sampled retrospective {id}");
            self.outbox.notify_one();
        }
        Ok(step)
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
            verdicts.push(match delivery.message() {
                Ok(message) => self.answer(&message).await,
                Err(rejection) => Verdict::DeadLetter(rejection),
            });
        }
        verdicts
    }
}

impl Sampler {
    async fn answer(&self, message: &Message) -> Verdict {
        let Notice::RetrospectiveDue { retrospective } = message.notice else {
            let detail = format!("the sampler was sent {}", message.notice.kind());
            return Verdict::DeadLetter(Rejection::at(Code::FieldInvalid, "notice", detail));
        };
        match self.sample(&message.tenant, retrospective).await {
            Ok(Step::Done) => Verdict::Done,
            Ok(Step::AlreadyDone) => {
                debug!(retrospective.id = %retrospective, "retrospective {retrospective} has its sample already");
                Verdict::Done
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
