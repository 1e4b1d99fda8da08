//! Fakes the store and the broker in memory, for the tests of this crate.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use retro_adapters::{ImportOptions, TraceEncoding};
use retro_core::attribution::Attribution;
use retro_core::audience::{Audience, RunRepository};
use retro_core::dead_letter::{DeadLetterCode, Rejection};
use retro_core::feedback::{Feedback, FeedbackAcceptance, FeedbackFacts, GivenFeedback};
use retro_core::finding::{EvidenceOrigin, LessonCue, Quote};
use retro_core::id::{
    MemoryId, MemoryRef, Repository, RunId, Step, Tenant, Workflow, WorkflowKey, derive_uuid,
};
use retro_core::kill_switch::{KillSwitch, KillSwitchScope};
use retro_core::memory::{Evidence, Lesson, Memory, MemoryScope, MemoryStatus};
use retro_core::recall::RecallCandidate;
use retro_core::run::ObjectRef;
use retro_core::time::{Clock, FixedClock};
use retro_core::trajectory::QuotePlace;
use retro_core::trace_collection::TraceWaits;
use retro_core::weight::Weight;
use retro_events::run_completed::RunEvent;
use retro_events::subject::body_name;
use retro_events::{IntakeError, IntakePublisher, ObjectError, ObjectStorage, ValidatedEvent};
use retro_http::{BodyBudget, BudgetBounds, Idempotency};
use retro_store::context_lease::CONTEXT_CHANGES_MAX;
use retro_store::feedback::DecideFeedback;
use retro_store::{
    AddSpansResult, ArrivingTrace, ClaimedTrace, CollectedTraceStore, CollectionRules, ReadTrace, StoredSpan,
    TraceClaim, TraceEnd,
    BeginRequestResult, ChangeMark, ContextChanges, ContextLease, ContextLeaseStore, FeedbackRow,
    FeedbackStore, IdempotencyStore, IdempotencyTimeouts, KillSwitchStore, MemoryRefStore, Presentation,
    RecallStore, RequestKey, Result, StoreError, StoredResponse,
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
    let service =
        IngestService::new(intake, objects, clock, budget.clone(), idempotency, importer, traces);
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
        let runs =
            retro_adapters::import_upload(file, bytes_max, &ImportOptions { workflow, outcome, task })?;
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

/// Failure that the fake store simulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trouble {
    #[default]
    None,
    Down,
    Hangs,
    OnlyRecordingHangs,
}

#[derive(Default)]
pub(crate) struct FakeStore {
    pub(crate) trouble: Trouble,
    pub(crate) memories: Vec<(Tenant, Memory)>,
    /// Recorded rows: `tenant/workflow`, run id, `presented`, `withheld` or `read`, and memory id.
    pub(crate) records: Mutex<Vec<(String, String, &'static str, MemoryId)>>,
    /// Number of transactions that fail because the database is not available, before one succeeds.
    pub(crate) recording_fails: Mutex<u32>,
    /// Run of which the database refuses to record anything.
    pub(crate) refused_run: Option<&'static str>,
    /// Changed workflows, in the order of their changes.
    pub(crate) changes: Mutex<Vec<WorkflowKey>>,
    /// Number of renewals of each lease.
    pub(crate) leases: Mutex<BTreeMap<String, u64>>,
    /// Number of times that candidates were loaded.
    pub(crate) loads: Mutex<u32>,
    /// Memories that a person has withdrawn.
    pub(crate) withdrawn: Mutex<BTreeSet<MemoryId>>,
    /// Stored feedback with its tenant.
    pub(crate) feedback: Mutex<Vec<(Tenant, Feedback)>>,
    /// Kill switches that are engaged.
    pub(crate) kill_switches: Mutex<Vec<KillSwitchScope>>,
    /// `true` from the moment on when the database is down.
    pub(crate) went_down: AtomicBool,
}

impl FakeStore {
    pub(crate) fn with_memories(memories: Vec<Memory>) -> Self {
        let owned = memories.into_iter().map(|memory| (Tenant::default_tenant(), memory)).collect();
        Self { memories: owned, ..Self::default() }
    }

    /// Withdraws a memory of the workflow `shop`.
    pub(crate) fn withdraw(&self, memory: MemoryId) {
        self.withdrawn.lock().unwrap().insert(memory);
        let workflow = Workflow::new("shop").unwrap();
        self.changes.lock().unwrap().push(WorkflowKey { tenant: Tenant::default_tenant(), workflow });
    }

    async fn check_available(&self) -> Result<()> {
        if self.went_down.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable("gone".to_owned()));
        }
        match self.trouble {
            Trouble::Down => Err(StoreError::Unavailable("disk full".to_owned())),
            Trouble::Hangs => std::future::pending().await,
            Trouble::None | Trouble::OnlyRecordingHangs => Ok(()),
        }
    }

    async fn add_records(
        &self,
        key: &WorkflowKey,
        run: &RunId,
        what: &'static str,
        ids: &[MemoryId],
    ) -> Result<()> {
        if self.trouble == Trouble::OnlyRecordingHangs {
            return std::future::pending().await;
        }
        let rows = ids.iter().map(|id| (key.to_string(), run.to_string(), what, *id));
        self.records.lock().unwrap().extend(rows);
        Ok(())
    }
}

#[async_trait]
impl RecallStore for FakeStore {
    async fn load_candidates(
        &self,
        key: &WorkflowKey,
        step: &Step,
        repository: Option<&RunRepository>,
        weight_min: u16,
    ) -> Result<Vec<RecallCandidate>> {
        self.check_available().await?;
        *self.loads.lock().unwrap() += 1;
        let mut presented: HashMap<MemoryId, u64> = HashMap::new();
        for (_, _, what, id) in self.records.lock().unwrap().iter() {
            *presented.entry(*id).or_default() += u64::from(*what == "presented");
        }
        let scopes = MemoryScope::all_of_run(&key.workflow, step, repository);
        let withdrawn = self.withdrawn.lock().unwrap().clone();
        let fits = |(tenant, memory): &&(Tenant, Memory)| {
            *tenant == key.tenant
                && scopes.contains(&memory.scope)
                && !withdrawn.contains(&memory.id)
                && memory.status == MemoryStatus::Active
                && memory.weight.get() >= weight_min
        };
        let found = self.memories.iter().filter(fits).map(|(_, memory)| RecallCandidate {
            memory: memory.clone(),
            presentations: presented.get(&memory.id).copied().unwrap_or_default(),
        });
        Ok(found.collect())
    }

    async fn load_rule_candidates(
        &self,
        tenant: &Tenant,
        repo: &Repository,
        weight_min: u16,
    ) -> Result<Vec<RecallCandidate>> {
        self.check_available().await?;
        let rule_scope = repo.rule_scope(tenant).workflow;
        let fits = |(owner, memory): &&(Tenant, Memory)| {
            owner == tenant
                && memory.scope.owning_workflow().as_ref() == Some(&rule_scope)
                && memory.status == MemoryStatus::Active
                && memory.weight.get() >= weight_min
        };
        let found = self.memories.iter().filter(fits);
        Ok(found.map(|(_, memory)| RecallCandidate { memory: memory.clone(), presentations: 0 }).collect())
    }

    async fn record_presentations(&self, presentations: &[Presentation]) -> Result<()> {
        {
            let mut fails = self.recording_fails.lock().unwrap();
            if *fails > 0 {
                *fails -= 1;
                return Err(StoreError::Unavailable("busy".to_owned()));
            }
        }
        if presentations.iter().any(|one| self.refused_run == Some(one.run.as_str())) {
            return Err(StoreError::Damaged { place: "presentations".to_owned(), problem: "bad".to_owned() });
        }
        for Presentation { key, run, memories, assignments } in presentations {
            self.add_records(key, run, "presented", memories).await?;
            let withheld = assignments.iter().filter(|assignment| assignment.withheld).map(|one| one.memory);
            self.add_records(key, run, "withheld", &withheld.collect::<Vec<_>>()).await?;
        }
        Ok(())
    }

    async fn record_read(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<()> {
        self.add_records(key, run, "read", &[memory]).await
    }

    async fn was_presented(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<bool> {
        self.check_available().await?;
        let row = (key.to_string(), run.to_string(), "presented", memory);
        Ok(self.records.lock().unwrap().contains(&row))
    }

    async fn was_handed(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<bool> {
        self.check_available().await?;
        let records = self.records.lock().unwrap();
        let of_run = |(of_key, of_run, what, id): &(String, String, &str, MemoryId)| {
            *of_key == key.to_string() && *of_run == run.to_string() && *what != "withheld" && *id == memory
        };
        Ok(records.iter().any(of_run))
    }

    async fn find_memory(&self, tenant: &Tenant, id: MemoryId) -> Result<Option<Memory>> {
        self.check_available().await?;
        let found = self.memories.iter().find(|(owner, memory)| owner == tenant && memory.id == id);
        Ok(found.map(|(_, memory)| memory.clone()))
    }
}

#[async_trait]
impl KillSwitchStore for FakeStore {
    async fn engage_kill_switch(&self, scope: &KillSwitchScope, _act: &Attribution) -> Result<bool> {
        self.kill_switches.lock().unwrap().push(scope.clone());
        Ok(true)
    }

    async fn disengage_kill_switch(&self, scope: &KillSwitchScope, _act: &Attribution) -> Result<bool> {
        self.kill_switches.lock().unwrap().retain(|engaged| engaged != scope);
        Ok(true)
    }

    async fn load_engaged_kill_switches(&self) -> Result<Vec<KillSwitchScope>> {
        self.check_available().await?;
        Ok(self.kill_switches.lock().unwrap().clone())
    }

    async fn list_kill_switches(&self, _tenant: &Tenant, _limit: u32) -> Result<Vec<KillSwitch>> {
        unreachable!("no gateway lists what was engaged earlier")
    }
}

#[async_trait]
impl ContextLeaseStore for FakeStore {
    async fn load_change_mark(&self) -> Result<ChangeMark> {
        self.check_available().await?;
        Ok(ChangeMark(self.changes.lock().unwrap().len() as i64))
    }

    async fn list_context_changes(&self, after: ChangeMark) -> Result<ContextChanges> {
        self.check_available().await?;
        let changes = self.changes.lock().unwrap();
        let numbered = (1..).zip(changes.iter()).filter(|(number, _)| *number > after.0);
        let changed: Vec<_> = numbered.map(|(number, key)| (key.clone(), number)).collect();
        let changed = (changed.len() <= CONTEXT_CHANGES_MAX as usize).then_some(changed);
        Ok(ContextChanges { changed, mark: ChangeMark(changes.len() as i64) })
    }

    async fn renew_context_lease(&self, gateway: &str) -> Result<()> {
        self.check_available().await?;
        *self.leases.lock().unwrap().entry(gateway.to_owned()).or_default() += 1;
        Ok(())
    }

    async fn list_context_leases(&self) -> Result<Vec<ContextLease>> {
        self.check_available().await?;
        let leases = self.leases.lock().unwrap();
        let lease = |(gateway, renewals): (&String, &u64)| ContextLease {
            gateway: gateway.clone(),
            renewals: *renewals,
        };
        Ok(leases.iter().map(lease).collect())
    }
}

#[async_trait]
impl FeedbackStore for FakeStore {
    async fn record_feedback(
        &self,
        tenant: &Tenant,
        given: &GivenFeedback,
        decide: DecideFeedback<'_>,
    ) -> Result<Option<FeedbackAcceptance>> {
        if self.trouble == Trouble::OnlyRecordingHangs {
            return std::future::pending().await;
        }
        self.check_available().await?;
        if self.find_memory(tenant, given.memory).await?.is_none() {
            return Ok(None);
        }
        let mut all = self.feedback.lock().unwrap();
        let same = |(owner, one): &(Tenant, Feedback)| {
            owner == tenant && one.memory == given.memory && one.voice() == given.voice()
        };
        let waits_already = all.iter().any(same);
        let accepted = decide(&FeedbackFacts { waits_already, ..FeedbackFacts::default() });
        if let FeedbackAcceptance::New(feedback) = &accepted {
            all.push((tenant.clone(), feedback.clone()));
        }
        Ok(Some(accepted))
    }

    async fn list_memory_feedback(&self, _: &Tenant, _: MemoryId, _: u32) -> Result<Vec<FeedbackRow>> {
        Ok(Vec::new())
    }

    async fn list_scope_feedback(&self, _: &WorkflowKey) -> Result<Vec<FeedbackRow>> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl MemoryRefStore for FakeStore {
    async fn find_memory_ids(&self, tenant: &Tenant, name: MemoryRef) -> Result<Vec<MemoryId>> {
        self.check_available().await?;
        let of_tenant = self.memories.iter().filter(|(owner, _)| owner == tenant);
        let ids = of_tenant.map(|(_, memory)| memory.id).filter(|id| name.matches_id(*id));
        Ok(ids.take(retro_store::CANDIDATES_MAX + 1).collect())
    }
}

/// Returns a memory with this name whose id differs from `other` only in the ninth digit.
pub(crate) fn memory_alike(name: &str, other: MemoryId) -> Memory {
    let mut id = other.to_string();
    let ninth = if id.as_bytes()[9] == b'0' { "1" } else { "0" };
    id.replace_range(9..10, ninth);
    Memory { id: id.parse().unwrap(), ..active_memory(name, 300) }
}

/// Returns an active memory of the workflow `shop` and the step `main`.
pub(crate) fn active_memory(name: &str, weight: u16) -> Memory {
    let run = RunId::new("run-1").unwrap();
    let quote = Quote { place: QuotePlace::Message { turn: 0 }, text: "ERROR 1054".to_owned() };
    Memory {
        id: MemoryId(derive_uuid("memory", &[name])),
        scope: MemoryScope::Step {
            workflow: Workflow::new("shop").unwrap(),
            step: Step::main(),
            audience: Audience::Everyone,
        },
        lesson: Lesson {
            subject: "mysql".to_owned(),
            title: format!("When {name} fails, list the columns first"),
            content: format!("{name} named a column that is not there."),
            cue: LessonCue { tool: Some("mysql".to_owned()), ..LessonCue::default() },
            worded_by: None,
        },
        status: MemoryStatus::Active,
        weight: Weight::from_thousandths(weight),
        observed_runs: 2,
        tentative_runs: vec![run.clone()],
        tentative_witnesses: Vec::new(),
        evidence: vec![Evidence {
            run,
            epoch: Some(1),
            quote,
            remark: None,
            origin: EvidenceOrigin::default(),
        }],
        cue_not_met: 0,
        contradicted_by: Vec::new(),
        quarantine: None,
        released_by: None,
        disabled_by: None,
        pinned_by: None,
        added_by: None,
        authority: None,
        created_at: Timestamp::UNIX_EPOCH,
        changed_at: Timestamp::UNIX_EPOCH,
    }
}
