//! Fakes the store and the broker in memory, for the tests of this crate.

mod intake;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::attribution::Attribution;
use retro_core::audience::{Audience, RunRepository};
use retro_core::feedback::{Feedback, FeedbackAcceptance, FeedbackFacts, GivenFeedback};
use retro_core::finding::{EvidenceOrigin, LessonCue, Quote};
use retro_core::id::{
    MemoryId, MemoryRef, Repository, RunId, Step, Tenant, Workflow, WorkflowKey, derive_uuid,
};
use retro_core::kill_switch::{KillSwitch, KillSwitchScope};
use retro_core::memory::{Evidence, Lesson, Memory, MemoryScope, MemoryStatus};
use retro_core::recall::RecallCandidate;
use retro_core::trajectory::QuotePlace;
use retro_core::weight::Weight;
use retro_store::context_lease::CONTEXT_CHANGES_MAX;
use retro_store::feedback::DecideFeedback;
use retro_store::{
    AppliedPresentations, ChangeMark, ContextChanges, ContextLease, ContextLeaseStore, FeedbackRow,
    FeedbackStore, KillSwitchStore, MemoryRefStore, Presentation, RecallStore, Result, StoreError,
};

pub(crate) use intake::{
    BOUNDS, FakeBroker, IMPATIENT, PATIENT, build_ingest, build_ingest_with_clock, build_ingest_with_traces,
};

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
    /// Number of presentations that can be recorded in one transaction.
    pub(crate) part_max: Option<usize>,
    /// Number of presentations in each transaction that recorded some.
    pub(crate) transactions: Mutex<Vec<usize>>,
    /// Number of answers that wait to be applied.
    pub(crate) waiting: Mutex<u64>,
    /// Time that an application of answers takes.
    pub(crate) apply_takes: Duration,
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
    /// Kill switch that a person engages while memories are read.
    pub(crate) engaged_while_reading: Option<KillSwitchScope>,
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
        self.kill_switches.lock().unwrap().extend(self.engaged_while_reading.clone());
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

    async fn read_ahead(&self) {}

    async fn record_presentations(&self, presentations: &[Presentation]) -> Result<()> {
        if self.part_max.is_some_and(|part_max| presentations.len() > part_max) {
            return Err(StoreError::Unavailable("canceling statement due to statement timeout".to_owned()));
        }
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
        self.transactions.lock().unwrap().push(presentations.len());
        Ok(())
    }

    async fn apply_presentations(&self, limit: u32) -> Result<AppliedPresentations> {
        self.check_available().await?;
        tokio::time::sleep_until(tokio::time::Instant::now() + self.apply_takes).await;
        let mut waiting = self.waiting.lock().unwrap();
        let applied = (*waiting).min(u64::from(limit));
        *waiting -= applied;
        Ok(AppliedPresentations { applied, waiting_max: *waiting })
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
        quote_missing_in: None,
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
