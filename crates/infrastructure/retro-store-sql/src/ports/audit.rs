//! Appends to and reads the audit log.

use async_trait::async_trait;
use retro_core::attribution::Attribution;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_fault::Label;
use retro_store::{AuditAction, AuditRow, AuditStore, Result};
use sqlx::Transaction;
use uuid::Uuid;

use super::dialect::{Connection, Database, OnTable, Store, bind_rows, now_ms, rows_table, storable_text};
use super::open::commit;
use crate::rows::attribution::{parse_token, token_column};
use crate::rows::audit::AuditSubject;
use crate::{at, format_policy_time};

#[async_trait]
impl AuditStore for Store {
    async fn record_audit_rows(
        &self,
        tenant: &Tenant,
        subjects: &[Uuid],
        action: AuditAction,
        act: &Attribution,
        detail: Option<&str>,
    ) -> Result<()> {
        let mut transaction = self.begin_write().await?;
        record_dead_letter_actions(&mut transaction, tenant, subjects, action, act, detail).await?;
        commit_audit(transaction).await
    }
}

/// Commits a transaction that only records what a person did.
pub(crate) async fn commit_audit(transaction: Transaction<'_, Database>) -> Result<()> {
    commit(transaction, Label::AuditCommit).await
}

/// Appends one audit row per dead letter for an action.
pub(crate) async fn record_dead_letter_actions(
    connection: &mut Connection,
    tenant: &Tenant,
    subjects: &[Uuid],
    action: AuditAction,
    act: &Attribution,
    detail: Option<&str>,
) -> Result<()> {
    const NOTE: &str = concat!(
        "INSERT INTO audit_log (tenant, subject_kind, subject_id, action, requested_by, reason, requested_at, detail,
             with_token, recorded_ms)
         SELECT $1, 'dead_letter', subject, $2, $3, $4, $5, $6, $7, ",
        now_ms!(),
        " FROM ",
        rows_table!("new", "$8" "subject"),
        " ORDER BY place"
    );
    let query = sqlx::query(NOTE)
        .bind(tenant.as_str())
        .bind(action.as_str())
        .bind(storable_text(&act.by))
        .bind(storable_text(&act.reason))
        .bind(format_policy_time(act.at))
        .bind(detail.map(storable_text))
        .bind(token_column(act));
    let query = bind_rows!(query, subjects, |subject| [subject.to_string()]);
    let done = query.execute(connection).await.on_table("audit_log")?;
    at("audit_log", "one action").check_rows_affected(done.rows_affected(), subjects.len())
}

/// Appends an action on one subject. The database allows only one row per action on a retrospective, and per
/// action that opened one.
pub(crate) async fn record_action(
    connection: &mut Connection,
    tenant: &Tenant,
    action: AuditAction,
    subject: AuditSubject,
    act: &Attribution,
    opened: Option<RetrospectiveId>,
) -> Result<()> {
    const APPEND: &str = concat!(
        "INSERT INTO audit_log (tenant, subject_kind, subject_id, action, requested_by, reason, requested_at,
             opened_retrospective, with_token, recorded_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, ",
        now_ms!(),
        ")"
    );
    let done = sqlx::query(APPEND)
        .bind(tenant.as_str())
        .bind(subject.kind())
        .bind(subject.id())
        .bind(action.as_str())
        .bind(storable_text(&act.by))
        .bind(storable_text(&act.reason))
        .bind(format_policy_time(act.at))
        .bind(opened.map(|id| id.to_string()))
        .bind(token_column(act))
        .execute(connection)
        .await
        .on_table("audit_log")?;
    at("audit_log", subject.id()).check_rows_affected(done.rows_affected(), 1)
}

/// Row of `audit_log`: action, operator, access token, reason, policy time, id of the opened retrospective and detail.
type Row = (String, String, Option<String>, String, String, Option<String>, Option<String>);

/// Lists the audit rows of a subject, oldest first.
pub(crate) async fn list_actions(
    connection: &mut Connection,
    tenant: &Tenant,
    subject: Uuid,
) -> Result<Vec<AuditRow>> {
    const LOAD: &str = "
        SELECT action, requested_by, with_token, reason, requested_at, opened_retrospective, detail FROM audit_log
        WHERE tenant = $1 AND subject_id = $2 ORDER BY recorded_ms, sequence";
    let rows: Vec<Row> = sqlx::query_as(LOAD)
        .bind(tenant.as_str())
        .bind(subject.to_string())
        .fetch_all(connection)
        .await
        .on_table("audit_log")?;
    let place = at("audit_log", subject);
    let row = |(action, by, token, reason, moment, opened, detail): Row| {
        let with_token = parse_token(&place, token.as_deref())?;
        let act = Attribution { by, with_token, reason, at: place.parse(&moment)? };
        let opened = opened.map(|id| place.parse(&id)).transpose()?;
        Ok(AuditRow { action: place.parse_enum(&action)?, act, opened_retrospective: opened, detail })
    };
    rows.into_iter().map(row).collect()
}
