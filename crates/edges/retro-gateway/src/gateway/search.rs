//! Searches what a run may be handed, while it is under way.

use retro_core::id::{MemoryId, RunId, Tenant, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::recall::{FoundKind, FoundMemories, FoundMemory, RecalledMemory, render_block};
use tokio::time::Instant;
use tracing::warn;

use super::kill_switches::Stop;
use super::{ContextScope, Gateway};
use crate::answer::{FOUND_MAX, FoundEntry, Recording, SearchAnswer, SearchRequest};
use crate::ranked_task::{LoadedScope, RankedTask};

impl Gateway {
    /// Returns the memories and rules about a query, of those that the reader may be handed. Never fails: if the
    /// database is down or slow, the response is empty and gives the reason. If the request contains a run id, what is
    /// withheld from that run by chance is not found, and what is found is recorded as presented to it, since it stands
    /// in front of the agent like what it was handed at the start.
    pub async fn search(&self, tenant: &Tenant, request: SearchRequest) -> SearchAnswer {
        let deadline = Instant::now() + self.timeout;
        let run = request.run.clone();
        if let Some(stop) = self.find_known_stop(tenant, request.workflow.as_ref(), Some(&request.step)) {
            return stop.answer_search(run.as_ref());
        }
        let answer = match self.select_found(deadline, tenant, request).await {
            Ok(answer) => answer,
            Err(stop) => return stop.answer_search(run.as_ref()),
        };
        let found = match (&answer.memories[..], &answer.ranking) {
            ([], None) => "unavailable",
            ([], Some(_)) if answer.withheld_by_chance > 0 => "withheld",
            ([], Some(_)) => "nothing_found",
            _ => "answered",
        };
        retro_telemetry::metrics::SEARCH_ANSWERS.add(1, [found]);
        answer
    }

    /// Returns what is found; fails if nothing may be handed out.
    async fn select_found(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        request: SearchRequest,
    ) -> Result<SearchAnswer, Stop> {
        let SearchRequest { query, limit, workflow, step, repository, run } = request;
        let (limit, run) = (limit.min(FOUND_MAX), run.as_ref());
        let Some(ranking) = self.begin_ranking(deadline, tenant, Some(&query)) else {
            return Ok(SearchAnswer::empty(run, "the query contains no word"));
        };
        let key = workflow.map(|workflow| WorkflowKey { tenant: tenant.clone(), workflow });
        let policy = key.as_ref().map_or_else(Policy::default, |key| self.policies.policy_for(key));
        let mut problem = None;
        let memories = match key.clone() {
            Some(key) => {
                let scope = ContextScope::Step { key, step: step.clone(), repository: repository.clone() };
                let loaded = self.load_prepared(deadline, scope.clone(), &policy).await;
                let loaded = loaded.map_err(|reason| problem = Some(reason)).ok();
                loaded.map(|memories| LoadedScope { scope, memories })
            }
            None => None,
        };
        let rules = match repository {
            Some(repository) => {
                let scope = ContextScope::Rules { tenant: tenant.clone(), repo: repository.repo.clone() };
                let loaded = self.load_rules(deadline, tenant, repository.repo, &policy).await;
                let loaded = loaded.map_err(|reason| problem = Some(reason)).ok();
                loaded.map(|(memories, _)| LoadedScope { scope, memories })
            }
            None => None,
        };
        if let Some(reason) = &problem {
            warn!(reason = reason.as_str(), "search: answered without memories: {reason}");
        }
        let scopes: Vec<LoadedScope> = memories.into_iter().chain(rules).collect();
        if scopes.is_empty() {
            let reason = problem.unwrap_or_else(|| NOTHING_NAMED.to_owned());
            return Ok(SearchAnswer::empty(run, &format!("no memories: {reason}")));
        }
        let ranked = self.finish_ranking(deadline, ranking, tenant, &policy, &scopes).await;
        let find = |LoadedScope { scope, memories }: &LoadedScope| {
            let kind = match scope {
                ContextScope::Step { .. } => FoundKind::Memory,
                ContextScope::Rules { .. } => FoundKind::Rule,
            };
            memories.find_about(&ranked.order(memories), kind, run, policy.withhold_permille)
        };
        let found = FoundMemories::take_best(scopes.iter().flat_map(find).collect(), limit);
        let workflow = key.as_ref().map(|key| &key.workflow);
        if let Some(stop) = self.find_stop(deadline, tenant, workflow, Some(&step)).await {
            return Err(stop);
        }
        Ok(self.answer_search(deadline, key.as_ref(), run, found, ranked, problem).await)
    }

    async fn answer_search(
        &self,
        deadline: Instant,
        key: Option<&WorkflowKey>,
        run: Option<&RunId>,
        found: FoundMemories,
        ranked: RankedTask,
        problem: Option<String>,
    ) -> SearchAnswer {
        let FoundMemories { found, assignments } = found;
        let text = render_block(found.iter().map(|one| &one.memory));
        let memories: Vec<FoundEntry> = found.into_iter().map(FoundEntry::from).collect();
        let ids: Vec<MemoryId> = memories.iter().map(|entry| entry.id).collect();
        let withheld = assignments.iter().filter(|assignment| assignment.withheld).count();
        let none =
            problem.map_or_else(|| NOTHING_FOUND.to_owned(), |reason| format!("no memories: {reason}"));
        let (recorded, reason) = match key {
            Some(key) => self.record_presentation(deadline, key, run, &ids, &assignments, &none).await,
            None if ids.is_empty() => (Recording::of_unrecorded(run), Some(none)),
            // A rule belongs to no workflow, so it is recorded only under the run's.
            None => (Recording::of_unrecorded(run), run.map(|_| WITHOUT_WORKFLOW.to_owned())),
        };
        SearchAnswer {
            memories,
            text,
            withheld_by_chance: u32::try_from(withheld).unwrap_or(u32::MAX),
            ranking: Some(ranked.into_ranking()),
            recorded,
            reason,
        }
    }
}

impl From<FoundMemory> for FoundEntry {
    fn from(found: FoundMemory) -> Self {
        let FoundMemory { memory, kind, score, assignment: _ } = found;
        let RecalledMemory { id, weight, title, because, newcomer: _ } = memory;
        let (relevance, words) = because.map(|why| (why.relevance, why.words)).unwrap_or_default();
        Self { id, kind, weight, title, score, relevance, words }
    }
}

impl SearchAnswer {
    /// Returns an empty response that gives this reason.
    pub(crate) fn empty(run: Option<&RunId>, reason: &str) -> Self {
        Self {
            memories: Vec::new(),
            text: String::new(),
            withheld_by_chance: 0,
            ranking: None,
            recorded: Recording::of_unrecorded(run),
            reason: Some(reason.to_owned()),
        }
    }
}

impl Recording {
    /// Returns the outcome if nothing was to be recorded, or could be.
    pub(crate) const fn of_unrecorded(run: Option<&RunId>) -> Self {
        if run.is_some() { Self::Nothing } else { Self::Preview }
    }
}

const NOTHING_NAMED: &str = "neither `workflow` nor `repo` is named";

const NOTHING_FOUND: &str = "no memory that this run may be handed is about the query";

const WITHOUT_WORKFLOW: &str = "name the run's workflow with `workflow` to record what was found";
