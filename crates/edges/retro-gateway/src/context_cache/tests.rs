//! Two gateways over one database, and what they hand out while it changes, is away or is slow to be heard of.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use retro_core::attribution::Attribution;
use retro_core::audience::Audience;
use retro_core::id::{MemoryRef, Repository, RunId, Step, Tenant, Workflow, WorkflowKey};
use retro_core::kill_switch::KillSwitchScope;
use retro_core::memory::MemoryScope;
use retro_core::policy::Policy;
use retro_store::context_lease::CONTEXT_CHANGES_MAX;
use retro_store::{CONTEXT_LEASE, KillSwitchStore as _, wait_for_context_leases};
use tokio::time::{Instant, advance};

use super::*;
use crate::answer::{ContextAnswer, ContextRequest, MemoryReader, Recording};
use crate::gateway::Gateway;
use crate::testing::{FakeStore, active_memory};

/// A gateway whose worker runs.
struct Running {
    gateway: Gateway,
    stop: CancellationToken,
    worker: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(store: &Arc<FakeStore>, name: &str) -> Self {
        let policy = Policy { withhold_permille: 0, ..Policy::default() };
        let writes: Arc<dyn RecallStore> = store.clone();
        let (gateway, worker) =
            Gateway::new(writes.clone(), Arc::new(policy)).with_cache(&writes, name.to_owned());
        let stop = CancellationToken::new();
        let worker = tokio::spawn(worker.run(stop.clone()));
        Self { gateway, stop, worker }
    }

    async fn ask(&self, run: &str) -> ContextAnswer {
        self.gateway.context(&Tenant::default_tenant(), request(run)).await
    }

    /// Asks until the memories are cached, so that the database is not asked any more.
    async fn warm_up(&self, store: &FakeStore) {
        for _ in 0..100 {
            let before = *store.loads.lock().unwrap();
            self.ask("warm-up").await;
            if *store.loads.lock().unwrap() == before {
                return;
            }
            pass(Duration::from_millis(10)).await;
        }
        panic!("nothing is cached");
    }

    /// Announces a change of the workflow to this gateway.
    fn announce_change(&self) {
        let workflow = Workflow::new("shop").unwrap();
        self.gateway.note_change(WorkflowKey { tenant: Tenant::default_tenant(), workflow });
    }

    async fn stop(self) {
        self.stop.cancel();
        self.worker.await.unwrap();
    }
}

fn request(run: &str) -> ContextRequest {
    ContextRequest {
        workflow: Workflow::new("shop").unwrap(),
        step: Step::main(),
        run_id: Some(RunId::new(run).unwrap()),
        repo: None,
        repo_visibility: None,
        paths: Vec::new(),
        task: None,
    }
}

/// Lets time pass, in which the worker does what is due.
async fn pass(time: Duration) {
    const STEP: Duration = Duration::from_millis(1);
    let end = Instant::now() + time;
    while Instant::now() < end {
        advance(STEP).await;
    }
}

fn titles(answer: &ContextAnswer) -> Vec<&str> {
    answer.memories.iter().map(|memory| memory.title.as_str()).collect()
}

fn store() -> Arc<FakeStore> {
    let memories = vec![active_memory("select", 300), active_memory("insert", 450)];
    Arc::new(FakeStore::with_memories(memories))
}

#[tokio::test(start_paused = true)]
async fn what_is_cached_is_handed_out_without_the_database_and_recorded_once() {
    let store = store();
    let one = Running::start(&store, "one");
    one.warm_up(&store).await;
    let loads = *store.loads.lock().unwrap();
    let first = one.ask("run-1").await;
    assert_eq!(first.recorded, Recording::Queued);
    assert_eq!(titles(&first).len(), 2);
    assert_eq!(one.ask("run-1").await, first);
    assert_eq!(*store.loads.lock().unwrap(), loads);
    one.stop().await;
    let records = store.records.lock().unwrap();
    let of_run = records.iter().filter(|(_, run, what, _)| run == "run-1" && *what == "presented");
    assert_eq!(of_run.count(), 4, "each answer is recorded; the database counts it once");
}

#[tokio::test(start_paused = true)]
async fn a_kill_switch_stops_every_gateway_once_it_is_answered() {
    let store = store();
    let (one, two) = (Running::start(&store, "one"), Running::start(&store, "two"));
    one.warm_up(&store).await;
    two.warm_up(&store).await;
    let scope = |step: &str| KillSwitchScope {
        tenant: Some(Tenant::default_tenant()),
        workflow: Some(Workflow::new("shop").unwrap()),
        step: Some(Step::new(step).unwrap()),
    };
    let act = Attribution::new("ada", "an incident", jiff::Timestamp::UNIX_EPOCH).unwrap();
    store.engage_kill_switch(&scope("another"), &act).await.unwrap();
    store.engage_kill_switch(&scope("main"), &act).await.unwrap();
    let asked = Instant::now();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { wait_for_context_leases(&*store).await }
    });
    while !waiting.is_finished() {
        pass(Duration::from_millis(1)).await;
    }
    assert_eq!(waiting.await.unwrap(), Vec::<String>::new());
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    for gateway in [&one, &two] {
        let answer = gateway.ask("stopped").await;
        let reason = "no memories: a person has switched them off for step main of workflow shop";
        assert_eq!((titles(&answer), answer.reason.as_deref()), (vec![], Some(reason)));
        assert_eq!(answer.recorded, Recording::Nothing);
        let tenant = Tenant::default_tenant();
        let read = gateway.gateway.read_memory(
            &tenant,
            MemoryRef::from(active_memory("insert", 0).id),
            MemoryReader::default(),
        );
        assert_eq!(read.await.unwrap().memory, None);
    }
    store.disengage_kill_switch(&scope("main"), &act).await.unwrap();
    while titles(&one.ask("again").await).is_empty() {
        pass(Duration::from_millis(1)).await;
    }
    store.went_down.store(true, Ordering::Relaxed);
    pass(CONTEXT_LEASE).await;
    let reason = one.ask("down").await.reason.unwrap_or_default();
    assert!(reason.starts_with("no memories: "), "without a lease the switches are not known: {reason}");
    one.stop().await;
    two.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_memory_is_handed_out_by_no_gateway_once_the_withdrawal_is_answered() {
    let (store, withdrawn) = (store(), active_memory("insert", 0).id);
    let (one, deaf) = (Running::start(&store, "one"), Running::start(&store, "deaf"));
    one.warm_up(&store).await;
    deaf.warm_up(&store).await;
    store.withdraw(withdrawn);
    let is_shown = |answer: ContextAnswer| answer.memories.iter().any(|memory| memory.id == withdrawn);
    assert!(is_shown(deaf.ask("run-1").await), "it has not heard of it");
    one.announce_change();
    let began = Instant::now();
    assert!(wait_for_context_leases(&*store).await.is_empty());
    assert!(began.elapsed() < CONTEXT_LEASE, "{:?}: both have confirmed", began.elapsed());
    assert!(!is_shown(one.ask("run-2").await));
    assert!(!is_shown(deaf.ask("run-2").await));
    one.stop().await;
    deaf.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_asks_again_gets_the_same_list_without_what_was_withdrawn() {
    let names: Vec<String> = (0..30).map(|nth| format!("command-{nth}")).collect();
    let memories: Vec<_> = (0..).zip(&names).map(|(nth, name)| active_memory(name, 300 + nth)).collect();
    let store = Arc::new(FakeStore::with_memories(memories));
    let one = Running::start(&store, "one");
    one.warm_up(&store).await;
    let first = one.ask("run-1").await;
    assert_eq!(first.memories.len(), Policy::default().inject_memories_max as usize);
    // Others get places as newcomers once the memories are loaded again.
    pass(super::scopes::CACHED_AGE_MAX).await;
    one.warm_up(&store).await;
    assert_ne!(titles(&one.ask("run-2").await), titles(&first), "positive control");
    assert_eq!(one.ask("run-1").await, first);
    store.withdraw(first.memories[1].id);
    one.announce_change();
    wait_for_context_leases(&*store).await;
    let again = one.ask("run-1").await;
    let mut left = titles(&first);
    left.remove(1);
    assert_eq!(titles(&again), left);
    one.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_announced_change_is_shown_at_once() {
    let (store, withdrawn) = (store(), active_memory("insert", 0).id);
    let one = Running::start(&store, "one");
    one.warm_up(&store).await;
    store.withdraw(withdrawn);
    one.announce_change();
    assert!(one.ask("run-1").await.memories.iter().all(|memory| memory.id != withdrawn));
    one.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_that_every_gateway_hears_of_is_answered_at_once() {
    let store = store();
    let one = Running::start(&store, "one");
    one.warm_up(&store).await;
    store.withdraw(active_memory("insert", 0).id);
    let began = Instant::now();
    one.announce_change();
    assert!(wait_for_context_leases(&*store).await.is_empty());
    assert!(began.elapsed() <= Duration::from_millis(50), "{:?}", began.elapsed());
    one.stop().await;
}

#[tokio::test(start_paused = true)]
async fn more_changes_than_can_be_listed_end_all_that_is_cached() {
    let store = store();
    let one = Running::start(&store, "one");
    one.warm_up(&store).await;
    let withdrawn = active_memory("insert", 0).id;
    store.withdraw(withdrawn);
    for _ in 0..CONTEXT_CHANGES_MAX {
        store.withdraw(withdrawn);
    }
    assert!(wait_for_context_leases(&*store).await.is_empty());
    assert!(one.ask("run-1").await.memories.iter().all(|memory| memory.id != withdrawn));
    one.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_memory_that_was_just_presented_can_be_opened_before_that_is_stored() {
    let mut memory = active_memory("select", 300);
    let shop = Repository::new("acme/shop").unwrap();
    let (workflow, step) = (Workflow::new("shop").unwrap(), Step::main());
    memory.scope = MemoryScope::Step { workflow, step, audience: Audience::Repository(shop.clone()) };
    let mut store = FakeStore::with_memories(vec![memory.clone()]);
    store.recording_fails = Mutex::new(1);
    let one = Running::start(&Arc::new(store), "one");
    let run = RunId::new("run-1").unwrap();
    let request = ContextRequest { repo: Some(shop), ..request("run-1") };
    let home = Tenant::default_tenant();
    assert_eq!(one.gateway.context(&home, request).await.memories.len(), 1);
    let name = MemoryRef::from(memory.id);
    let open = async |run: &RunId| {
        let reader = MemoryReader { run: Some(run.clone()), ..MemoryReader::default() };
        one.gateway.read_memory(&home, name, reader).await.is_ok_and(|answer| answer.memory.is_some())
    };
    assert!(open(&run).await);
    assert!(!open(&RunId::new("another").unwrap()).await, "it was not presented to that run");
    one.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_answers_of_a_gateway_that_stops_are_stored_at_once() {
    let store = store();
    let one = Running::start(&store, "one");
    let gateway = one.gateway.clone();
    one.stop().await;
    let answer = gateway.context(&Tenant::default_tenant(), request("run-1")).await;
    assert_eq!((answer.memories.len(), answer.recorded), (2, Recording::Recorded));
    assert_eq!(store.records.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_database_memories_are_handed_out_as_long_as_the_lease_lasts() {
    let store = store();
    let one = Running::start(&store, "one");
    one.warm_up(&store).await;
    store.went_down.store(true, Ordering::Relaxed);
    assert_eq!(one.ask("run-1").await.memories.len(), 2);
    pass(CONTEXT_LEASE).await;
    let answer = one.ask("run-2").await;
    let reason = answer.reason.unwrap();
    assert!(answer.memories.is_empty() && reason.contains("not available"), "{reason}");
    store.went_down.store(false, Ordering::Relaxed);
    assert_eq!(one.ask("run-3").await.memories.len(), 2, "read from the database without a lease");
    one.warm_up(&store).await;
    one.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_nobody_asks_renews_no_lease() {
    let store = store();
    let one = Running::start(&store, "one");
    pass(Duration::from_secs(60)).await;
    assert!(store.leases.lock().unwrap().is_empty());
    one.warm_up(&store).await;
    pass(Duration::from_secs(60)).await;
    let renewals = *store.leases.lock().unwrap().get("one").unwrap();
    assert!((10..=30).contains(&renewals), "{renewals} renewals in a minute with one request");
    one.stop().await;
}
