//! Carries out requests of operators: the sampler opens manual retrospectives, and the writer changes
//! memories. Shared by the command line and the HTTP API.

use std::sync::Arc;

use async_trait::async_trait;
use retro_core::id::{MemoryId, MemoryRef, ProposalId, RetrospectiveId, Tenant, WorkflowKey};
use retro_core::learn::{
    DecisionRequest, LessonWording, MemoryDecision, RuleAddition, SavedLesson, WrittenMemory,
};
use retro_core::manual::{Acceptance, Refusal, TriggerError};
use retro_core::memory::MemoryScope;
use retro_core::policy::Policies;
use retro_core::retrospective::ManualRequest;
use retro_gateway::{LessonOutcome, LessonSaver};
use retro_http::{TenantLimiter, deciding_token};
use retro_operator::{
    DecisionOutcome, ManualRequests, MemoryCommand, MemoryCommandError, MemoryCommandOutcome, MemoryCommands,
    RuleAdditionOutcome, RuleCommands,
};
use retro_redact::Redactor;
use retro_sampler::ManualRetrospectives;
use retro_store::{
    CommitResult, EmbeddingSource, Store, StoreError, UnresolvedRef, resolve_memory_ref,
    wait_for_context_leases,
};
use retro_writer::Writer;
use tokio::sync::Notify;
use tracing::warn;

use crate::clock::SystemClock;

/// Maximum number of lessons that agents save at once, over whichever protocol: each waits for the lock of its workflow,
/// with a connection to the database.
const LESSON_SAVES_MAX: usize = 16;
/// Maximum number of lessons that agents of one tenant save at once.
const TENANT_LESSON_SAVES_MAX: usize = 8;

/// Operations that an operator can request.
pub(crate) struct OperatorCommands {
    store: Arc<dyn Store>,
    manual: ManualRetrospectives,
    writer: Writer,
    lesson_saves: TenantLimiter,
}

impl OperatorCommands {
    /// Creates the operations over a store. Lessons are compared by `vectors` if given, otherwise by the
    /// built-in embedder. `outbox` is notified if there may be something to send.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        policies: Arc<dyn Policies>,
        vectors: Option<Arc<dyn EmbeddingSource>>,
        outbox: Arc<Notify>,
    ) -> Self {
        let clock = Arc::new(SystemClock);
        let manual =
            ManualRetrospectives::new(store.clone(), policies.clone(), clock.clone(), outbox.clone());
        let writer = Writer::new(store.clone(), policies, clock, outbox)
            .with_vector_source(vectors)
            .with_deciding_token(deciding_token);
        let lesson_saves = TenantLimiter::new(LESSON_SAVES_MAX, TENANT_LESSON_SAVES_MAX);
        Self { store, manual, writer, lesson_saves }
    }

    async fn resolve_name(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
    ) -> Result<Result<MemoryId, UnresolvedRef>, StoreError> {
        resolve_memory_ref(&*self.store, tenant, name).await
    }
}

/// Waits until every gateway hands out memories as a person has decided: a person who is answered sees the decision.
pub(crate) async fn wait_until_handed_out(store: &dyn Store) {
    for gateway in wait_for_context_leases(store).await {
        warn!("the gateway {gateway} may still hand out memories as they were, for at most two seconds");
    }
}

/// Redacts the secrets in a text before it is stored.
fn redact_text(text: &str) -> String {
    Redactor::shared().redact_text(text).into_owned()
}

/// Redacts the secrets in the words of a memory before they are stored.
fn redact_wording(LessonWording { title, content }: &LessonWording) -> LessonWording {
    let redact = |text: &Option<String>| text.as_deref().map(redact_text);
    LessonWording { title: redact(title), content: redact(content) }
}

#[async_trait]
impl ManualRequests for OperatorCommands {
    async fn trigger_retrospective(
        &self,
        key: &WorkflowKey,
        request: &ManualRequest,
    ) -> Result<Result<(RetrospectiveId, CommitResult), TriggerError>, StoreError> {
        let focus = request.focus.as_deref().map(redact_text);
        let reason = request.reason.as_deref().map(redact_text);
        self.manual.trigger(key, &ManualRequest { focus, reason, ..request.clone() }).await
    }

    async fn accept_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        acceptance: &Acceptance,
    ) -> Result<DecisionOutcome, StoreError> {
        let override_tombstone = acceptance.override_tombstone.as_deref().map(redact_text);
        let reason = acceptance.reason.as_deref().map(redact_text);
        let redacted = Acceptance { override_tombstone, reason, ..acceptance.clone() };
        let accepted = self.writer.accept_proposal(tenant, id, &redacted).await?;
        wait_until_handed_out(&*self.store).await;
        Ok(accepted)
    }

    async fn refuse_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        refusal: &Refusal,
    ) -> Result<DecisionOutcome, StoreError> {
        self.writer
            .refuse_proposal(tenant, id, &Refusal { reason: redact_text(&refusal.reason), ..refusal.clone() })
            .await
    }
}

#[async_trait]
impl RuleCommands for OperatorCommands {
    async fn add_rule(
        &self,
        tenant: &Tenant,
        addition: &RuleAddition,
    ) -> Result<RuleAdditionOutcome, StoreError> {
        let RuleAddition { path, wording, reason, .. } = addition;
        let (path, wording) = (path.as_deref().map(redact_text), redact_wording(wording));
        let redacted = RuleAddition { path, wording, reason: redact_text(reason), ..addition.clone() };
        let added = self.writer.add_rule(tenant, &redacted).await?;
        wait_until_handed_out(&*self.store).await;
        Ok(added)
    }
}

#[async_trait]
impl LessonSaver for OperatorCommands {
    async fn save_lesson(&self, key: &WorkflowKey, saved: &SavedLesson) -> Result<LessonOutcome, StoreError> {
        let Some(_permit) = self.lesson_saves.try_acquire(&key.tenant) else {
            return Err(StoreError::Unavailable("too many lessons are being saved; try again".to_owned()));
        };
        let saving = self.writer.save_lesson(key, saved).await?;
        // A tentative memory is handed to nobody, so no gateway has to be waited for.
        Ok(saving.map(|saving| (saving.memory, !saving.changes.is_empty())))
    }
}

#[async_trait]
impl MemoryCommands for OperatorCommands {
    async fn release_memory(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
        command: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError> {
        let MemoryCommand { request, by, reason } = command;
        let reason = redact_text(reason);
        let id = match self.resolve_name(tenant, name).await? {
            Ok(id) => id,
            Err(unresolved) => return Ok(Err(unresolved.into())),
        };
        let released = self.writer.release_memory(tenant, id, request, by, &reason).await?;
        wait_until_handed_out(&*self.store).await;
        Ok(released.map(|result| (id, result)).map_err(MemoryCommandError::from))
    }

    async fn retire_memory(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
        command: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError> {
        let MemoryCommand { request, by, reason } = command;
        let reason = format!("retired by {by}: {}", redact_text(reason));
        let id = match self.resolve_name(tenant, name).await? {
            Ok(id) => id,
            Err(unresolved) => return Ok(Err(unresolved.into())),
        };
        let retired = self.writer.delete_memory(tenant, id, request, &reason).await?;
        wait_until_handed_out(&*self.store).await;
        Ok(retired.map(|result| (id, result)).map_err(MemoryCommandError::from))
    }

    async fn decide_memory(
        &self,
        tenant: &Tenant,
        name: MemoryRef,
        decision: &MemoryDecision,
        command: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError> {
        let MemoryCommand { request, by, reason } = command;
        let reason = redact_text(reason);
        let id = match self.resolve_name(tenant, name).await? {
            Ok(id) => id,
            Err(unresolved) => return Ok(Err(unresolved.into())),
        };
        let redacted = match decision {
            MemoryDecision::Revise(wording) => MemoryDecision::Revise(redact_wording(wording)),
            other => other.clone(),
        };
        let request = DecisionRequest { id: request, by, reason: &reason };
        let decided = self.writer.decide_memory(tenant, id, &redacted, request).await?;
        wait_until_handed_out(&*self.store).await;
        Ok(decided.map(|result| (id, result)).map_err(MemoryCommandError::from))
    }

    async fn add_memory(
        &self,
        key: &WorkflowKey,
        scope: &MemoryScope,
        wording: &LessonWording,
        command: &MemoryCommand,
    ) -> Result<MemoryCommandOutcome, StoreError> {
        let MemoryCommand { request, by, reason } = command;
        let (wording, reason) = (redact_wording(wording), redact_text(reason));
        let written = match WrittenMemory::new(key, scope.clone(), &wording, request, by, &reason) {
            Ok(written) => written,
            Err(problem) => return Ok(Err(problem.into())),
        };
        let added = self.writer.add_memory(key, &written).await?;
        wait_until_handed_out(&*self.store).await;
        let result = |changes: &[_]| {
            if changes.is_empty() { CommitResult::AlreadyDone } else { CommitResult::Done }
        };
        Ok(added.map(|added| (added.memory.id, result(&added.changes))).map_err(MemoryCommandError::from))
    }
}
