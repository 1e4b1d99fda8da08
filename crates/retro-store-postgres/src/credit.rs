//! Late credit: which memories were applied in which run, and what waits for the writer.

use retro_core::id::{MemoryId, WorkflowKey};
use retro_core::memory::Cause;
use retro_core::outcome::{CreditFacts, Credited, PullRequestEnd, PullRequestRef, Use, uses};
use retro_core::report::Report;
use retro_store::Result;
use retro_store_sql::memory::cause;
use retro_store_sql::track::{due as message, pull_request};
use retro_store_sql::{at, integer, workflow_key};
use sqlx::PgConnection;

use crate::answer::OnTable;
use crate::count::column;
use crate::memory::{append_changes, living_and_named, store_memories};
use crate::{close, now_ms, outbox, track};

/// A credit that waits: at most so many uses of it, and whether others come after them.
pub(crate) struct Due {
    pub(crate) facts: CreditFacts,
    more: bool,
}

/// Loads the next part of a credit that waits, at most `limit` uses; `None` when it does not.
pub(crate) async fn load(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    pull_request: &PullRequestRef,
    limit: u32,
) -> Result<Option<Due>> {
    const WAITS: &str = "
        SELECT after_run, after_memory FROM credits_due
        WHERE tenant = $1 AND workflow = $2 AND repo = $3 AND number = $4";
    let waits: Option<(String, String)> = sqlx::query_as(WAITS)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(&pull_request.repo)
        .bind(integer(pull_request.number))
        .fetch_optional(&mut *connection)
        .await
        .on("credits_due")?;
    let Some(after) = waits else { return Ok(None) };
    let mut uses = uses_behind(connection, key, pull_request, &after, limit).await?;
    let more = uses.len() > limit as usize;
    uses.truncate(limit as usize);
    let named: Vec<MemoryId> = uses.iter().map(|one| one.memory).collect();
    let causes = uses.iter().map(|one| {
        let end = PullRequestEnd::Merged;
        cause(&Cause::Outcome { workflow: key.workflow.clone(), run: one.run.clone(), end })
    });
    let causes: Vec<_> = causes.collect();
    let (applied, _) = close::caused(connection, key, &causes).await?;
    let known = track::known(connection, &key.tenant, pull_request).await?;
    let facts = CreditFacts {
        key: key.clone(),
        pull_request: pull_request.clone(),
        facts: known.unwrap_or_default(),
        memories: living_and_named(connection, key, &named).await?,
        uses,
        applied,
    };
    Ok(Some(Due { facts, more }))
}

/// The uses after this run and memory, one more than `limit` of them where there are more.
async fn uses_behind(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    pull_request: &PullRequestRef,
    after: &(String, String),
    limit: u32,
) -> Result<Vec<Use>> {
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
        .bind(integer(pull_request.number))
        .bind(&after.0)
        .bind(&after.1)
        .bind(i64::from(limit) + 1)
        .fetch_all(connection)
        .await
        .on("memory_uses")?;
    let place = at("memory_uses", key);
    let read =
        |(run, memory): &(String, String)| Ok(Use { run: place.parse(run)?, memory: place.parse(memory)? });
    rows.iter().map(read).collect()
}

/// Stores what crediting does; nothing waits any more, or what comes after it, with a message for the next part.
pub(crate) async fn store(connection: &mut PgConnection, due: &Due, credited: &Credited) -> Result<()> {
    const DONE: &str = "
        DELETE FROM credits_due WHERE tenant = $1 AND workflow = $2 AND repo = $3 AND number = $4";
    const PART: &str = "
        UPDATE credits_due SET after_run = $5, after_memory = $6
        WHERE tenant = $1 AND workflow = $2 AND repo = $3 AND number = $4";
    let CreditFacts { key, pull_request, uses, .. } = &due.facts;
    append_changes(connection, key, &credited.changes).await?;
    store_memories(connection, key, &credited.memories).await?;
    outbox::put(connection, credited.messages.iter()).await?;
    let of = |sql| {
        sqlx::query(sql)
            .bind(key.tenant.as_str())
            .bind(key.workflow.as_str())
            .bind(&pull_request.repo)
            .bind(integer(pull_request.number))
    };
    let query = match uses.last().filter(|_| due.more) {
        None => of(DONE),
        Some(last) => {
            let because = format!("what comes after memory {} in run {}", last.memory, last.run);
            let next = message(&key.tenant, key.workflow.as_str(), pull_request.clone(), &because)?;
            outbox::put(connection, std::iter::once(&next)).await?;
            of(PART).bind(last.run.as_str()).bind(last.memory.to_string())
        }
    };
    let done = query.execute(connection).await.on("credits_due")?;
    at("credits_due", key).touched(done.rows_affected(), 1)
}

/// Credits that have waited for so long, the oldest first.
pub(crate) async fn overdue(
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
        .bind(integer(older_than_s))
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await
        .on("credits_due")?;
    let read = |(tenant, workflow, repo, number): (String, String, String, i64)| {
        Ok((workflow_key(&tenant, &workflow)?, pull_request(repo, number)?))
    };
    rows.into_iter().map(read).collect()
}

/// Remembers what a closed retrospective found applied; where the pull request of such a run has ended before, credit
/// is due.
pub(crate) async fn remember(
    connection: &mut PgConnection,
    key: &WorkflowKey,
    report: &Report,
) -> Result<()> {
    const STORE: &str = "
        INSERT INTO memory_uses (tenant, workflow, run_id, memory, retrospective)
        SELECT $1, $2, run_id, memory, $3 FROM unnest($4::text[], $5::text[]) AS new (run_id, memory)
        ON CONFLICT (tenant, workflow, run_id, memory) DO NOTHING";
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
    let used = uses(report);
    if used.is_empty() {
        return Ok(());
    }
    let runs = column(&used, |one| one.run.as_str());
    sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(report.id.to_string())
        .bind(&runs)
        .bind(column(&used, |one| one.memory.to_string()))
        .execute(&mut *connection)
        .await
        .on("memory_uses")?;
    let due: Vec<(String, i64)> = sqlx::query_as(DUE)
        .bind(key.tenant.as_str())
        .bind(key.workflow.as_str())
        .bind(&runs)
        .fetch_all(&mut *connection)
        .await
        .on("credits_due")?;
    let because = format!("retrospective {}", report.id);
    let messages = due.into_iter().map(|(repo, number)| {
        message(&key.tenant, key.workflow.as_str(), pull_request(repo, number)?, &because)
    });
    let messages = messages.collect::<Result<Vec<_>>>()?;
    outbox::put(connection, messages.iter()).await?;
    Ok(())
}
