//! What people did.

use async_trait::async_trait;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::steer::Act;
use retro_fault::Label;
use retro_store::{ActRow, AuditStore, Deed, Result};
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::damage::{self, OnTable, at, policy_time};
use crate::open::commit;
use crate::{SqliteStore, now_ms};

#[async_trait]
impl AuditStore for SqliteStore {
    async fn note(
        &self,
        tenant: &Tenant,
        subjects: &[Uuid],
        deed: Deed,
        act: &Act,
        detail: Option<&str>,
    ) -> Result<()> {
        let mut transaction = self.write().await?;
        note(&mut transaction, tenant, subjects, deed, act, detail).await?;
        commit(transaction, Label::NoteCommit).await
    }
}

/// Writes an act about dead letters or batches, a row for each.
pub(crate) async fn note(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    subjects: &[Uuid],
    deed: Deed,
    act: &Act,
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
        .bind(damage::json(&subjects))
        .bind(&act.by)
        .bind(&act.reason)
        .bind(policy_time(act.at))
        .bind(detail)
        .execute(connection)
        .await
        .on("letter_acts")?;
    at("letter_acts", "one act").touched(done.rows_affected(), subjects.len())
}

/// Writes an act that happens once: about a retrospective, or a letter that opened one.
pub(crate) async fn append(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    deed: Deed,
    subject: Uuid,
    act: &Act,
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
        .bind(policy_time(act.at))
        .bind(opened.map(|id| id.to_string()))
        .execute(connection)
        .await
        .on("acts")?;
    at("acts", subject).touched(done.rows_affected(), 1)
}

/// A row of either table: deed, who, why, the policy moment, what it opened, what exactly.
type Row = (String, String, String, String, Option<String>, Option<String>);

/// The acts of a tenant about one thing, the first one first.
pub(crate) async fn acts(
    connection: &mut SqliteConnection,
    tenant: &Tenant,
    subject: Uuid,
) -> Result<Vec<ActRow>> {
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
        .on("acts")?;
    let place = at("acts", subject);
    let row = |(deed, by, reason, moment, opened, detail): Row| {
        let act = Act { by, reason, at: place.parse(&moment)? };
        let opened = opened.map(|id| place.parse(&id)).transpose()?;
        Ok(ActRow { deed: place.word(&deed)?, act, opened, detail })
    };
    rows.into_iter().map(row).collect()
}
