//! Selects what the next run of a step is handed.

use std::sync::Arc;

use retro_core::audience::RunRepository;
use retro_core::id::{MemoryId, Repository, RunId, Step, Tenant, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::recall::{PreparedMemories, Recall};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{CachedParts, Gateway};
use crate::answer::{ContextAnswer, ContextRequest};
use crate::context_cache::ContextScope;
use crate::ranked_task::{LoadedScope, RankedTask};
use crate::{rules, tokens};

/// Request for context, with what decides about it.
struct ContextQuery {
    key: WorkflowKey,
    step: Step,
    run: Option<RunId>,
    repository: Option<RunRepository>,
    paths: Vec<String>,
    task: Option<String>,
    policy: Policy,
    /// One deadline for all reads and the recording, so that the agent waits no longer than the timeout.
    deadline: Instant,
}

/// What the memories of an answer are chosen from.
struct LoadedContext {
    memories: Arc<PreparedMemories>,
    /// Rules of the repository, with the policy by which they are chosen; `None` if the request names no repository, or they
    /// cannot be read.
    rules: Option<(Arc<PreparedMemories>, Policy)>,
    ranked: Option<RankedTask>,
}

impl Gateway {
    /// Loads what may be handed out, and chooses from it unless a person has stopped that meanwhile.
    pub(super) async fn select_context(&self, tenant: &Tenant, request: ContextRequest) -> ContextAnswer {
        let query = self.prepare_query(tenant, request);
        let (workflow, step) = (Some(&query.key.workflow), Some(&query.step));
        if let Some(stop) = self.find_known_stop(tenant, workflow, step) {
            return stop.answer_context(query.run.as_ref());
        }
        let loaded = match self.load_context(&query).await {
            Ok(loaded) => loaded,
            Err(reason) => {
                warn!(reason = reason.as_str(), "context: answered without memories: {reason}");
                retro_telemetry::metrics::CONTEXT_ANSWERS.add(1, ["unavailable"]);
                return ContextAnswer::empty(query.run.as_ref(), format!("no memories: {reason}"));
            }
        };
        if let Some(stop) = self.find_stop(query.deadline, tenant, workflow, step).await {
            return stop.answer_context(query.run.as_ref());
        }
        self.answer_query(&query, loaded).await
    }

    fn prepare_query(&self, tenant: &Tenant, request: ContextRequest) -> ContextQuery {
        let repository = request.repository();
        let ContextRequest { workflow, step, run_id: run, paths, task, .. } = request;
        let key = WorkflowKey { tenant: tenant.clone(), workflow };
        let policy = self.policies.policy_for(&key);
        let deadline = Instant::now() + self.timeout;
        ContextQuery { key, step, run, repository, paths, task, policy, deadline }
    }

    /// Loads the memories of the step and the rules of the repository, and compares them with the task. Fails with the
    /// reason if the memories cannot be read; what else is missing must not discard them.
    async fn load_context(&self, query: &ContextQuery) -> Result<LoadedContext, String> {
        let ContextQuery { key, policy, deadline, .. } = query;
        let (tenant, deadline) = (&key.tenant, *deadline);
        let ranking = self.begin_ranking(deadline, tenant, query.task.as_deref());
        let scope = ContextScope::Step {
            key: key.clone(),
            step: query.step.clone(),
            repository: query.repository.clone(),
        };
        let memories = self.load_prepared(deadline, scope.clone(), policy).await?;
        let rules = match &query.repository {
            None => None,
            Some(asking) => self.try_load_rules(deadline, tenant, asking.repo.clone(), policy).await,
        };
        let ranked = match ranking {
            None => None,
            Some(ranking) => {
                let of_rules =
                    |(rules, asking): (&(Arc<PreparedMemories>, Policy), &RunRepository)| LoadedScope {
                        scope: ContextScope::Rules { tenant: tenant.clone(), repo: asking.repo.clone() },
                        memories: rules.0.clone(),
                    };
                let rules = rules.as_ref().zip(query.repository.as_ref()).map(of_rules);
                let memories = LoadedScope { scope, memories: memories.clone() };
                let scopes: Vec<_> = [Some(memories), rules].into_iter().flatten().collect();
                Some(self.finish_ranking(deadline, ranking, tenant, policy, &scopes).await)
            }
        };
        Ok(LoadedContext { memories, rules, ranked })
    }

    /// Returns the rules of a repository as [`load_rules`](Self::load_rules) does, or `None` if they cannot be read: that
    /// must not discard the memories.
    async fn try_load_rules(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        repo: Repository,
        policy: &Policy,
    ) -> Option<(Arc<PreparedMemories>, Policy)> {
        let loaded = self.load_rules(deadline, tenant, repo, policy).await;
        loaded
            .inspect_err(|reason| {
                warn!(reason = reason.as_str(), "context: answered without rules: {reason}");
            })
            .ok()
    }

    /// Chooses from what is loaded, and records it for the run.
    async fn answer_query(&self, query: &ContextQuery, loaded: LoadedContext) -> ContextAnswer {
        let LoadedContext { memories, rules, ranked } = loaded;
        let recall = self.choose_for_run(&memories, query, ranked.as_ref());
        let rules = rules.map(|(prepared, policy)| {
            let order = ranked.as_ref().map(|task| task.order(&prepared));
            rules::select_rules(&prepared, &query.paths, order.as_ref(), &policy)
        });
        let presented = recall.memories.iter().chain(rules.iter().flat_map(|rules| &rules.rules));
        let ids: Vec<MemoryId> = presented.map(|memory| memory.id).collect();
        let withheld = u32::try_from(recall.withheld()).unwrap_or(u32::MAX);
        let found = match (ids.is_empty(), withheld) {
            (true, 0) => "nothing_eligible",
            (true, _) => "withheld",
            (false, _) => "answered",
        };
        retro_telemetry::metrics::CONTEXT_ANSWERS.add(1, [found]);
        let none = if query.repository.is_some() { NONE_ELIGIBLE } else { NONE_WITHOUT_REPO };
        let run = query.run.as_ref();
        let (recorded, reason) =
            self.record_presentation(query.deadline, &query.key, run, &ids, &recall.assignments, none).await;
        let Recall { memories, text, tokens, omitted, blocked, assignments: _ } = recall;
        if blocked > 0 {
            debug!(memories.blocked = blocked, "context: {blocked} memories are blocked by the gate");
        }
        retro_telemetry::metrics::MEMORIES_BLOCKED.add(u64::from(blocked), []);
        ContextAnswer {
            memories,
            text,
            tokens,
            omitted,
            blocked,
            withheld_by_chance: withheld,
            rules,
            ranking: ranked.map(RankedTask::into_ranking),
            recorded,
            reason,
        }
    }

    /// Chooses the memories for a run: the same as before if it asks again with the same task.
    fn choose_for_run(
        &self,
        prepared: &Arc<PreparedMemories>,
        query: &ContextQuery,
        ranked: Option<&RankedTask>,
    ) -> Recall {
        let ContextQuery { key, step, run, policy, .. } = query;
        let order = ranked.map(|task| task.order(prepared));
        let (Some(CachedParts { handed, .. }), Some(run)) = (&self.cached, run) else {
            return prepared.choose(run.as_ref(), order.as_ref(), policy, &tokens::count_tokens);
        };
        let asking = (key.clone(), step.clone(), run.clone(), ranked.map(RankedTask::digest));
        if let Some(before) = handed.find(&asking, policy) {
            return prepared.choose_again(&before, run, order.as_ref(), policy, &tokens::count_tokens);
        }
        let recall = prepared.choose(Some(run), order.as_ref(), policy, &tokens::count_tokens);
        handed.remember(asking, &recall, policy);
        recall
    }
}

const NONE_ELIGIBLE: &str = "no memory of this step is active with enough weight yet";

const NONE_WITHOUT_REPO: &str = "no memory of this step is active with enough weight yet, of those that no repository has shown; the others need `repo`";
