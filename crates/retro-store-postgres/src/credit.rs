//! Stores the memory applications of runs, and the credits that become due when pull requests end.

use retro_core::id::{MemoryId, WorkflowKey};
use retro_core::memory::ChangeCause;
use retro_core::outcome::{
    CreditFacts, MemoryApplication, OutcomeCredit, PullRequestEnd, PullRequestRef, list_memory_applications,
};
use retro_core::report::Report;
use retro_store::Result;
use retro_store_sql::memory::cause_columns;
use retro_store_sql::track::{outcomes_due_message as message, pull_request_from_row};
use retro_store_sql::{at, parse_workflow_key, to_i64};
use sqlx::PgConnection;

use crate::convert::OnTable;
use crate::count::map_column;
use crate::memory::{append_changes, list_living_and_named, store_memories};
use crate::{close, now_ms, outbox, track};

/// Part of a due credit: the facts about its next memory applications, and whether more follow.
pub(crate) struct DueCredit {
    pub(crate) facts: CreditFacts,
    more: bool,
}

/// Loads the next part of a due credit, with at most `limit` memory applications. Returns `None` when no credit is
/// due for this pull request.
pub(crate) async fn load_due_credit(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    pull_request: &PullRequestRef,
    limit: u32,
) -> Result<Option<DueCredit>> {
    const WAITS: &str = "
        SELECT after_run, after_memory FROM credits_due
        WHERE tenant = $1 AND workflow = $2 AND repo = $3 AND number = $4";
    let waits: Option<(String, String)> = sqlx::query_as(WAITS)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(&pull_request.repo)
        .bind(to_i64(pull_request.number))
        .fetch_optional(&mut *connection)
        .await
        .on_table("credits_due")?;
    let Some(after) = waits else { return Ok(None) };
    let mut uses = list_uses_after(connection, key, pull_request, &after, limit).await?;
    let more = uses.len() > limit as usize;
    uses.truncate(limit as usize);
    let named: Vec<MemoryId> = uses.iter().map(|one| one.memory).collect();
    let causes = uses.iter().map(|one| {
        let end = PullRequestEnd::Merged;
        cause_columns(&ChangeCause::Outcome { workflow: key.workflow.clone(), run: one.run.clone(), end })
    });
    let causes: Vec<_> = causes.collect();
    let (applied, _) = close::find_changes_caused_by(connection, key, &causes).await?;
    let known = track::find_pull_request_facts(connection, &key.tenant, pull_request).await?;
    let facts = CreditFacts {
        key: key.clone(),
        pull_request: pull_request.clone(),
        facts: known.unwrap_or_default(),
        memories: list_living_and_named(connection, key, &named).await?,
        applications: uses,
        applied,
    };
    Ok(Some(DueCredit { facts, more }))
}

/// Lists the memory applications that follow the run and memory in `after`, at most one more than `limit`.
async fn list_uses_after(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    pull_request: &PullRequestRef,
    after: &(String, String),
    limit: u32,
) -> Result<Vec<MemoryApplication>> {
    const USES: &str = "
        SELECT DISTINCT used.run_id, used.memory FROM run_links AS link
        JOIN memory_uses AS used ON used.tenant = link.tenant AND used.workflow = link.workflow
            AND used.run_id = link.run_id
        WHERE link.tenant = $1 AND link.workflow = $2 AND link.repo = $3 AND link.number = $4
            AND (used.run_id, used.memory) > ($5, $6)
        ORDER BY used.run_id, used.memory LIMIT $7";
    let rows: Vec<(String, String)> = sqlx::query_as(USES)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(&pull_request.repo)
        .bind(to_i64(pull_request.number))
        .bind(&after.0)
        .bind(&after.1)
        // One more than requested, to find out whether more follow.
        .bind(i64::from(limit) + 1)
        .fetch_all(connection)
        .await
        .on_table("memory_uses")?;
    let place = at("memory_uses", key);
    let read = |(run, memory): &(String, String)| {
        Ok(MemoryApplication { run: place.parse(run)?, memory: place.parse(memory)? })
    };
    rows.iter().map(read).collect()
}

/// Stores the results of crediting one part. Deletes the due credit after the last part; before that, moves it to the
/// next part and wakes the writer.
pub(crate) async fn store_credit(
    connection: &mut PgConnection,
    due: &DueCredit,
    credited: &OutcomeCredit,
) -> Result<()> {
    const DONE: &str = "
        DELETE FROM credits_due WHERE tenant = $1 AND workflow = $2 AND repo = $3 AND number = $4";
    const PART: &str = "
        UPDATE credits_due SET after_run = $5, after_memory = $6
        WHERE tenant = $1 AND workflow = $2 AND repo = $3 AND number = $4";
    let CreditFacts { key, pull_request, applications: uses, .. } = &due.facts;
    append_changes(connection, key, &credited.changes).await?;
    store_memories(connection, key, &credited.memories).await?;
    outbox::enqueue_messages(connection, credited.messages.iter()).await?;
    let of = |sql| {
        sqlx::query(sql)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(&pull_request.repo)
            .bind(to_i64(pull_request.number))
    };
    // The position moves in the transaction that credits, so that no use is credited twice or skipped.
    let query = match uses.last().filter(|_| due.more) {
        None => of(DONE),
        Some(last) => {
            let because = format!("what comes after memory {} in run {}", last.memory, last.run);
            let next = message(&key.tenant, key.workflow.as_str(), pull_request.clone(), &because)?;
            outbox::enqueue_messages(connection, std::iter::once(&next)).await?;
            of(PART).bind(last.run.as_str()).bind(last.memory.to_string())
        }
    };
    let done = query.execute(connection).await.on_table("credits_due")?;
    at("credits_due", key).check_rows_affected(done.rows_affected(), 1)
}

/// Lists the credits that have been due for at least `older_than_s` seconds, oldest first.
pub(crate) async fn list_overdue(
    connection: &mut PgConnection,
    older_than_s: u64,
    limit: u32,
) -> Result<Vec<(WorkflowKey, PullRequestRef)>> {
    const OVERDUE: &str = concat!(
        "SELECT tenant, workflow, repo, number FROM credits_due WHERE due_ms <= ",
        now_ms!(),
        " - $1 * 1000 ORDER BY due_ms, tenant, workflow, repo, number LIMIT $2"
    );
    let rows: Vec<(String, String, String, i64)> = sqlx::query_as(OVERDUE)
        .bind(to_i64(older_than_s))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .on_table("credits_due")?;
    let read = |(tenant, workflow, repo, number): (String, String, String, i64)| {
        Ok((parse_workflow_key(&tenant, &workflow)?, pull_request_from_row(repo, number)?))
    };
    rows.into_iter().map(read).collect()
}

/// Records the memory applications that a closed retrospective found. If a pull request of an affected run has
/// already ended, its credit becomes due.
pub(crate) async fn record_applied(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    report: &Report,
) -> Result<()> {
    const STORE: &str = "
        INSERT INTO memory_uses (tenant, workflow, run_id, memory, retrospective)
        SELECT $1, $2, run_id, memory, $3 FROM unnest($4::text[], $5::text[]) AS new (run_id, memory)
        ON CONFLICT (tenant, workflow, run_id, memory) DO NOTHING";
    // A new use may sort before the position reached: a partly processed credit starts over.
    const DUE: &str = concat!(
        "INSERT INTO credits_due (tenant, workflow, repo, number, due_ms)
         SELECT DISTINCT link.tenant, link.workflow, link.repo, link.number, ",
        now_ms!(),
        " FROM run_links AS link
         JOIN pull_requests AS one ON one.tenant = link.tenant AND one.repo = link.repo AND one.number = link.number
         WHERE link.tenant = $1 AND link.workflow = $2 AND link.run_id = ANY($3::text[]) AND one.ended
         ON CONFLICT (tenant, workflow, repo, number) DO UPDATE SET after_run = '', after_memory = ''
             WHERE credits_due.after_run <> '' RETURNING repo, number"
    );
    let used = list_memory_applications(report);
    if used.is_empty() {
        return Ok(());
    }
    let runs = map_column(&used, |one| one.run.as_str());
    sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(report.id.to_string())
        .bind(&runs)
        .bind(map_column(&used, |one| one.memory.to_string()))
        .execute(&mut *connection)
        .await
        .on_table("memory_uses")?;
    let due: Vec<(String, i64)> = sqlx::query_as(DUE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(&runs)
        .fetch_all(&mut *connection)
        .await
        .on_table("credits_due")?;
    let because = format!("retrospective {}", report.id);
    let messages = due.into_iter().map(|(repo, number)| {
        message(&key.tenant, key.workflow.as_str(), pull_request_from_row(repo, number)?, &because)
    });
    let messages = messages.collect::<Result<Vec<_>>>()?;
    outbox::enqueue_messages(connection, messages.iter()).await?;
    Ok(())
}
