//! Stores access tokens.

use std::time::Duration;

use async_trait::async_trait;
use retro_core::access::{AccessToken, TENANT_TOKENS_MAX, TokenDigest, TokenId};
use retro_core::attribution::Attribution;
use retro_core::canonical::encode_hex;
use retro_core::id::Tenant;
use retro_fault::Label;
use retro_store::Result;
use retro_store::access::{AccessTokenStore, CreateTokenResult, NewAccessToken, UsableToken};

use super::dialect::{Connection, OnTable, Store, any_of, greatest, list_parameter, now_ms, storable_text};
use super::open::commit;
use crate::{at, format_policy_time, to_i64};

/// Row of `access_tokens` without its digest: id, name, scopes, creation, expiry, last use and revocation.
type Row = (
    String,
    String,
    String,
    String,
    String,
    String,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<String>,
);

/// Usable row of `access_tokens`: id, name, tenant, scopes, digest, and milliseconds until it expires.
type UsableRow = (String, String, String, String, String, Option<i64>);

#[async_trait]
impl AccessTokenStore for Store {
    async fn create_access_token(&self, token: &NewAccessToken) -> Result<CreateTokenResult> {
        const COUNT: &str =
            "SELECT COUNT(*) FROM access_tokens /* reads all: at most a thousand of a tenant */
             WHERE tenant = $1 AND revoked_at IS NULL";
        const CREATE: &str = concat!(
            "INSERT INTO access_tokens
                 (id, tenant, name, scopes, digest, created_by, created_reason, created_at, expires_ms, recorded_ms)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, ",
            now_ms!(),
            " + CAST($9 AS BIGINT), ",
            now_ms!(),
            ") ON CONFLICT (tenant, name) WHERE revoked_at IS NULL DO NOTHING"
        );
        let mut transaction = self.begin_write().await?;
        let usable: i64 = sqlx::query_scalar(COUNT)
            .bind(token.tenant.as_str())
            .fetch_one(&mut *transaction)
            .await
            .on_table("access_tokens")?;
        if usable >= i64::from(TENANT_TOKENS_MAX) {
            return Ok(CreateTokenResult::TooMany);
        }
        let created = sqlx::query(CREATE)
            .bind(token.id.as_str())
            .bind(token.tenant.as_str())
            .bind(token.name.as_str())
            .bind(token.scopes.to_string())
            .bind(encode_hex(&token.digest))
            .bind(storable_text(&token.created.by))
            .bind(storable_text(&token.created.reason))
            .bind(format_policy_time(token.created.at))
            .bind(token.valid_for.map(|time| to_i64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))))
            .execute(&mut *transaction)
            .await
            .on_table("access_tokens")?;
        if created.rows_affected() == 0 {
            return Ok(CreateTokenResult::NameTaken);
        }
        let stored = load_token(&mut transaction, &token.tenant, &token.id).await?;
        commit(transaction, Label::TokenCreateCommit).await?;
        Ok(CreateTokenResult::Created(Box::new(stored)))
    }

    async fn list_access_tokens(&self, tenant: &Tenant, limit: u32) -> Result<Vec<AccessToken>> {
        const LIST: &str = "
            SELECT id, name, scopes, created_by, created_reason, created_at, expires_ms, last_used_ms,
                revoked_by, revoked_reason, revoked_at
            FROM access_tokens /* reads all: the newest of a tenant, up to the limit */
            WHERE tenant = $1 ORDER BY recorded_ms DESC, id LIMIT $2";
        let rows: Vec<Row> = sqlx::query_as(LIST)
            .bind(tenant.as_str())
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("access_tokens")?;
        rows.into_iter().map(|row| read_token(tenant, row)).collect()
    }

    async fn revoke_access_token(&self, tenant: &Tenant, id: &TokenId, act: &Attribution) -> Result<bool> {
        const REVOKE: &str = "UPDATE access_tokens SET revoked_by = $3, revoked_reason = $4, revoked_at = $5
             WHERE tenant = $1 AND id = $2 AND revoked_at IS NULL";
        let mut transaction = self.begin_write().await?;
        let revoked = sqlx::query(REVOKE)
            .bind(tenant.as_str())
            .bind(id.as_str())
            .bind(storable_text(&act.by))
            .bind(storable_text(&act.reason))
            .bind(format_policy_time(act.at))
            .execute(&mut *transaction)
            .await
            .on_table("access_tokens")?;
        commit(transaction, Label::TokenRevokeCommit).await?;
        Ok(revoked.rows_affected() == 1)
    }

    async fn load_usable_tokens(&self) -> Result<Vec<UsableToken>> {
        const LOAD: &str = concat!(
            "SELECT id, name, tenant, scopes, digest, expires_ms - ",
            now_ms!(),
            " FROM access_tokens /* reads all: at most a thousand of each tenant */
              WHERE revoked_at IS NULL AND (expires_ms IS NULL OR expires_ms > ",
            now_ms!(),
            ")"
        );
        let rows: Vec<UsableRow> =
            sqlx::query_as(LOAD).fetch_all(self.reader()).await.on_table("access_tokens")?;
        let read = |(id, name, tenant, scopes, digest, left_ms): UsableRow| {
            let place = at("access_tokens", &id);
            Ok(UsableToken {
                id: place.parse(&id)?,
                name: place.parse(&name)?,
                tenant: place.parse(&tenant)?,
                scopes: place.parse(&scopes)?,
                digest: parse_digest(&digest)
                    .ok_or_else(|| place.damaged_error("the digest has not 64 hexadecimal digits"))?,
                // The clock may have moved on between the two expressions.
                valid_for: left_ms.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
            })
        };
        rows.into_iter().map(read).collect()
    }

    async fn record_token_use(&self, used: &[TokenId]) -> Result<()> {
        const RECORD: &str = concat!(
            "UPDATE access_tokens SET last_used_ms = ",
            greatest!(),
            "(COALESCE(last_used_ms, 0), ",
            now_ms!(),
            ") WHERE id",
            any_of!("$1")
        );
        let mut transaction = self.begin_write().await?;
        let record = sqlx::query(RECORD).bind(list_parameter(used));
        record.execute(&mut *transaction).await.on_table("access_tokens")?;
        commit(transaction, Label::TokenUseCommit).await
    }
}

async fn load_token(connection: &mut Connection, tenant: &Tenant, id: &TokenId) -> Result<AccessToken> {
    const LOAD: &str = "
        SELECT id, name, scopes, created_by, created_reason, created_at, expires_ms, last_used_ms,
            revoked_by, revoked_reason, revoked_at
        FROM access_tokens WHERE tenant = $1 AND id = $2";
    let row = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(id.as_str())
        .fetch_one(connection)
        .await
        .on_table("access_tokens")?;
    read_token(tenant, row)
}

fn read_token(tenant: &Tenant, row: Row) -> Result<AccessToken> {
    let (id, name, scopes, by, reason, created_at, expires_ms, used_ms, revoker, why, revoked_at) = row;
    let place = at("access_tokens", &id);
    let revoked = match (revoker, why, revoked_at) {
        (Some(by), Some(reason), Some(moment)) => {
            Some(Attribution { by, with_token: None, reason, at: place.parse(&moment)? })
        }
        _ => None,
    };
    Ok(AccessToken {
        id: place.parse(&id)?,
        name: place.parse(&name)?,
        tenant: tenant.clone(),
        scopes: place.parse(&scopes)?,
        created: Attribution { by, with_token: None, reason, at: place.parse(&created_at)? },
        expires_at: expires_ms.map(|ms| place.parse_millis(ms)).transpose()?,
        last_used_at: used_ms.map(|ms| place.parse_millis(ms)).transpose()?,
        revoked,
    })
}

fn parse_digest(hex: &str) -> Option<TokenDigest> {
    let mut digest = TokenDigest::default();
    if hex.len() != 2 * digest.len() || !hex.is_ascii() {
        return None;
    }
    for (nth, byte) in digest.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * nth..2 * nth + 2], 16).ok()?;
    }
    Some(digest)
}
