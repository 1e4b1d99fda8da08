//! Stores and lists the audit log of operators' actions.

use async_trait::async_trait;
use retro_core::cancel::Attribution;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_fault::Label;
use retro_store::{AuditAction, AuditRow, AuditStore, Result};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::convert::{self, OnTable, at, format_policy_time};
use crate::open::commit;
use crate::{SqliteStore, now_ms};

#[async_trait]
impl AuditStore for SqliteStore {
    async fn record_audit_rows(
        &self,
        tenant: &Tenant,
        subjects: &[Uuid],
        deed: AuditAction,
        act: &Attribution,
        detail: Option<&str>,
    ) -> Result<()> {
        let mut transaction = self.begin_write().await?;
        record_dead_letter_actions(&mut transaction, tenant, subjects, deed, act, detail).await?;
        commit(transaction, Label::NoteCommit).await
    }
}

/// Records an action on dead letters or batches, with one row for each of them.
pub(crate) async fn record_dead_letter_actions(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    subjects: &[Uuid],
    deed: AuditAction,
    act: &Attribution,
    detail: Option<&str>,
) -> Result<()> {
    const NOTE: &str = concat!(
        "INSERT INTO letter_acts (tenant, deed, subject, asked_by, reason, at, detail, acted_ms)
         SELECT ?1, ?2, value, ?4, ?5, ?6, ?7, ",
        now_ms!(),
        " FROM json_each(?3) WHERE true ORDER BY key"
    );
    let done = sqlx::query(NOTE)
        .bind(tenant.as_str())
        .bind(deed.as_str())
        .bind(convert::to_json(&subjects))
        .bind(&act.by)
        .bind(&act.reason)
        .bind(format_policy_time(act.at))
        .bind(detail)
        .execute(connection)
        .await
        .on_table("letter_acts")?;
    at("letter_acts", "one act").check_rows_affected(done.rows_affected(), subjects.len())
}

/// Records an action that happens at most once, on a retrospective or on a dead letter whose replay opened a
/// retrospective.
pub(crate) async fn record_action(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    deed: AuditAction,
    subject: Uuid,
    act: &Attribution,
    opened: Option<RetrospectiveId>,
) -> Result<()> {
    const APPEND: &str = concat!(
        "INSERT INTO acts (tenant, deed, subject, asked_by, reason, at, opened, acted_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ",
        now_ms!(),
        ")"
    );
    let done = sqlx::query(APPEND)
        .bind(tenant.as_str())
        .bind(deed.as_str())
        .bind(subject.to_string())
        .bind(&act.by)
        .bind(&act.reason)
        .bind(format_policy_time(act.at))
        .bind(opened.map(|id| id.to_string()))
        .execute(connection)
        .await
        .on_table("acts")?;
    at("acts", subject).check_rows_affected(done.rows_affected(), 1)
}

/// Row of `acts` or `letter_acts`: action, person, reason, policy timestamp, id of the opened retrospective, and
/// detail.
type Row = (String, String, String, String, Option<String>, Option<String>);

/// Lists a tenant's actions on one subject, oldest first.
pub(crate) async fn list_actions(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    subject: Uuid,
) -> Result<Vec<AuditRow>> {
    // The two tables number their rows separately, so equal times are ordered by table first.
    const LOAD: &str = "
        SELECT deed, asked_by, reason, at, opened, detail FROM (
            SELECT deed, asked_by, reason, at, opened, NULL AS detail, acted_ms, 0 AS home, sequence
            FROM acts WHERE tenant = ?1 AND subject = ?2
            UNION ALL
            SELECT deed, asked_by, reason, at, NULL, detail, acted_ms, 1, sequence
            FROM letter_acts WHERE tenant = ?1 AND subject = ?2
        ) AS done ORDER BY acted_ms, home, sequence";
    let rows: Vec<Row> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(subject.to_string())
        .fetch_all(connection)
        .await
        .on_table("acts")?;
    let place = at("acts", subject);
    let row = |(deed, by, reason, moment, opened, detail): Row| {
        let act = Attribution { by, reason, at: place.parse(&moment)? };
        let opened = opened.map(|id| place.parse(&id)).transpose()?;
        Ok(AuditRow { deed: place.parse_enum(&deed)?, act, opened, detail })
    };
    rows.into_iter().map(row).collect()
}
