//! Following pull requests. A tenant's row in `tracked_tenants` is the lock of whoever does: taken first, and the rows of
//! workflows after it. The writer takes only those, so nobody waits for each other.

use async_trait::async_trait;
use retro_core::id::{EventKey, Tenant, Workflow, WorkflowKey};
use retro_core::keep::{ContentDigest, EventDigest, Seen};
use retro_core::outcome::{PullRequestFacts, PullRequestRef};
use retro_fault::Label;
use retro_store::track::{Heard, TRACKER, Tracked, Trailer};
use retro_store::{Result, TrackerStore};
use retro_store_sql::track::{due as message, facts, pull_request, readings};
use retro_store_sql::{at, integer, json, workflow_key};
use sqlx::PgConnection;

use crate::answer::OnTable;
use crate::count::column;
use crate::open::commit;
use crate::{PostgresStore, follow, lock, now_ms, outbox};

#[async_trait]
impl TrackerStore for PostgresStore {
    async fn track(&self, heard: &Heard) -> Result<Tracked> {
        let mut transaction = self.write().await?;
        let tenant = &heard.event.tenant;
        lock_tenant(&mut transaction, tenant).await?;
        if let Some(seen) = seen(&mut transaction, &heard.event).await? {
            return Ok(if seen.is(&heard.content_hash) { Tracked::Before } else { Tracked::Conflict(seen) });
        }
        store_event(&mut transaction, heard).await?;
        let mut new = false;
        let mut touched = Vec::new();
        if let Some((pull_request, said)) = &heard.pull_request {
            new |= grow(&mut transaction, tenant, pull_request, said).await?;
            new |= store_commits(&mut transaction, tenant, pull_request, &heard.commits).await?;
            touched.push(pull_request.clone());
        }
        new |= store_trailers(&mut transaction, tenant, &heard.trailers).await?;
        touched.extend(of_commits(&mut transaction, tenant, &heard.trailers).await?);
        if new {
            let because = format!("event {} of {}", heard.event.id, heard.event.source);
            // Whoever closes a retrospective holds the same locks: one of the two sees what the other has stored.
            lock_behind(&mut transaction, tenant, &touched).await?;
            due(&mut transaction, tenant, None, &touched, &because).await?;
        }
        commit(transaction, Label::TrackCommit).await?;
        Ok(Tracked::Now)
    }

    async fn unfollowed(&self, limit: u32) -> Result<Vec<WorkflowKey>> {
        const UNFOLLOWED: &str = "
            SELECT one.tenant, one.workflow FROM tracked_tenants JOIN workflows AS one USING (tenant)
            LEFT JOIN following AS reached ON reached.tenant = one.tenant AND reached.workflow = one.workflow
            WHERE one.recorded > coalesce(reached.number, 0) ORDER BY one.tenant, one.workflow LIMIT $1";
        let rows: Vec<(String, String)> = sqlx::query_as(UNFOLLOWED)
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on("following")?;
        rows.iter().map(|(tenant, workflow)| workflow_key(tenant, workflow)).collect()
    }

    async fn follow(&self, key: &WorkflowKey, limit: u32) -> Result<usize> {
        let mut transaction = self.write().await?;
        lock_tenant(&mut transaction, &key.tenant).await?;
        // Whoever counts or closes holds the same lock: what a higher attempt says is either read here or followed again.
        lock::workflows(&mut transaction, &[], &[key]).await?;
        let (reached, recorded) = follow::reached(&mut transaction, key).await?;
        let runs = follow::runs_behind(&mut transaction, key, reached, limit).await?;
        let whole = runs.len() == limit as usize;
        let last = runs.last().map_or(reached, |(number, _, _)| *number);
        follow::store_runs(&mut transaction, key, &runs).await?;
        // Runs whose details were purged are not among them: what was recorded is behind us all the same.
        follow::reach(&mut transaction, key, if whole { last } else { recorded.max(last) }).await?;
        let touched = follow::ended_behind(&mut transaction, key, &runs).await?;
        if let Some((_, run, _)) = runs.last() {
            let because = format!("runs up to {run} of {key}");
            due(&mut transaction, &key.tenant, Some(&key.workflow), &touched, &because).await?;
        }
        commit(transaction, Label::FollowCommit).await?;
        Ok(runs.len())
    }
}

/// What is remembered of an event.
async fn seen(connection: &mut PgConnection, event: &EventKey) -> Result<Option<Seen>> {
    const WHOLE: &str = "
        SELECT content_hash FROM inbox WHERE consumer = $1 AND tenant = $2 AND source = $3 AND event_id = $4";
    const PURGED: &str = "SELECT content FROM seen_events WHERE digest = $1";
    let whole: Option<String> = sqlx::query_scalar(WHOLE)
        .bind(TRACKER)
        .bind(event.tenant.as_str())
        .bind(event.source.as_bytes())
        .bind(event.id.as_bytes())
        .fetch_optional(&mut *connection)
        .await
        .on("inbox")?;
    if let Some(hash) = whole {
        return Ok(Some(Seen::Whole(hash)));
    }
    let digest = EventDigest::of(TRACKER, event).0.into_bytes().to_vec();
    let purged: Option<Vec<u8>> =
        sqlx::query_scalar(PURGED).bind(digest).fetch_optional(connection).await.on("seen_events")?;
    let content = |bytes: Vec<u8>| {
        let place = at("seen_events.content", &event.id);
        let content: [u8; 8] = bytes.as_slice().try_into().map_err(|error| place.damaged(error))?;
        Ok(Seen::Purged(ContentDigest(content)))
    };
    purged.map(content).transpose()
}

async fn store_event(connection: &mut PgConnection, heard: &Heard) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO inbox (consumer, tenant, source, event_id, content_hash, received_ms)
         VALUES ($1, $2, $3, $4, $5, ",
        now_ms!(),
        ")"
    );
    let done = sqlx::query(STORE)
        .bind(TRACKER)
        .bind(heard.event.tenant.as_str())
        .bind(heard.event.source.as_bytes())
        .bind(heard.event.id.as_bytes())
        .bind(&heard.content_hash)
        .execute(connection)
        .await
        .on("inbox")?;
    at("inbox", &heard.event.id).touched(done.rows_affected(), 1)
}

/// Locks the row of a tenant until the transaction ends; it gets one when it has none.
async fn lock_tenant(connection: &mut PgConnection, tenant: &Tenant) -> Result<()> {
    const MAKE: &str = "INSERT INTO tracked_tenants (tenant) VALUES ($1) ON CONFLICT DO NOTHING";
    const LOCK: &str = "SELECT FROM tracked_tenants WHERE tenant = $1 FOR UPDATE";
    for statement in [MAKE, LOCK] {
        let query = sqlx::query(statement).bind(tenant.as_str());
        query.execute(&mut *connection).await.on("tracked_tenants")?;
    }
    Ok(())
}

/// Adds to what is known of a pull request. Returns whether it ended otherwise than was known.
async fn grow(
    connection: &mut PgConnection,
    tenant: &Tenant,
    pull_request: &PullRequestRef,
    said: &PullRequestFacts,
) -> Result<bool> {
    const STORE: &str = "
        INSERT INTO pull_requests (tenant, repo, number, ended, facts) VALUES ($1, $2, $3, $4, $5)
        ON CONFLICT (tenant, repo, number) DO UPDATE SET ended = excluded.ended, facts = excluded.facts";
    let known = known(connection, tenant, pull_request).await?.unwrap_or_default();
    let before = known.ends();
    let known = known.join(said);
    sqlx::query(STORE)
        .bind(tenant.as_str())
        .bind(&pull_request.repo)
        .bind(integer(pull_request.number))
        .bind(!known.ends().is_empty())
        .bind(json(&known))
        .execute(connection)
        .await
        .on("pull_requests")?;
    Ok(known.ends() != before)
}

/// What is known of a pull request; `None` when nothing was heard of it.
pub(crate) async fn known(
    connection: &mut PgConnection,
    tenant: &Tenant,
    pull_request: &PullRequestRef,
) -> Result<Option<PullRequestFacts>> {
    const LOAD: &str = "SELECT facts FROM pull_requests WHERE tenant = $1 AND repo = $2 AND number = $3";
    let stored: Option<String> = sqlx::query_scalar(LOAD)
        .bind(tenant.as_str())
        .bind(&pull_request.repo)
        .bind(integer(pull_request.number))
        .fetch_optional(connection)
        .await
        .on("pull_requests")?;
    stored.map(|stored| facts(pull_request, &stored)).transpose()
}

/// Returns whether one of them is new.
async fn store_commits(
    connection: &mut PgConnection,
    tenant: &Tenant,
    pull_request: &PullRequestRef,
    commits: &[String],
) -> Result<bool> {
    const STORE: &str = "
        INSERT INTO pull_request_commits (tenant, commit_id, repo, number)
        SELECT $1, commit_id, $2, $3 FROM unnest($4::text[]) AS new (commit_id) ON CONFLICT DO NOTHING";
    let done = sqlx::query(STORE)
        .bind(tenant.as_str())
        .bind(&pull_request.repo)
        .bind(integer(pull_request.number))
        .bind(commits)
        .execute(connection)
        .await
        .on("pull_request_commits")?;
    Ok(done.rows_affected() > 0)
}

/// Returns whether one of them is new.
async fn store_trailers(
    connection: &mut PgConnection,
    tenant: &Tenant,
    trailers: &[Trailer],
) -> Result<bool> {
    const STORE: &str = "
        INSERT INTO commit_trailers (tenant, commit_id, named, workflow, run_id)
        SELECT $1, commit_id, named, workflow, run_id
        FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS new (commit_id, named, workflow, run_id)
        ON CONFLICT DO NOTHING";
    let read = |trailer: &Trailer| {
        let (commit, named) = (trailer.commit.clone(), trailer.named.clone());
        let read = readings(trailer).into_iter();
        read.map(move |(workflow, run)| [commit.clone(), named.clone(), workflow, run]).collect::<Vec<_>>()
    };
    let rows: Vec<[String; 4]> = trailers.iter().flat_map(read).collect();
    let stored = sqlx::query(STORE)
        .bind(tenant.as_str())
        .bind(column(&rows, |row| row[0].as_str()))
        .bind(column(&rows, |row| row[1].as_str()))
        .bind(column(&rows, |row| row[2].as_str()))
        .bind(column(&rows, |row| row[3].as_str()))
        .execute(connection)
        .await
        .on("commit_trailers")?;
    Ok(stored.rows_affected() > 0)
}

/// The pull requests of commits that name runs.
async fn of_commits(
    connection: &mut PgConnection,
    tenant: &Tenant,
    trailers: &[Trailer],
) -> Result<Vec<PullRequestRef>> {
    const OF: &str = "
        SELECT DISTINCT repo, number FROM pull_request_commits
        WHERE tenant = $1 AND commit_id = ANY($2::text[]) ORDER BY repo, number";
    let commits: Vec<&str> = trailers.iter().map(|trailer| trailer.commit.as_str()).collect();
    let rows: Vec<(String, i64)> = sqlx::query_as(OF)
        .bind(tenant.as_str())
        .bind(commits)
        .fetch_all(connection)
        .await
        .on("pull_request_commits")?;
    rows.into_iter().map(|(repo, number)| pull_request(repo, number)).collect()
}

/// Asks the writer for credit wherever a memory was applied behind one of these pull requests that have ended, in runs of
/// one workflow or of any. What waits for it already and is partly credited begins anew: it may be another end.
async fn due(
    connection: &mut PgConnection,
    tenant: &Tenant,
    workflow: Option<&Workflow>,
    pull_requests: &[PullRequestRef],
    because: &str,
) -> Result<()> {
    const DUE: &str = concat!(
        "INSERT INTO credits_due (tenant, workflow, repo, number, due_ms)
         SELECT DISTINCT link.tenant, link.workflow, link.repo, link.number, ",
        now_ms!(),
        " FROM pull_requests AS one
         JOIN run_links AS link ON link.tenant = one.tenant AND link.repo = one.repo AND link.number = one.number
         JOIN memory_uses AS used ON used.tenant = link.tenant AND used.workflow = link.workflow
             AND used.run_id = link.run_id
         WHERE one.tenant = $1 AND one.repo = $2 AND one.number = $3 AND one.ended
             AND ($4::text IS NULL OR link.workflow = $4)
         ON CONFLICT (tenant, workflow, repo, number) DO UPDATE SET after_run = '', after_memory = ''
             WHERE credits_due.after_run <> '' RETURNING workflow"
    );
    for pull_request in pull_requests {
        let workflows: Vec<String> = sqlx::query_scalar(DUE)
            .bind(tenant.as_str())
            .bind(&pull_request.repo)
            .bind(integer(pull_request.number))
            .bind(workflow.map(Workflow::as_str))
            .fetch_all(&mut *connection)
            .await
            .on("credits_due")?;
        let messages = workflows.iter().map(|one| message(tenant, one, pull_request.clone(), because));
        let messages = messages.collect::<Result<Vec<_>>>()?;
        outbox::put(connection, messages.iter()).await?;
    }
    Ok(())
}

/// Locks the workflows of which runs belong to these pull requests, in the order of their keys.
async fn lock_behind(
    connection: &mut PgConnection,
    tenant: &Tenant,
    pull_requests: &[PullRequestRef],
) -> Result<()> {
    const BEHIND: &str = "
        SELECT DISTINCT link.workflow FROM unnest($2::text[], $3::bigint[]) AS asked (repo, number)
        JOIN run_links AS link ON link.tenant = $1 AND link.repo = asked.repo AND link.number = asked.number
        JOIN pull_requests AS one ON one.tenant = link.tenant AND one.repo = link.repo AND one.number = link.number
        WHERE one.ended";
    let rows: Vec<String> = sqlx::query_scalar(BEHIND)
        .bind(tenant.as_str())
        .bind(column(pull_requests, |one| one.repo.as_str()))
        .bind(column(pull_requests, |one| integer(one.number)))
        .fetch_all(&mut *connection)
        .await
        .on("run_links")?;
    let keys = rows.iter().map(|workflow| workflow_key(tenant.as_str(), workflow));
    let keys = keys.collect::<Result<Vec<WorkflowKey>>>()?;
    lock::workflows(connection, &[], &keys.iter().collect::<Vec<_>>()).await
}
