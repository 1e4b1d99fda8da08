//! Opens one memory in full.

use retro_core::gate::blocked_reason;
use retro_core::id::{MemoryRef, Tenant, WorkflowKey};
use retro_core::memory::{Memory, MemoryStatus};
use retro_core::policy::Policy;
use retro_store::{UnresolvedRef, resolve_memory_ref};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{CachedParts, Gateway};
use crate::answer::{MemoryAnswer, MemoryReader, Recording};

impl Gateway {
    /// Returns one memory of the tenant in full and, if a run is given, records it as read. Fails only if `name`
    /// matches no memory that the reader may be handed, or several; memories of other tenants are ignored. A memory
    /// of another repository is as missing as one of another tenant, unless it was presented to the run.
    pub async fn read_memory(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
        reader: MemoryReader,
    ) -> Result<MemoryAnswer, UnresolvedRef> {
        let deadline = Instant::now() + self.timeout;
        let finding = self.find_memory_for(deadline, tenant, name, &reader);
        let found = self.read_in_turn(deadline, tenant, finding).await;
        let MemoryReader { run, workflow, .. } = reader;
        let memory = match found {
            Ok(found) => found?,
            Err(reason) => {
                warn!(reason = reason.as_str(), "read: answered without the memory: {reason}");
                let recorded = if run.is_some() { Recording::Nothing } else { Recording::Preview };
                let reason = Some(format!("no memory: {reason}"));
                return Ok(MemoryAnswer { memory: None, recorded, reason });
            }
        };
        let asked = workflow.as_ref().or_else(|| memory.scope.workflow());
        if let Some(stop) = self.find_stop(deadline, tenant, asked, memory.scope.step()).await {
            let recorded = if run.is_some() { Recording::Nothing } else { Recording::Preview };
            return Ok(MemoryAnswer { memory: None, recorded, reason: Some(stop.into_reason()) });
        }
        // Checked before the recording: a blocked memory does not count as read.
        let owner = memory.scope.owning_workflow();
        let policy = owner.map_or_else(Policy::default, |workflow| {
            self.policies.policy_for(&WorkflowKey { tenant: tenant.clone(), workflow })
        });
        // An agent learns that there is nothing for it, not what the text says.
        let blocked = blocked_reason(&memory, &policy.held_dangers)
            .inspect(|why| debug!(memory.id = %memory.id, "memory {} is blocked: {why}", memory.id))
            .map(|_| "the memory is blocked until a person has looked at it");
        let disabled = memory.disabled_by.as_ref().map(|_| "a person has disabled the memory");
        if let Some(reason) = unshown_status_reason(memory.status).or(disabled).or(blocked) {
            let recorded = if run.is_some() { Recording::Nothing } else { Recording::Preview };
            return Ok(MemoryAnswer { memory: None, recorded, reason: Some(reason.to_owned()) });
        }
        // A rule belongs to no workflow, so its read can be recorded only under the run's workflow.
        let workflow = workflow.or_else(|| memory.scope.workflow().cloned());
        let (recorded, reason) = match (run, workflow) {
            (None, _) => (Recording::Preview, Some("no run was named, so nothing is recorded".to_owned())),
            (Some(_), None) => (
                Recording::Nothing,
                Some(
                    "the memory belongs to no workflow: name the run's workflow with `workflow` to record it"
                        .to_owned(),
                ),
            ),
            (Some(run), Some(workflow)) => {
                let key = WorkflowKey { tenant: tenant.clone(), workflow };
                let recording = self.store.record_read(&key, &run, memory.id);
                let recorded = self.record_in_time(deadline, &key, "read", recording).await;
                if recorded.0 == Recording::Recorded {
                    retro_telemetry::metrics::MEMORIES_READ.add(1, []);
                }
                recorded
            }
        };
        Ok(MemoryAnswer { memory: Some(memory.into()), recorded, reason })
    }

    /// Returns the memory with this name if the reader may be handed it.
    async fn find_memory_for(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        name: MemoryRef,
        reader: &MemoryReader,
    ) -> retro_store::Result<Result<Memory, UnresolvedRef>> {
        let memory = match resolve_memory_ref(&*self.store, tenant, name).await? {
            Ok(id) => self.store.find_memory(tenant, id).await?,
            Err(unnamed) => return Ok(Err(unnamed)),
        };
        Ok(match memory {
            Some(memory) if self.may_open(deadline, tenant, &memory, reader).await? => Ok(memory),
            _ => Err(UnresolvedRef::Missing(name)),
        })
    }

    async fn may_open(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        memory: &Memory,
        reader: &MemoryReader,
    ) -> retro_store::Result<bool> {
        if memory.scope.includes_run(reader.repository.as_ref()) {
            return Ok(true);
        }
        let workflow = reader.workflow.as_ref().or_else(|| memory.scope.workflow());
        let Some((run, workflow)) = reader.run.as_ref().zip(workflow) else { return Ok(false) };
        let key = WorkflowKey { tenant: tenant.clone(), workflow: workflow.clone() };
        if self.store.was_presented(&key, run, memory.id).await? {
            return Ok(true);
        }
        let Some(CachedParts { presentations, .. }) = &self.cached else { return Ok(false) };
        // Perhaps it is about to be stored.
        presentations.flush(deadline).await;
        self.store.was_presented(&key, run, memory.id).await
    }
}

/// Returns the reason why no agent may open a memory with this status, or `None` if one may: a run may still open
/// a memory that it was presented before it was archived or superseded.
const fn unshown_status_reason(status: MemoryStatus) -> Option<&'static str> {
    match status {
        MemoryStatus::Active
        | MemoryStatus::Archived
        | MemoryStatus::Superseded
        | MemoryStatus::Graduated => None,
        MemoryStatus::Tentative => Some("the memory was observed in one run only and is not confirmed"),
        MemoryStatus::Deleted => Some("the memory was deleted"),
    }
}
