//! Accepts finished runs over HTTP. Events are validated by the same code as in the counter, so a mistake is
//! reported immediately instead of becoming a dead letter. Large trajectories go to the object store. The
//! response is sent once the broker has stored everything on disk.
//!
//! The database is used only for requests with an idempotency key and for spans, so events are accepted even while it is
//! unavailable. Sending an event again is harmless, because the counter counts a run once.

mod answer;
mod collection;
mod http;
mod importer;
mod routes;
mod schemas;
mod span_redaction;
mod trace_reader;
mod trace_settings;
mod traces;
mod transcripts;

use std::sync::Arc;

use bytes::Bytes;
use retro_consumer::run_in_place;
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{Tenant, WorkflowKey};
use retro_core::json::{JsonBounds, JsonDocument, split_array};
use retro_core::time::Clock;
use retro_events::envelope::{EVENT_BYTES_MAX, Envelope, MESSAGE_BYTES_MAX};
use retro_events::hosts::DatarefHosts;
use retro_events::run_completed::{self, RunEvent};
use retro_events::{
    INTAKE_EVENTS_MAX, IntakeError, IntakePublisher, ObjectError, ObjectStorage, ValidatedEvent, atif,
};
use retro_http::{BodyBudget, Idempotency, TenantLimiter};
use retro_store::StoreError;
use tokio::sync::Semaphore;

pub use answer::{EventsAnswer, EventsRefused, RefusedEvent};
pub use importer::{ImportFacts, ReceivedSpan, ReceivedTrace, ReceivedTraces, RunImporter};
pub use trace_settings::TraceSettings;

pub(crate) use routes::ingest_routes;

use trace_settings::TraceCollection;

/// Maximum size of a published event, in bytes: the broker's limit minus room for headers.
const PUBLISHED_BYTES_MAX: usize = MESSAGE_BYTES_MAX - 1024;
/// Size of the events of a batch, in bytes, that are parsed together. The way off the runtime's thread and back costs
/// as much as parsing a small event, and what was parsed takes several times the memory of its text.
const PARSED_BYTES: usize = 64 * 1024;

/// Maximum number of concurrent requests whose bodies have been read; most of them wait for the broker. This
/// is half of the listener's connections, so the other half stays available to agents if the broker hangs.
const REQUESTS_MAX: usize = 256;
/// Maximum number of concurrent requests per tenant, counted in the same way.
const TENANT_REQUESTS_MAX: usize = 192;

/// Maximum number of files and requests with traces that are read at once. One may take 100 MiB while it is read.
const IMPORTS_MAX: usize = 2;

/// Validates and publishes the runs that come over HTTP.
#[derive(Clone)]
pub struct IngestService {
    intake: Arc<dyn IntakePublisher>,
    objects: Arc<dyn ObjectStorage>,
    clock: Arc<dyn Clock>,
    budget: BodyBudget,
    in_flight: TenantLimiter,
    hosts: DatarefHosts,
    idempotency: Idempotency,
    importer: Arc<dyn RunImporter>,
    imports: Arc<Semaphore>,
    traces: Arc<TraceCollection>,
}

/// Reason why no event of a request was accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IngestError {
    /// The single event, or the batch as a whole, is invalid.
    #[error(transparent)]
    Refused(#[from] Rejection),
    /// Every event of the batch is invalid.
    #[error("every event is refused")]
    AllRefused(Vec<RefusedEvent>),
    /// The broker did not store the events, or did not confirm that it did.
    #[error(transparent)]
    Broker(#[from] IntakeError),
    /// A trajectory could not be stored in the object store, so nothing was published.
    #[error(transparent)]
    Body(#[from] ObjectError),
    /// Spans could not be stored in the database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tenant has no space for more spans.
    #[error("too many traces wait for more spans")]
    TracesFull,
}

impl IngestService {
    /// Creates a service over its ports. `budget` limits the total size of buffered bodies; `idempotency` is
    /// used only for requests with a key.
    pub fn new(
        intake: Arc<dyn IntakePublisher>,
        objects: Arc<dyn ObjectStorage>,
        clock: Arc<dyn Clock>,
        budget: BodyBudget,
        idempotency: Idempotency,
        importer: Arc<dyn RunImporter>,
        traces: TraceSettings,
    ) -> Self {
        let handled = TenantLimiter::new(REQUESTS_MAX, TENANT_REQUESTS_MAX);
        Self {
            intake,
            objects,
            clock,
            budget,
            in_flight: handled,
            hosts: DatarefHosts::default(),
            idempotency,
            importer,
            imports: Arc::new(Semaphore::new(IMPORTS_MAX)),
            traces: Arc::new(TraceCollection::new(traces)),
        }
    }

    /// Returns the service with these hosts allowed in `dataref`. By default, no host is allowed.
    pub fn with_dataref_hosts(self, hosts: DatarefHosts) -> Self {
        Self { hosts, ..self }
    }

    /// Accepts a single event in structured or binary mode, of at most [`EVENT_BYTES_MAX`] bytes.
    pub(crate) async fn ingest_event(
        &self,
        tenant: &Tenant,
        headers: &[(String, String)],
        payload: &Bytes,
    ) -> Result<EventsAnswer, IngestError> {
        let parsed = run_in_place(|| {
            let envelope = Envelope::from_parts(headers, payload, EVENT_BYTES_MAX)?;
            self.validate_envelope(tenant, envelope)
        });
        let event = self.prepare_event(tenant, parsed?, None).await?;
        self.intake.publish_events(&[event]).await?;
        Ok(EventsAnswer { accepted: 1, refused: Vec::new() })
    }

    /// Accepts a batch: a JSON array of at most [`INTAKE_EVENTS_MAX`] structured events. Invalid events are
    /// reported by index; the others are published together.
    pub(crate) async fn ingest_batch(
        &self,
        tenant: &Tenant,
        payload: &Bytes,
    ) -> Result<EventsAnswer, IngestError> {
        let (mut events, mut refused) = (Vec::new(), Vec::new());
        let items = run_in_place(|| split_array(payload, EVENT_BYTES_MAX, INTAKE_EVENTS_MAX))?;
        let mut index = 0;
        for group in group_by_size(&items) {
            let parse = |text: &Bytes| self.parse_batch_item(tenant, text);
            let parsed: Vec<_> = run_in_place(|| group.iter().map(parse).collect());
            for (event, text) in parsed.into_iter().zip(group) {
                let prepared = match event {
                    Ok(event) => self.prepare_event(tenant, event, Some(text)).await,
                    Err(rejection) => Err(rejection.into()),
                };
                match prepared {
                    Ok(event) => events.push(event),
                    Err(IngestError::Refused(rejection)) => refused.push(RefusedEvent::new(index, rejection)),
                    // If the object store fails, nothing has been published yet, so the client can resend the
                    // whole batch.
                    Err(other) => return Err(other),
                }
                index += 1;
            }
        }
        if events.is_empty() && !refused.is_empty() {
            return Err(IngestError::AllRefused(refused));
        }
        self.intake.publish_events(&events).await?;
        Ok(EventsAnswer { accepted: events.len(), refused })
    }

    /// Reads runs in another format, a few bodies at a time and off the runtime's thread.
    async fn import<T>(&self, read: impl FnOnce(&dyn RunImporter) -> T) -> T {
        let _permit = self.imports.acquire().await.expect("the semaphore is never closed");
        run_in_place(|| read(&*self.importer))
    }

    /// Validates and publishes runs in another format, each with its location, all together. Invalid ones are reported by
    /// index.
    async fn ingest_runs(
        &self,
        tenant: &Tenant,
        runs: Vec<(String, RunEvent)>,
    ) -> Result<EventsAnswer, IngestError> {
        if runs.len() > INTAKE_EVENTS_MAX {
            let detail = format!("{} runs; at most {INTAKE_EVENTS_MAX} are accepted", runs.len());
            return Err(Rejection::of_message(DeadLetterCode::Oversized, detail).into());
        }
        let (mut events, mut refused) = (Vec::new(), Vec::new());
        for (index, (location, run)) in runs.into_iter().enumerate() {
            let prepared = match run_in_place(|| self.validate_envelope(tenant, run.envelope)) {
                Ok(event) => self.prepare_event(tenant, event, None).await,
                Err(rejection) => Err(rejection.into()),
            };
            match prepared {
                Ok(event) => events.push(event),
                Err(IngestError::Refused(rejection)) => {
                    refused.push(RefusedEvent::of_run(index, &location, rejection));
                }
                Err(other) => return Err(other),
            }
        }
        if events.is_empty() && !refused.is_empty() {
            return Err(IngestError::AllRefused(refused));
        }
        if !events.is_empty() {
            self.intake.publish_events(&events).await?;
        }
        Ok(EventsAnswer { accepted: events.len(), refused })
    }

    fn parse_batch_item(&self, tenant: &Tenant, text: &Bytes) -> Result<RunEvent, Rejection> {
        let document = JsonDocument::parse(text, JsonBounds::with_bytes_max(EVENT_BYTES_MAX))?;
        self.validate_envelope(tenant, Envelope::from_document(&document)?)
    }

    fn validate_envelope(&self, tenant: &Tenant, envelope: Envelope) -> Result<RunEvent, Rejection> {
        run_completed::validate_envelope(envelope, tenant, self.clock.now(), &self.hosts)
    }

    /// Uploads a large trajectory and returns the event to publish. `text` is the event as it came, if it came in
    /// structured mode: it is published as it is, unless it is changed or too long.
    async fn prepare_event(
        &self,
        tenant: &Tenant,
        event: RunEvent,
        text: Option<&Bytes>,
    ) -> Result<ValidatedEvent, IngestError> {
        let (event, text) = match event.body_to_upload() {
            // Boxed, because few events need this, and every request would carry its state.
            Some(body) => (Box::pin(self.upload_body(tenant, event, body)).await?, None),
            None => (event, text.filter(|text| text.len() <= PUBLISHED_BYTES_MAX)),
        };
        // The size of the published event is known only after its trajectory has been moved to the object
        // store.
        let payload = text.map_or_else(|| event.envelope.to_structured().payload, Bytes::clone);
        if payload.len() > PUBLISHED_BYTES_MAX {
            let detail = format!(
                "{} bytes without the trajectory; at most {PUBLISHED_BYTES_MAX} are accepted",
                payload.len()
            );
            return Err(Rejection::of_message(DeadLetterCode::Oversized, detail).into());
        }
        Ok(ValidatedEvent { key: WorkflowKey { tenant: tenant.clone(), workflow: event.workflow }, payload })
    }

    async fn upload_body(
        &self,
        tenant: &Tenant,
        event: RunEvent,
        body: Bytes,
    ) -> Result<RunEvent, IngestError> {
        if body.len() > atif::BODY_BYTES_MAX {
            let detail = format!("{} bytes; at most {} are accepted", body.len(), atif::BODY_BYTES_MAX);
            return Err(Rejection::of_field(DeadLetterCode::Oversized, "data.trajectory", detail).into());
        }
        let object = self.objects.put(tenant, body).await?;
        Ok(event.with_object(&object))
    }
}

/// Splits the events of a batch into groups of at most [`PARSED_BYTES`] of text, or of one longer event.
fn group_by_size(mut items: &[Bytes]) -> impl Iterator<Item = &[Bytes]> {
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fitting = items.iter().take_while(|item| {
            bytes += item.len();
            bytes <= PARSED_BYTES
        });
        let (group, rest) = items.split_at(fitting.count().max(1).min(items.len()));
        items = rest;
        (!group.is_empty()).then_some(group)
    })
}
