//! Tracks pull requests: their facts, and the credit that their outcomes make due.
//!
//! The column `pull_requests.ended` says that an outcome is known which gives credit.
//!
//! The tenant's row in `tracked_tenants` serves as the tracker's lock. It is locked
//! before any workflow row, and the writer locks only workflow rows, so the two cannot deadlock.

use std::collections::BTreeSet;

use async_trait::async_trait;
use retro_core::id::{EventKey, Tenant, Workflow, WorkflowKey};
use retro_core::pull_request::PullRequestRef;
use retro_core::retention::{ContentDigest, EventDigest, SeenContent};
use retro_fault::Label;
use retro_store::track::{PullRequestEvent, TRACKER_CONSUMER, TrackResult, Trailer};
use retro_store::{Result, TrackerStore};

use super::dialect::{
    Connection, OnTable, ROW_LOCKS, Store, any_of, bind_rows, exact_text, for_update, list_parameter, now_ms,
    rows_table,
};
use super::open::commit;
use super::pull_request_facts::merge_facts;
use super::{lock, outbox, reverts, tracked_runs};
use crate::rows::track::{TrailerRow, outcomes_due_message as message, pull_request_from_row, trailer_rows};
use crate::{at, parse_workflow_key, to_i64};

#[async_trait]
impl TrackerStore for Store {
    async fn record_pull_request_event(&self, pull_request_event: &PullRequestEvent) -> Result<TrackResult> {
        let mut transaction = self.begin_write().await?;
        let tenant = &pull_request_event.event.tenant;
        lock_tenant(&mut transaction, tenant).await?;
        if let Some(seen) = find_seen_content(&mut transaction, &pull_request_event.event).await? {
            return Ok(if seen.matches_hash(&pull_request_event.content_hash) {
                TrackResult::Duplicate
            } else {
                TrackResult::Conflict(seen)
            });
        }
        store_event(&mut transaction, pull_request_event).await?;
        let mut new = false;
        let mut touched = BTreeSet::new();
        if let Some((pull_request, new_facts)) = &pull_request_event.pull_request {
            new |= merge_facts(&mut transaction, tenant, pull_request, new_facts).await?;
            new |= store_commits(&mut transaction, tenant, pull_request, &pull_request_event.commits).await?;
            new |= reverts::apply_reverts_of_commits(
                &mut transaction,
                tenant,
                pull_request,
                &pull_request_event.commits,
            )
            .await?;
            touched.insert(pull_request.clone());
        }
        new |= store_trailers(&mut transaction, tenant, &pull_request_event.trailers).await?;
        touched
            .extend(pull_requests_of_commits(&mut transaction, tenant, &pull_request_event.trailers).await?);
        let reverted = reverts::record_reverts(&mut transaction, tenant, &pull_request_event.reverts).await?;
        new |= !reverted.is_empty();
        touched.extend(reverted);
        // Without new facts nothing can fall due, and scheduling would restart a partly processed credit.
        if new {
            let because =
                format!("event {} of {}", pull_request_event.event.id, pull_request_event.event.source);
            // Closing a retrospective takes the same locks. Otherwise a closing that records an applied
            // memory concurrently and this transaction would not see each other's rows, and nobody would
            // request the credit.
            let touched: Vec<_> = touched.into_iter().collect();
            lock_behind(&mut transaction, tenant, &touched).await?;
            schedule_credits(&mut transaction, tenant, None, &touched, &because).await?;
        }
        commit(transaction, Label::TrackCommit).await?;
        Ok(TrackResult::Recorded)
    }

    async fn list_untracked_workflows(&self, limit: u32) -> Result<Vec<WorkflowKey>> {
        const UNFOLLOWED: &str = "
            SELECT /* reads all: compares two numbers of each workflow */ one.tenant, one.workflow FROM tracked_tenants JOIN workflows AS one USING (tenant)
            LEFT JOIN tracking_cursor AS reached ON reached.tenant = one.tenant AND reached.workflow = one.workflow
            WHERE one.recorded > coalesce(reached.number, 0) ORDER BY one.tenant, one.workflow LIMIT $1";
        let rows: Vec<(String, String)> = sqlx::query_as(UNFOLLOWED)
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("tracking_cursor")?;
        rows.iter().map(|(tenant, workflow)| parse_workflow_key(tenant, workflow)).collect()
    }

    async fn track_runs(&self, key: &WorkflowKey, limit: u32) -> Result<usize> {
        let mut transaction = self.begin_write().await?;
        lock_tenant(&mut transaction, &key.tenant).await?;
        // Counting takes the same lock, so the references of a higher attempt are either read here or cause a
        // rewind.
        lock::lock_workflows(&mut transaction, &[], &[key]).await?;
        let (reached, recorded) = tracked_runs::load_position(&mut transaction, key).await?;
        let runs = tracked_runs::list_runs_after(&mut transaction, key, reached, limit).await?;
        let page_full = runs.len() == limit as usize;
        let last = runs.last().map_or(reached, |(number, _, _)| *number);
        tracked_runs::store_runs(&mut transaction, key, &runs).await?;
        // The list lacks runs whose facts were purged. Advance past everything recorded, or tracking would
        // never get past them.
        tracked_runs::store_position(
            &mut transaction,
            key,
            if page_full { last } else { recorded.max(last) },
        )
        .await?;
        // Only after the runs are stored: the view `run_links` finds their pull requests through the stored
        // references.
        let touched = tracked_runs::ended_pull_requests(&mut transaction, key, &runs).await?;
        if let Some((_, run, _)) = runs.last() {
            let because = format!("runs up to {run} of {key}");
            schedule_credits(&mut transaction, &key.tenant, Some(&key.workflow), &touched, &because).await?;
        }
        commit(transaction, Label::TrackRunsCommit).await?;
        Ok(runs.len())
    }
}

/// Finds the stored content of an event. Returns `None` if the tracker has not handled the event.
async fn find_seen_content(connection: &mut Connection, event: &EventKey) -> Result<Option<SeenContent>> {
    const WHOLE: &str = "
        SELECT content_hash FROM inbox WHERE consumer = $1 AND tenant = $2 AND source = $3 AND event_id = $4";
    const PURGED: &str = "SELECT content_digest FROM seen_events WHERE digest = $1";
    let full_hash: Option<String> = sqlx::query_scalar(WHOLE)
        .bind(TRACKER_CONSUMER)
        .bind(event.tenant.as_str())
        .bind(exact_text(&event.source))
        .bind(exact_text(&event.id))
        .fetch_optional(&mut *connection)
        .await
        .on_table("inbox")?;
    if let Some(hash) = full_hash {
        return Ok(Some(SeenContent::Full(hash)));
    }
    let digest = EventDigest::of_event(TRACKER_CONSUMER, event).0.into_bytes().to_vec();
    let purged: Option<Vec<u8>> =
        sqlx::query_scalar(PURGED).bind(digest).fetch_optional(connection).await.on_table("seen_events")?;
    let content = |bytes: Vec<u8>| {
        let place = at("seen_events.content_digest", &event.id);
        let content: [u8; 8] = bytes.as_slice().try_into().map_err(|error| place.damaged_error(error))?;
        Ok(SeenContent::Purged(ContentDigest(content)))
    };
    purged.map(content).transpose()
}

async fn store_event(connection: &mut Connection, pull_request_event: &PullRequestEvent) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO inbox (consumer, tenant, source, event_id, content_hash, received_ms)
         VALUES ($1, $2, $3, $4, $5, ",
        now_ms!(),
        ")"
    );
    let done = sqlx::query(STORE)
        .bind(TRACKER_CONSUMER)
        .bind(pull_request_event.event.tenant.as_str())
        .bind(exact_text(&pull_request_event.event.source))
        .bind(exact_text(&pull_request_event.event.id))
        .bind(&pull_request_event.content_hash)
        .execute(connection)
        .await
        .on_table("inbox")?;
    at("inbox", &pull_request_event.event.id).check_rows_affected(done.rows_affected(), 1)
}

/// Inserts the row of a tenant if it is missing, and locks it until the transaction ends.
async fn lock_tenant(connection: &mut Connection, tenant: &Tenant) -> Result<()> {
    const MAKE: &str = "INSERT INTO tracked_tenants (tenant) VALUES ($1) ON CONFLICT DO NOTHING";
    const LOCK: &str = concat!("SELECT 1 FROM tracked_tenants WHERE tenant = $1", for_update!());
    let make = sqlx::query(MAKE).bind(tenant.as_str());
    make.execute(&mut *connection).await.on_table("tracked_tenants")?;
    if ROW_LOCKS {
        let lock = sqlx::query(LOCK).bind(tenant.as_str());
        lock.execute(connection).await.on_table("tracked_tenants")?;
    }
    Ok(())
}

/// Stores the commits of a pull request. Returns `true` if at least one commit is new.
async fn store_commits(
    connection: &mut Connection,
    tenant: &Tenant,
    pull_request: &PullRequestRef,
    commits: &[String],
) -> Result<bool> {
    const STORE: &str = concat!(
        "INSERT INTO pull_request_commits (tenant, commit_id, repo, number)
         SELECT $1, commit_id, $2, $3 FROM ",
        rows_table!("new", "$4" "commit_id"),
        " WHERE true ON CONFLICT DO NOTHING"
    );
    let query =
        sqlx::query(STORE).bind(tenant.as_str()).bind(&pull_request.repo).bind(to_i64(pull_request.number));
    let query = bind_rows!(query, commits, |commit| [commit.as_str()]);
    let done = query.execute(connection).await.on_table("pull_request_commits")?;
    Ok(done.rows_affected() > 0)
}

/// Stores commit trailers that name runs. Returns `true` if at least one trailer, or its prompt version, is new.
async fn store_trailers(connection: &mut Connection, tenant: &Tenant, trailers: &[Trailer]) -> Result<bool> {
    const STORE: &str = concat!(
        "INSERT INTO commit_trailers (tenant, commit_id, trailer, workflow, run_id, prompt_version)
         SELECT $1, commit_id, trailer, workflow, run_id, nullif(prompt_version, '') FROM ",
        rows_table!("new", "$2" "commit_id", "$3" "trailer", "$4" "workflow", "$5" "run_id", "$6" "prompt_version"),
        " WHERE true ON CONFLICT (tenant, commit_id, trailer, workflow, run_id) DO UPDATE
             SET prompt_version = excluded.prompt_version
             WHERE commit_trailers.prompt_version IS NULL AND excluded.prompt_version IS NOT NULL"
    );
    let rows: Vec<TrailerRow<'_>> = trailers.iter().flat_map(trailer_rows).collect();
    let query = sqlx::query(STORE).bind(tenant.as_str());
    let query = bind_rows!(query, rows, |row| [
        row.commit,
        row.text,
        row.workflow.as_str(),
        row.run.as_str(),
        row.prompt_version,
    ]);
    let stored = query.execute(connection).await.on_table("commit_trailers")?;
    Ok(stored.rows_affected() > 0)
}

/// Returns the pull requests that contain the commits of the trailers.
async fn pull_requests_of_commits(
    connection: &mut Connection,
    tenant: &Tenant,
    trailers: &[Trailer],
) -> Result<Vec<PullRequestRef>> {
    const OF: &str = concat!(
        "SELECT DISTINCT repo, number FROM pull_request_commits WHERE tenant = $1 AND commit_id",
        any_of!("$2"),
        " ORDER BY repo, number"
    );
    let commits: Vec<&str> = trailers.iter().map(|trailer| trailer.commit.as_str()).collect();
    let rows: Vec<(String, i64)> = sqlx::query_as(OF)
        .bind(tenant.as_str())
        .bind(list_parameter(&commits))
        .fetch_all(connection)
        .await
        .on_table("pull_request_commits")?;
    rows.into_iter().map(|(repo, number)| pull_request_from_row(repo, number)).collect()
}

/// Schedules credit for what was applied in runs of those pull requests that have an outcome: in runs of one workflow
/// or, if `workflow` is `None`, of all. Each scope with a memory to credit has a credit of its own: the workflows of
/// the runs, and the rule scopes of repositories. A partly processed credit starts over, because the pull request may
/// now have another outcome. The pull requests are sorted, because the rows of a rule scope may be scheduled by several
/// transactions at once, which must lock them in the same order.
async fn schedule_credits(
    connection: &mut Connection,
    tenant: &Tenant,
    workflow: Option<&Workflow>,
    pull_requests: &[PullRequestRef],
    because: &str,
) -> Result<()> {
    const DUE: &str = concat!(
        "INSERT INTO due_credits (tenant, workflow, repo, number, due_ms)
         SELECT DISTINCT link.tenant, memory.workflow, link.repo, link.number, ",
        now_ms!(),
        " FROM pull_requests AS one
         JOIN run_links AS link ON link.tenant = one.tenant AND link.repo = one.repo AND link.number = one.number
         JOIN run_memory_applications AS used ON used.tenant = link.tenant AND used.workflow = link.workflow
             AND used.run_id = link.run_id
         JOIN memories AS memory ON memory.tenant = used.tenant AND memory.id = used.memory
         WHERE one.tenant = $1 AND one.repo = $2 AND one.number = $3 AND one.ended
             AND ($4 IS NULL OR link.workflow = $4)
         ORDER BY memory.workflow
         ON CONFLICT (tenant, workflow, repo, number) DO UPDATE
             SET after_workflow = '', after_run = '', after_memory = '' WHERE due_credits.after_run <> '' RETURNING workflow"
    );
    for pull_request in pull_requests {
        let workflows: Vec<String> = sqlx::query_scalar(DUE)
            .bind(tenant.as_str())
            .bind(&pull_request.repo)
            .bind(to_i64(pull_request.number))
            .bind(workflow.map(Workflow::as_str))
            .fetch_all(&mut *connection)
            .await
            .on_table("due_credits")?;
        let messages = workflows.iter().map(|one| message(tenant, one, pull_request.clone(), because));
        let messages = messages.collect::<Result<Vec<_>>>()?;
        outbox::enqueue_messages(connection, messages.iter()).await?;
    }
    Ok(())
}

/// Locks, in key order, the workflows whose runs are linked to those of the given pull requests that have
/// an outcome. Does nothing where write transactions exclude each other.
async fn lock_behind(
    connection: &mut Connection,
    tenant: &Tenant,
    pull_requests: &[PullRequestRef],
) -> Result<()> {
    const BEHIND: &str = concat!(
        "SELECT DISTINCT link.workflow FROM ",
        rows_table!("requested", "$2" "repo", "$3" "number"),
        " JOIN run_links AS link
              ON link.tenant = $1 AND link.repo = requested.repo AND link.number = requested.number
          JOIN pull_requests AS one
              ON one.tenant = link.tenant AND one.repo = link.repo AND one.number = link.number
          WHERE one.ended"
    );
    if !ROW_LOCKS {
        return Ok(());
    }
    let query = sqlx::query_scalar(BEHIND).bind(tenant.as_str());
    let query = bind_rows!(query, pull_requests, |one| [one.repo.as_str(), to_i64(one.number)]);
    let rows: Vec<String> = query.fetch_all(&mut *connection).await.on_table("run_links")?;
    let keys = rows.iter().map(|workflow| parse_workflow_key(tenant.as_str(), workflow));
    let keys = keys.collect::<Result<Vec<WorkflowKey>>>()?;
    lock::lock_workflows(connection, &[], &keys.iter().collect::<Vec<_>>()).await
}
