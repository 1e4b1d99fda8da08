//! Taking finished runs. Each event is checked as the counter will check it, so that a mistake is told at once and does
//! not become a dead letter; a large body is stored apart; the answer comes when the broker has everything on disk.
//!
//! No database is touched unless the caller gave the request a key, so events are taken while it is away. What is sent again is taken again: the counter counts
//! a run once.

mod answer;
mod described;
mod http;

use std::sync::Arc;

use bytes::Bytes;
use retro_core::dead_letter::{Code, Rejection};
use retro_core::id::{Tenant, WorkflowKey};
use retro_core::json::{Bounds, Document, split_items};
use retro_core::time::Clock;
use retro_events::envelope::{EVENT_BYTES_MAX, Envelope, MESSAGE_BYTES_MAX};
use retro_events::hosts::DatarefHosts;
use retro_events::run_completed::{self, RunEvent};
use retro_events::{CheckedEvent, INTAKE_EVENTS_MAX, Intake, IntakeError, ObjectError, Objects, atif};
use retro_http::{BodyBudget, Idempotency, TenantLimiter};

pub use answer::{EventsAnswer, EventsRefused, RefusedEvent};
pub(crate) use http::routes;

/// The largest event that is published, in bytes: what the broker takes, less our few headers.
const PUBLISHED_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 1024;

/// Requests whose bodies are here and that are handled at once, most of which wait for the broker: half of the connections that a listener
/// has, so that a broker that hangs leaves the other half to agents.
const HANDLED_AT_ONCE: usize = 256;
/// Of them, a tenant's.
const HANDLED_AT_ONCE_OF_TENANT: usize = 192;

/// Takes events.
#[derive(Clone)]
pub struct IngestService {
    intake: Arc<dyn Intake>,
    objects: Arc<dyn Objects>,
    clock: Arc<dyn Clock>,
    budget: BodyBudget,
    handled: TenantLimiter,
    hosts: DatarefHosts,
    idempotency: Idempotency,
}

/// Why none of a request's events was taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTaken {
    /// The request's one event, or the batch as a whole, cannot be read.
    #[error(transparent)]
    Refused(#[from] Rejection),
    /// Every event of the batch is refused.
    #[error("every event is refused")]
    AllRefused(Vec<RefusedEvent>),
    /// The broker does not have them, or did not say.
    #[error(transparent)]
    Broker(#[from] IntakeError),
    /// A body could not be stored apart; nothing was published.
    #[error(transparent)]
    Body(#[from] ObjectError),
}

impl IngestService {
    /// A service over ports; `budget` bounds the bodies that it has in hand at once, and `idempotency` is asked only about requests whose
    /// callers gave a key.
    pub fn new(
        intake: Arc<dyn Intake>,
        objects: Arc<dyn Objects>,
        clock: Arc<dyn Clock>,
        budget: BodyBudget,
        idempotency: Idempotency,
    ) -> Self {
        let handled = TenantLimiter::new(HANDLED_AT_ONCE, HANDLED_AT_ONCE_OF_TENANT);
        Self { intake, objects, clock, budget, handled, hosts: DatarefHosts::default(), idempotency }
    }

    /// The same, taking references to bodies at these hosts; without them every address is refused.
    pub fn taking_bodies_at(self, hosts: DatarefHosts) -> Self {
        Self { hosts, ..self }
    }

    /// Takes one event, in structured or binary mode, of at most [`EVENT_BYTES_MAX`] bytes.
    pub(crate) async fn one(
        &self,
        tenant: &Tenant,
        headers: &[(String, String)],
        payload: &Bytes,
    ) -> Result<EventsAnswer, NotTaken> {
        let envelope = Envelope::of_parts(headers, payload, EVENT_BYTES_MAX)?;
        let event = self.checked(tenant, envelope).await?;
        self.intake.take(&[event]).await?;
        Ok(EventsAnswer { accepted: 1, refused: Vec::new() })
    }

    /// Takes a batch: a JSON array of at most [`INTAKE_EVENTS_MAX`] structured events. Those that cannot be taken are
    /// named by their index, the others are stored together.
    pub(crate) async fn batch(&self, tenant: &Tenant, payload: &Bytes) -> Result<EventsAnswer, NotTaken> {
        let (mut events, mut refused) = (Vec::new(), Vec::new());
        let items = split_items(payload, EVENT_BYTES_MAX, INTAKE_EVENTS_MAX)?;
        for (index, text) in items.into_iter().enumerate() {
            match self.item(tenant, &text).await {
                Ok(event) => events.push(event),
                Err(NotTaken::Refused(rejection)) => refused.push(RefusedEvent::new(index, rejection)),
                Err(other) => return Err(other),
            }
        }
        if events.is_empty() && !refused.is_empty() {
            return Err(NotTaken::AllRefused(refused));
        }
        self.intake.take(&events).await?;
        Ok(EventsAnswer { accepted: events.len(), refused })
    }

    async fn item(&self, tenant: &Tenant, text: &Bytes) -> Result<CheckedEvent, NotTaken> {
        let envelope = Envelope::from_document(&Document::parse(text, Bounds::bytes(EVENT_BYTES_MAX))?)?;
        self.checked(tenant, envelope).await
    }

    async fn checked(&self, tenant: &Tenant, envelope: Envelope) -> Result<CheckedEvent, NotTaken> {
        let event = run_completed::receive(envelope, tenant, self.clock.now(), &self.hosts)?;
        let event = self.with_body_apart(tenant, event).await?;
        let payload = event.envelope.structured().payload;
        if payload.len() > PUBLISHED_BYTES_MAX {
            let detail = format!(
                "{} bytes without the trajectory; at most {PUBLISHED_BYTES_MAX} are taken",
                payload.len()
            );
            return Err(Rejection::whole(Code::Oversized, detail).into());
        }
        Ok(CheckedEvent { key: WorkflowKey { tenant: tenant.clone(), workflow: event.workflow }, payload })
    }

    async fn with_body_apart(&self, tenant: &Tenant, event: RunEvent) -> Result<RunEvent, NotTaken> {
        let Some(body) = event.body_to_upload() else { return Ok(event) };
        if body.len() > atif::BODY_BYTES_MAX {
            let detail = format!("{} bytes; at most {} are taken", body.len(), atif::BODY_BYTES_MAX);
            return Err(Rejection::at(Code::Oversized, "data.trajectory", detail).into());
        }
        let object = self.objects.put(tenant, body).await?;
        Ok(event.with_object(&object))
    }
}
