//! Stores feedback on memories, lists it, and marks what a closing has settled.

use async_trait::async_trait;
use retro_core::feedback::{
    FEEDBACK_PER_CLOSING_MAX, Feedback, FeedbackAcceptance, FeedbackFacts, GivenFeedback,
};
use retro_core::id::{MemoryId, Repository, RunId, Tenant, Workflow, WorkflowKey, derive_uuid};
use retro_core::learn::{FeedbackChanges, WaitingFeedback};
use retro_fault::Label;
use retro_store::feedback::DecideFeedback;
use retro_store::{FeedbackRow, FeedbackStore, Result};
use uuid::Uuid;

use super::dialect::{Connection, OnTable, Store, bind_rows, for_update, lock_number, now_ms, rows_table};
use super::open::commit;
use super::pending_presentations;
use crate::rows::feedback::{FeedbackRecord, WaitingRecord};
use crate::{at, to_json};

#[async_trait]
impl FeedbackStore for Store {
    async fn record_feedback(
        &self,
        tenant: &Tenant,
        given: &GivenFeedback,
        decide: DecideFeedback<'_>,
    ) -> Result<Option<FeedbackAcceptance>> {
        let mut transaction = self.begin_write().await?;
        let Some(scope) = lock_memory(&mut transaction, tenant, given.memory).await? else {
            return Ok(None);
        };
        if let Some((workflow, run)) = given.author.run() {
            // After the memory, and never the other way round: whoever holds it waits for nobody.
            lock_number(&mut transaction, run_number(tenant, workflow, run)).await?;
        }
        let facts = load_facts(&mut transaction, tenant, &scope, given).await?;
        let accepted = decide(&facts);
        if let FeedbackAcceptance::New(feedback) = &accepted {
            insert_feedback(&mut transaction, tenant, &scope, feedback).await?;
            commit(transaction, Label::FeedbackCommit).await?;
        }
        Ok(Some(accepted))
    }

    async fn list_memory_feedback(
        &self,
        tenant: &Tenant,
        memory: MemoryId,
        limit: u32,
    ) -> Result<Vec<FeedbackRow>> {
        const LOAD: &str = "
            SELECT id, feedback, settled_by, weighed, reason FROM memory_feedback
            WHERE tenant = $1 AND memory = $2 ORDER BY received_ms DESC, id LIMIT $3";
        let rows: Vec<FeedbackRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(memory.to_string())
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("memory_feedback")?;
        rows.into_iter().map(FeedbackRecord::into_row).collect()
    }

    async fn list_scope_feedback(&self, key: &WorkflowKey) -> Result<Vec<FeedbackRow>> {
        const LOAD: &str = "
            SELECT memory_feedback.id, feedback, settled_by, weighed, reason FROM memories
            JOIN memory_feedback
                ON memory_feedback.tenant = memories.tenant AND memory_feedback.memory = memories.id
            WHERE memories.tenant = $1 AND memories.workflow = $2 ORDER BY memory_feedback.id";
        let rows: Vec<FeedbackRecord> = sqlx::query_as(LOAD)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .fetch_all(self.reader())
            .await
            .on_table("memory_feedback")?;
        rows.into_iter().map(FeedbackRecord::into_row).collect()
    }
}

/// Locks a memory where write transactions run concurrently, so that the limits of its feedback hold. Returns its
/// workflow or rule scope, or `None` if the tenant has no such memory.
async fn lock_memory(
    connection: &mut Connection,
    tenant: &Tenant,
    memory: MemoryId,
) -> Result<Option<String>> {
    const LOCK: &str = concat!("SELECT workflow FROM memories WHERE tenant = $1 AND id = $2", for_update!());
    sqlx::query_scalar(LOCK)
        .bind(tenant.as_str())
        .bind(memory.to_string())
        .fetch_optional(connection)
        .await
        .on_table("memories")
}

/// Returns the number of the lock under which the feedback of a run is counted. The run itself may not be stored yet. Two
/// runs with the same number only wait for each other.
fn run_number(tenant: &Tenant, workflow: &Workflow, run: &RunId) -> i64 {
    let id = derive_uuid("feedback of a run", &[tenant.as_str(), workflow.as_str(), run.as_str()]);
    id.as_u64_pair().0.cast_signed()
}

async fn load_facts(
    connection: &mut Connection,
    tenant: &Tenant,
    scope: &str,
    given: &GivenFeedback,
) -> Result<FeedbackFacts> {
    const WAITING: &str = "
        SELECT count(*) FROM memory_feedback
        WHERE tenant = $1 AND scope = $2 AND memory = $3 AND settled_by IS NULL";
    const OF_RUN: &str = "
        SELECT count(*) FROM memory_feedback WHERE tenant = $1 AND workflow = $2 AND run_id = $3";
    const OF_VOICE: &str = "
        SELECT count(settled_by), count(*) FROM memory_feedback
        WHERE tenant = $1 AND memory = $2 AND voice = $3";
    let memory = given.memory.to_string();
    let waiting: i64 = sqlx::query_scalar(WAITING)
        .bind(tenant.as_str())
        .bind(scope)
        .bind(&memory)
        .fetch_one(&mut *connection)
        .await
        .on_table("memory_feedback")?;
    let of_run: i64 = match given.author.run() {
        None => 0,
        Some((workflow, run)) => sqlx::query_scalar(OF_RUN)
            .bind(tenant.as_str())
            .bind(workflow.as_str())
            .bind(run.as_str())
            .fetch_one(&mut *connection)
            .await
            .on_table("memory_feedback")?,
    };
    let (settled, all): (i64, i64) = sqlx::query_as(OF_VOICE)
        .bind(tenant.as_str())
        .bind(&memory)
        .bind(given.voice().to_string())
        .fetch_one(connection)
        .await
        .on_table("memory_feedback")?;
    let place = at("memory_feedback", &memory);
    Ok(FeedbackFacts {
        waiting: place.parse_unsigned(waiting)?,
        of_run: place.parse_unsigned(of_run)?,
        settled: place.parse_unsigned(settled)?,
        waits_already: all > settled,
    })
}

async fn insert_feedback(
    connection: &mut Connection,
    tenant: &Tenant,
    scope: &str,
    feedback: &Feedback,
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO memory_feedback
             (tenant, id, memory, scope, voice, workflow, run_id, feedback, received_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, ",
        now_ms!(),
        ")"
    );
    let run = feedback.author.run();
    let done = sqlx::query(STORE)
        .bind(tenant.as_str())
        .bind(feedback.id.to_string())
        .bind(feedback.memory.to_string())
        .bind(scope)
        .bind(feedback.voice().to_string())
        .bind(run.map(|(workflow, _)| workflow.as_str()))
        .bind(run.map(|(_, run)| run.as_str()))
        .bind(to_json(feedback))
        .execute(connection)
        .await
        .on_table("memory_feedback")?;
    at("memory_feedback", feedback.id).check_rows_affected(done.rows_affected(), 1)
}

/// Lists the waiting feedback on memories of a workflow or rule scope with the facts about its runs, at most as much as
/// one closing weighs: what has waited least for its run comes first.
pub(crate) async fn list_waiting(
    connection: &mut Connection,
    key: &WorkflowKey,
) -> Result<Vec<WaitingFeedback>> {
    const LOAD: &str = "
        SELECT said.id, said.feedback, said.passes, runs.run_id IS NOT NULL AS recorded,
            coalesce(runs.ordinal <= workflows.claimed, TRUE) AS claimed,
            presentations.run_id IS NOT NULL AS shown,
            EXISTS (
                SELECT 1 FROM run_memory_applications AS used
                WHERE used.tenant = said.tenant AND used.workflow = said.workflow
                    AND used.run_id = said.run_id AND used.memory = said.memory) AS applied,
            EXISTS (
                SELECT 1 FROM memory_feedback AS other
                WHERE other.tenant = said.tenant AND other.workflow = said.workflow
                    AND other.run_id = said.run_id AND other.memory = said.memory AND other.weighed) AS heard
        FROM memory_feedback AS said
        LEFT JOIN runs ON runs.tenant = said.tenant AND runs.workflow = said.workflow
            AND runs.run_id = said.run_id
        LEFT JOIN workflows ON workflows.tenant = said.tenant AND workflows.workflow = said.workflow
        LEFT JOIN presentations ON presentations.tenant = said.tenant
            AND presentations.workflow = said.workflow AND presentations.run_id = said.run_id
            AND presentations.memory = said.memory
        WHERE said.tenant = $1 AND said.scope = $2 AND said.settled_by IS NULL
        ORDER BY said.passes, said.id LIMIT $3";
    // First, or what is applied between the two readings would be in neither.
    let runs = pending_presentations::load_runs_of_feedback(&mut *connection, key).await?;
    let rows: Vec<WaitingRecord> = sqlx::query_as(LOAD)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(i64::from(FEEDBACK_PER_CLOSING_MAX))
        .fetch_all(connection)
        .await
        .on_table("memory_feedback")?;
    // A verdict on a rule is stored before the rule's batch is applied, where it meets what was said of the same run.
    // The effect key of the run's change tells if it was weighed.
    let of_rules = Repository::of_rule_scope(&key.workflow).is_some();
    let mut waiting: Vec<WaitingFeedback> =
        rows.into_iter().map(|row| row.into_waiting(of_rules, &runs)).collect::<Result<_>>()?;
    // Feedback that came between the two readings waits for the next closing: it would seem to be about a memory that
    // its run was never shown.
    waiting
        .retain(|one| one.feedback.author.run().is_none_or(|(workflow, run)| runs.includes(workflow, run)));
    Ok(waiting)
}

/// Marks what a retrospective, or a batch of rules, has settled, and counts for the rest that it has waited.
pub(crate) async fn store_changes(
    connection: &mut Connection,
    tenant: &Tenant,
    settled_by: Uuid,
    changes: &FeedbackChanges,
) -> Result<()> {
    const SETTLE: &str = concat!(
        "UPDATE memory_feedback SET settled_by = $2, weighed = new.weighed <> 0, reason = new.reason FROM ",
        rows_table!("new", "$3" "id", "$4" "weighed", "$5" "reason"),
        " WHERE memory_feedback.tenant = $1 AND memory_feedback.id = new.id
              AND memory_feedback.settled_by IS NULL"
    );
    const PASS: &str = concat!(
        "UPDATE memory_feedback SET passes = passes + 1 FROM ",
        rows_table!("waiting", "$2" "id"),
        " WHERE memory_feedback.tenant = $1 AND memory_feedback.id = waiting.id"
    );
    if !changes.settled.is_empty() {
        let query = sqlx::query(SETTLE).bind(tenant.as_str()).bind(settled_by.to_string());
        let query = bind_rows!(query, changes.settled, |one| [
            one.id.to_string(),
            i64::from(one.outcome.weighed),
            one.outcome.reason.as_str(),
        ]);
        let done = query.execute(&mut *connection).await.on_table("memory_feedback")?;
        at("memory_feedback", settled_by).check_rows_affected(done.rows_affected(), changes.settled.len())?;
    }
    if !changes.passed.is_empty() {
        let query = sqlx::query(PASS).bind(tenant.as_str());
        let query = bind_rows!(query, changes.passed, |one| [one.to_string()]);
        query.execute(connection).await.on_table("memory_feedback")?;
    }
    Ok(())
}
