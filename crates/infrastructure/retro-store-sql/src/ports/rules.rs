//! Stores and applies batches of rule mutations, and stores what people change about rules.

use std::collections::{BTreeMap, BTreeSet};

use retro_core::id::{MemoryId, ReviewBatchId, Tenant, WorkflowKey};
use retro_core::learn::{PromoteFacts, RuleChanges, RuleFacts, RuleUse, RuleUseBatch};
use retro_core::memory::Memory;
use retro_store::Result;
use retro_store::write::{ClosedRuleBatch, RuleBatchFacts};

use super::dialect::{Connection, OnTable, ROW_LOCKS, Store, bind_rows, lookup_join, now_ms, rows_table};
use super::memory::{
    append_changes, delete_tombstones, find_changes_caused_by, list_living_and_named, list_tombstones,
    store_memories, store_tombstones,
};
use super::{feedback, lock, outbox};
use crate::rows::rules::{RuleBatch, RuleBatchRecord, rule_use_from_row};
use crate::{at, format_policy_time, to_i64, to_json};

/// Finds a batch of rule mutations. Returns `None` if the tenant has no such batch.
pub(crate) async fn find_batch(
    connection: &mut Connection,
    tenant: &Tenant,
    id: ReviewBatchId,
) -> Result<Option<RuleBatch>> {
    const LOAD: &str = "
        SELECT workflow, repo, as_of, policy, review, mutations, state FROM rule_batches
        WHERE tenant = $1 AND id = $2";
    let row: Option<RuleBatchRecord> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.to_string())
        .fetch_optional(connection)
        .await
        .on_table("rule_batches")?;
    row.map(|row| row.to_rule_batch(tenant, id)).transpose()
}

/// Locks the rule scope of a batch, inserting its row if it is missing, then finds the batch. Only finds it
/// where write transactions exclude each other. Returns `None` if the tenant has no such batch.
pub(crate) async fn load_locked(
    connection: &mut Connection,
    tenant: &Tenant,
    id: ReviewBatchId,
) -> Result<Option<RuleBatch>> {
    // The rule scope of a batch never changes, so it can be read before the lock. The rest is read again.
    let Some(unlocked) = find_batch(connection, tenant, id).await? else { return Ok(None) };
    if !ROW_LOCKS {
        return Ok(Some(unlocked));
    }
    // A rule scope has no runs, so its row may be missing and is created to be locked.
    lock::lock_workflows(connection, &[&unlocked.rule_scope], &[]).await?;
    find_batch(connection, tenant, id).await
}

/// Loads the facts for applying a batch of rule mutations.
pub(crate) async fn load_batch_facts(
    connection: &mut Connection,
    id: ReviewBatchId,
    batch: RuleBatch,
) -> Result<RuleBatchFacts> {
    let feedback = feedback::list_waiting(connection, &batch.rule_scope).await?;
    let (applied, changed) =
        find_changes_caused_by(connection, &batch.rule_scope, &batch.possible_causes(&feedback)).await?;
    let named: Vec<MemoryId> = batch.named_memories().into_iter().chain(changed).collect();
    let memories = list_living_and_named(connection, &batch.rule_scope, &named).await?;
    let tombstones = list_tombstones(connection, &batch.rule_scope).await?;
    let uses = if batch.needs_rule_use() {
        load_rule_uses(connection, &batch, &memories).await?
    } else {
        BTreeMap::new()
    };
    let RuleBatch { repo, rule_scope, as_of, policy, review, mutations, .. } = batch;
    let pipeline = review.as_ref().and_then(|review| Some(review.pipeline.as_ref()?.pipeline.clone()));
    let rules = RuleFacts {
        repo,
        rule_scope,
        as_of,
        policy,
        memories,
        tombstones,
        applied,
        uses,
        feedback,
        pipeline,
    };
    Ok(RuleBatchFacts { id, review, mutations, rules })
}

/// Stores the effects of applying a batch of rule mutations.
pub(crate) async fn store_applied_batch(
    connection: &mut Connection,
    key: &WorkflowKey,
    id: ReviewBatchId,
    closed: &ClosedRuleBatch,
) -> Result<()> {
    const CLOSE: &str = "
        UPDATE rule_batches SET state = 'closed' WHERE tenant = $1 AND id = $2 AND state = 'settling'";
    const REPORT: &str = concat!(
        "INSERT INTO review_reports (tenant, batch, workflow, report, written_ms) VALUES ($1, $2, $3, $4, ",
        now_ms!(),
        ")"
    );
    let applied = &closed.applied;
    append_changes(connection, key, &applied.changes).await?;
    store_memories(connection, key, &applied.memories).await?;
    delete_tombstones(connection, key, &applied.expired).await?;
    store_tombstones(connection, key, &applied.tombstones).await?;
    if let Some(report) = &closed.report {
        let done = sqlx::query(REPORT)
            .bind(key.tenant.as_str())
            .bind(id.to_string())
            .bind(key.workflow.as_str())
            .bind(to_json(report))
            .execute(&mut *connection)
            .await
            .on_table("review_reports")?;
        at("review_reports", id).check_rows_affected(done.rows_affected(), 1)?;
    }
    let done = sqlx::query(CLOSE)
        .bind(key.tenant.as_str())
        .bind(id.to_string())
        .execute(&mut *connection)
        .await
        .on_table("rule_batches")?;
    at("rule_batches", id).check_rows_affected(done.rows_affected(), 1)?;
    feedback::store_changes(connection, &key.tenant, id.0, &closed.feedback).await?;
    outbox::enqueue_messages(connection, closed.messages.iter()).await
}

/// Stores the batches of rule mutations caused by a retrospective's verdicts, for the writer to apply later.
pub(crate) async fn insert_batches(connection: &mut Connection, all: &[RuleUseBatch]) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO rule_batches (tenant, id, workflow, repo, as_of, policy, mutations, state, settled_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 'settling', ",
        now_ms!(),
        ")"
    );
    // One batch per repository that the sampled runs worked on.
    for used in all {
        let done = sqlx::query(STORE)
            .bind(used.rule_scope.tenant.as_str())
            .bind(used.id.to_string())
            .bind(used.rule_scope.workflow.as_str())
            .bind(used.repo.as_str())
            .bind(format_policy_time(used.as_of))
            .bind(to_json(&used.policy))
            .bind(to_json(&used.mutations))
            .execute(&mut *connection)
            .await
            .on_table("rule_batches")?;
        at("rule_batches", used.id).check_rows_affected(done.rows_affected(), 1)?;
    }
    Ok(())
}

/// Records the rule evaluations of a batch. Several evaluations of a rule in one run count once.
pub(crate) async fn record_evaluations(connection: &mut Connection, batch: &RuleBatch) -> Result<()> {
    const LOOK: &str = concat!(
        "INSERT INTO rule_evaluations (tenant, memory, workflow, run_id, verdict, as_of)
         SELECT $1, memory, workflow, run_id, verdict, $2 FROM ",
        rows_table!("new", "$3" "memory", "$4" "workflow", "$5" "run_id", "$6" "verdict"),
        " WHERE true ON CONFLICT (tenant, memory, workflow, run_id) DO NOTHING"
    );
    let evaluations = batch.rule_evaluations();
    if evaluations.is_empty() {
        return Ok(());
    }
    let query =
        sqlx::query(LOOK).bind(batch.rule_scope.tenant.as_str()).bind(format_policy_time(batch.as_of));
    let query = bind_rows!(query, evaluations, |evaluation| [
        evaluation.memory.to_string(),
        evaluation.workflow.as_str(),
        evaluation.run.as_str(),
        evaluation.verdict,
    ]);
    query.execute(connection).await.on_table("rule_evaluations")?;
    Ok(())
}

async fn load_rule_uses(
    connection: &mut Connection,
    batch: &RuleBatch,
    memories: &[Memory],
) -> Result<BTreeMap<MemoryId, RuleUse>> {
    const USES: &str = concat!(
        "SELECT requested.memory, count(*), count(*) FILTER
             (WHERE rule_evaluations.verdict = 'ignored' AND rule_evaluations.as_of > requested.since)
         FROM ",
        rows_table!("requested", "$2" "memory", "$3" "since"),
        lookup_join!(
            "rule_evaluations",
            "verdict, as_of",
            "rule_evaluations.tenant = $1 AND rule_evaluations.memory = requested.memory"
        ),
        " GROUP BY requested.memory"
    );
    let named: BTreeSet<MemoryId> = batch.named_memories().into_iter().collect();
    let requested: Vec<&Memory> = memories.iter().filter(|memory| named.contains(&memory.id)).collect();
    let query = sqlx::query_as(USES).bind(batch.rule_scope.tenant.as_str());
    let query =
        bind_rows!(query, requested, |memory| [memory.id.to_string(), format_policy_time(memory.changed_at)]);
    let rows: Vec<(String, i64, i64)> = query.fetch_all(connection).await.on_table("rule_evaluations")?;
    rows.iter().map(|row| rule_use_from_row(&row.0, row.1, row.2)).collect()
}

/// Loads the facts for promoting a rule.
pub(crate) async fn load_promote_facts(
    connection: &mut Connection,
    rule_scope: WorkflowKey,
    memory: Memory,
) -> Result<PromoteFacts> {
    let memories = list_living_and_named(connection, &rule_scope, &[]).await?;
    Ok(PromoteFacts { rule_scope, memory, memories })
}

/// Stores the changes that a person's request makes to rules.
pub(crate) async fn store_changes(
    connection: &mut Connection,
    rule_scope: &WorkflowKey,
    done: &RuleChanges,
) -> Result<()> {
    append_changes(connection, rule_scope, &done.changes).await?;
    store_memories(connection, rule_scope, &done.memories).await?;
    outbox::enqueue_messages(connection, done.messages.iter()).await
}

impl Store {
    /// Lists the batches of rule mutations that have been pending for at least `older_than_s` seconds, oldest
    /// first.
    pub(crate) async fn list_waiting_batches(
        &self,
        older_than_s: u64,
        limit: u32,
    ) -> Result<Vec<(Tenant, ReviewBatchId)>> {
        const WAITING: &str = concat!(
            "SELECT tenant, id FROM rule_batches WHERE state = 'settling' AND settled_ms <= ",
            now_ms!(),
            " - $1 * 1000 ORDER BY settled_ms, tenant, id LIMIT $2"
        );
        /// Maximum age, in seconds: a thousand years. Keeps the age in milliseconds within 64 bits.
        const AGE_MAX_S: u64 = 1_000 * 366 * 24 * 3600;
        let rows: Vec<(String, String)> = sqlx::query_as(WAITING)
            .bind(to_i64(older_than_s.min(AGE_MAX_S)))
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("rule_batches")?;
        let read = |(tenant, id): &(String, String)| {
            let place = at("rule_batches", id);
            Ok((place.parse(tenant)?, place.parse(id)?))
        };
        rows.iter().map(read).collect()
    }
}
