//! Serves context and memories to agents, independent of the transport.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use retro_core::id::{MemoryId, Repository, RunId, Tenant, WorkflowKey};
use retro_core::policy::{Policies, Policy};
use retro_core::recall::{Assignment, PreparedMemories, RecallCandidate};
use retro_http::TenantLimiter;
use retro_store::{AGENT_CONNECTIONS_MAX, EmbeddingSource, EmbeddingStore, Presentation, RecallStore};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use crate::answer::{ContextAnswer, ContextRequest, Recording};
use crate::context_cache::{
    ContextCache, ContextCacheWorker, ContextScope, Enqueued, HandedLists, PresentationQueue, TextIndexes,
    count_stored,
};
use crate::task_embedder::TaskEmbedder;
use crate::tokens;

mod context;
mod feedback;
mod kill_switches;
mod open;
mod ranking;
mod search;

pub use feedback::FeedbackError;

/// Default timeout for responding to an agent, in milliseconds. A healthy database responds in about 1 ms. An
/// agent's step takes seconds, so a delay of a fifth of a second goes unnoticed, and memories are not worth a
/// longer wait.
pub const CONTEXT_TIMEOUT_MS: u64 = 200;

/// Maximum number of concurrent database reads, equal to the number of connections in the agents' pool.
const READS_MAX: usize = AGENT_CONNECTIONS_MAX as usize;
/// Maximum number of concurrent database reads per tenant. Further reads of the tenant wait.
const TENANT_READS_MAX: usize = READS_MAX - 2;
/// Maximum number of concurrent recordings. A healthy database completes about this many within
/// [`CONTEXT_TIMEOUT_MS`]; further ones would time out and are not started.
const RECORDINGS_MAX: usize = 128;
/// Maximum number of concurrent recordings per tenant.
const TENANT_RECORDINGS_MAX: usize = 96;

/// Serves the agents' API from the store. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    store: Arc<dyn RecallStore>,
    policies: Arc<dyn Policies>,
    timeout: Duration,
    reads: TenantLimiter,
    recordings: TenantLimiter,
    /// Cache of memories and queue of presentations; `None` if everything is read and stored at once.
    cached: Option<CachedParts>,
    /// Embedder for tasks; `None` if it is the built-in one.
    embedder: Option<Arc<TaskEmbedder>>,
}

/// Parts of a gateway that caches memories and stores presentations after the answer.
#[derive(Clone)]
struct CachedParts {
    cache: Arc<ContextCache>,
    indexes: Arc<TextIndexes>,
    handed: Arc<HandedLists>,
    presentations: PresentationQueue,
}

impl Gateway {
    /// Creates a gateway that responds within [`CONTEXT_TIMEOUT_MS`]. The first call in a process loads the
    /// tokenizer's vocabulary and compiles the screening patterns, which takes a few tenths of a second.
    pub fn new(store: Arc<dyn RecallStore>, policies: Arc<dyn Policies>) -> Self {
        tokens::count_tokens("");
        // Otherwise the first request would spend its time on compiling the patterns of the gate.
        let _ = retro_gate::judge_texts(&retro_gate::GateTexts {
            sentences: vec!["Never unwrap in library code"],
            actions: vec!["call `curl` with `--fail`"],
            ..Default::default()
        });
        let _ = retro_gate::quote_as_data("not found", retro_gate::Speaker::Tool, &[], 80);
        let reads = TenantLimiter::new(READS_MAX, TENANT_READS_MAX);
        let recordings = TenantLimiter::new(RECORDINGS_MAX, TENANT_RECORDINGS_MAX);
        Self {
            store,
            policies,
            timeout: Duration::from_millis(CONTEXT_TIMEOUT_MS),
            reads,
            recordings,
            cached: None,
            embedder: None,
        }
    }

    /// Returns the gateway with a cache of memories and a queue of presentations, and the worker that must run for it.
    /// Presentations are stored by `writes`. `gateway` names the process, as no other one does at any time.
    pub fn with_cache(self, writes: &Arc<dyn RecallStore>, gateway: String) -> (Self, ContextCacheWorker) {
        let (cache, presentations, worker) = ContextCacheWorker::new(writes, gateway);
        let (indexes, handed) = (Arc::new(TextIndexes::new()), Arc::new(HandedLists::new()));
        (Self { cached: Some(CachedParts { cache, indexes, handed, presentations }), ..self }, worker)
    }

    /// Returns the gateway with an embedder for tasks, and the vectors of memories that it has computed before.
    pub fn with_embedder(self, source: Arc<dyn EmbeddingSource>, stored: Arc<dyn EmbeddingStore>) -> Self {
        Self { embedder: Some(Arc::new(TaskEmbedder::new(source, stored))), ..self }
    }

    /// Notes that memories of a workflow or a rule scope have changed, so that they are read again. Changes that are
    /// not announced are found a little later.
    pub fn note_change(&self, key: WorkflowKey) {
        if let Some(CachedParts { cache, .. }) = &self.cached {
            cache.note_announced(key);
        }
    }

    /// Returns the gateway with a different response timeout.
    pub fn with_timeout(self, patience: Duration) -> Self {
        Self { timeout: patience, ..self }
    }

    /// Returns the context for the next run of a step. Never fails: if the database is down or slow, the
    /// response is empty and gives the reason. If the request contains a run id, the memories are recorded as
    /// presented to that run, only once even if the request is repeated. Some are withheld from the run by chance,
    /// which is recorded, too.
    pub async fn context(&self, tenant: &Tenant, request: ContextRequest) -> ContextAnswer {
        let started = Instant::now();
        let answer = self.select_context(tenant, request).await;
        retro_telemetry::metrics::CONTEXT_DURATION.record(started.elapsed().as_secs_f64(), []);
        answer
    }

    /// Returns the rules of a repository, and the policy by which they are chosen for a run with this policy.
    async fn load_rules(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        repo: Repository,
        policy: &Policy,
    ) -> Result<(Arc<PreparedMemories>, Policy), String> {
        // What is dangerous in a repository is decided by the policy of its rules, as for the writer that holds them.
        let held_dangers = self.policies.policy_for(&repo.rule_scope(tenant)).held_dangers;
        let policy = Policy { held_dangers, ..policy.clone() };
        let scope = ContextScope::Rules { tenant: tenant.clone(), repo };
        Ok((self.load_prepared(deadline, scope, &policy).await?, policy))
    }

    async fn record_presentation(
        &self,
        deadline: Instant,
        key: &WorkflowKey,
        run: Option<&RunId>,
        ids: &[MemoryId],
        assignments: &[Assignment],
        none: &str,
    ) -> (Recording, Option<String>) {
        let nothing = ids.is_empty();
        let Some(run) = run else {
            let why = if nothing { none } else { "a preview: no run was named, so nothing is recorded" };
            return (Recording::Preview, Some(why.to_owned()));
        };
        if nothing && assignments.is_empty() {
            return (Recording::Nothing, Some(none.to_owned()));
        }
        let presentation = Presentation {
            key: key.clone(),
            run: run.clone(),
            memories: ids.to_vec(),
            assignments: assignments.to_vec(),
        };
        let (recorded, reason) = self.store_or_enqueue(deadline, presentation).await;
        (recorded, reason.or_else(|| nothing.then(|| ALL_WITHHELD.to_owned())))
    }

    /// Enqueues a presentation, or stores it at once if nothing is cached in memory.
    async fn store_or_enqueue(
        &self,
        deadline: Instant,
        presentation: Presentation,
    ) -> (Recording, Option<String>) {
        let mut presentation = presentation;
        if let Some(CachedParts { presentations, .. }) = &self.cached {
            match presentations.enqueue(presentation, deadline).await {
                Enqueued::Accepted => return (Recording::Queued, None),
                Enqueued::Full => {
                    let reason = "recording presented is uncertain: too many presentations wait to be stored";
                    warn!(reason, "{reason}");
                    return (Recording::Unknown, Some(reason.to_owned()));
                }
                // The last answers of a process that stops are stored one by one.
                Enqueued::Closed(refused) => presentation = refused,
            }
        }
        let Presentation { key, run, memories, assignments } = &presentation;
        let recording = self.store.record_presented(key, run, memories, assignments);
        let recorded = self.record_in_time(deadline, &presentation.key, "presented", recording).await;
        if recorded.0 == Recording::Recorded {
            count_stored(&presentation);
        }
        recorded
    }

    /// Returns the memories of a scope as they are cached in memory, or reads them from the database.
    async fn load_prepared(
        &self,
        deadline: Instant,
        scope: ContextScope,
        policy: &Policy,
    ) -> Result<Arc<PreparedMemories>, String> {
        let Some(CachedParts { cache, .. }) = &self.cached else {
            let candidates = self.load_candidates(deadline, &scope, policy).await?;
            return Ok(Arc::new(PreparedMemories::new(candidates, policy)));
        };
        if let Some(cached) = cache.find(&scope, policy) {
            retro_telemetry::metrics::CONTEXT_SCOPES.add(1, ["memory"]);
            return Ok(cached);
        }
        retro_telemetry::metrics::CONTEXT_SCOPES.add(1, ["database"]);
        loop {
            let generation = cache.begin_reading();
            let candidates = self.load_candidates(deadline, &scope, policy).await?;
            // Read again if it has changed meanwhile: whoever withdrew a memory may have been told that it is not
            // handed out any more.
            if let Some(cached) = cache.insert(scope.clone(), candidates, policy, generation) {
                return Ok(cached);
            }
        }
    }

    async fn load_candidates(
        &self,
        deadline: Instant,
        scope: &ContextScope,
        policy: &Policy,
    ) -> Result<Vec<RecallCandidate>, String> {
        let weight_min = policy.inject_weight_min;
        match scope {
            ContextScope::Step { key, step, repository } => {
                let reading = self.store.load_candidates(key, step, repository.as_ref(), weight_min);
                self.read_in_turn(deadline, &key.tenant, reading).await
            }
            ContextScope::Rules { tenant, repo } => {
                let reading = self.store.load_rule_candidates(tenant, repo, weight_min);
                self.read_in_turn(deadline, tenant, reading).await
            }
        }
    }

    /// Records that memories were presented to a run or read by it, unless too many recordings are in
    /// progress for another one to finish in time. The limit also bounds the resources that hanging
    /// recordings use.
    async fn record_in_time(
        &self,
        deadline: Instant,
        key: &WorkflowKey,
        what: &str,
        recording: impl Future<Output = retro_store::Result<()>>,
    ) -> (Recording, Option<String>) {
        let recorded = match self.recordings.try_acquire(&key.tenant) {
            // The permit is kept until the recording ends or times out.
            Some(_turn) => self.run_in_time(deadline, recording).await,
            None => Err("too many recordings are in progress".to_owned()),
        };
        match recorded {
            Ok(()) => (Recording::Recorded, None),
            Err(reason) => {
                warn!(reason = reason.as_str(), "recording {what} is uncertain: {reason}");
                (Recording::Unknown, Some(format!("recording {what} is uncertain: {reason}")))
            }
        }
    }

    /// Reads from the database once the tenant has a permit, so a busy tenant cannot take all connections.
    async fn read_in_turn<T>(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        reading: impl Future<Output = retro_store::Result<T>>,
    ) -> Result<T, String> {
        let in_turn = async {
            let _turn = self.reads.acquire(tenant).await;
            reading.await
        };
        self.run_in_time(deadline, in_turn).await
    }

    async fn run_in_time<T>(
        &self,
        deadline: Instant,
        asking: impl Future<Output = retro_store::Result<T>>,
    ) -> Result<T, String> {
        // Dropping the future at the deadline does not undo a write that has already reached the database.
        match timeout_at(deadline, asking).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the database did not answer within {} ms", self.timeout.as_millis())),
        }
    }
}

const ALL_WITHHELD: &str = "every eligible memory is withheld from this run by chance, to measure its effect (policy key `withhold_permille`)";

#[cfg(test)]
mod tests;
