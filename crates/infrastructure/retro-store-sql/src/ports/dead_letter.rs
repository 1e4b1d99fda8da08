//! Implements the ports of dead letters, and stores their edited versions.

use async_trait::async_trait;
use retro_core::attribution::Attribution;
use retro_core::canonical::sha256_hex;
use retro_core::id::{DeadLetterId, Tenant, Workflow};
use retro_fault::Label;
use retro_store::{
    Attempt, AuditAction, DeadLetterCount, DeadLetterEditStore, DeadLetterFilter, DeadLetterStatus,
    DeadLetterStore, DeadLetterVersion, DeadLetterVersionRow, MessageContent, ReplayRow, Result,
};

use super::dialect::{Connection, OnTable, Store, any_of, arrival, list_parameter, now_ms, storable_text};
use super::open::commit;
use super::{audit, scheduled_replays, stored_dead_letters};
use crate::rows::attribution::token_column;
use crate::rows::dead_letter::{AttemptRecord, DeadLetterCountRecord, FullVersionRecord, VersionRecord};
use crate::{at, format_policy_time, to_json};

#[async_trait]
impl DeadLetterStore for Store {
    async fn list_attempts(&self, tenant: &Tenant, dead_letter: DeadLetterId) -> Result<Vec<Attempt>> {
        const LOAD: &str = "
            SELECT consumer, stream, sequence, attempt, started_ms, failed_ms, code, path, detail, program_version
            FROM attempt_history
            WHERE dead_letter = $3 AND EXISTS (
                SELECT 1 FROM dead_letters WHERE id = dead_letter AND (tenant = $1 OR (tenant IS NULL AND $1 = $2)))
            ORDER BY number";
        let rows: Vec<AttemptRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(dead_letter.to_string())
            .fetch_all(self.reader())
            .await
            .on_table("attempt_history")?;
        rows.into_iter().map(AttemptRecord::into_attempt).collect()
    }

    async fn list_versions(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
    ) -> Result<Vec<DeadLetterVersionRow>> {
        const LOAD: &str = "
            SELECT dead_letter, version, based_on, CAST(length(payload) AS bigint) AS payload_bytes, payload_sha256,
                edited_by, with_token, reason, edited_at
            FROM dead_letter_versions
            WHERE dead_letter = $3 AND EXISTS (
                SELECT 1 FROM dead_letters WHERE id = dead_letter AND (tenant = $1 OR (tenant IS NULL AND $1 = $2)))
            ORDER BY version";
        let rows: Vec<VersionRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(dead_letter.to_string())
            .fetch_all(self.reader())
            .await
            .on_table("dead_letter_versions")?;
        rows.into_iter().map(VersionRecord::into_version_row).collect()
    }

    async fn find_version(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        version: u32,
    ) -> Result<Option<DeadLetterVersion>> {
        const LOAD: &str = "
            SELECT dead_letter, version, based_on, CAST(length(payload) AS bigint) AS payload_bytes, payload_sha256,
                edited_by, with_token, reason, edited_at,
                headers, payload
            FROM dead_letter_versions
            WHERE dead_letter = $3 AND version = $4 AND EXISTS (
                SELECT 1 FROM dead_letters WHERE id = dead_letter AND (tenant = $1 OR (tenant IS NULL AND $1 = $2)))";
        let row: Option<FullVersionRecord> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(dead_letter.to_string())
            .bind(i64::from(version))
            .fetch_optional(self.reader())
            .await
            .on_table("dead_letter_versions")?;
        row.map(FullVersionRecord::into_version).transpose()
    }

    async fn list_replays(&self, tenant: &Tenant, dead_letter: DeadLetterId) -> Result<Vec<ReplayRow>> {
        scheduled_replays::list_replays(self, tenant, dead_letter).await
    }

    async fn count_dead_letters(
        &self,
        tenant: &Tenant,
        filter: &DeadLetterFilter,
    ) -> Result<Vec<DeadLetterCount>> {
        const COUNT: &str = concat!(
            "SELECT /* reads all: a person looks at the dead letters */ counted.rejection, counted.consumer, counted.workflow, total, open, first_ms, last_ms,
                 one.id AS example
             FROM (
                 SELECT rejection, consumer, workflow, count(*) AS total,
                     count(*) FILTER (WHERE status = 'open') AS open, min(created_ms) AS first_ms,
                     max(created_ms) AS last_ms, max(",
            arrival!(),
            ") AS newest
                 FROM dead_letters
                 WHERE (tenant = $1 OR (tenant IS NULL AND $1 = $2)) AND ($3 IS NULL OR code = $3)
                     AND ($4 IS NULL OR workflow = $4) AND ($5 IS NULL OR consumer = $5)
                     AND ($6 IS NULL OR created_ms >= $6) AND ($7 IS NULL OR created_ms < $7)
                     AND ($8 IS NULL OR status = $8) AND ($9 IS NULL OR id",
            any_of!("$9"),
            ")
                 GROUP BY rejection, consumer, workflow
             ) AS counted
             JOIN dead_letters AS one ON one.",
            arrival!(),
            " = counted.newest
             ORDER BY newest DESC LIMIT $10"
        );
        // An empty list matches any id, so it is bound as NULL: an empty array would match nothing.
        let ids = (!filter.ids.is_empty()).then(|| list_parameter(&filter.ids));
        let rows: Vec<DeadLetterCountRecord> = sqlx::query_as(COUNT)
            .bind(tenant.as_str())
            .bind(Tenant::default_tenant().as_str())
            .bind(filter.code.map(|code| code.as_str()))
            .bind(filter.workflow.as_ref().map(Workflow::as_str))
            .bind(filter.consumer.as_deref())
            .bind(filter.since.map(|moment| moment.as_millisecond()))
            .bind(filter.until.map(|moment| moment.as_millisecond()))
            .bind(filter.status.map(DeadLetterStatus::as_str))
            .bind(ids)
            .bind(i64::from(filter.limit))
            .fetch_all(self.reader())
            .await
            .on_table("dead_letters")?;
        rows.into_iter().map(DeadLetterCountRecord::into_count).collect()
    }
}

#[async_trait]
impl DeadLetterEditStore for Store {
    async fn edit_dead_letter(
        &self,
        tenant: &Tenant,
        dead_letter: DeadLetterId,
        based_on: u32,
        content: &MessageContent,
        act: &Attribution,
    ) -> Result<Option<u32>> {
        let mut transaction = self.begin_write().await?;
        // Without the lock, concurrent edits could get the same version number.
        if stored_dead_letters::load_locked(&mut transaction, tenant, dead_letter).await?.is_none() {
            return Ok(None);
        }
        let version = append_version(&mut transaction, dead_letter, based_on, content, act).await?;
        let detail = format!("version {version} of version {based_on}");
        audit::record_dead_letter_actions(
            &mut transaction,
            tenant,
            &[dead_letter.0],
            AuditAction::Edited,
            act,
            Some(&detail),
        )
        .await?;
        commit(transaction, Label::EditCommit).await?;
        Ok(Some(version))
    }
}

/// Stores `content` as the next version of a dead letter and returns its number.
async fn append_version(
    connection: &mut Connection,
    dead_letter: DeadLetterId,
    based_on: u32,
    content: &MessageContent,
    act: &Attribution,
) -> Result<u32> {
    const APPEND: &str = concat!(
        "INSERT INTO dead_letter_versions (dead_letter, version, based_on, headers, payload, payload_sha256, edited_by, reason,
             edited_at, with_token, edited_ms)
         SELECT $1, coalesce(max(version), 0) + 1, $2, $3, $4, $5, $6, $7, $8, $9, ",
        now_ms!(),
        " FROM dead_letter_versions WHERE dead_letter = $1 RETURNING version"
    );
    let version: i64 = sqlx::query_scalar(APPEND)
        .bind(dead_letter.to_string())
        .bind(i64::from(based_on))
        .bind(to_json(&content.headers))
        .bind(&content.payload)
        .bind(sha256_hex(&content.payload))
        .bind(storable_text(&act.by))
        .bind(storable_text(&act.reason))
        .bind(format_policy_time(act.at))
        .bind(token_column(act))
        .fetch_one(connection)
        .await
        .on_table("dead_letter_versions")?;
    at("dead_letter_versions", dead_letter).parse_unsigned(version)
}
