//! Implements the ports for single runs and for short ids over the in-memory store.

use std::collections::BTreeSet;

use async_trait::async_trait;
use retro_core::id::{MemoryId, ObjectRef, RunId, Tenant, Workflow, WorkflowKey};
use retro_store::{
    InspectStore, MemoryUsage, ObjectKind, ObjectRefStore, Result, RunDetail, RunMemory, RunRetrospective,
    StoredBody,
};
use uuid::Uuid;

use super::World;

#[async_trait]
impl InspectStore for World {
    async fn find_run_workflows(
        &self,
        tenant: &Tenant,
        run: &RunId,
        workflow: Option<&Workflow>,
    ) -> Result<Vec<Workflow>> {
        let ours = self.runs.iter().filter(|row| row.key.tenant == *tenant && row.facts.run_id == *run);
        let mut all: Vec<_> = ours
            .map(|row| row.key.workflow.clone())
            .filter(|of| workflow.is_none_or(|workflow| workflow == of))
            .collect();
        all.sort();
        Ok(all)
    }

    async fn load_run_detail(&self, key: &WorkflowKey, run: &RunId) -> Result<Option<RunDetail>> {
        let Some(row) = self.runs.iter().find(|row| row.key == *key && row.facts.run_id == *run) else {
            return Ok(None);
        };
        let trajectory = self.trajectories.iter().find(|(of, id, _)| of == key && id == run);
        let body = trajectory.map_or(StoredBody::None, |(_, _, trajectory)| {
            StoredBody::Inline(serde_json::to_vec(trajectory).unwrap())
        });
        let met = row.facts.memories.presented.iter().map(|id| RunMemory {
            id: *id,
            memory: self
                .memories
                .iter()
                .find(|(tenant, memory)| *tenant == key.tenant && memory.id == *id)
                .map(|(_, memory)| memory.clone()),
            presented_at: None,
            read_at: None,
            withheld: None,
            applied_in: None,
        });
        let looked = self.retrospectives.iter().zip(&self.details).filter(|(one, _)| {
            one.key == *key && row.ordinal.is_some_and(|ordinal| (one.first..=one.last).contains(&ordinal))
        });
        let looked = looked.map(|(one, (sample, investigations))| RunRetrospective {
            retrospective: one.clone(),
            sample: Some(sample.clone()),
            investigation: investigations.iter().find(|one| one.run == *run).cloned(),
        });
        let linked = self.links.iter().filter(|(workflow, of, ..)| *workflow == key.workflow && of == run);
        Ok(Some(RunDetail {
            key: key.clone(),
            run: run.clone(),
            ordinal: row.ordinal,
            attempt: row.facts.attempt,
            received_at: row.received_at,
            facts: Some((row.facts.clone(), row.body.clone())),
            body,
            memories: met.collect(),
            retrospectives: looked.collect(),
            pull_requests: linked
                .map(|(_, _, one, facts)| {
                    retro_core::pull_request::PullRequestOutcome::from_facts(one.clone(), facts)
                })
                .collect(),
            commit_prompt_versions: BTreeSet::new(),
            checks: Vec::new(),
        }))
    }

    async fn count_memory_usage(&self, tenant: &Tenant, memories: &[MemoryId]) -> Result<Vec<MemoryUsage>> {
        let count = |id: &MemoryId| {
            let ours = self.runs.iter().filter(|row| row.key.tenant == *tenant);
            let met = |read: bool| {
                ours.clone()
                    .filter(|row| {
                        let memories = &row.facts.memories;
                        if read { memories.read.contains(id) } else { memories.presented.contains(id) }
                    })
                    .count() as u64
            };
            MemoryUsage { presented: met(false), read: met(true), applied: 0 }
        };
        Ok(memories.iter().map(count).collect())
    }
}

#[async_trait]
impl ObjectRefStore for World {
    async fn find_object_ids(&self, tenant: &Tenant, kind: ObjectKind, name: ObjectRef) -> Result<Vec<Uuid>> {
        let mut all: Vec<Uuid> = match kind {
            ObjectKind::Retrospective => self
                .retrospectives
                .iter()
                .filter(|one| one.key.tenant == *tenant)
                .map(|one| one.id.0)
                .collect(),
            ObjectKind::Report => {
                self.reports.iter().filter(|one| one.tenant == *tenant).map(|one| one.id.0).collect()
            }
            ObjectKind::Proposal => self
                .proposals
                .iter()
                .filter(|(of, _)| of == tenant)
                .map(|(_, row)| row.proposal.id.0)
                .collect(),
            ObjectKind::DeadLetter => {
                let ours = self
                    .dead_letters
                    .iter()
                    .filter(|one| one.message.tenant.as_ref().unwrap_or(&Tenant::default_tenant()) == tenant);
                ours.map(|one| one.id.0).collect()
            }
            ObjectKind::ReviewReport | ObjectKind::ReplayBatch => Vec::new(),
        };
        all.retain(|id| name.matches_id(*id));
        all.sort_unstable();
        Ok(all)
    }
}
