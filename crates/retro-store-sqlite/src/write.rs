//! Writing: the only part that changes memory. SQLite's one writer is the lock of every workflow.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{ChangeId, MemoryId, ProposalId, RetrospectiveId, ReviewBatchId, Tenant, WorkflowKey};
use retro_core::learn::Unpromoted;
use retro_core::manual::{Decided, Undecided};
use retro_core::memory::{Cause, FoldError, Memory, change_id};
use retro_core::outcome::PullRequestRef;
use retro_core::retrospective::State;
use retro_fault::Label;
use retro_store::manual::DecideProposal;
use retro_store::write::{Decide, DecideCredit, DecideDeletion, DecidePromotion, DecideRules};
use retro_store::{Result, Step, WriterStore};
use retro_store_sql::memory::read_memory;
use retro_store_sql::workflow_key;
use sqlx::SqliteConnection;

use crate::damage::{OnTable, at};
use crate::memory::{append_changes, store_memories, store_tombstones};
use crate::open::commit;
use crate::{SqliteStore, close, credit, manual, outbox, retrospective, rules};

#[async_trait]
impl WriterStore for SqliteStore {
    async fn close(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        now: Timestamp,
        decide: Decide<'_>,
    ) -> Result<Step> {
        let mut transaction = self.write().await?;
        let Some((settling, sample)) = retrospective::load(&mut transaction, tenant, id).await? else {
            return Ok(Step::Unknown);
        };
        if settling.state != State::Settling {
            return Ok(Step::AlreadyDone);
        }
        let facts = close::load(&mut transaction, settling.clone(), sample).await?;
        let closing = decide(facts)?;
        close::store(&mut transaction, &settling, &closing, now).await?;
        commit(transaction, Label::CloseCommit).await?;
        Ok(Step::Done)
    }

    async fn overdue_closings(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, RetrospectiveId)>> {
        self.waiting_in(State::Settling, older_than_s, limit).await
    }

    async fn close_rules(&self, tenant: &Tenant, id: ReviewBatchId, decide: DecideRules<'_>) -> Result<Step> {
        let mut transaction = self.write().await?;
        let Some(batch) = rules::load(&mut transaction, tenant, id).await? else { return Ok(Step::Unknown) };
        if !batch.waits {
            return Ok(Step::AlreadyDone);
        }
        let keeper = batch.keeper.clone();
        rules::look(&mut transaction, &batch).await?;
        let closed = decide(rules::facts(&mut transaction, id, batch).await?)?;
        rules::store(&mut transaction, &keeper, id, &closed).await?;
        commit(transaction, Label::RulesCommit).await?;
        Ok(Step::Done)
    }

    async fn overdue_rules(&self, older_than_s: u64, limit: u32) -> Result<Vec<(Tenant, ReviewBatchId)>> {
        self.waiting_rules(older_than_s, limit).await
    }

    async fn promote_rule(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        request: &str,
        decide: DecidePromotion<'_>,
    ) -> Result<std::result::Result<Step, Unpromoted>> {
        let mut transaction = self.write().await?;
        let Some((keeper, memory)) = load_memory(&mut transaction, tenant, id).await? else {
            return Ok(Ok(Step::Unknown));
        };
        let cause = Cause::Operator { request: request.to_owned() };
        if happened(&mut transaction, tenant, change_id(&keeper, id, &cause, "accepted")).await? {
            return Ok(Ok(Step::AlreadyDone));
        }
        let facts = rules::promote_facts(&mut transaction, keeper, memory).await?;
        let promotion = match decide(&facts)? {
            Ok(promotion) => promotion,
            Err(unpromoted) => return Ok(Err(unpromoted)),
        };
        rules::store_promotion(&mut transaction, &facts.keeper, &promotion).await?;
        commit(transaction, Label::PromoteCommit).await?;
        Ok(Ok(Step::Done))
    }

    async fn credit(
        &self,
        key: &WorkflowKey,
        pull_request: &PullRequestRef,
        limit: u32,
        decide: DecideCredit<'_>,
    ) -> Result<std::result::Result<Step, FoldError>> {
        let mut transaction = self.write().await?;
        let Some(due) = credit::load(&mut transaction, key, pull_request, limit).await? else {
            return Ok(Ok(Step::AlreadyDone));
        };
        let credited = match decide(&due.facts) {
            Ok(credited) => credited,
            Err(damage) => return Ok(Err(damage)),
        };
        credit::store(&mut transaction, &due, &credited).await?;
        commit(transaction, Label::CreditCommit).await?;
        Ok(Ok(Step::Done))
    }

    async fn overdue_credits(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(WorkflowKey, PullRequestRef)>> {
        credit::overdue(&mut *self.snapshot().await?, older_than_s, limit).await
    }

    async fn delete_memory(
        &self,
        tenant: &Tenant,
        id: MemoryId,
        decide: DecideDeletion<'_>,
    ) -> Result<std::result::Result<Step, FoldError>> {
        let mut transaction = self.write().await?;
        let Some((key, memory)) = load_memory(&mut transaction, tenant, id).await? else {
            return Ok(Ok(Step::Unknown));
        };
        let deletion = match decide(&key, &memory) {
            Ok(deletion) => deletion,
            // The same request again finds its memory deleted: that is no error.
            Err(error) if happened(&mut transaction, tenant, error.change).await? => {
                return Ok(Ok(Step::AlreadyDone));
            }
            Err(error) => return Ok(Err(error)),
        };
        if happened(&mut transaction, tenant, deletion.change.id).await? {
            return Ok(Ok(Step::AlreadyDone));
        }
        append_changes(&mut transaction, &key, std::slice::from_ref(&deletion.change)).await?;
        store_memories(&mut transaction, &key, std::slice::from_ref(&deletion.memory)).await?;
        store_tombstones(&mut transaction, &key, std::slice::from_ref(&deletion.tombstone)).await?;
        outbox::put(&mut transaction, std::iter::once(&deletion.message)).await?;
        commit(transaction, Label::DeleteCommit).await?;
        Ok(Ok(Step::Done))
    }

    async fn decide_proposal(
        &self,
        tenant: &Tenant,
        id: ProposalId,
        decide: DecideProposal<'_>,
    ) -> Result<Option<std::result::Result<Decided, Undecided>>> {
        let mut transaction = self.write().await?;
        let Some(facts) = manual::facts(&mut transaction, tenant, id).await? else { return Ok(None) };
        let decided = match decide(&facts)? {
            Ok(decided) => decided,
            Err(undecided) => return Ok(Some(Err(undecided))),
        };
        append_changes(&mut transaction, &facts.key, &decided.changes).await?;
        if !decided.changes.is_empty() {
            store_memories(&mut transaction, &facts.key, decided.memory.as_slice()).await?;
        }
        manual::set_decision(&mut transaction, tenant, id, &decided.decision).await?;
        outbox::put(&mut transaction, decided.messages.iter()).await?;
        commit(transaction, Label::DecideCommit).await?;
        Ok(Some(Ok(decided)))
    }
}

async fn load_memory(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    id: MemoryId,
) -> Result<Option<(WorkflowKey, Memory)>> {
    const LOAD: &str = "SELECT workflow, memory FROM memories WHERE tenant = ?1 AND id = ?2";
    let row: Option<(String, String)> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on("memories")?;
    let Some((workflow, memory)) = row else { return Ok(None) };
    Ok(Some((workflow_key(tenant.as_str(), &workflow)?, read_memory(&id.to_string(), &memory)?)))
}

async fn happened(connection: &mut SqliteConnection, tenant: &Tenant, change: ChangeId) -> Result<bool> {
    const COUNT: &str = "SELECT count(*) FROM changes WHERE tenant = ?1 AND id = ?2";
    let count: i64 = sqlx::query_scalar(COUNT)
        .bind(tenant.as_str())
        .bind(change.to_string())
        .fetch_one(connection)
        .await
        .on("changes")?;
    Ok(at("changes", change).unsigned::<u64>(count)? > 0)
}
