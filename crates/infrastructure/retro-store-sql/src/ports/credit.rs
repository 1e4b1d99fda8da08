//! Stores the memories and rules applied in runs, and the credit that falls due when an outcome of their pull requests
//! is known.
//!
//! A credit belongs to one scope, that of the memories that it credits, and is processed under the lock of that scope.
//! The credits of a workflow are also scheduled under its lock. Those of a rule scope are scheduled under the locks of
//! the runs' workflows: the row of the due credit is locked before the applications are read, so an application that is
//! stored concurrently either is read or makes the credit due anew.

use retro_core::id::{MemoryId, WorkflowKey};
use retro_core::memory::ChangeCause;
use retro_core::outcome::{CreditFacts, MemoryApplication, OutcomeCredit, list_memory_applications};
use retro_core::pull_request::{CreditedOutcome, PullRequestRef};
use retro_core::report::Report;
use retro_store::Result;

use super::dialect::{
    Connection, OnTable, any_of, bind_rows, for_update, list_parameter, now_ms, rows_table,
};
use super::memory::{append_changes, find_changes_caused_by, list_living_and_named, store_memories};
use super::{outbox, pull_request_facts};
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
    const WAITS: &str = concat!(
        "        SELECT after_workflow, after_run, after_memory FROM due_credits
        WHERE tenant = $1 AND workflow = $2 AND repo = $3 AND number = $4",
        for_update!()
    );
    let waits: Option<(String, String, String)> = sqlx::query_as(WAITS)
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
        // `cause_columns` ignores the outcome, so any value finds the changes for all of them.
        let outcome = CreditedOutcome::Merged;
        cause_columns(&ChangeCause::Outcome { workflow: one.workflow.clone(), run: one.run.clone(), outcome })
    });
    let causes: Vec<_> = causes.collect();
    let (applied, _) = find_changes_caused_by(connection, key, &causes).await?;
    let known = pull_request_facts::find_pull_request_facts(connection, &key.tenant, pull_request).await?;
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

/// Lists at most `limit + 1` applications of memories of the scope, after the workflow, run and memory in `after`.
async fn list_uses_after(
    connection: &mut Connection,
    key: &WorkflowKey,
    pull_request: &PullRequestRef,
    after: &(String, String, String),
    limit: u32,
) -> Result<Vec<MemoryApplication>> {
    const USES: &str = "
        SELECT DISTINCT used.workflow, used.run_id, used.memory FROM run_links AS link
        JOIN run_memory_applications AS used ON used.tenant = link.tenant AND used.workflow = link.workflow
            AND used.run_id = link.run_id
        JOIN memories AS memory ON memory.tenant = used.tenant AND memory.id = used.memory AND memory.workflow = $2
        WHERE link.tenant = $1 AND link.repo = $3 AND link.number = $4
            AND (used.workflow, used.run_id, used.memory) > ($5, $6, $7)
        ORDER BY used.workflow, used.run_id, used.memory LIMIT $8";
    let rows: Vec<(String, String, String)> = sqlx::query_as(USES)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(&pull_request.repo)
        .bind(to_i64(pull_request.number))
        .bind(&after.0)
        .bind(&after.1)
        .bind(&after.2)
        // One more than requested, to detect a further part.
        .bind(i64::from(limit) + 1)
        .fetch_all(connection)
        .await
        .on_table("run_memory_applications")?;
    let place = at("run_memory_applications", key);
    let read = |(workflow, run, memory): &(String, String, String)| {
        Ok(MemoryApplication {
            workflow: place.parse(workflow)?,
            run: place.parse(run)?,
            memory: place.parse(memory)?,
        })
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
        UPDATE due_credits SET after_workflow = $5, after_run = $6, after_memory = $7
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
            of(PART).bind(last.workflow.as_str()).bind(last.run.as_str()).bind(last.memory.to_string())
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

/// Records the memories and rules applied in the runs of a closed retrospective. If an outcome of a pull request of
/// such a run is known already, its credit becomes due: in the workflow, and in the rule scopes of the rules.
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
         SELECT DISTINCT link.tenant, memory.workflow, link.repo, link.number, ",
        now_ms!(),
        " FROM run_links AS link
         JOIN run_memory_applications AS used ON used.tenant = link.tenant AND used.workflow = link.workflow
             AND used.run_id = link.run_id
         JOIN memories AS memory ON memory.tenant = used.tenant AND memory.id = used.memory
         JOIN pull_requests AS one ON one.tenant = link.tenant AND one.repo = link.repo AND one.number = link.number
         WHERE link.tenant = $1 AND link.workflow = $2 AND link.run_id",
        any_of!("$3"),
        " AND one.ended
         ORDER BY link.repo, link.number, memory.workflow
         ON CONFLICT (tenant, workflow, repo, number) DO UPDATE
             SET after_workflow = '', after_run = '', after_memory = ''
             WHERE due_credits.after_run <> '' RETURNING workflow, repo, number"
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
    let due: Vec<(String, String, i64)> = sqlx::query_as(DUE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(list_parameter(&runs))
        .fetch_all(&mut *connection)
        .await
        .on_table("due_credits")?;
    let because = format!("retrospective {}", report.id);
    let messages = due.into_iter().map(|(scope, repo, number)| {
        message(&key.tenant, &scope, pull_request_from_row(repo, number)?, &because)
    });
    let messages = messages.collect::<Result<Vec<_>>>()?;
    outbox::enqueue_messages(connection, messages.iter()).await?;
    Ok(())
}
