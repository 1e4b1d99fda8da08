//! Stores the memories applied in runs, and the credit that falls due when their pull requests end.

use retro_core::id::{MemoryId, WorkflowKey};
use retro_core::memory::ChangeCause;
use retro_core::outcome::{CreditFacts, MemoryApplication, OutcomeCredit, list_memory_applications};
use retro_core::pull_request::{PullRequestEnd, PullRequestRef};
use retro_core::report::Report;
use retro_store::Result;

use super::dialect::{Connection, OnTable, any_of, bind_rows, list_parameter, now_ms, rows_table};
use super::memory::{append_changes, find_changes_caused_by, list_living_and_named, store_memories};
use super::{outbox, track};
use crate::rows::memory::cause_columns;
use crate::rows::track::{outcomes_due_message as message, pull_request_from_row};
use crate::{at, parse_workflow_key, to_i64};

/// Next part of a due credit.
pub(crate) struct DueCredit {
    pub(crate) facts: CreditFacts,
    more: bool,
}

/// Loads the next part of a due credit, with at most `limit` memory applications. Returns `None` if no credit
/// is due for the pull request.
pub(crate) async fn load_due_credit(
    connection: &mut Connection,
    key: &WorkflowKey,
    pull_request: &PullRequestRef,
    limit: u32,
) -> Result<Option<DueCredit>> {
    const WAITS: &str = "
        SELECT after_run, after_memory FROM due_credits
        WHERE tenant = $1 AND workflow = $2 AND repo = $3 AND number = $4";
    let waits: Option<(String, String)> = sqlx::query_as(WAITS)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(&pull_request.repo)
        .bind(to_i64(pull_request.number))
        .fetch_optional(&mut *connection)
        .await
        .on_table("due_credits")?;
    let Some(after) = waits else { return Ok(None) };
    let mut uses = list_uses_after(connection, key, pull_request, &after, limit).await?;
    let more = uses.len() > limit as usize;
    uses.truncate(limit as usize);
    let named: Vec<MemoryId> = uses.iter().map(|one| one.memory).collect();
    let causes = uses.iter().map(|one| {
        // `cause_columns` ignores the end, so either value finds the changes for both ends.
        let end = PullRequestEnd::Merged;
        cause_columns(&ChangeCause::Outcome { workflow: key.workflow.clone(), run: one.run.clone(), end })
    });
    let causes: Vec<_> = causes.collect();
    let (applied, _) = find_changes_caused_by(connection, key, &causes).await?;
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

/// Lists at most `limit + 1` memory applications after the run and memory in `after`.
async fn list_uses_after(
    connection: &mut Connection,
    key: &WorkflowKey,
    pull_request: &PullRequestRef,
    after: &(String, String),
    limit: u32,
) -> Result<Vec<MemoryApplication>> {
    const USES: &str = "
        SELECT DISTINCT used.run_id, used.memory FROM run_links AS link
        JOIN run_memory_applications AS used ON used.tenant = link.tenant AND used.workflow = link.workflow
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
        // One more than requested, to detect a further part.
        .bind(i64::from(limit) + 1)
        .fetch_all(connection)
        .await
        .on_table("run_memory_applications")?;
    let place = at("run_memory_applications", key);
    let read = |(run, memory): &(String, String)| {
        Ok(MemoryApplication { run: place.parse(run)?, memory: place.parse(memory)? })
    };
    rows.iter().map(read).collect()
}

/// Stores the effects of crediting one part. Deletes the due credit after the last part; otherwise advances
/// it to the next part and wakes the writer.
pub(crate) async fn store_credit(
    connection: &mut Connection,
    due: &DueCredit,
    credited: &OutcomeCredit,
) -> Result<()> {
    const DONE: &str = "
        DELETE FROM due_credits WHERE tenant = $1 AND workflow = $2 AND repo = $3 AND number = $4";
    const PART: &str = "
        UPDATE due_credits SET after_run = $5, after_memory = $6
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
    // Advance the position in the crediting transaction, so no application is credited twice or skipped.
    let query = match uses.last().filter(|_| due.more) {
        None => of(DONE),
        Some(last) => {
            let because = format!("what comes after memory {} in run {}", last.memory, last.run);
            let next = message(&key.tenant, key.workflow.as_str(), pull_request.clone(), &because)?;
            outbox::enqueue_messages(connection, std::iter::once(&next)).await?;
            of(PART).bind(last.run.as_str()).bind(last.memory.to_string())
        }
    };
    let done = query.execute(connection).await.on_table("due_credits")?;
    at("due_credits", key).check_rows_affected(done.rows_affected(), 1)
}

/// Lists credits that have been due for at least `older_than_s` seconds, oldest first.
pub(crate) async fn list_overdue(
    connection: &mut Connection,
    older_than_s: u64,
    limit: u32,
) -> Result<Vec<(WorkflowKey, PullRequestRef)>> {
    const OVERDUE: &str = concat!(
        "SELECT tenant, workflow, repo, number FROM due_credits WHERE due_ms <= ",
        now_ms!(),
        " - $1 * 1000 ORDER BY due_ms, tenant, workflow, repo, number LIMIT $2"
    );
    let rows: Vec<(String, String, String, i64)> = sqlx::query_as(OVERDUE)
        .bind(to_i64(older_than_s))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .on_table("due_credits")?;
    let read = |(tenant, workflow, repo, number): (String, String, String, i64)| {
        Ok((parse_workflow_key(&tenant, &workflow)?, pull_request_from_row(repo, number)?))
    };
    rows.into_iter().map(read).collect()
}

/// Records the memories applied in the runs of a closed retrospective. If a pull request of such a run has
/// already ended, its credit becomes due.
pub(crate) async fn record_applied(
    connection: &mut Connection,
    key: &WorkflowKey,
    report: &Report,
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO run_memory_applications (tenant, workflow, run_id, memory, retrospective)
         SELECT $1, $2, run_id, memory, $3 FROM ",
        rows_table!("new", "$4" "run_id", "$5" "memory"),
        " WHERE true ON CONFLICT (tenant, workflow, run_id, memory) DO NOTHING"
    );
    // A new application may sort before the position reached, so a partly processed credit starts over.
    const DUE: &str = concat!(
        "INSERT INTO due_credits (tenant, workflow, repo, number, due_ms)
         SELECT DISTINCT link.tenant, link.workflow, link.repo, link.number, ",
        now_ms!(),
        " FROM run_links AS link
         JOIN pull_requests AS one ON one.tenant = link.tenant AND one.repo = link.repo AND one.number = link.number
         WHERE link.tenant = $1 AND link.workflow = $2 AND link.run_id",
        any_of!("$3"),
        " AND one.ended
         ON CONFLICT (tenant, workflow, repo, number) DO UPDATE SET after_run = '', after_memory = ''
             WHERE due_credits.after_run <> '' RETURNING repo, number"
    );
    let used = list_memory_applications(report);
    if used.is_empty() {
        return Ok(());
    }
    let query = sqlx::query(STORE).bind(key.tenant.as_str()).bind(key.workflow.as_str());
    let query = query.bind(report.id.to_string());
    let query = bind_rows!(query, used, |one| [one.run.as_str(), one.memory.to_string()]);
    query.execute(&mut *connection).await.on_table("run_memory_applications")?;
    let runs: Vec<&str> = used.iter().map(|one| one.run.as_str()).collect();
    let due: Vec<(String, i64)> = sqlx::query_as(DUE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(list_parameter(&runs))
        .fetch_all(&mut *connection)
        .await
        .on_table("due_credits")?;
    let because = format!("retrospective {}", report.id);
    let messages = due.into_iter().map(|(repo, number)| {
        message(&key.tenant, key.workflow.as_str(), pull_request_from_row(repo, number)?, &because)
    });
    let messages = messages.collect::<Result<Vec<_>>>()?;
    outbox::enqueue_messages(connection, messages.iter()).await?;
    Ok(())
}
