//! Caches the prepared memories of scopes. They are handed out only under a lease, and only if nothing that they depend
//! on has changed since they were loaded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use retro_core::audience::RunRepository;
use retro_core::id::{Repository, Step, Tenant, WorkflowKey};
use retro_core::kill_switch::KillSwitchScope;
use retro_core::policy::Policy;
use retro_core::recall::{PreparedMemories, RecallCandidate};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Maximum size of what is cached, in bytes: the memories of about 25,000 steps with 50 each.
const CACHED_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Expected size of the memories of a scope, in bytes.
const SCOPE_BYTES: u64 = 10 * 1024;
/// Time after which memories are loaded again although they have not changed. Presentations are counted again, so that
/// other newcomers get a place.
pub(crate) const CACHED_AGE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of workflows whose last change is remembered. If there are more, everything is loaded again.
const CHANGED_MAX: usize = 10_000;

/// What an answer is chosen from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum ContextScope {
    /// Memories of a step, for runs on a repository.
    Step { key: WorkflowKey, step: Step, repository: Option<RunRepository> },
    /// Rules of a repository.
    Rules { tenant: Tenant, repo: Repository },
}

/// Prepared memories with what they were prepared from.
#[derive(Debug)]
struct CachedMemories {
    memories: Arc<PreparedMemories>,
    policy: Policy,
    depends_on: Vec<WorkflowKey>,
    loaded: Instant,
    /// Value of [`CacheState::generation`] before they were read.
    generation: u64,
}

#[derive(Debug, Default)]
struct CacheState {
    /// Grows with every noted change.
    generation: u64,
    /// Generation of the last change of a workflow or rule scope.
    changed: HashMap<WorkflowKey, u64>,
    /// Generation up to which everything counts as changed.
    all_changed: u64,
    /// Kill switches that were engaged when the lease was renewed.
    kill_switches: Arc<[KillSwitchScope]>,
    /// End of the lease; `None` before the first.
    lease_until: Option<Instant>,
}

/// Memories of scopes, prepared for many runs.
pub(crate) struct ContextCache {
    scopes: Cache<ContextScope, Arc<CachedMemories>, SizeWeighter>,
    state: RwLock<CacheState>,
    created: Instant,
    /// Time of the last request in milliseconds after `created`, plus 1; 0 if there was none.
    last_asked_ms: AtomicU64,
    /// Notified when something is asked for without a lease.
    pub(super) asked: Notify,
    /// Notified when a change is announced.
    pub(super) announced: Notify,
}

#[derive(Debug, Clone)]
struct SizeWeighter;

impl Weighter<ContextScope, Arc<CachedMemories>> for SizeWeighter {
    fn weight(&self, _scope: &ContextScope, cached: &Arc<CachedMemories>) -> u64 {
        // The key and the entry are small beside the memories.
        (cached.memories.size_bytes() + size_of::<ContextScope>() + size_of::<CachedMemories>()) as u64
    }
}

impl ContextCache {
    pub(super) fn new() -> Self {
        let scopes = usize::try_from(CACHED_BYTES_MAX / SCOPE_BYTES).unwrap_or(usize::MAX);
        Self {
            scopes: Cache::with_weighter(scopes, CACHED_BYTES_MAX, SizeWeighter),
            state: RwLock::default(),
            created: Instant::now(),
            last_asked_ms: AtomicU64::new(0),
            asked: Notify::new(),
            announced: Notify::new(),
        }
    }

    /// Returns the memories of a scope if they are cached, as good as new and under a lease.
    pub(crate) fn find(&self, scope: &ContextScope, policy: &Policy) -> Option<Arc<PreparedMemories>> {
        let now = Instant::now();
        let state = self.read_leased_state(now)?;
        let cached = self.scopes.get(scope)?;
        let is_young = now.duration_since(cached.loaded) < CACHED_AGE_MAX;
        let is_valid = is_young && !state.has_changed_since(cached.generation, &cached.depends_on);
        (is_valid && cached.policy == *policy).then(|| cached.memories.clone())
    }

    /// Returns the kill switches that are engaged, if there is a lease.
    pub(crate) fn find_kill_switches(&self) -> Option<Arc<[KillSwitchScope]>> {
        Some(self.read_leased_state(Instant::now())?.kill_switches.clone())
    }

    /// Returns the state if there is a lease. Otherwise asks for one.
    fn read_leased_state(&self, now: Instant) -> Option<RwLockReadGuard<'_, CacheState>> {
        self.last_asked_ms.store(self.millis_at(now) + 1, Ordering::Relaxed);
        let state = self.read_state();
        if state.lease_until.is_none_or(|until| now >= until) {
            drop(state);
            self.asked.notify_one();
            return None;
        }
        Some(state)
    }

    /// Replaces the kill switches. Returns `true` if they differ from those before.
    pub(super) fn replace_kill_switches(&self, engaged: Vec<KillSwitchScope>) -> bool {
        let mut state = self.write_state();
        let has_changed = *state.kill_switches != *engaged;
        state.kill_switches = engaged.into();
        has_changed
    }

    /// Returns the generation to pass to [`insert`](Self::insert) for what is read from now on.
    pub(crate) fn begin_reading(&self) -> u64 {
        self.read_state().generation
    }

    /// Prepares and caches the memories of a scope. Returns `None` if they have changed since the reading began.
    pub(crate) fn insert(
        &self,
        scope: ContextScope,
        candidates: Vec<RecallCandidate>,
        policy: &Policy,
        generation: u64,
    ) -> Option<Arc<PreparedMemories>> {
        let memories = Arc::new(PreparedMemories::new(candidates, policy));
        let depends_on = scope.depends_on();
        if self.read_state().has_changed_since(generation, &depends_on) {
            return None;
        }
        let (policy, loaded) = (policy.clone(), Instant::now());
        let cached = CachedMemories { memories: memories.clone(), policy, depends_on, loaded, generation };
        self.scopes.insert(scope, Arc::new(cached));
        Some(memories)
    }

    /// Notes an announced change. What was read before is not handed out any more, and the lease is renewed soon, for
    /// which somebody may wait.
    pub(crate) fn note_announced(&self, key: WorkflowKey) {
        self.note_changes([key]);
        self.announced.notify_one();
    }

    /// Notes that workflows or rule scopes have changed.
    pub(super) fn note_changes(&self, changed: impl IntoIterator<Item = WorkflowKey>) {
        let mut state = self.write_state();
        state.generation += 1;
        let generation = state.generation;
        state.changed.extend(changed.into_iter().map(|key| (key, generation)));
        if state.changed.len() > CHANGED_MAX {
            state.changed.clear();
            state.all_changed = generation;
        }
    }

    /// Notes that anything may have changed.
    pub(super) fn note_all_changed(&self) {
        let mut state = self.write_state();
        state.generation += 1;
        state.changed.clear();
        state.all_changed = state.generation;
    }

    /// Permits handing out what is cached until this time.
    pub(super) fn extend_lease(&self, until: Instant) {
        self.write_state().lease_until = Some(until);
    }

    /// Hands out nothing more that is cached.
    pub(super) fn end_lease(&self) {
        self.write_state().lease_until = None;
    }

    /// Returns `true` if something was asked for within this time.
    pub(super) fn was_asked_within(&self, time: Duration) -> bool {
        match self.last_asked_ms.load(Ordering::Relaxed) {
            0 => false,
            last => u128::from(self.millis_at(Instant::now()) + 1 - last) < time.as_millis(),
        }
    }

    fn millis_at(&self, time: Instant) -> u64 {
        u64::try_from(time.duration_since(self.created).as_millis()).unwrap_or(u64::MAX - 1)
    }

    fn read_state(&self) -> RwLockReadGuard<'_, CacheState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_state(&self) -> RwLockWriteGuard<'_, CacheState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn has_changed_since(&self, generation: u64, depends_on: &[WorkflowKey]) -> bool {
        let has_changed = |key| self.changed.get(key).is_some_and(|changed| *changed > generation);
        self.generation > generation && (self.all_changed > generation || depends_on.iter().any(has_changed))
    }
}

impl ContextScope {
    /// Returns the workflows and rule scopes whose changes change the memories of the scope. The visibility of a
    /// repository is noted under its rule scope.
    fn depends_on(&self) -> Vec<WorkflowKey> {
        match self {
            Self::Step { key, repository, .. } => {
                let scope = repository.as_ref().map(|repository| repository.repo.rule_scope(&key.tenant));
                [key.clone()].into_iter().chain(scope).collect()
            }
            Self::Rules { tenant, repo } => vec![repo.rule_scope(tenant)],
        }
    }
}

#[cfg(test)]
mod tests {
    use retro_core::id::Workflow;

    use super::*;
    use crate::testing::active_memory;

    fn key(workflow: &str) -> WorkflowKey {
        WorkflowKey { tenant: Tenant::default_tenant(), workflow: Workflow::new(workflow).unwrap() }
    }

    fn scope(workflow: &str, repo: Option<&str>) -> ContextScope {
        let repository = RunRepository::of_run(repo, None);
        ContextScope::Step { key: key(workflow), step: Step::main(), repository }
    }

    fn candidates() -> Vec<RecallCandidate> {
        vec![RecallCandidate { memory: active_memory("select", 300), presentations: 0 }]
    }

    fn leased() -> ContextCache {
        let cache = ContextCache::new();
        cache.extend_lease(Instant::now() + CACHED_AGE_MAX * 2);
        cache
    }

    fn insert(cache: &ContextCache, scope: &ContextScope) {
        let generation = cache.begin_reading();
        cache
            .insert(scope.clone(), candidates(), &Policy::default(), generation)
            .expect("nothing has changed");
    }

    fn is_cached(cache: &ContextCache, scope: &ContextScope) -> bool {
        cache.find(scope, &Policy::default()).is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_handed_out_without_a_lease_or_after_a_minute() {
        let cache = ContextCache::new();
        let shop = scope("shop", None);
        insert(&cache, &shop);
        assert!(!is_cached(&cache, &shop), "no lease yet");
        tokio::time::timeout(Duration::ZERO, cache.asked.notified()).await.expect("one is wanted");
        cache.extend_lease(Instant::now() + Duration::from_secs(2));
        assert!(is_cached(&cache, &shop));
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(!is_cached(&cache, &shop), "the lease has ended");
        cache.extend_lease(Instant::now() + CACHED_AGE_MAX);
        assert!(is_cached(&cache, &shop));
        tokio::time::advance(CACHED_AGE_MAX - Duration::from_secs(2)).await;
        assert!(!is_cached(&cache, &shop), "a minute old");
        cache.end_lease();
        insert(&cache, &shop);
        assert!(!is_cached(&cache, &shop));
    }

    #[tokio::test]
    async fn a_change_ends_what_depends_on_it_and_nothing_else() {
        let cache = leased();
        let rules = |repo| ContextScope::Rules {
            tenant: Tenant::default_tenant(),
            repo: Repository::new(repo).unwrap(),
        };
        let scopes = [
            scope("shop", None),
            scope("shop", Some("acme/api")),
            scope("ship", Some("acme/web")),
            rules("acme/api"),
        ];
        let cached = |cache: &ContextCache| scopes.each_ref().map(|scope| is_cached(cache, scope));
        scopes.iter().for_each(|scope| insert(&cache, scope));
        assert_eq!(cached(&cache), [true; 4]);
        cache.note_changes([key("shop")]);
        assert_eq!(cached(&cache), [false, false, true, true]);
        cache.note_changes([key("repo:acme/web")]);
        assert_eq!(cached(&cache), [false, false, false, true]);
        scopes.iter().for_each(|scope| insert(&cache, scope));
        assert_eq!(cached(&cache), [true; 4]);
        cache.note_all_changed();
        assert_eq!(cached(&cache), [false; 4]);
        scopes.iter().for_each(|scope| insert(&cache, scope));
        cache.note_changes((0..=CHANGED_MAX).map(|nth| key(&format!("other-{nth}"))));
        assert_eq!(cached(&cache), [false; 4], "more changes than are remembered");
    }

    #[tokio::test]
    async fn what_was_read_before_a_change_is_not_cached() {
        let cache = leased();
        let before = cache.begin_reading();
        cache.note_changes([key("shop")]);
        let insert = |scope| cache.insert(scope, candidates(), &Policy::default(), before).is_some();
        assert!(!insert(scope("shop", None)));
        assert!(insert(scope("ship", None)), "another workflow");
    }

    #[tokio::test]
    async fn an_edited_policy_prepares_the_memories_again() {
        let cache = leased();
        insert(&cache, &scope("shop", None));
        let edited = Policy { inject_weight_min: 500, ..Policy::default() };
        assert!(cache.find(&scope("shop", None), &edited).is_none());
    }
}
