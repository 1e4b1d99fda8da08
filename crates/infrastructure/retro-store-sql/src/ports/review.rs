//! Records review events and stores the decisions on their remarks.

use async_trait::async_trait;
use jiff::Timestamp;
use retro_core::id::{EventKey, RemarkKey};
use retro_core::model_use::ReviewSpending;
use retro_core::remark::Remark;
use retro_core::retention::SeenContent;
use retro_core::review::{OtherRequest, REMARKS_MAX};
use retro_fault::Label;
use retro_store::review::{
    NewReviewBatch, OTHER_REQUESTS_MAX, PullRequestKey, PullRequestReviews, ReviewEvent, ReviewEventKind,
    ReviewEventResult, ReviewerStore,
};
use retro_store::{CommitResult, ModelCall, Result, ReviewCall, ReviewClaim};

use super::count::seen_events;
use super::dialect::{
    Connection, OnTable, ROW_LOCKS, Store, bind_rows, exact_text, for_update, now_ms, rows_table,
    storable_text,
};
use super::memory::list_living_and_named;
use super::open::commit;
use super::outbox;
use super::pipeline::record_review_version;
use super::review_calls::end_claim;
use crate::rows::review::{
    CONSUMER, classify_repeated_event, collected_from_rows, pull_request_key_from_row,
};
use crate::{at, format_policy_time, to_i64, to_json};

#[async_trait]
impl ReviewerStore for Store {
    async fn record_events(
        &self,
        review_events: &[ReviewEvent],
        wait_s: u64,
    ) -> Result<Vec<ReviewEventResult>> {
        let mut transaction = self.begin_write().await?;
        lock_pull_requests(&mut transaction, review_events).await?;
        let events: Vec<&EventKey> = review_events.iter().map(|one| &one.event).collect();
        let mut seen: Vec<Option<SeenContent>> = vec![None; review_events.len()];
        for (place, one) in seen_events(&mut transaction, CONSUMER, &events).await? {
            seen[at("inbox", place).parse_unsigned::<usize>(place)?] = Some(one);
        }
        let mut results = Vec::with_capacity(review_events.len());
        for (one, seen) in review_events.iter().zip(seen) {
            results.push(match seen {
                Some(seen) => classify_repeated_event(one, seen),
                None => record_event(&mut transaction, one, wait_s).await?,
            });
        }
        commit(transaction, Label::RecordEventsCommit).await?;
        Ok(results)
    }

    async fn list_due_reviews(&self, limit: u32) -> Result<Vec<PullRequestKey>> {
        const DUE: &str = concat!(
            "SELECT tenant, repo, number FROM reviews WHERE due_ms IS NOT NULL AND due_ms <= ",
            now_ms!(),
            " AND (claimed_until_ms IS NULL OR claimed_until_ms <= ",
            now_ms!(),
            ") ORDER BY due_ms, tenant, repo, number LIMIT $1"
        );
        let rows: Vec<(String, String, i64)> =
            sqlx::query_as(DUE).bind(i64::from(limit)).fetch_all(self.reader()).await.on_table("reviews")?;
        rows.iter().map(pull_request_key_from_row).collect()
    }

    async fn find_pull_request_reviews(&self, key: &PullRequestKey) -> Result<Option<PullRequestReviews>> {
        const REVIEW: &str =
            "SELECT revision, rounds, author FROM reviews WHERE tenant = $1 AND repo = $2 AND number = $3";
        const REMARKS: &str = "
            SELECT remark, thumbs_up FROM remarks WHERE tenant = $1 AND repo = $2 AND number = $3
            ORDER BY kind, length(remark_id), remark_id";
        const RESOLVED: &str = "
            SELECT first_id FROM review_threads WHERE tenant = $1 AND repo = $2 AND number = $3 AND resolved
            ORDER BY length(first_id), first_id";
        const OTHERS: &str = "
            SELECT remark, rule_title FROM remarks
            WHERE tenant = $1 AND repo = $2 AND rule_title IS NOT NULL AND number <> $3 AND NOT deleted
            ORDER BY changed_at DESC, number, kind, remark_id LIMIT $4";
        let (tenant, repo) = (key.tenant.as_str(), key.pull_request.repo.as_str());
        let number = to_i64(key.pull_request.number);
        let mut snapshot = self.begin_snapshot().await?;
        let review: Option<(i64, i64, Option<String>)> = sqlx::query_as(REVIEW)
            .bind(tenant)
            .bind(repo)
            .bind(number)
            .fetch_optional(&mut *snapshot)
            .await
            .on_table("reviews")?;
        let Some(review) = review else { return Ok(None) };
        let remarks: Vec<(String, i64)> = sqlx::query_as(REMARKS)
            .bind(tenant)
            .bind(repo)
            .bind(number)
            .fetch_all(&mut *snapshot)
            .await
            .on_table("remarks")?;
        let resolved: Vec<String> = sqlx::query_scalar(RESOLVED)
            .bind(tenant)
            .bind(repo)
            .bind(number)
            .fetch_all(&mut *snapshot)
            .await
            .on_table("review_threads")?;
        let others: Vec<(String, String)> = sqlx::query_as(OTHERS)
            .bind(tenant)
            .bind(repo)
            .bind(number)
            .bind(i64::from(OTHER_REQUESTS_MAX))
            .fetch_all(&mut *snapshot)
            .await
            .on_table("remarks")?;
        let rule_scope = key.pull_request.repo.rule_scope(&key.tenant);
        let rules = list_living_and_named(&mut snapshot, &rule_scope, &[]).await?;
        let mut collected = collected_from_rows(key, review, &remarks, &resolved, &others)?;
        // Those that a person made rules come first, so that no number of newer ones pushes them out.
        let promoted = rules.iter().flat_map(OtherRequest::of_added_rule);
        let elsewhere = promoted.filter(|request| request.remark.pull_request != key.pull_request);
        collected.other_requests.splice(0..0, elsewhere);
        collected.other_requests.truncate(OTHER_REQUESTS_MAX as usize);
        Ok(Some(collected))
    }

    async fn commit_review(
        &self,
        key: &PullRequestKey,
        revision: u64,
        claim: Option<&ReviewClaim>,
        settled: Option<&NewReviewBatch>,
    ) -> Result<CommitResult> {
        // Matches only the decided revision: a newer event must leave the pull request due.
        const SETTLE: &str = "
            UPDATE reviews SET due_ms = NULL, rounds = rounds + $5
            WHERE tenant = $1 AND repo = $2 AND number = $3 AND revision = $4 AND due_ms IS NOT NULL";
        let mut transaction = self.begin_write().await?;
        let done = sqlx::query(SETTLE)
            .bind(key.tenant.as_str())
            .bind(key.pull_request.repo.as_str())
            .bind(to_i64(key.pull_request.number))
            .bind(to_i64(revision))
            .bind(i64::from(settled.is_some()))
            .execute(&mut *transaction)
            .await
            .on_table("reviews")?;
        let is_decided = done.rows_affected() > 0;
        if let Some(settled) = settled.filter(|_| is_decided) {
            set_requests(&mut transaction, key, &settled.requests).await?;
            store_batch(&mut transaction, key, settled).await?;
            record_review_version(&mut transaction, settled).await?;
            outbox::enqueue_messages(&mut transaction, std::iter::once(&settled.message)).await?;
        }
        // A newer event made it due again: the next sweep need not wait for the end of the claim.
        if let Some(claim) = claim {
            end_claim(&mut transaction, claim).await?;
        }
        commit(transaction, Label::ReviewCommit).await?;
        Ok(if is_decided { CommitResult::Done } else { CommitResult::AlreadyDone })
    }

    async fn claim_reviews(&self, key: &PullRequestKey, lease_s: u64) -> Result<Option<ReviewClaim>> {
        self.claim_due_reviews(key, lease_s).await
    }

    async fn extend_review_claim(&self, claim: &ReviewClaim, lease_s: u64) -> Result<()> {
        self.renew_review_claim(claim, lease_s).await
    }

    async fn list_review_calls(&self, key: &PullRequestKey) -> Result<Vec<ReviewCall>> {
        self.load_review_calls(key).await
    }

    async fn append_review_call(&self, claim: &ReviewClaim, call: &ModelCall) -> Result<()> {
        self.insert_review_call(claim, call).await
    }

    async fn load_review_spending(&self, key: &PullRequestKey) -> Result<ReviewSpending> {
        self.sum_review_spending(key).await
    }
}

/// Inserts the missing rows of the events' pull requests, then locks all of them where write transactions run
/// concurrently. Rows are locked in key order, so concurrent batches cannot deadlock.
async fn lock_pull_requests(connection: &mut Connection, review_events: &[ReviewEvent]) -> Result<()> {
    const MAKE: &str = concat!(
        "INSERT INTO reviews (tenant, repo, number, revision, rounds)
         SELECT DISTINCT tenant, repo, number, 0, 0 FROM ",
        rows_table!("requested", "$1" "tenant", "$2" "repo", "$3" "number"),
        " ORDER BY 1, 2, 3 ON CONFLICT (tenant, repo, number) DO NOTHING"
    );
    const LOCK: &str = concat!(
        "SELECT 1 FROM reviews WHERE (tenant, repo, number) IN (SELECT tenant, repo, number FROM ",
        rows_table!("requested", "$1" "tenant", "$2" "repo", "$3" "number"),
        ") ORDER BY tenant, repo, number",
        for_update!()
    );
    let statements: &[&str] = if ROW_LOCKS { &[MAKE, LOCK] } else { &[MAKE] };
    for &statement in statements {
        let query = bind_rows!(sqlx::query(statement), review_events, |one| [
            one.event.tenant.as_str(),
            one.pull_request.repo.as_str(),
            to_i64(one.pull_request.number),
        ]);
        query.execute(&mut *connection).await.on_table("reviews")?;
    }
    Ok(())
}

/// Records a review event that was not in the inbox when the batch began.
async fn record_event(
    connection: &mut Connection,
    review_event: &ReviewEvent,
    wait_s: u64,
) -> Result<ReviewEventResult> {
    const KEEP: &str = concat!(
        "INSERT INTO inbox (consumer, tenant, source, event_id, content_hash, received_ms) VALUES ($1, $2, $3, $4, $5, ",
        now_ms!(),
        ") ON CONFLICT (consumer, tenant, source, event_id) DO NOTHING"
    );
    const KEPT: &str = "
        SELECT content_hash FROM inbox WHERE consumer = $1 AND tenant = $2 AND source = $3 AND event_id = $4";
    let event = &review_event.event;
    let inserted = sqlx::query(KEEP)
        .bind(CONSUMER)
        .bind(event.tenant.as_str())
        .bind(exact_text(&event.source))
        .bind(exact_text(&event.id))
        .bind(&review_event.content_hash)
        .execute(&mut *connection)
        .await
        .on_table("inbox")?;
    if inserted.rows_affected() == 0 {
        // The same event occurs twice in this batch.
        let hash: String = sqlx::query_scalar(KEPT)
            .bind(CONSUMER)
            .bind(event.tenant.as_str())
            .bind(exact_text(&event.source))
            .bind(exact_text(&event.id))
            .fetch_one(connection)
            .await
            .on_table("inbox")?;
        return Ok(classify_repeated_event(review_event, SeenContent::Full(hash)));
    }
    let author_stored = record_author(connection, review_event, wait_s).await?;
    let result = match &review_event.kind {
        None => ReviewEventResult::Unchanged,
        Some(ReviewEventKind::Remark { remark, thumbs_up, changed_at }) => {
            store_remark(connection, review_event, remark, *thumbs_up, *changed_at).await?
        }
        Some(ReviewEventKind::Thread { first_comment: first, resolved, at }) => {
            store_thread(connection, review_event, *first, *resolved, *at).await?
        }
    };
    if result == ReviewEventResult::Recorded {
        schedule_review(connection, review_event, wait_s).await?;
    }
    Ok(if author_stored && result == ReviewEventResult::Unchanged {
        ReviewEventResult::Recorded
    } else {
        result
    })
}

/// Stores the author named by the event unless one is already stored. If the pull request has remarks, its
/// decision then becomes due in `wait_s` seconds. Returns `true` if the author was stored.
async fn record_author(connection: &mut Connection, review_event: &ReviewEvent, wait_s: u64) -> Result<bool> {
    const TELL: &str = concat!(
        "UPDATE reviews SET author = $4, revision = revision + 1, due_ms = CASE WHEN EXISTS (
             SELECT 1 FROM remarks WHERE remarks.tenant = $1 AND remarks.repo = $2 AND remarks.number = $3)
             THEN coalesce(due_ms, ",
        now_ms!(),
        " + $5 * 1000) ELSE due_ms END
         WHERE tenant = $1 AND repo = $2 AND number = $3 AND author IS NULL AND $4 IS NOT NULL"
    );
    let (repo, number) = (review_event.pull_request.repo.as_str(), to_i64(review_event.pull_request.number));
    let updated = sqlx::query(TELL)
        .bind(review_event.event.tenant.as_str())
        .bind(repo)
        .bind(number)
        .bind(&review_event.author)
        .bind(to_i64(wait_s))
        .execute(connection)
        .await
        .on_table("reviews")?;
    Ok(updated.rows_affected() > 0)
}

/// Stores a remark unless a newer state of it is stored or the pull request has [`REMARKS_MAX`] other
/// remarks.
async fn store_remark(
    connection: &mut Connection,
    review_event: &ReviewEvent,
    remark: &Remark,
    thumbs_up: u64,
    changed_at: Timestamp,
) -> Result<ReviewEventResult> {
    // Equal times are ordered by content, so the stored remark does not depend on the order of arrival.
    const SAY: &str = concat!(
        "INSERT INTO remarks (tenant, repo, number, kind, remark_id, changed_at, remark, deleted, thumbs_up, stored_ms)
         SELECT $1, $2, $3, $4, $5, $6, $7, $9, $10, ",
        now_ms!(),
        " WHERE $8 > (SELECT count(*) FROM remarks WHERE tenant = $1 AND repo = $2 AND number = $3
             AND NOT (kind = $4 AND remark_id = $5))
         ON CONFLICT (tenant, repo, number, kind, remark_id) DO UPDATE SET changed_at = excluded.changed_at,
             remark = excluded.remark, deleted = excluded.deleted, thumbs_up = excluded.thumbs_up, stored_ms = excluded.stored_ms
         WHERE NOT remarks.deleted AND (excluded.deleted
             OR (excluded.changed_at, excluded.remark, excluded.thumbs_up)
                > (remarks.changed_at, remarks.remark, remarks.thumbs_up))"
    );
    const KNOWN: &str = "
        SELECT count(*) FROM remarks
        WHERE tenant = $1 AND repo = $2 AND number = $3 AND kind = $4 AND remark_id = $5";
    let (tenant, repo) = (review_event.event.tenant.as_str(), review_event.pull_request.repo.as_str());
    let (number, kind, id) =
        (to_i64(review_event.pull_request.number), remark.key.kind.as_str(), remark.key.id.to_string());
    let stored = sqlx::query(SAY)
        .bind(tenant)
        .bind(repo)
        .bind(number)
        .bind(kind)
        .bind(&id)
        .bind(format_policy_time(changed_at))
        .bind(to_json(remark))
        .bind(REMARKS_MAX as i64)
        .bind(remark.deleted)
        .bind(to_i64(thumbs_up))
        .execute(&mut *connection)
        .await
        .on_table("remarks")?;
    if stored.rows_affected() > 0 {
        return Ok(ReviewEventResult::Recorded);
    }
    let known: i64 = sqlx::query_scalar(KNOWN)
        .bind(tenant)
        .bind(repo)
        .bind(number)
        .bind(kind)
        .bind(&id)
        .fetch_one(connection)
        .await
        .on_table("remarks")?;
    Ok(if known > 0 { ReviewEventResult::Unchanged } else { ReviewEventResult::LimitReached })
}

/// Stores the state of a thread unless a newer state is stored or the pull request has [`REMARKS_MAX`] other
/// threads.
async fn store_thread(
    connection: &mut Connection,
    review_event: &ReviewEvent,
    first: u64,
    resolved: bool,
    at: Timestamp,
) -> Result<ReviewEventResult> {
    // At equal times `resolved` wins, so the stored state does not depend on the order of arrival.
    const STAND: &str = "
        INSERT INTO review_threads (tenant, repo, number, first_id, resolved, changed_at)
        SELECT $1, $2, $3, $4, $5, $6
        WHERE $7 > (SELECT count(*) FROM review_threads WHERE tenant = $1 AND repo = $2 AND number = $3
            AND first_id <> $4)
        ON CONFLICT (tenant, repo, number, first_id) DO UPDATE SET resolved = excluded.resolved,
            changed_at = excluded.changed_at
        WHERE (excluded.changed_at, excluded.resolved) > (review_threads.changed_at, review_threads.resolved)";
    let done = sqlx::query(STAND)
        .bind(review_event.event.tenant.as_str())
        .bind(review_event.pull_request.repo.as_str())
        .bind(to_i64(review_event.pull_request.number))
        .bind(first.to_string())
        .bind(resolved)
        .bind(format_policy_time(at))
        .bind(REMARKS_MAX as i64)
        .execute(connection)
        .await
        .on_table("review_threads")?;
    Ok(if done.rows_affected() > 0 { ReviewEventResult::Recorded } else { ReviewEventResult::Unchanged })
}

/// Increments the revision of a pull request, and makes its decision due in `wait_s` seconds unless it is
/// already due.
async fn schedule_review(connection: &mut Connection, review_event: &ReviewEvent, wait_s: u64) -> Result<()> {
    const DUE: &str = concat!(
        "UPDATE reviews SET revision = revision + 1, due_ms = coalesce(due_ms, ",
        now_ms!(),
        " + $4 * 1000) WHERE tenant = $1 AND repo = $2 AND number = $3"
    );
    let done = sqlx::query(DUE)
        .bind(review_event.event.tenant.as_str())
        .bind(review_event.pull_request.repo.as_str())
        .bind(to_i64(review_event.pull_request.number))
        .bind(to_i64(wait_s))
        .execute(connection)
        .await
        .on_table("reviews")?;
    at("reviews", &review_event.pull_request).check_rows_affected(done.rows_affected(), 1)
}

async fn store_batch(
    connection: &mut Connection,
    key: &PullRequestKey,
    settled: &NewReviewBatch,
) -> Result<()> {
    const STORE: &str = concat!(
        "INSERT INTO rule_batches (tenant, id, workflow, repo, number, round, as_of, policy, review, mutations, pipeline,
             state, settled_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'settling', ",
        now_ms!(),
        ")"
    );
    let done = sqlx::query(STORE)
        .bind(key.tenant.as_str())
        .bind(settled.id.to_string())
        .bind(settled.rule_scope.workflow.as_str())
        .bind(key.pull_request.repo.as_str())
        .bind(to_i64(key.pull_request.number))
        .bind(to_i64(settled.round))
        .bind(format_policy_time(settled.as_of))
        .bind(to_json(&settled.policy))
        .bind(to_json(&settled.review))
        .bind(to_json(&settled.mutations))
        .bind(settled.pipeline.hashes().pipeline.as_str())
        .execute(connection)
        .await
        .on_table("rule_batches")?;
    at("rule_batches", settled.id).check_rows_affected(done.rows_affected(), 1)
}

/// Stores the requested rule's title with each remark that requests one, and clears it on all other remarks
/// of the pull request.
async fn set_requests(
    connection: &mut Connection,
    key: &PullRequestKey,
    requests: &[(RemarkKey, String)],
) -> Result<()> {
    const SET: &str = concat!(
        "UPDATE remarks SET rule_title = (SELECT requested.title FROM ",
        rows_table!("requested", "$4" "kind", "$5" "id", "$6" "title"),
        " WHERE requested.kind = remarks.kind AND requested.id = remarks.remark_id)
         WHERE tenant = $1 AND repo = $2 AND number = $3"
    );
    let query = sqlx::query(SET)
        .bind(key.tenant.as_str())
        .bind(key.pull_request.repo.as_str())
        .bind(to_i64(key.pull_request.number));
    let query = bind_rows!(query, requests, |request| [
        request.0.kind.as_str(),
        request.0.id.to_string(),
        storable_text(&request.1).to_string(),
    ]);
    query.execute(connection).await.on_table("remarks")?;
    Ok(())
}
