//! Fakes the broker and the database of intake in memory.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use retro_adapters::{ImportOptions, TraceEncoding};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::id::{Tenant, Workflow};
use retro_core::run::ObjectRef;
use retro_core::time::{Clock, FixedClock};
use retro_core::trace_collection::TraceWaits;
use retro_events::run_completed::RunEvent;
use retro_events::subject::body_name;
use retro_events::{IntakeError, IntakePublisher, ObjectError, ObjectStorage, ValidatedEvent};
use retro_http::{BodyBudget, BudgetBounds, Idempotency};
use retro_store::{
    AddSpansResult, ArrivingTrace, BeginRequestResult, ClaimedTrace, CollectedTraceStore, CollectionRules,
    IdempotencyStore, IdempotencyTimeouts, ReadTrace, RequestKey, Result, StoreError, StoredResponse,
    StoredSpan, TraceClaim, TraceEnd,
};

use crate::intake::{
    ImportFacts, IngestService, ReceivedSpan, ReceivedTrace, ReceivedTraces, RunImporter, TraceSettings,
};

/// A broker that stores events and bodies in memory.
#[derive(Default)]
pub(crate) struct FakeBroker {
    pub(crate) trouble: Option<IntakeError>,
    pub(crate) events: Mutex<Vec<ValidatedEvent>>,
    pub(crate) bodies: Mutex<Vec<(Tenant, Bytes)>>,
}

/// Budget for two events of maximum size, one of them per tenant.
pub(crate) const BOUNDS: BudgetBounds =
    BudgetBounds { bytes_max: 40 * 1024 * 1024, owner_bytes_max: 20 * 1024 * 1024 };

/// Waits of the traces of a test: they are decided about at once.
pub(crate) const IMPATIENT: TraceWaits = TraceWaits { quiet_ms: 0, root_ms: 0 };
/// Waits of the traces of a test that nothing ends.
pub(crate) const PATIENT: TraceWaits = TraceWaits { quiet_ms: 3_600_000, root_ms: 3_600_000 };

/// Returns an ingest service over this broker, with the clock fixed at 20 November 2026, and its budget. Its database is
/// down.
pub(crate) fn build_ingest(broker: &Arc<FakeBroker>) -> (IngestService, BodyBudget) {
    let now = FixedClock("2026-11-20T10:00:00Z".parse().unwrap());
    build_ingest_with_clock(broker, Arc::new(now))
}

/// Returns an ingest service over this broker and clock, and its budget. Its database is down.
pub(crate) fn build_ingest_with_clock(
    broker: &Arc<FakeBroker>,
    clock: Arc<dyn Clock>,
) -> (IngestService, BodyBudget) {
    let traces = TraceSettings {
        store: Arc::new(DownTraceStore),
        waits: PATIENT,
        tenant_bytes_max: BOUNDS.owner_bytes_max,
        lease_s: 60,
    };
    build_ingest_with_traces(broker, clock, traces)
}

/// Returns an ingest service over this broker and clock that collects traces in this way, and its budget.
pub(crate) fn build_ingest_with_traces(
    broker: &Arc<FakeBroker>,
    clock: Arc<dyn Clock>,
    traces: TraceSettings,
) -> (IngestService, BodyBudget) {
    let budget = BodyBudget::new(BOUNDS);
    let idempotency = Idempotency::new(Arc::new(DownRequestStore));
    let (intake, objects, importer) = (broker.clone(), broker.clone(), Arc::new(AdapterImporter));
    let service = IngestService::new(intake, objects, clock, budget.clone(), idempotency, importer, traces);
    (service, budget)
}

/// The importer of the program, over the real adapters.
struct AdapterImporter;

impl RunImporter for AdapterImporter {
    fn import_transcript(
        &self,
        file: &Bytes,
        bytes_max: usize,
        facts: &ImportFacts,
    ) -> std::result::Result<Vec<(String, RunEvent)>, Rejection> {
        let ImportFacts { workflow, outcome, task } = facts.clone();
        let runs = retro_adapters::import_upload(
            file,
            bytes_max,
            &ImportOptions { workflow, outcome, task, agents_md: None },
        )?;
        Ok(runs.into_iter().map(|run| (run.location, run.event)).collect())
    }

    fn import_traces(
        &self,
        request: &Bytes,
        is_protobuf: bool,
        bytes_max: usize,
    ) -> std::result::Result<ReceivedTraces, Rejection> {
        let encoding = if is_protobuf { TraceEncoding::Protobuf } else { TraceEncoding::Json };
        let imported =
            retro_adapters::import_traces(request, encoding, bytes_max, &ImportOptions::default())?;
        let span = |span: retro_adapters::ImportedSpan| ReceivedSpan {
            outline: span.outline,
            document: span.document,
        };
        let trace = |trace: retro_adapters::ImportedTrace| ReceivedTrace {
            trace_id: trace.trace_id,
            spans: trace.spans.into_iter().map(span).collect(),
            received: trace.received,
            is_complete: trace.is_complete,
            run: trace.run.map(|run| run.event),
            workflow: None,
        };
        let traces = imported.traces.into_iter().map(trace).collect();
        Ok(ReceivedTraces { traces, invalid_spans: imported.invalid_spans })
    }

    fn assemble_trace(
        &self,
        documents: &[Vec<u8>],
        workflow: Option<&Workflow>,
    ) -> std::result::Result<Option<RunEvent>, Rejection> {
        let options = ImportOptions { workflow: workflow.cloned(), ..ImportOptions::default() };
        Ok(retro_adapters::assemble_trace(documents, &options)?.map(|run| run.event))
    }

    fn join_spans(&self, documents: &[Vec<u8>]) -> std::result::Result<Vec<u8>, Rejection> {
        retro_adapters::join_span_documents(documents)
            .map_err(|error| Rejection::of_message(DeadLetterCode::NotJson, error.to_string()))
    }
}

/// A store whose database is down. Requests without an idempotency key would fail if they used it.
struct DownRequestStore;

#[async_trait]
impl IdempotencyStore for DownRequestStore {
    async fn begin_request(
        &self,
        _name: &RequestKey,
        _fingerprint: &str,
        _times: IdempotencyTimeouts,
    ) -> Result<BeginRequestResult> {
        Err(StoreError::Unavailable("away".to_owned()))
    }

    async fn end_request(
        &self,
        _name: &RequestKey,
        _token: u64,
        _answer: Option<&StoredResponse>,
    ) -> Result<()> {
        Err(StoreError::Unavailable("away".to_owned()))
    }

    async fn purge_requests(&self, _older_than_s: u64, _limit: u32) -> Result<u64> {
        Err(StoreError::Unavailable("away".to_owned()))
    }
}

/// A store of traces whose database is down.
struct DownTraceStore;

fn database_is_down<T>() -> Result<T> {
    Err(StoreError::Unavailable("away".to_owned()))
}

#[async_trait]
impl CollectedTraceStore for DownTraceStore {
    async fn list_collected_traces(&self, _tenant: &Tenant, _trace_ids: &[String]) -> Result<Vec<String>> {
        database_is_down()
    }

    async fn add_spans(
        &self,
        _tenant: &Tenant,
        _traces: &[ArrivingTrace],
        _rules: &CollectionRules,
    ) -> Result<AddSpansResult> {
        database_is_down()
    }

    async fn claim_traces(&self, _limit: u32, _lease_s: u64) -> Result<Vec<ClaimedTrace>> {
        database_is_down()
    }

    async fn load_trace_spans(&self, _claim: &TraceClaim) -> Result<Vec<StoredSpan>> {
        database_is_down()
    }

    async fn mark_traces_read(&self, _tenant: &Tenant, _traces: &[ReadTrace], _quiet_ms: u64) -> Result<()> {
        database_is_down()
    }

    async fn end_trace_claim(&self, _claim: &TraceClaim, _end: TraceEnd<'_>) -> Result<bool> {
        database_is_down()
    }

    async fn purge_closed_traces(&self, _older_than_s: u64, _limit: u32) -> Result<u64> {
        database_is_down()
    }
}

#[async_trait]
impl IntakePublisher for FakeBroker {
    async fn publish_events(&self, events: &[ValidatedEvent]) -> std::result::Result<(), IntakeError> {
        self.trouble.clone().map_or(Ok(()), Err)?;
        self.events.lock().unwrap().extend_from_slice(events);
        Ok(())
    }
}

#[async_trait]
impl ObjectStorage for FakeBroker {
    async fn put(&self, tenant: &Tenant, bytes: Bytes) -> std::result::Result<ObjectRef, ObjectError> {
        if let Some(IntakeError::Full(reason)) = &self.trouble {
            return Err(ObjectError::Unavailable(reason.clone()));
        }
        let sha256 = retro_core::canonical::sha256_hex(&bytes);
        let object = ObjectRef { name: body_name(tenant, &sha256), sha256, bytes: bytes.len() as u64 };
        self.bodies.lock().unwrap().push((tenant.clone(), bytes));
        Ok(object)
    }

    async fn get(&self, object: &ObjectRef) -> std::result::Result<Bytes, ObjectError> {
        Err(ObjectError::Unavailable(object.name.clone()))
    }
}
