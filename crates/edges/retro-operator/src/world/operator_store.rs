//! Implements the operator port over the in-memory store.

use std::collections::BTreeSet;

use async_trait::async_trait;
use retro_core::calls::StoredSummary;
use retro_core::effect::{AssignedRun, Trial};
use retro_core::feedback::{FeedbackAcceptance, GivenFeedback};
use retro_core::id::{
    DeadLetterId, MemoryId, MemoryRef, Ordinal, ProposalId, RemarkKey, RetrospectiveId, ReviewBatchId,
    Tenant, Workflow, WorkflowKey,
};
use retro_core::memory::{Change, Memory, Tombstone};
use retro_core::outcome::PromptRun;
use retro_core::report::Report;
use retro_core::retrospective::Retrospective;
use retro_core::review::ReviewReport;
use retro_store::feedback::DecideFeedback;
use retro_store::track::{RunLink, RunLinkKey};
use retro_store::{
    Attempt, AuditRow, CANDIDATES_MAX, DatabaseHealth, DeadLetter, DeadLetterCount, DeadLetterFilter,
    DeadLetterStore, DeadLetterVersion, DeadLetterVersionRow, FeedbackRow, FeedbackStore, MemoryFilter,
    MemoryRefStore, OperatorStore, OutcomeStore, ProposalFilter, ProposalRow, ProposalStore, ReplayRow,
    Result, RetrospectiveDetail, RetrospectiveRow, RunExposure, RunFilter, RunRow, RunSearch, WorkflowRow,
};
use uuid::Uuid;

use super::World;

#[async_trait]
impl MemoryRefStore for World {
    async fn find_memory_ids(&self, tenant: &Tenant, name: MemoryRef) -> Result<Vec<MemoryId>> {
        let ours = self.memories.iter().filter(|(owner, _)| owner == tenant);
        Ok(ours
            .map(|(_, memory)| memory.id)
            .filter(|id| name.matches_id(*id))
            .take(CANDIDATES_MAX + 1)
            .collect())
    }
}

#[async_trait]
impl FeedbackStore for World {
    async fn record_feedback(
        &self,
        _: &Tenant,
        _: &GivenFeedback,
        _: DecideFeedback<'_>,
    ) -> Result<Option<FeedbackAcceptance>> {
        // People's pages record no feedback.
        Ok(None)
    }

    async fn list_memory_feedback(
        &self,
        tenant: &Tenant,
        memory: MemoryId,
        limit: u32,
    ) -> Result<Vec<FeedbackRow>> {
        Ok(self.feedback_on(tenant, memory).into_iter().take(limit as usize).collect())
    }

    async fn list_scope_feedback(&self, key: &WorkflowKey) -> Result<Vec<FeedbackRow>> {
        let of_scope = |memory: &&Memory| memory.scope.owning_workflow().as_ref() == Some(&key.workflow);
        let memories =
            self.memories.iter().filter(|(owner, _)| *owner == key.tenant).map(|(_, memory)| memory);
        Ok(memories.filter(of_scope).flat_map(|memory| self.feedback_on(&key.tenant, memory.id)).collect())
    }
}

#[async_trait]
impl ProposalStore for World {
    async fn list_proposals(&self, tenant: &Tenant, filter: &ProposalFilter) -> Result<Vec<ProposalRow>> {
        let fits = |row: &&ProposalRow| {
            filter.workflow.as_ref().is_none_or(|workflow| row.proposal.workflow == *workflow)
                && filter.retrospective.is_none_or(|id| row.proposal.retrospective == id)
                && filter.status.is_none_or(|status| crate::proposals::proposal_status(row) == status)
        };
        let ours = self.proposals.iter().filter(|(owner, _)| owner == tenant).map(|(_, row)| row);
        Ok(ours.filter(fits).take(filter.limit as usize).cloned().collect())
    }

    async fn find_proposal(&self, tenant: &Tenant, id: ProposalId) -> Result<Option<ProposalRow>> {
        let mut ours = self.proposals.iter().filter(|(owner, _)| owner == tenant).map(|(_, row)| row);
        Ok(ours.find(|row| row.proposal.id == id).cloned())
    }
}

#[async_trait]
impl DeadLetterStore for World {
    async fn list_attempts(&self, tenant: &Tenant, dead_letter: DeadLetterId) -> Result<Vec<Attempt>> {
        let seen = self.find_dead_letter(tenant, dead_letter).await?.is_some();
        Ok(if seen { self.attempts.clone() } else { Vec::new() })
    }

    async fn list_versions(&self, _: &Tenant, _: DeadLetterId) -> Result<Vec<DeadLetterVersionRow>> {
        Ok(Vec::new())
    }

    async fn find_version(&self, _: &Tenant, _: DeadLetterId, _: u32) -> Result<Option<DeadLetterVersion>> {
        Ok(None)
    }

    async fn list_replays(&self, _: &Tenant, _: DeadLetterId) -> Result<Vec<ReplayRow>> {
        Ok(Vec::new())
    }

    async fn count_dead_letters(
        &self,
        tenant: &Tenant,
        filter: &DeadLetterFilter,
    ) -> Result<Vec<DeadLetterCount>> {
        let dead_letters = self.list_dead_letters(tenant, filter).await?;
        Ok(dead_letters.iter().map(crate::dead_letters::single_count).collect())
    }
}

#[async_trait]
impl OutcomeStore for World {
    async fn list_run_links(
        &self,
        _: &Tenant,
        workflow: Option<&Workflow>,
        after: Option<&RunLinkKey>,
        limit: u32,
    ) -> Result<Vec<RunLink>> {
        let all = self.links.iter().filter(|(of, ..)| workflow.is_none_or(|wanted| wanted == of));
        let is_after = |(workflow, run, one, _): &&RunLink| {
            after.is_none_or(|after| (run, workflow, one) > (&after.0, &after.1, &after.2))
        };
        Ok(all.filter(is_after).take(limit as usize).cloned().collect())
    }

    async fn list_prompt_runs(&self, _: &WorkflowKey, limit: u32) -> Result<Vec<PromptRun>> {
        Ok(self.prompt_runs.iter().take(limit as usize).cloned().collect())
    }
}

#[async_trait]
impl OperatorStore for World {
    async fn list_tenants(&self) -> Result<Vec<Tenant>> {
        let mut all: Vec<_> = self.workflows.iter().map(|row| row.key.tenant.clone()).collect();
        all.extend(self.memories.iter().map(|(tenant, _)| tenant.clone()));
        all.sort();
        all.dedup();
        Ok(all)
    }

    async fn list_workflows(&self, tenant: &Tenant) -> Result<Vec<WorkflowRow>> {
        Ok(self.workflows.iter().filter(|row| row.key.tenant == *tenant).cloned().collect())
    }

    async fn search_runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<RunSearch> {
        let fits = |row: &&RunRow| {
            row.key.tenant == *tenant
                && filter.workflow.as_ref().is_none_or(|workflow| row.key.workflow == *workflow)
                && filter.run.as_ref().is_none_or(|run| row.facts.run_id == *run)
                && filter.since.is_none_or(|since| row.received_at >= since)
                && filter.until.is_none_or(|until| row.received_at < until)
                && filter.properties.match_facts(&row.facts)
        };
        let runs = self.runs.iter().rev().filter(fits).take(filter.limit as usize).cloned().collect();
        Ok(RunSearch { runs, stopped_at: None })
    }

    async fn list_call_summaries(&self, key: &WorkflowKey, limit: u32) -> Result<Vec<StoredSummary>> {
        let ours = self.summaries.iter().rev().filter(|(owner, _)| owner == key);
        Ok(ours.take(limit as usize).map(|(_, summary)| summary.clone()).collect())
    }

    async fn list_run_exposures(
        &self,
        key: &WorkflowKey,
        memory: MemoryId,
        after: Option<Ordinal>,
        limit: u32,
    ) -> Result<Vec<RunExposure>> {
        let mut all: Vec<_> = self.runs.iter().filter(|row| row.key == *key).collect();
        all.sort_by_key(|row| std::cmp::Reverse(row.ordinal));
        let met = |row: &RunRow| {
            let ordinal = row.ordinal.filter(|ordinal| after.is_none_or(|after| *ordinal < after))?;
            let facts = &row.facts;
            let trial = Trial {
                began_at: facts.started_at.unwrap_or(row.received_at),
                task: facts.task.clone(),
                exposed: facts.memories.presented.contains(&memory),
                succeeded: facts.outcome.succeeded(),
            };
            Some(RunExposure { ordinal, trial })
        };
        Ok(all.into_iter().filter_map(met).take(limit as usize).collect())
    }

    async fn list_assigned_runs(
        &self,
        key: &WorkflowKey,
        memory: MemoryId,
        limit: u32,
    ) -> Result<Vec<AssignedRun>> {
        let ours = self.assigned.iter().filter(|(owner, id, _)| owner == key && *id == memory);
        Ok(ours.take(limit as usize).map(|(_, _, run)| *run).collect())
    }

    async fn list_ordinals(&self, key: &WorkflowKey) -> Result<Vec<Ordinal>> {
        let mut all: Vec<_> =
            self.runs.iter().filter(|row| row.key == *key).filter_map(|row| row.ordinal).collect();
        all.sort_unstable();
        Ok(all)
    }

    async fn list_memories(&self, tenant: &Tenant, filter: &MemoryFilter) -> Result<Vec<Memory>> {
        let mut all: Vec<_> =
            self.memories.iter().filter(|(owner, _)| owner == tenant).map(|(_, one)| one.clone()).collect();
        all.retain(|memory| {
            filter
                .workflow
                .as_ref()
                .is_none_or(|workflow| memory.scope.owning_workflow().as_ref() == Some(workflow))
                && filter.step.as_ref().is_none_or(|step| memory.scope.step() == Some(step))
                && filter.status.is_none_or(|status| memory.status == status)
                && (!filter.held || memory.quarantine.is_some() && memory.status.is_living())
        });
        all.sort_by_key(|memory| (std::cmp::Reverse(memory.weight), memory.id));
        all.truncate(filter.limit as usize);
        Ok(all)
    }

    async fn list_memory_changes(&self, tenant: &Tenant, memory: MemoryId) -> Result<Vec<Change>> {
        let ours =
            self.changes.iter().filter(|(key, change)| key.tenant == *tenant && change.memory == memory);
        Ok(ours.map(|(_, change)| change.clone()).collect())
    }

    async fn list_workflow_changes(&self, key: &WorkflowKey) -> Result<Vec<Change>> {
        Ok(self.changes.iter().filter(|(owner, _)| owner == key).map(|(_, change)| change.clone()).collect())
    }

    async fn list_tombstones(&self, key: &WorkflowKey) -> Result<Vec<Tombstone>> {
        Ok(self.tombstones.iter().filter(|(owner, _)| owner == key).map(|(_, stone)| stone.clone()).collect())
    }

    async fn list_retrospectives(
        &self,
        tenant: &Tenant,
        workflow: Option<&Workflow>,
        limit: u32,
    ) -> Result<Vec<RetrospectiveRow>> {
        let ours = self.retrospectives.iter().zip(&self.details).rev().filter(|(one, _)| {
            one.key.tenant == *tenant && workflow.is_none_or(|workflow| one.key.workflow == *workflow)
        });
        let made = |id| self.changes.iter().filter(|(_, change)| change.retrospective == Some(id)).count();
        let row = |(one, (_, investigations)): (&Retrospective, &(_, Vec<_>))| RetrospectiveRow {
            retrospective: one.clone(),
            investigated: u32::try_from(investigations.len()).unwrap(),
            changes: u32::try_from(made(one.id)).unwrap(),
        };
        Ok(ours.take(limit as usize).map(row).collect())
    }

    async fn find_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<Option<RetrospectiveDetail>> {
        let mut all = self.retrospectives.iter().zip(&self.details);
        let found = all.find(|(one, _)| one.key.tenant == *tenant && one.id == id);
        Ok(found.map(|(retrospective, (sample, investigations))| RetrospectiveDetail {
            retrospective: retrospective.clone(),
            sample: Some(sample.clone()),
            investigations: investigations.clone(),
            attempts: Vec::new(),
        }))
    }

    async fn find_report(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Option<Report>> {
        Ok(self.reports.iter().find(|report| report.tenant == *tenant && report.id == id).cloned())
    }

    async fn list_dead_letters(&self, tenant: &Tenant, filter: &DeadLetterFilter) -> Result<Vec<DeadLetter>> {
        let fits = |dead_letter: &&DeadLetter| {
            dead_letter.message.tenant.as_ref().unwrap_or(&Tenant::default_tenant()) == tenant
                && filter.code.is_none_or(|code| dead_letter.message.rejection.code == code)
                && filter
                    .workflow
                    .as_ref()
                    .is_none_or(|name| dead_letter.message.workflow.as_ref() == Some(name))
                && filter.consumer.as_ref().is_none_or(|name| dead_letter.message.position.consumer == *name)
                && filter.since.is_none_or(|since| dead_letter.created_at >= since)
                && filter.until.is_none_or(|until| dead_letter.created_at < until)
                && filter.status.is_none_or(|status| dead_letter.status == status)
                && (filter.ids.is_empty() || filter.ids.contains(&dead_letter.id))
        };
        let not_reached = |dead_letter: &&DeadLetter| filter.after.is_some_and(|last| dead_letter.id != last);
        let reached = usize::from(filter.after.is_some());
        let all = self.dead_letters.iter().filter(fits);
        Ok(all.skip_while(not_reached).skip(reached).take(filter.limit as usize).cloned().collect())
    }

    async fn find_dead_letter(&self, tenant: &Tenant, id: DeadLetterId) -> Result<Option<DeadLetter>> {
        let all = self
            .list_dead_letters(tenant, &DeadLetterFilter { limit: u32::MAX, ..Default::default() })
            .await?;
        Ok(all.into_iter().find(|dead_letter| dead_letter.id == id))
    }

    async fn list_audit_rows(&self, _: &Tenant, _: Uuid) -> Result<Vec<AuditRow>> {
        Ok(Vec::new())
    }

    async fn find_review_report(&self, _: &Tenant, _: ReviewBatchId) -> Result<Option<ReviewReport>> {
        Ok(None)
    }

    async fn list_review_reports(
        &self,
        _: &Tenant,
        _: Option<&Workflow>,
        _: u32,
    ) -> Result<Vec<ReviewReport>> {
        Ok(Vec::new())
    }

    async fn select_existing_remarks(
        &self,
        _: &Tenant,
        remarks: &[RemarkKey],
    ) -> Result<BTreeSet<RemarkKey>> {
        Ok(remarks.iter().cloned().collect())
    }

    async fn list_rule_scopes(&self, _: &Tenant) -> Result<Vec<WorkflowKey>> {
        Ok(Vec::new())
    }

    async fn load_health(&self) -> Result<DatabaseHealth> {
        let dead_letters_open = self.dead_letters.len() as u64;
        let events_seen = self.runs.len() as u64;
        Ok(DatabaseHealth { outbox_unsent: 2, dead_letters_open, events_seen, migrations: 1 })
    }
}
