//! Takes what agents and people say of a memory.

use retro_core::feedback::{FeedbackAuthor, GivenFeedback};
use retro_core::id::{MemoryId, MemoryRef, Tenant, WorkflowKey};
use retro_core::memory::Memory;
use retro_store::{UnresolvedRef, resolve_memory_ref};
use tokio::time::Instant;
use tracing::warn;

use super::{CachedParts, Gateway};
use crate::feedback::{
    FeedbackAnswer, FeedbackFieldError, FeedbackRecording, FeedbackRequest, store_feedback,
};

/// Reason why feedback cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedbackError {
    /// A field of the request is missing or wrong.
    Field(FeedbackFieldError),
    /// The memory's name matches no memory that the author may speak of, or several.
    Memory(UnresolvedRef),
}

impl Gateway {
    /// Stores what somebody says of a memory. Fails if a field is wrong, or if the tenant has no such memory. A memory
    /// of another repository is as missing for an agent as one of another tenant, unless its run was handed it. If the
    /// database is down or slow, the response says that it is unknown whether the feedback is stored.
    pub async fn give_feedback(
        &self,
        tenant: &Tenant,
        request: &FeedbackRequest,
    ) -> Result<FeedbackAnswer, FeedbackError> {
        // Every field is checked before the database is asked.
        let author = request.author().map_err(FeedbackError::Field)?;
        let why = request.words().map_err(FeedbackError::Field)?;
        let deadline = Instant::now() + self.timeout;
        let finding = self.find_memory_of(deadline, tenant, request.memory, &author);
        let memory = match self.read_in_turn(deadline, tenant, finding).await {
            Ok(found) => found.map_err(FeedbackError::Memory)?,
            Err(reason) => return Ok(uncertain(&reason)),
        };
        let given = GivenFeedback { memory, verdict: request.verdict, author, why };
        match self.store_in_time(deadline, tenant, &given).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(FeedbackError::Memory(UnresolvedRef::Missing(request.memory))),
            Err(reason) => Ok(uncertain(&reason)),
        }
    }

    async fn store_in_time(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        given: &GivenFeedback,
    ) -> Result<Option<FeedbackAnswer>, String> {
        match self.recordings.try_acquire(tenant) {
            Some(_turn) => self.run_in_time(deadline, store_feedback(&*self.store, tenant, given)).await,
            None => Err("too many recordings are in progress".to_owned()),
        }
    }

    async fn find_memory_of(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        name: MemoryRef,
        author: &FeedbackAuthor,
    ) -> retro_store::Result<Result<MemoryId, UnresolvedRef>> {
        let memory = match resolve_memory_ref(&*self.store, tenant, name).await? {
            Ok(id) => self.store.find_memory(tenant, id).await?,
            Err(unnamed) => return Ok(Err(unnamed)),
        };
        Ok(match memory {
            Some(memory) if self.may_speak_of(deadline, tenant, &memory, author).await? => Ok(memory.id),
            _ => Err(UnresolvedRef::Missing(name)),
        })
    }

    async fn may_speak_of(
        &self,
        deadline: Instant,
        tenant: &Tenant,
        memory: &Memory,
        author: &FeedbackAuthor,
    ) -> retro_store::Result<bool> {
        // People see every memory of their tenant.
        let Some((workflow, run)) = author.run() else { return Ok(true) };
        if memory.scope.includes_run(None) {
            return Ok(true);
        }
        let key = WorkflowKey { tenant: tenant.clone(), workflow: workflow.clone() };
        if self.store.was_handed(&key, run, memory.id).await? {
            return Ok(true);
        }
        let Some(CachedParts { presentations, .. }) = &self.cached else { return Ok(false) };
        // Perhaps it is about to be stored.
        presentations.flush(deadline).await;
        self.store.was_handed(&key, run, memory.id).await
    }
}

fn uncertain(reason: &str) -> FeedbackAnswer {
    let reason = format!("recording feedback is uncertain: {reason}");
    warn!(reason = reason.as_str(), "{reason}");
    FeedbackAnswer { recorded: FeedbackRecording::Unknown, reason }
}
