//! Implements the writer's port, the only port that changes memories, under the workflow lock.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{ChangeId, MemoryId, ProposalId, RetrospectiveId, ReviewBatchId, Tenant, WorkflowKey};
use retro_core::learn::{
    AddedMemory, AddedRule, AdditionError, AdditionFacts, ClosingFacts, LessonSaving, MemoryDecisionError,
    PromoteError, PromoteFacts, RuleAddition, RuleAdditionError, RuleAdditionFacts, SaveError, SaveFacts,
    SavedLesson, WrittenMemory,
};
use retro_core::manual::{DecideError, DecidedProposal, ProposalFacts};
use retro_core::memory::{Change, ChangeCause, FoldError, Memory, Tombstone, change_id};
use retro_core::message::Message;
use retro_core::pull_request::PullRequestRef;
use retro_core::retrospective::RetrospectiveState;
use retro_core::similarity::ScopeChanged;
use retro_fault::Label;
use retro_store::manual::DecideProposal;
use retro_store::write::{
    DecideAddition, DecideClose, DecideCredit, DecideDeletion, DecideMemory, DecidePromotion, DecideRelease,
    DecideRuleAddition, DecideRules, DecideSave, RuleBatchFacts,
};
use retro_store::{CommitResult, Decision, Deletion, Release, Result, WriterStore};

use super::dialect::{Connection, OnTable, ROW_LOCKS, Store};
use super::memory::{append_changes, store_memories, store_tombstones};
use super::open::commit;
use super::{close, credit, decide, lock, manual, outbox, retrospective, rule_additions, rules};
use crate::rows::memory::parse_memory;
use crate::{at, parse_workflow_key};

#[async_trait]
impl WriterStore for Store {
    async fn load_closing_facts(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Option<ClosingFacts>> {
        let mut snapshot = self.begin_snapshot().await?;
        match retrospective::find_retrospective(&mut snapshot, tenant, id).await? {
            Some((settling, sample)) if settling.state == RetrospectiveState::Settling => {
                close::load_closing_facts(&mut snapshot, settling, sample).await.map(Some)
            }
            _ => Ok(None),
        }
    }

    async fn close_retrospective(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        now: Timestamp,
        decide: DecideClose<'_>,
    ) -> Result<Decision<CommitResult>> {
        let mut transaction = self.begin_write().await?;
        let Some((settling, sample)) = retrospective::load_locked(&mut transaction, tenant, id).await? else {
            return Ok(Ok(CommitResult::NotFound));
        };
        if settling.state != RetrospectiveState::Settling {
            return Ok(Ok(CommitResult::AlreadyDone));
        }
        let facts = close::load_closing_facts(&mut transaction, settling.clone(), sample).await?;
        let Ok(closing) = decide(facts) else { return Ok(Err(ScopeChanged)) };
        close::store_closing(&mut transaction, &settling, &closing, now).await?;
        commit(transaction, Label::CloseCommit).await?;
        Ok(Ok(CommitResult::Done))
    }

    async fn list_overdue_closings(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, RetrospectiveId)>> {
        self.list_waiting_in(RetrospectiveState::Settling, older_than_s, limit).await
    }

    async fn load_rule_batch_facts(
        &self,
        tenant: &Tenant,
        id: ReviewBatchId,
    ) -> Result<Option<RuleBatchFacts>> {
        let mut snapshot = self.begin_snapshot().await?;
        match rules::find_batch(&mut snapshot, tenant, id).await? {
            Some(batch) if batch.pending => rules::load_batch_facts(&mut snapshot, id, batch).await.map(Some),
            _ => Ok(None),
        }
    }

    async fn close_rule_batch(
        &self,
        tenant: &Tenant,
        id: ReviewBatchId,
        decide: DecideRules<'_>,
    ) -> Result<Decision<CommitResult>> {
        let mut transaction = self.begin_write().await?;
        let Some(batch) = rules::load_locked(&mut transaction, tenant, id).await? else {
            return Ok(Ok(CommitResult::NotFound));
        };
        if !batch.pending {
            return Ok(Ok(CommitResult::AlreadyDone));
        }
        let rule_scope = batch.rule_scope.clone();
        // Record the evaluations before loading the facts, because the facts count them.
        rules::record_evaluations(&mut transaction, &batch).await?;
        let facts = rules::load_batch_facts(&mut transaction, id, batch).await?;
        let Ok(closed) = decide(facts) else { return Ok(Err(ScopeChanged)) };
        rules::store_applied_batch(&mut transaction, &rule_scope, id, &closed).await?;
        commit(transaction, Label::RulesCommit).await?;
        Ok(Ok(CommitResult::Done))
    }

    async fn list_overdue_rule_batches(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, ReviewBatchId)>> {
        self.list_waiting_batches(older_than_s, limit).await
    }

    async fn load_promote_facts(&self, tenant: &Tenant, id: MemoryId) -> Result<Option<PromoteFacts>> {
        let mut snapshot = self.begin_snapshot().await?;
        match find_memory(&mut snapshot, tenant, id).await? {
            Some((rule_scope, memory)) => {
                rules::load_promote_facts(&mut snapshot, rule_scope, memory).await.map(Some)
            }
            None => Ok(None),
        }
    }

    async fn promote_rule(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        request: &str,
        decide: DecidePromotion<'_>,
    ) -> Result<Decision<std::result::Result<CommitResult, PromoteError>>> {
        let mut transaction = self.begin_write().await?;
        let Some((rule_scope, memory)) = load_locked(&mut transaction, tenant, id).await? else {
            return Ok(Ok(Ok(CommitResult::NotFound)));
        };
        let cause = ChangeCause::Operator { request: request.to_owned() };
        // A repeated request finds its promotion already stored.
        if has_happened(&mut transaction, tenant, change_id(&rule_scope, id, &cause, "accepted")).await? {
            return Ok(Ok(Ok(CommitResult::AlreadyDone)));
        }
        let facts = rules::load_promote_facts(&mut transaction, rule_scope, memory).await?;
        let promotion = match decide(&facts) {
            Ok(Ok(promotion)) => promotion,
            Ok(Err(unpromoted)) => return Ok(Ok(Err(unpromoted))),
            Err(changed) => return Ok(Err(changed)),
        };
        rules::store_changes(&mut transaction, &facts.rule_scope, &promotion).await?;
        commit(transaction, Label::PromoteCommit).await?;
        Ok(Ok(Ok(CommitResult::Done)))
    }

    async fn load_rule_addition_facts(
        &self,
        tenant: &Tenant,
        addition: &RuleAddition,
    ) -> Result<Option<RuleAdditionFacts>> {
        rule_additions::load_facts(&mut *self.begin_snapshot().await?, tenant, addition).await
    }

    async fn add_rule(
        &self,
        tenant: &Tenant,
        addition: &RuleAddition,
        decide: DecideRuleAddition<'_>,
    ) -> Result<Decision<Option<std::result::Result<AddedRule, RuleAdditionError>>>> {
        let mut transaction = self.begin_write().await?;
        let rule_scope = addition.repo.rule_scope(tenant);
        // A rule scope has no runs, so its row may be missing and is created to be locked.
        lock::lock_workflows(&mut transaction, &[&rule_scope], &[]).await?;
        let Some(facts) = rule_additions::load_facts(&mut transaction, tenant, addition).await? else {
            return Ok(Ok(None));
        };
        let added = match decide(&facts) {
            Ok(Ok(added)) => added,
            Ok(Err(refused)) => return Ok(Ok(Some(Err(refused)))),
            Err(changed) => return Ok(Err(changed)),
        };
        if !added.done.changes.is_empty() {
            rules::store_changes(&mut transaction, &rule_scope, &added.done).await?;
            commit(transaction, Label::RuleAddCommit).await?;
        }
        Ok(Ok(Some(Ok(added))))
    }

    async fn credit_memories(
        &self,
        key: &WorkflowKey,
        pull_request: &PullRequestRef,
        limit: u32,
        decide: DecideCredit<'_>,
    ) -> Result<std::result::Result<CommitResult, FoldError>> {
        let mut transaction = self.begin_write().await?;
        lock::lock_workflow(&mut transaction, key).await?;
        let Some(due) = credit::load_due_credit(&mut transaction, key, pull_request, limit).await? else {
            return Ok(Ok(CommitResult::AlreadyDone));
        };
        let credited = match decide(&due.facts) {
            Ok(credited) => credited,
            Err(damage) => return Ok(Err(damage)),
        };
        credit::store_credit(&mut transaction, &due, &credited).await?;
        commit(transaction, Label::CreditCommit).await?;
        Ok(Ok(CommitResult::Done))
    }

    async fn list_overdue_credits(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(WorkflowKey, PullRequestRef)>> {
        credit::list_overdue(&mut *self.begin_snapshot().await?, older_than_s, limit).await
    }

    async fn delete_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        decide: DecideDeletion<'_>,
    ) -> Result<std::result::Result<CommitResult, FoldError>> {
        let decide = |key: &WorkflowKey, memory: &Memory| decide(key, memory).map(OperatorEffects::from);
        self.apply_operator_request(tenant, id, Label::DeleteCommit, decide).await
    }

    async fn release_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        decide: DecideRelease<'_>,
    ) -> Result<std::result::Result<CommitResult, FoldError>> {
        let decide = |key: &WorkflowKey, memory: &Memory| decide(key, memory).map(OperatorEffects::from);
        self.apply_operator_request(tenant, id, Label::MemoryReleaseCommit, decide).await
    }

    async fn decide_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        decide: DecideMemory<'_>,
    ) -> Result<std::result::Result<CommitResult, MemoryDecisionError>> {
        let mut transaction = self.begin_write().await?;
        let Some((key, memory)) = load_locked(&mut transaction, tenant, id).await? else {
            return Ok(Ok(CommitResult::NotFound));
        };
        let facts = decide::load_decision_facts(&mut transaction, key, memory).await?;
        let decided = match decide(&facts) {
            Ok(decided) => decided,
            Err(refused) => return Ok(Err(refused)),
        };
        if decided.changes.is_empty() {
            return Ok(Ok(CommitResult::AlreadyDone));
        }
        decide::store_decision(&mut transaction, &facts.key, &decided).await?;
        commit(transaction, Label::MemoryDecisionCommit).await?;
        Ok(Ok(CommitResult::Done))
    }

    async fn load_addition_facts(&self, key: &WorkflowKey, written: &WrittenMemory) -> Result<AdditionFacts> {
        decide::load_addition_facts(&mut *self.begin_snapshot().await?, key, written).await
    }

    async fn add_memory(
        &self,
        key: &WorkflowKey,
        written: &WrittenMemory,
        decide: DecideAddition<'_>,
    ) -> Result<Decision<std::result::Result<AddedMemory, AdditionError>>> {
        let mut transaction = self.begin_write().await?;
        // The first run of a workflow may come after its first memory, so its row may be missing.
        lock::lock_workflows(&mut transaction, &[key], &[]).await?;
        let facts = decide::load_addition_facts(&mut transaction, key, written).await?;
        let added = match decide(&facts) {
            Ok(Ok(added)) => added,
            Ok(Err(refused)) => return Ok(Ok(Err(refused))),
            Err(changed) => return Ok(Err(changed)),
        };
        if !added.changes.is_empty() {
            decide::store_addition(&mut transaction, key, &added).await?;
            commit(transaction, Label::MemoryAddCommit).await?;
        }
        Ok(Ok(Ok(added)))
    }

    async fn load_save_facts(&self, key: &WorkflowKey, saved: &SavedLesson) -> Result<SaveFacts> {
        decide::load_save_facts(&mut *self.begin_snapshot().await?, key, saved).await
    }

    async fn save_lesson(
        &self,
        key: &WorkflowKey,
        saved: &SavedLesson,
        decide: DecideSave<'_>,
    ) -> Result<Decision<std::result::Result<LessonSaving, SaveError>>> {
        let mut transaction = self.begin_write().await?;
        // The first run of a workflow may still be under way, so its row may be missing.
        lock::lock_workflows(&mut transaction, &[key], &[]).await?;
        let facts = decide::load_save_facts(&mut transaction, key, saved).await?;
        let saving = match decide(&facts) {
            Ok(Ok(saving)) => saving,
            Ok(Err(refused)) => return Ok(Ok(Err(refused))),
            Err(changed) => return Ok(Err(changed)),
        };
        if !saving.changes.is_empty() {
            decide::store_saving(&mut transaction, key, &saving).await?;
            commit(transaction, Label::LessonSaveCommit).await?;
        }
        Ok(Ok(Ok(saving)))
    }

    async fn load_proposal_facts(&self, tenant: &Tenant, id: ProposalId) -> Result<Option<ProposalFacts>> {
        manual::load_proposal_facts(&mut *self.begin_snapshot().await?, tenant, id).await
    }

    async fn decide_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        decide: DecideProposal<'_>,
    ) -> Result<Decision<Option<std::result::Result<DecidedProposal, DecideError>>>> {
        let mut transaction = self.begin_write().await?;
        manual::lock_proposal(&mut transaction, tenant, id).await?;
        let Some(facts) = manual::load_proposal_facts(&mut transaction, tenant, id).await? else {
            return Ok(Ok(None));
        };
        let decided = match decide(&facts) {
            Ok(Ok(decided)) => decided,
            Ok(Err(refused)) => return Ok(Ok(Some(Err(refused)))),
            Err(changed) => return Ok(Err(changed)),
        };
        append_changes(&mut transaction, &facts.key, &decided.changes).await?;
        if !decided.changes.is_empty() {
            store_memories(&mut transaction, &facts.key, decided.memory.as_slice()).await?;
        }
        manual::set_decision(&mut transaction, tenant, id, &decided.decision).await?;
        outbox::enqueue_messages(&mut transaction, decided.messages.iter()).await?;
        commit(transaction, Label::ProposalCommit).await?;
        Ok(Ok(Some(Ok(decided))))
    }
}

/// Effects of an operator's request on one memory.
struct OperatorEffects {
    change: Change,
    memory: Memory,
    tombstone: Option<Tombstone>,
    message: Message,
}

impl From<Deletion> for OperatorEffects {
    fn from(Deletion { change, memory, tombstone, message }: Deletion) -> Self {
        Self { change, memory, tombstone: Some(tombstone), message }
    }
}

impl From<Release> for OperatorEffects {
    fn from(Release { change, memory, message }: Release) -> Self {
        Self { change, memory, tombstone: None, message }
    }
}

impl Store {
    /// Stores the effects of an operator's request on one memory, in one transaction under the workflow lock.
    async fn apply_operator_request<F>(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        label: Label,
        decide: F,
    ) -> Result<std::result::Result<CommitResult, FoldError>>
    where
        F: Fn(&WorkflowKey, &Memory) -> std::result::Result<OperatorEffects, FoldError> + Send + Sync,
    {
        let mut transaction = self.begin_write().await?;
        let Some((key, memory)) = load_locked(&mut transaction, tenant, id).await? else {
            return Ok(Ok(CommitResult::NotFound));
        };
        let effects = match decide(&key, &memory) {
            Ok(effects) => effects,
            // A repeated request finds its change already made, such as its memory deleted. That is no error.
            Err(error) if has_happened(&mut transaction, tenant, error.change).await? => {
                return Ok(Ok(CommitResult::AlreadyDone));
            }
            Err(error) => return Ok(Err(error)),
        };
        // Done before and possible again: it was taken back since, such as a deletion. To answer "already done" would
        // be wrong.
        if has_happened(&mut transaction, tenant, effects.change.id).await? {
            let Change { id: change, memory, effect, .. } = effects.change;
            let problem =
                "the same request has done so before, and the memory has changed since; name another request";
            return Ok(Err(FoldError { change, kind: effect.kind(), memory, problem: problem.to_owned() }));
        }
        append_changes(&mut transaction, &key, std::slice::from_ref(&effects.change)).await?;
        store_memories(&mut transaction, &key, std::slice::from_ref(&effects.memory)).await?;
        store_tombstones(&mut transaction, &key, effects.tombstone.as_slice()).await?;
        outbox::enqueue_messages(&mut transaction, std::iter::once(&effects.message)).await?;
        commit(transaction, label).await?;
        Ok(Ok(CommitResult::Done))
    }
}

/// Locks the workflow of a memory, then finds the memory. Returns `None` if the tenant has no such memory.
async fn load_locked(
    connection: &mut Connection,
    tenant: &Tenant,
    id: MemoryId,
) -> Result<Option<(WorkflowKey, Memory)>> {
    let unlocked = find_memory(connection, tenant, id).await?;
    if !ROW_LOCKS {
        return Ok(unlocked);
    }
    // The workflow of a memory never changes, so it can be read before the lock. The memory is read again.
    let Some((key, _)) = unlocked else { return Ok(None) };
    lock::lock_workflow(connection, &key).await?;
    find_memory(connection, tenant, id).await
}

async fn find_memory(
    connection: &mut Connection,
    tenant: &Tenant,
    id: MemoryId,
) -> Result<Option<(WorkflowKey, Memory)>> {
    const LOAD: &str = "SELECT workflow, memory FROM memories WHERE tenant = $1 AND id = $2";
    let row: Option<(String, String)> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on_table("memories")?;
    let Some((workflow, memory)) = row else { return Ok(None) };
    Ok(Some((parse_workflow_key(tenant.as_str(), &workflow)?, parse_memory(&id.to_string(), &memory)?)))
}

async fn has_happened(connection: &mut Connection, tenant: &Tenant, change: ChangeId) -> Result<bool> {
    const COUNT: &str = "SELECT count(*) FROM changes WHERE tenant = $1 AND id = $2";
    let count: i64 = sqlx::query_scalar(COUNT)
        .bind(tenant.as_str())
        .bind(change.to_string())
        .fetch_one(connection)
        .await
        .on_table("changes")?;
    Ok(at("changes", change).parse_unsigned::<u64>(count)? > 0)
}
