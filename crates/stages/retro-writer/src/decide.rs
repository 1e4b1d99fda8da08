//! Carries out what people ask of single memories, and adds the memories that they write.

use std::sync::{Mutex, PoisonError};

use retro_core::attribution::DecisionToken;
use retro_core::id::{MemoryId, Tenant, WorkflowKey};
use retro_core::learn::{
    AddedMemory, AdditionError, AdditionFacts, DecisionRequest, LessonSaving, MemoryDecision,
    MemoryDecisionError, MemoryDecisionFacts, SaveError, SaveFacts, SavedLesson, WrittenMemory, add_memory,
    decide_memory, save_lesson,
};
use retro_core::memory::Change;
use retro_core::similarity::ResolvedVectors;
use retro_store::{CommitResult, Decision, StoreError};

use crate::Writer;
use crate::metrics::CountedChanges;

impl Writer {
    /// Disables, enables, pins, unpins, restores or edits a memory or a rule at an operator's request. The id of the
    /// request identifies it; repeating it has no further effect. The inner error says why the memory does not allow
    /// it. Returns [`CommitResult::NotFound`] if the tenant has no such memory.
    pub async fn decide_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        decision: &MemoryDecision,
        request: DecisionRequest<'_>,
    ) -> Result<Result<CommitResult, MemoryDecisionError>, StoreError> {
        let now = self.clock.now();
        let changed = Mutex::new(CountedChanges::default());
        let token = (self.deciding_token)();
        let decide = |facts: &MemoryDecisionFacts| {
            let policy = self.policies.policy_for(&facts.key);
            let mut decided = decide_memory(facts, decision, request, &policy, now)?;
            name_token(&mut decided.changes, token.as_ref());
            *changed.lock().unwrap_or_else(PoisonError::into_inner) =
                CountedChanges::from_changes(&decided.changes);
            Ok(decided)
        };
        let done = self.store.decide_memory(tenant, id, &decide).await?;
        if done == Ok(CommitResult::Done) {
            changed.into_inner().unwrap_or_else(PoisonError::into_inner).record();
            self.outbox.notify_one();
        }
        Ok(done)
    }

    /// Adds a memory that an operator wrote. The same words twice are one memory, and repeating a request has no
    /// further effect. The inner error says why nothing was added.
    pub async fn add_memory(
        &self,
        key: &WorkflowKey,
        written: &WrittenMemory,
    ) -> Result<Result<AddedMemory, AdditionError>, StoreError> {
        let now = self.clock.now();
        let token = &(self.deciding_token)();
        let collect = || async { self.store.load_addition_facts(key, written).await.map(Some) };
        let decide = |vectors: ResolvedVectors| async move {
            let decide = |facts: &AdditionFacts| -> Decision<Result<AddedMemory, AdditionError>> {
                let embedder = vectors.embedder_for(facts)?;
                let policy = self.policies.policy_for(key);
                Ok(add_memory(facts, &policy, embedder, now).map(|mut added| {
                    name_token(&mut added.changes, token.as_ref());
                    added
                }))
            };
            self.store.add_memory(key, written, &decide).await
        };
        let added = self.decide_with_vectors(&key.tenant, collect, decide).await?;
        if let Ok(AddedMemory { changes, .. }) = &added {
            CountedChanges::from_changes(changes).record();
            self.outbox.notify_one();
        }
        Ok(added)
    }

    /// Saves a lesson that the agent of a run states. Saving it again has no further effect. The inner error says why
    /// nothing was saved.
    pub async fn save_lesson(
        &self,
        key: &WorkflowKey,
        saved: &SavedLesson,
    ) -> Result<Result<LessonSaving, SaveError>, StoreError> {
        let now = self.clock.now();
        let collect = || async { self.store.load_save_facts(key, saved).await.map(Some) };
        let decide = |vectors: ResolvedVectors| async move {
            let decide = |facts: &SaveFacts| -> Decision<Result<LessonSaving, SaveError>> {
                let embedder = vectors.embedder_for(facts)?;
                let policy = self.policies.policy_for(key);
                Ok(save_lesson(facts, &policy, embedder, now))
            };
            self.store.save_lesson(key, saved, &decide).await
        };
        let saving = self.decide_with_vectors(&key.tenant, collect, decide).await?;
        if let Ok(LessonSaving { changes, .. }) = &saving {
            CountedChanges::from_changes(changes).record();
            self.outbox.notify_one();
        }
        Ok(saving)
    }
}

/// Stores the access token of a request with the changes that it has caused.
pub(crate) fn name_token(changes: &mut [Change], token: Option<&DecisionToken>) {
    changes.iter_mut().for_each(|change| change.with_token = token.cloned());
}
