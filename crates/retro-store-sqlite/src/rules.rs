//! Batches that ask something of a repository's rules: making one of what runs made of rules, applying one, and a person's
//! promotion of a rule.

use std::collections::{BTreeMap, BTreeSet};

use retro_core::id::{MemoryId, ReviewBatchId, Tenant, WorkflowKey};
use retro_core::learn::{PromoteFacts, Promotion, RuleFacts, RuleUse, RulesUsed};
use retro_core::memory::Memory;
use retro_store::Result;
use retro_store::write::{RuleBatchFacts, RulesClosed};
use retro_store_sql::policy_time;
use retro_store_sql::rules::{Batch, BatchRecord, RuleLook, read_use};
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use crate::close::caused;
use crate::damage::{self, OnTable, at, integer};
use crate::memory::{
    append_changes, living_and_named, purge_tombstones, store_memories, store_tombstones, tombstones,
};
use crate::{SqliteStore, now_ms, outbox};

/// Loads a batch; `None` when the tenant has no such one.
pub(crate) async fn load(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    id: ReviewBatchId,
) -> Result<Option<Batch>> {
    const LOAD: &str = "
        SELECT workflow, repo, as_of, policy, review, mutations, state FROM rule_batches
        WHERE tenant = ?1 AND id = ?2";
    let row: Option<BatchRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on("rule_batches")?;
    row.map(|row| row.read(tenant, id)).transpose()
}

/// Loads what the writer has to know to apply it.
pub(crate) async fn facts(
    connection: &mut SqliteConnection,
    id: ReviewBatchId,
    batch: Batch,
) -> Result<RuleBatchFacts> {
    let (applied, changed) = caused(connection, &batch.keeper, &batch.causes()).await?;
    let named: Vec<MemoryId> = batch.named().into_iter().chain(changed).collect();
    let memories = living_and_named(connection, &batch.keeper, &named).await?;
    let tombstones = tombstones(connection, &batch.keeper).await?;
    let uses =
        if batch.asks_for_uses() { uses(connection, &batch, &memories).await? } else { BTreeMap::new() };
    let Batch { repo, keeper, as_of, policy, review, mutations, .. } = batch;
    let rules = RuleFacts { repo, keeper, as_of, policy, memories, tombstones, applied, uses };
    Ok(RuleBatchFacts { id, review, mutations, rules })
}

/// Stores everything that applying it does.
pub(crate) async fn store(
    connection: &mut SqliteConnection,
    key: &WorkflowKey,
    id: ReviewBatchId,
    closed: &RulesClosed,
) -> Result<()> {
    const CLOSE: &str = "
        UPDATE rule_batches SET state = 'closed' WHERE tenant = ?1 AND id = ?2 AND state = 'settling'";
    const REPORT: &str = concat!(
        "INSERT INTO review_reports (tenant, review, workflow, report, written_ms) VALUES (?1, ?2, ?3, ?4, ",
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
            .bind(damage::json(report))
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

/// Stores what verdicts of a retrospective ask of rules, for the writer.
pub(crate) async fn put(connection: &mut SqliteConnection, all: &[RulesUsed]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO rule_batches (tenant, id, workflow, repo, as_of, policy, mutations, state, settled_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'settling', ",
        now_ms!(),
        ")"
    );
    // One for each repository that the runs of one sample worked on.
    for used in all {
        let done = sqlx::query(STORE)
            .bind(used.keeper.tenant.as_str())
            .bind(used.id.to_string())
            .bind(used.keeper.workflow.as_str())
            .bind(used.repo.as_str())
            .bind(policy_time(used.as_of))
            .bind(damage::json(&used.policy))
            .bind(damage::json(&used.mutations))
            .execute(&mut *connection)
            .await
            .on("rule_batches")?;
        at("rule_batches", used.id).touched(done.rows_affected(), 1)?;
    }
    Ok(())
}

/// Remembers which rules stood before the runs of a batch: facts of the batch, and part of what it is decided with. A run that was
/// looked into twice is one run.
pub(crate) async fn look(connection: &mut SqliteConnection, batch: &Batch) -> Result<()> {
    const LOOK: &str = "
        INSERT INTO rule_looks (tenant, memory, workflow, run_id, verdict, as_of)
        SELECT ?1, value ->> 0, value ->> 1, value ->> 2, value ->> 3, ?3 FROM json_each(?2) WHERE true
        ON CONFLICT (tenant, memory, workflow, run_id) DO NOTHING";
    let looks = batch.looks();
    if looks.is_empty() {
        return Ok(());
    }
    let row = |look: &RuleLook| json!([look.memory, look.workflow, look.run, look.verdict]);
    let rows: Value = looks.iter().map(row).collect();
    sqlx::query(LOOK)
        .bind(batch.keeper.tenant.as_str())
        .bind(rows.to_string())
        .bind(policy_time(batch.as_of))
        .execute(connection)
        .await
        .on("rule_looks")?;
    Ok(())
}

async fn uses(
    connection: &mut SqliteConnection,
    batch: &Batch,
    memories: &[Memory],
) -> Result<BTreeMap<MemoryId, RuleUse>> {
    const USES: &str = "
        SELECT look.memory, count(*), count(*) FILTER (WHERE look.verdict = 'ignored' AND look.as_of > asked.value ->> 1)
        FROM json_each(?2) AS asked
        CROSS JOIN rule_looks AS look ON look.tenant = ?1 AND look.memory = asked.value ->> 0
        GROUP BY look.memory";
    let named: BTreeSet<MemoryId> = batch.named().into_iter().collect();
    let asked = memories.iter().filter(|memory| named.contains(&memory.id));
    let asked: Value = asked.map(|memory| json!([memory.id, policy_time(memory.changed_at)])).collect();
    let rows: Vec<(String, i64, i64)> = sqlx::query_as(USES)
        .bind(batch.keeper.tenant.as_str())
        .bind(asked.to_string())
        .fetch_all(connection)
        .await
        .on("rule_looks")?;
    rows.iter().map(|row| read_use(&row.0, row.1, row.2)).collect()
}

/// Loads what a promotion is decided with.
pub(crate) async fn promote_facts(
    connection: &mut SqliteConnection,
    keeper: WorkflowKey,
    memory: Memory,
) -> Result<PromoteFacts> {
    let memories = living_and_named(connection, &keeper, &[]).await?;
    Ok(PromoteFacts { keeper, memory, memories })
}

/// Stores what it does.
pub(crate) async fn store_promotion(
    connection: &mut SqliteConnection,
    keeper: &WorkflowKey,
    promotion: &Promotion,
) -> Result<()> {
    append_changes(connection, keeper, &promotion.changes).await?;
    store_memories(connection, keeper, &promotion.memories).await?;
    outbox::put(connection, promotion.messages.iter()).await
}

impl SqliteStore {
    /// Batches that have waited for so long.
    pub(crate) async fn waiting_rules(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, ReviewBatchId)>> {
        const WAITING: &str = concat!(
            "SELECT tenant, id FROM rule_batches WHERE state = 'settling' AND settled_ms <= ",
            now_ms!(),
            " - ?1 * 1000 ORDER BY settled_ms, tenant, id LIMIT ?2"
        );
        /// A thousand years: older than that is as old as can be, and the product stays within 64 bits.
        const AGE_MAX_S: u64 = 1_000 * 366 * 24 * 3600;
        let rows: Vec<(String, String)> = sqlx::query_as(WAITING)
            .bind(integer(older_than_s.min(AGE_MAX_S)))
            .bind(limit)
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
