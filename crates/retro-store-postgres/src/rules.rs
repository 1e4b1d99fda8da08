//! Batches that ask something of a repository's rules: applying one, and a person's promotion of a rule.

use retro_core::id::{MemoryId, ReviewBatchId, Tenant, WorkflowKey};
use retro_core::learn::{PromoteFacts, Promotion, RuleFacts};
use retro_core::memory::Memory;
use retro_store::Result;
use retro_store::write::{RuleBatchFacts, RulesClosed};
use retro_store_sql::rules::{Batch, BatchRecord};
use retro_store_sql::{at, integer, json};
use sqlx::PgConnection;

use crate::answer::OnTable;
use crate::close::caused;
use crate::memory::{
    append_changes, living_and_named, purge_tombstones, store_memories, store_tombstones, tombstones,
};
use crate::{PostgresStore, lock, now_ms, outbox};

/// Loads a batch; `None` when the tenant has no such one.
pub(crate) async fn load(
    connection: &mut PgConnection,
    tenant: &Tenant,
    id: ReviewBatchId,
) -> Result<Option<Batch>> {
    const LOAD: &str = "
        SELECT workflow, repo, as_of, policy, review, mutations, state FROM rule_batches
        WHERE tenant = $1 AND id = $2";
    let row: Option<BatchRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on("rule_batches")?;
    row.map(|row| row.read(tenant, id)).transpose()
}

/// Loads a batch as it is once its keeper is locked, who gets a row to lock with the first; `None` when the tenant has no
/// such batch.
pub(crate) async fn load_locked(
    connection: &mut PgConnection,
    tenant: &Tenant,
    id: ReviewBatchId,
) -> Result<Option<Batch>> {
    // Whose it is never changes.
    let Some(unlocked) = load(connection, tenant, id).await? else { return Ok(None) };
    lock::workflows(connection, &[&unlocked.keeper], &[]).await?;
    load(connection, tenant, id).await
}

/// Loads what the writer has to know to apply it.
pub(crate) async fn facts(
    connection: &mut PgConnection,
    id: ReviewBatchId,
    batch: Batch,
) -> Result<RuleBatchFacts> {
    let (applied, changed) = caused(connection, &batch.keeper, &batch.causes()).await?;
    let named: Vec<MemoryId> = batch.named().into_iter().chain(changed).collect();
    let memories = living_and_named(connection, &batch.keeper, &named).await?;
    let tombstones = tombstones(connection, &batch.keeper).await?;
    let Batch { repo, keeper, as_of, policy, review, mutations, .. } = batch;
    let uses = std::collections::BTreeMap::new();
    let rules = RuleFacts { repo, keeper, as_of, policy, memories, tombstones, applied, uses };
    Ok(RuleBatchFacts { id, review, mutations, rules })
}

/// Stores everything that applying it does.
pub(crate) async fn store(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    id: ReviewBatchId,
    closed: &RulesClosed,
) -> Result<()> {
    const CLOSE: &str = "
        UPDATE rule_batches SET state = 'closed' WHERE tenant = $1 AND id = $2 AND state = 'settling'";
    const REPORT: &str = concat!(
        "INSERT INTO review_reports (tenant, review, workflow, report, written_ms) VALUES ($1, $2, $3, $4, ",
        now_ms!(),
        ")"
    );
    let applied = &closed.applied;
    append_changes(connection, key, &applied.changes).await?;
    store_memories(connection, key, &applied.memories).await?;
    purge_tombstones(connection, key, &applied.expired).await?;
    store_tombstones(connection, key, &applied.tombstones).await?;
    if let Some(report) = &closed.report {
        let done = sqlx::query(REPORT)
            .bind(key.tenant.as_str())
            .bind(id.to_string())
            .bind(key.workflow.as_str())
            .bind(json(report))
            .execute(&mut *connection)
            .await
            .on("review_reports")?;
        at("review_reports", id).touched(done.rows_affected(), 1)?;
    }
    let done = sqlx::query(CLOSE)
        .bind(key.tenant.as_str())
        .bind(id.to_string())
        .execute(&mut *connection)
        .await
        .on("rule_batches")?;
    at("rule_batches", id).touched(done.rows_affected(), 1)?;
    outbox::put(connection, closed.messages.iter()).await
}

/// Loads what a promotion is decided with.
pub(crate) async fn promote_facts(
    connection: &mut PgConnection,
    keeper: WorkflowKey,
    memory: Memory,
) -> Result<PromoteFacts> {
    let memories = living_and_named(connection, &keeper, &[]).await?;
    Ok(PromoteFacts { keeper, memory, memories })
}

/// Stores what it does.
pub(crate) async fn store_promotion(
    connection: &mut PgConnection,
    keeper: &WorkflowKey,
    promotion: &Promotion,
) -> Result<()> {
    append_changes(connection, keeper, &promotion.changes).await?;
    store_memories(connection, keeper, &promotion.memories).await?;
    outbox::put(connection, promotion.messages.iter()).await
}

impl PostgresStore {
    /// Batches that have waited for so long.
    pub(crate) async fn waiting_rules(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, ReviewBatchId)>> {
        const WAITING: &str = concat!(
            "SELECT tenant, id FROM rule_batches WHERE state = 'settling' AND settled_ms <= ",
            now_ms!(),
            " - $1 * 1000 ORDER BY settled_ms, tenant, id LIMIT $2"
        );
        /// A thousand years: older than that is as old as can be, and the product stays within 64 bits.
        const AGE_MAX_S: u64 = 1_000 * 366 * 24 * 3600;
        let rows: Vec<(String, String)> = sqlx::query_as(WAITING)
            .bind(integer(older_than_s.min(AGE_MAX_S)))
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on("rule_batches")?;
        let read = |(tenant, id): &(String, String)| {
            let place = at("rule_batches", id);
            Ok((place.parse(tenant)?, place.parse(id)?))
        };
        rows.iter().map(read).collect()
    }
}
