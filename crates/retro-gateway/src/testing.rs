//! A small store and a small broker in memory, for the tests of this crate.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use jiff::Timestamp;
use retro_core::finding::{Cue, Quote};
use retro_core::id::{MemoryId, MemoryRef, RunId, Step, Tenant, Workflow, WorkflowKey, derive};
use retro_core::memory::{Evidence, Lesson, Memory, Scope, Status};
use retro_core::recall::Candidate;
use retro_core::review::Repository;
use retro_core::run::ObjectRef;
use retro_core::time::FixedClock;
use retro_core::trajectory::Place;
use retro_core::weight::Weight;
use retro_events::subject::body_name;
use retro_events::{CheckedEvent, Intake, IntakeError, ObjectError, Objects};
use retro_http::{BodyBudget, BudgetBounds, Idempotency};
use retro_store::{
    Begun, KeptAnswer, NameStore, RecallStore, RequestName, RequestStore, RequestTimes, Result, StoreError,
};

use crate::intake::IngestService;

/// What the broker has.
#[derive(Default)]
pub(crate) struct Broker {
    pub(crate) trouble: Option<IntakeError>,
    pub(crate) events: Mutex<Vec<CheckedEvent>>,
    pub(crate) bodies: Mutex<Vec<(Tenant, Bytes)>>,
}

/// Room for two of the largest events, of which a tenant may have one in hand.
pub(crate) const BOUNDS: BudgetBounds =
    BudgetBounds { bytes_max: 40 * 1024 * 1024, owner_bytes_max: 20 * 1024 * 1024 };

/// A service before this broker, on 20 November 2026, and its budget.
pub(crate) fn ingest(broker: &Arc<Broker>) -> (IngestService, BodyBudget) {
    let budget = BodyBudget::new(BOUNDS);
    let now = FixedClock("2026-11-20T10:00:00Z".parse().unwrap());
    let idempotency = Idempotency::new(Arc::new(Away));
    let service =
        IngestService::new(broker.clone(), broker.clone(), Arc::new(now), budget.clone(), idempotency);
    (service, budget)
}

/// The database is away: nobody may ask it who gives no key.
struct Away;

#[async_trait]
impl RequestStore for Away {
    async fn begin_request(
        &self,
        _name: &RequestName,
        _fingerprint: &str,
        _times: RequestTimes,
    ) -> Result<Begun> {
        Err(StoreError::Unavailable("away".to_owned()))
    }

    async fn end_request(
        &self,
        _name: &RequestName,
        _token: u64,
        _answer: Option<&KeptAnswer>,
    ) -> Result<()> {
        Err(StoreError::Unavailable("away".to_owned()))
    }

    async fn forget_requests(&self, _older_than_s: u64, _limit: u32) -> Result<u64> {
        Err(StoreError::Unavailable("away".to_owned()))
    }
}

#[async_trait]
impl Intake for Broker {
    async fn take(&self, events: &[CheckedEvent]) -> std::result::Result<(), IntakeError> {
        self.trouble.clone().map_or(Ok(()), Err)?;
        self.events.lock().unwrap().extend_from_slice(events);
        Ok(())
    }
}

#[async_trait]
impl Objects for Broker {
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

/// What of the store does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trouble {
    #[default]
    None,
    Down,
    Hangs,
    OnlyRecordingHangs,
}

#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) trouble: Trouble,
    pub(crate) memories: Vec<(Tenant, Memory)>,
    /// What was recorded: tenant/workflow, run, `presented` or `read`, memory.
    pub(crate) records: Mutex<Vec<(String, String, &'static str, MemoryId)>>,
}

impl Shelf {
    pub(crate) fn with(memories: Vec<Memory>) -> Self {
        let owned = memories.into_iter().map(|memory| (Tenant::default_tenant(), memory)).collect();
        Self { memories: owned, ..Self::default() }
    }

    async fn read(&self) -> Result<()> {
        match self.trouble {
            Trouble::Down => Err(StoreError::Unavailable("disk full".to_owned())),
            Trouble::Hangs => std::future::pending().await,
            Trouble::None | Trouble::OnlyRecordingHangs => Ok(()),
        }
    }

    async fn record(
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
impl RecallStore for Shelf {
    async fn candidates(&self, key: &WorkflowKey, step: &Step, weight_min: u16) -> Result<Vec<Candidate>> {
        self.read().await?;
        let mut presented: HashMap<MemoryId, u64> = HashMap::new();
        for (_, _, what, id) in self.records.lock().unwrap().iter() {
            *presented.entry(*id).or_default() += u64::from(*what == "presented");
        }
        let scope = Scope::Step { workflow: key.workflow.clone(), step: step.clone() };
        let fits = |(tenant, memory): &&(Tenant, Memory)| {
            *tenant == key.tenant
                && memory.scope == scope
                && memory.status == Status::Active
                && memory.weight.get() >= weight_min
        };
        let found = self.memories.iter().filter(fits).map(|(_, memory)| Candidate {
            memory: memory.clone(),
            presentations: presented.get(&memory.id).copied().unwrap_or_default(),
        });
        Ok(found.collect())
    }

    async fn rules(&self, tenant: &Tenant, repo: &Repository, weight_min: u16) -> Result<Vec<Candidate>> {
        self.read().await?;
        let keeper = repo.keeper(tenant).workflow;
        let fits = |(owner, memory): &&(Tenant, Memory)| {
            owner == tenant
                && memory.scope.kept_under().as_ref() == Some(&keeper)
                && memory.status == Status::Active
                && memory.weight.get() >= weight_min
        };
        let found = self.memories.iter().filter(fits);
        Ok(found.map(|(_, memory)| Candidate { memory: memory.clone(), presentations: 0 }).collect())
    }

    async fn record_presented(&self, key: &WorkflowKey, run: &RunId, memories: &[MemoryId]) -> Result<()> {
        self.record(key, run, "presented", memories).await
    }

    async fn record_read(&self, key: &WorkflowKey, run: &RunId, memory: MemoryId) -> Result<()> {
        self.record(key, run, "read", &[memory]).await
    }

    async fn memory(&self, tenant: &Tenant, id: MemoryId) -> Result<Option<Memory>> {
        self.read().await?;
        let found = self.memories.iter().find(|(owner, memory)| owner == tenant && memory.id == id);
        Ok(found.map(|(_, memory)| memory.clone()))
    }
}

#[async_trait]
impl NameStore for Shelf {
    async fn named(&self, tenant: &Tenant, name: MemoryRef) -> Result<Vec<MemoryId>> {
        self.read().await?;
        let of_tenant = self.memories.iter().filter(|(owner, _)| owner == tenant);
        let ids = of_tenant.map(|(_, memory)| memory.id).filter(|id| name.names(*id));
        Ok(ids.take(2).collect())
    }
}

/// The memory of this name, with an id that begins like that of another: they differ in the ninth digit.
pub(crate) fn alike(name: &str, other: MemoryId) -> Memory {
    let mut id = other.to_string();
    let ninth = if id.as_bytes()[9] == b'0' { "1" } else { "0" };
    id.replace_range(9..10, ninth);
    Memory { id: id.parse().unwrap(), ..memory(name, 300) }
}

/// An active memory of workflow `shop`, step `main`.
pub(crate) fn memory(name: &str, weight: u16) -> Memory {
    let run = RunId::new("run-1").unwrap();
    let quote = Quote { place: Place::Message { turn: 0 }, text: "ERROR 1054".to_owned() };
    Memory {
        id: MemoryId(derive("memory", &[name])),
        scope: Scope::Step { workflow: Workflow::new("shop").unwrap(), step: Step::main() },
        lesson: Lesson {
            subject: "mysql".to_owned(),
            title: format!("When {name} fails, list the columns first"),
            content: format!("{name} named a column that is not there."),
            cue: Cue::default(),
        },
        status: Status::Active,
        weight: Weight::thousandths(weight),
        observed_runs: 2,
        tentative_runs: vec![run.clone()],
        evidence: vec![Evidence { run, epoch: Some(1), quote, remark: None }],
        cue_not_met: 0,
        contradicted_by: Vec::new(),
        quarantine: None,
        authority: None,
        created_at: Timestamp::UNIX_EPOCH,
        changed_at: Timestamp::UNIX_EPOCH,
    }
}
