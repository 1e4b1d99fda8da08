//! Returns the pages that `verify` reads from the in-memory store.

use async_trait::async_trait;
use retro_core::id::{MemoryId, RunId, Tenant, WorkflowKey};
use retro_core::memory::Memory;
use retro_store::{
    MemoryRecords, OrdinalSummary, ProposalRow, Result, RetrospectiveCursor, RetrospectivePage,
    RetrospectiveRecords, VerifyStore, WindowRow, WorkflowRecords,
};

use super::World;

impl World {
    fn summarize_ordinals(&self, key: &WorkflowKey) -> OrdinalSummary {
        let ours = self.runs.iter().filter(|row| row.key == *key);
        let mut all: Vec<_> = ours.filter_map(|row| row.ordinal).collect();
        all.sort_unstable();
        let first_gap = (1..).zip(all.iter().copied()).find(|(expected, found)| expected != found);
        OrdinalSummary { assigned: all.len() as u64, first_gap }
    }

    fn list_windows(&self, key: &WorkflowKey) -> Vec<WindowRow> {
        let ours = self.retrospectives.iter().filter(|one| one.key == *key && one.manual_request.is_none());
        let row = |one: &retro_core::retrospective::Retrospective| WindowRow {
            epoch: one.epoch,
            first: one.first,
            last: one.last,
            state: one.state,
        };
        let mut windows: Vec<_> = ours.map(row).collect();
        windows.sort_by_key(|row| row.epoch);
        windows
    }

    /// Returns the workflow that owns a memory: the workflow of its changes, or else of its scope.
    fn memory_workflow(&self, tenant: &Tenant, memory: &Memory) -> WorkflowKey {
        let changed = self.changes.iter().find(|(key, one)| key.tenant == *tenant && one.memory == memory.id);
        changed.map(|(key, _)| key.clone()).unwrap_or_else(|| {
            let workflow = memory.scope.owning_workflow().unwrap_or_else(|| "platform".parse().unwrap());
            WorkflowKey { tenant: tenant.clone(), workflow }
        })
    }
}

#[async_trait]
impl VerifyStore for World {
    async fn list_workflow_records(
        &self,
        after: Option<&WorkflowKey>,
        limit: u32,
    ) -> Result<Vec<WorkflowRecords>> {
        self.pages.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut rows: Vec<_> = self.workflows.iter().collect();
        rows.sort_by_key(|row| &row.key);
        let rows = rows.into_iter().filter(|row| after.is_none_or(|after| row.key > *after));
        let books = rows.map(|row| WorkflowRecords {
            key: row.key.clone(),
            state: row.state.clone(),
            recorded: row.recorded,
            ordinals: self.summarize_ordinals(&row.key),
            windows: self.list_windows(&row.key),
        });
        Ok(books.take(limit as usize).collect())
    }

    async fn list_retrospective_records(
        &self,
        after: Option<&RetrospectiveCursor>,
        limit: u32,
    ) -> Result<RetrospectivePage> {
        self.pages.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let place = |one: &retro_core::retrospective::Retrospective| {
            (one.key.clone(), i64::try_from(one.epoch).unwrap())
        };
        let mut all: Vec<_> = self.retrospectives.iter().collect();
        all.sort_by_key(|one| place(one));
        let after = after.map(|cursor| (cursor.key.clone(), cursor.epoch));
        all.retain(|one| after.as_ref().is_none_or(|after| place(one) > *after));
        let full = all.len() > limit as usize;
        all.truncate(limit as usize);
        let next = all.last().filter(|_| full).map(|one| {
            let (key, epoch) = place(one);
            RetrospectiveCursor { key, epoch }
        });
        let books = |one: &retro_core::retrospective::Retrospective| RetrospectiveRecords {
            retrospective: one.clone(),
            report: self.reports.iter().find(|report| report.id == one.id).cloned(),
            changes: self
                .changes
                .iter()
                .map(|(_, change)| change)
                .filter(|c| c.retrospective == Some(one.id))
                .cloned()
                .collect(),
            proposals: self
                .proposals
                .iter()
                .map(|(_, row)| row)
                .filter(|row: &&ProposalRow| row.proposal.retrospective == one.id)
                .cloned()
                .collect(),
        };
        Ok(RetrospectivePage { items: all.into_iter().map(books).collect(), next })
    }

    async fn list_memory_records(
        &self,
        after: Option<(&Tenant, MemoryId)>,
        limit: u32,
    ) -> Result<Vec<MemoryRecords>> {
        self.pages.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut names: Vec<_> = self.memories.iter().map(|(tenant, one)| (tenant.clone(), one.id)).collect();
        names.extend(self.changes.iter().map(|(key, change)| (key.tenant.clone(), change.memory)));
        names.extend(self.tombstones.iter().map(|(key, stone)| (key.tenant.clone(), stone.memory)));
        names.sort();
        names.dedup();
        names.retain(|(tenant, id)| after.is_none_or(|after| (tenant, *id) > after));
        names.truncate(limit as usize);
        let mut glimpse = self.partial_read.lock().unwrap().take();
        let books = |(tenant, id): (Tenant, MemoryId)| {
            let stored = self.memories.iter().find(|(owner, one)| *owner == tenant && one.id == id);
            let stored = glimpse.take_if(|half_way| half_way.id == id).or(stored.map(|(_, one)| one.clone()));
            let of = |key: &WorkflowKey, memory| key.tenant == tenant && memory == id;
            MemoryRecords {
                feedback: self.feedback_on(&tenant, id),
                stored: stored.map(|memory| (self.memory_workflow(&tenant, &memory), memory)),
                changes: self.changes.iter().filter(|(key, one)| of(key, one.memory)).cloned().collect(),
                tombstone: self.tombstones.iter().find(|(key, one)| of(key, one.memory)).cloned(),
                tenant,
                id,
            }
        };
        Ok(names.into_iter().map(books).collect())
    }

    async fn find_uncounted_runs(&self, key: &WorkflowKey, runs: &[RunId]) -> Result<Vec<RunId>> {
        let counted = |run: &&RunId| {
            self.runs.iter().any(|row| row.key == *key && row.facts.run_id == **run && row.ordinal.is_some())
        };
        Ok(runs.iter().filter(|run| !counted(run)).cloned().collect())
    }
}
