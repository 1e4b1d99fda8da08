//! Stores the responses of requests that carry an idempotency key.

use async_trait::async_trait;
use retro_fault::Label;
use retro_store::{
    BeginRequestResult, IdempotencyStore, IdempotencyTimeouts, RequestKey, Result, StoredResponse,
};

use super::dialect::{Connection, OnTable, Store, greatest, now_ms, skip_locked};
use super::open::commit;
use crate::{at, to_i64};

/// Stored request: fingerprint, status, content type and body.
type Row = (String, Option<i64>, Option<String>, Option<Vec<u8>>);

#[async_trait]
impl IdempotencyStore for Store {
    async fn begin_request(
        &self,
        name: &RequestKey,
        fingerprint: &str,
        times: IdempotencyTimeouts,
    ) -> Result<BeginRequestResult> {
        // The token is a timestamp, so it keeps increasing even if the row is deleted and inserted again. A
        // counter would restart, and a late caller with an old token could overwrite the new request's
        // response.
        const BEGIN: &str = concat!(
            "INSERT INTO idempotency_keys (tenant, route, key, fingerprint, token, started_ms)
             VALUES ($1, $2, $3, $4, ",
            now_ms!(),
            ", ",
            now_ms!(),
            ") ON CONFLICT (tenant, route, key) DO UPDATE SET
                 fingerprint = excluded.fingerprint, token = ",
            greatest!(),
            "(excluded.token, idempotency_keys.token + 1),
                 started_ms = excluded.started_ms, status = NULL, content_type = NULL, body = NULL
               WHERE idempotency_keys.started_ms <= excluded.started_ms - CAST($6 AS BIGINT) * 1000
                  OR (idempotency_keys.status IS NULL AND idempotency_keys.fingerprint = excluded.fingerprint
                      AND idempotency_keys.started_ms <= excluded.started_ms - CAST($5 AS BIGINT) * 1000)
               RETURNING token"
        );
        let mut transaction = self.begin_write().await?;
        let token: Option<i64> = sqlx::query_scalar(BEGIN)
            .bind(name.tenant.as_str())
            .bind(name.route)
            .bind(&name.key)
            .bind(fingerprint)
            .bind(to_i64(times.lock_timeout_s))
            .bind(to_i64(times.retention_s))
            .fetch_optional(&mut *transaction)
            .await
            .on_table("idempotency_keys")?;
        let begun = match token {
            Some(token) => {
                BeginRequestResult::Started(at("idempotency_keys.token", &name.key).parse_unsigned(token)?)
            }
            None => find_earlier_request(&mut transaction, name, fingerprint).await?,
        };
        commit(transaction, Label::IdempotencyBeginCommit).await?;
        Ok(begun)
    }

    async fn end_request(
        &self,
        name: &RequestKey,
        token: u64,
        answer: Option<&StoredResponse>,
    ) -> Result<()> {
        // The token fences a caller whose request was taken over: its late response must not replace the
        // newer one.
        const KEEP: &str = "UPDATE idempotency_keys SET status = $5, content_type = $6, body = $7
             WHERE tenant = $1 AND route = $2 AND key = $3 AND token = $4";
        const FORGET: &str =
            "DELETE FROM idempotency_keys WHERE tenant = $1 AND route = $2 AND key = $3 AND token = $4";
        let query = sqlx::query(if answer.is_some() { KEEP } else { FORGET })
            .bind(name.tenant.as_str())
            .bind(name.route)
            .bind(&name.key)
            .bind(to_i64(token));
        let query = match answer {
            Some(kept) => query.bind(i64::from(kept.status)).bind(&kept.content_type).bind(&kept.body),
            None => query,
        };
        let mut transaction = self.begin_write().await?;
        query.execute(&mut *transaction).await.on_table("idempotency_keys")?;
        commit(transaction, Label::IdempotencyEndCommit).await
    }

    async fn purge_requests(&self, older_than_s: u64, limit: u32) -> Result<u64> {
        const FORGET: &str = concat!(
            "DELETE FROM idempotency_keys WHERE (tenant, route, key) IN (
                 SELECT tenant, route, key FROM idempotency_keys WHERE started_ms <= ",
            now_ms!(),
            " - CAST($1 AS BIGINT) * 1000 ORDER BY started_ms LIMIT $2",
            skip_locked!(),
            ")"
        );
        let mut transaction = self.begin_write().await?;
        let forgotten = sqlx::query(FORGET)
            .bind(to_i64(older_than_s))
            .bind(i64::from(limit))
            .execute(&mut *transaction)
            .await
            .on_table("idempotency_keys")?;
        commit(transaction, Label::IdempotencyPurgeCommit).await?;
        Ok(forgotten.rows_affected())
    }
}

/// Returns the outcome for a key that is already taken. If the row has just been deleted, returns
/// [`BeginRequestResult::InProgress`], so the caller retries.
async fn find_earlier_request(
    connection: &mut Connection,
    name: &RequestKey,
    fingerprint: &str,
) -> Result<BeginRequestResult> {
    const FIND: &str = "SELECT fingerprint, status, content_type, body FROM idempotency_keys
         WHERE tenant = $1 AND route = $2 AND key = $3";
    let row: Option<Row> = sqlx::query_as(FIND)
        .bind(name.tenant.as_str())
        .bind(name.route)
        .bind(&name.key)
        .fetch_optional(connection)
        .await
        .on_table("idempotency_keys")?;
    Ok(match row {
        Some((known, ..)) if known != fingerprint => BeginRequestResult::ContentMismatch,
        Some((_, Some(status), content_type, body)) => BeginRequestResult::Answered(StoredResponse {
            status: at("idempotency_keys.status", &name.key).parse_unsigned(status)?,
            content_type: content_type.unwrap_or_default(),
            body: body.unwrap_or_default(),
        }),
        Some((_, None, ..)) | None => BeginRequestResult::InProgress,
    })
}
