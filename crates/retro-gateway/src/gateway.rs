//! Context and reading, without a transport.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use retro_core::id::{MemoryId, MemoryRef, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::memory::Memory;
use retro_core::policy::Policies;
use retro_core::recall::{Recall, choose};
use retro_http::TenantLimiter;
use retro_store::{AGENT_READERS_MAX, RecallStore, Unnamed, resolve};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use crate::answer::{ContextAnswer, ContextRequest, MemoryAnswer, Recording};
use crate::{rules, tokens};

/// How long an agent waits for an answer by default, milliseconds. A healthy database answers in about 1 ms; a step
/// of an agent takes seconds, so a fifth of one is not felt, and memory is never worth more.
pub const ANSWER_MS_MAX: u64 = 200;

/// Reads that are at the database at once: as many as it has connections for.
const READS_AT_ONCE: usize = AGENT_READERS_MAX as usize;
/// Of them, a tenant's; its others wait for one of these.
const READS_AT_ONCE_OF_TENANT: usize = READS_AT_ONCE - 2;
/// Recordings that are under way at once. A healthy database makes about as many within [`ANSWER_MS_MAX`]; beyond that one would not be
/// waited for to its end, and is not begun.
const RECORDINGS_AT_ONCE: usize = 128;
/// Of them, a tenant's.
const RECORDINGS_AT_ONCE_OF_TENANT: usize = 96;

/// The agents' side. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    store: Arc<dyn RecallStore>,
    policies: Arc<dyn Policies>,
    patience: Duration,
    reads: TenantLimiter,
    recordings: TenantLimiter,
}

impl Gateway {
    /// A gateway that answers within [`ANSWER_MS_MAX`]. Reads the tokenizer's vocabulary and compiles the screen's patterns if
    /// this process has not yet (some tenths of a second).
    pub fn new(store: Arc<dyn RecallStore>, policies: Arc<dyn Policies>) -> Self {
        tokens::count("");
        rules::prepare();
        let reads = TenantLimiter::new(READS_AT_ONCE, READS_AT_ONCE_OF_TENANT);
        let recordings = TenantLimiter::new(RECORDINGS_AT_ONCE, RECORDINGS_AT_ONCE_OF_TENANT);
        Self { store, policies, patience: Duration::from_millis(ANSWER_MS_MAX), reads, recordings }
    }

    /// The same gateway with another bound on its answers.
    pub fn answering_within(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// What the next run of a step is handed. Never fails: a database that is down or slow gives nothing and the
    /// reason. With a run, the memories are recorded as presented to it, once however often it asks.
    pub async fn context(&self, tenant: &Tenant, request: ContextRequest) -> ContextAnswer {
        let began = Instant::now();
        let answer = self.recall(tenant, request).await;
        retro_meter::CONTEXT_DURATION.record(began.elapsed().as_secs_f64(), []);
        answer
    }

    async fn recall(&self, tenant: &Tenant, request: ContextRequest) -> ContextAnswer {
        let deadline = Instant::now() + self.patience;
        let key = WorkflowKey { tenant: tenant.clone(), workflow: request.workflow };
        let run = request.run_id.as_ref();
        let policy = self.policies.of(&key);
        let reading = self.store.candidates(&key, &request.step, policy.inject_weight_min);
        let recall = match self.read(deadline, tenant, reading).await {
            Ok(candidates) => choose(candidates, &policy, &tokens::count),
            Err(reason) => {
                warn!(reason = reason.as_str(), "context: answered with nothing, {reason}");
                retro_meter::CONTEXT.add(1, ["unavailable"]);
                return ContextAnswer::nothing(run, format!("no memories: {reason}"));
            }
        };
        let rules = match &request.repo {
            None => None,
            Some(repo) => {
                let reading = self.store.rules(tenant, repo, policy.inject_weight_min);
                match self.read(deadline, tenant, reading).await {
                    Ok(candidates) => Some(rules::answer(candidates, &request.paths, &policy)),
                    Err(reason) => {
                        warn!(reason = reason.as_str(), "context: answered without rules, {reason}");
                        None
                    }
                }
            }
        };
        let handed = recall.memories.iter().chain(rules.iter().flat_map(|rules| &rules.rules));
        let ids: Vec<MemoryId> = handed.map(|memory| memory.id).collect();
        let found = if ids.is_empty() { "nothing_eligible" } else { "given" };
        retro_meter::CONTEXT.add(1, [found]);
        let (recorded, reason) = self.present(deadline, &key, run, &ids).await;
        let Recall { memories, text, tokens, left_out } = recall;
        ContextAnswer { memories, text, tokens, left_out, rules, recorded, reason }
    }

    async fn present(
        &self,
        deadline: Instant,
        key: &WorkflowKey,
        run: Option<&RunId>,
        ids: &[MemoryId],
    ) -> (Recording, Option<String>) {
        let nothing = ids.is_empty();
        let Some(run) = run else {
            let why =
                if nothing { NONE_ELIGIBLE } else { "a preview: no run was named, so nothing is recorded" };
            return (Recording::Preview, Some(why.to_owned()));
        };
        if nothing {
            return (Recording::Nothing, Some(NONE_ELIGIBLE.to_owned()));
        }
        let recorded =
            self.record(deadline, key, "presented", self.store.record_presented(key, run, ids)).await;
        if recorded.0 == Recording::Recorded {
            retro_meter::PRESENTED.add(ids.len() as u64, []);
        }
        recorded
    }

    /// One memory of the tenant in full, recorded as read when a run is given. Fails only when the tenant has no memory
    /// of this name, whether or not another has, or several. `workflow` is the run's; by default the memory's own.
    pub async fn read_memory(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
        run: Option<RunId>,
        workflow: Option<Workflow>,
    ) -> Result<MemoryAnswer, Unnamed> {
        let deadline = Instant::now() + self.patience;
        let memory = match self.read(deadline, tenant, self.find(tenant, name)).await {
            Ok(found) => found?,
            Err(reason) => {
                warn!(reason = reason.as_str(), "read: answered with nothing, {reason}");
                let recorded = if run.is_some() { Recording::Nothing } else { Recording::Preview };
                let reason = Some(format!("no memory: {reason}"));
                return Ok(MemoryAnswer { memory: None, recorded, reason });
            }
        };
        if let Some(why) = rules::closed(&memory) {
            warn!(memory.id = %memory.id, "rule {} is not opened: {why}", memory.id);
            let recorded = if run.is_some() { Recording::Nothing } else { Recording::Preview };
            let reason = Some(format!("the rule is withheld: {why}"));
            return Ok(MemoryAnswer { memory: None, recorded, reason });
        }
        let workflow = workflow.or_else(|| memory.scope.workflow().cloned());
        let (recorded, reason) = match (run, workflow) {
            (None, _) => (Recording::Preview, Some("no run was named, so nothing is recorded".to_owned())),
            (Some(_), None) => (
                Recording::Nothing,
                Some(
                    "the memory belongs to no workflow: name the run's with `workflow` to record it"
                        .to_owned(),
                ),
            ),
            (Some(run), Some(workflow)) => {
                let key = WorkflowKey { tenant: tenant.clone(), workflow };
                let recording = self.store.record_read(&key, &run, memory.id);
                let recorded = self.record(deadline, &key, "read", recording).await;
                if recorded.0 == Recording::Recorded {
                    retro_meter::READ.add(1, []);
                }
                recorded
            }
        };
        Ok(MemoryAnswer { memory: Some(memory.into()), recorded, reason })
    }

    async fn find(&self, tenant: &Tenant, name: MemoryRef) -> retro_store::Result<Result<Memory, Unnamed>> {
        Ok(match resolve(&*self.store, tenant, name).await? {
            Ok(id) => self.store.memory(tenant, id).await?.ok_or(Unnamed::Missing(name)),
            Err(unnamed) => Err(unnamed),
        })
    }

    /// Records, unless so many recordings are under way that this one would not be in time: those that hang hold no more than that.
    async fn record(
        &self,
        deadline: Instant,
        key: &WorkflowKey,
        what: &str,
        recording: impl Future<Output = retro_store::Result<()>>,
    ) -> (Recording, Option<String>) {
        let recorded = match self.recordings.try_enter(&key.tenant) {
            Some(_turn) => self.in_time(deadline, recording).await,
            None => Err("too many recordings are under way".to_owned()),
        };
        match recorded {
            Ok(()) => (Recording::Recorded, None),
            Err(reason) => {
                warn!(reason = reason.as_str(), "recording {what} is uncertain: {reason}");
                (Recording::Unknown, Some(format!("recording {what} is uncertain: {reason}")))
            }
        }
    }

    /// Reads in the tenant's turn, so that one that asks much leaves connections to the others.
    async fn read<T>(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        reading: impl Future<Output = retro_store::Result<T>>,
    ) -> Result<T, String> {
        let in_turn = async {
            let _turn = self.reads.enter(tenant).await;
            reading.await
        };
        self.in_time(deadline, in_turn).await
    }

    async fn in_time<T>(
        &self,
        deadline: Instant,
        asking: impl Future<Output = retro_store::Result<T>>,
    ) -> Result<T, String> {
        match timeout_at(deadline, asking).await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(format!("the database did not answer within {} ms", self.patience.as_millis())),
        }
    }
}

const NONE_ELIGIBLE: &str = "no memory of this step is active and heavy enough yet";

#[cfg(test)]
mod tests;
