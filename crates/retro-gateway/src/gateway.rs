//! Context and reading, without a transport.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use retro_core::id::{MemoryId, MemoryRef, RunId, Tenant, Workflow, WorkflowKey};
use retro_core::memory::Memory;
use retro_core::policy::Policies;
use retro_core::recall::{Recall, choose};
use retro_store::{RecallStore, Unnamed, resolve};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

use crate::answer::{ContextAnswer, ContextRequest, MemoryAnswer, Recording};
use crate::{rules, tokens};

/// How long an agent waits for an answer by default, milliseconds. A healthy database answers in about 1 ms; a step
/// of an agent takes seconds, so a fifth of one is not felt, and memory is never worth more.
pub const ANSWER_MS_MAX: u64 = 200;

/// The agents' side. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    store: Arc<dyn RecallStore>,
    policies: Arc<dyn Policies>,
    patience: Duration,
}

impl Gateway {
    /// A gateway that answers within [`ANSWER_MS_MAX`]. Reads the tokenizer's vocabulary and compiles the screen's patterns if
    /// this process has not yet (some tenths of a second).
    pub fn new(store: Arc<dyn RecallStore>, policies: Arc<dyn Policies>) -> Self {
        tokens::count("");
        rules::prepare();
        Self { store, policies, patience: Duration::from_millis(ANSWER_MS_MAX) }
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
        let recall = match self.in_time(deadline, reading).await {
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
                match self.in_time(deadline, self.store.rules(tenant, repo, policy.inject_weight_min)).await {
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
        let recorded = self.recorded(deadline, "presented", self.store.record_presented(key, run, ids)).await;
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
        let memory = match self.in_time(deadline, self.find(tenant, name)).await {
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
                let recorded =
                    self.recorded(deadline, "read", self.store.record_read(&key, &run, memory.id)).await;
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

    async fn recorded(
        &self,
        deadline: Instant,
        what: &str,
        recording: impl Future<Output = retro_store::Result<()>>,
    ) -> (Recording, Option<String>) {
        match self.in_time(deadline, recording).await {
            Ok(()) => (Recording::Recorded, None),
            Err(reason) => {
                warn!(reason = reason.as_str(), "recording {what} is uncertain: {reason}");
                (Recording::Unknown, Some(format!("recording {what} is uncertain: {reason}")))
            }
        }
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
