//! Keeps the leases of gateways, and lists what has changed for them. Triggers write the changes.

use async_trait::async_trait;
use retro_core::id::WorkflowKey;
use retro_fault::Label;
use retro_store::context_lease::CONTEXT_CHANGES_MAX;
use retro_store::{CONTEXT_LEASE, ChangeMark, ContextChanges, ContextLease, ContextLeaseStore, Result};

use super::dialect::{OnTable, Store, change_mark, now_ms};
use super::open::commit;
use crate::{at, to_i64};

/// Time after which a lease that has ended is deleted, in milliseconds: long enough to be found by an operator.
const ENDED_KEPT_MS: i64 = 3_600_000;

#[async_trait]
impl ContextLeaseStore for Store {
    async fn load_change_mark(&self) -> Result<ChangeMark> {
        const LOAD: &str = concat!("SELECT ", change_mark!());
        let mark = sqlx::query_scalar(LOAD).fetch_one(self.reader()).await.on_table("context_changes")?;
        Ok(ChangeMark(mark))
    }

    async fn list_context_changes(&self, after: ChangeMark) -> Result<ContextChanges> {
        // The mark belongs to the snapshot of the statement, so what it does not list yet has a greater number.
        const LIST: &str = concat!(
            "SELECT tenant, workflow, number, ",
            change_mark!(),
            " FROM context_changes WHERE number > $1 ORDER BY number LIMIT $2"
        );
        let rows: Vec<(String, String, i64, i64)> = sqlx::query_as(LIST)
            .bind(after.0)
            .bind(i64::from(CONTEXT_CHANGES_MAX) + 1)
            .fetch_all(self.reader())
            .await
            .on_table("context_changes")?;
        let mark = rows.first().map_or(after, |(.., mark)| ChangeMark(*mark).max(after));
        if rows.len() > CONTEXT_CHANGES_MAX as usize {
            return Ok(ContextChanges { changed: None, mark });
        }
        let change = |(tenant, workflow, number, _): &(String, String, i64, i64)| {
            let place = at("context_changes", workflow);
            let key = WorkflowKey { tenant: place.parse(tenant)?, workflow: place.parse(workflow)? };
            Ok((key, *number))
        };
        Ok(ContextChanges { changed: Some(rows.iter().map(change).collect::<Result<_>>()?), mark })
    }

    async fn renew_context_lease(&self, gateway: &str) -> Result<()> {
        const RENEW: &str = concat!(
            "INSERT INTO context_leases (gateway, renewals, expires_ms) VALUES ($1, 1, ",
            now_ms!(),
            " + $2) ON CONFLICT (gateway)
              DO UPDATE SET renewals = context_leases.renewals + 1, expires_ms = excluded.expires_ms
              RETURNING renewals"
        );
        const DELETE_ENDED: &str = concat!(
            "DELETE FROM context_leases /* reads all: a row for each gateway */ WHERE expires_ms < ",
            now_ms!(),
            " - $1"
        );
        let mut transaction = self.begin_write().await?;
        let renewals: i64 = sqlx::query_scalar(RENEW)
            .bind(gateway)
            .bind(to_i64(CONTEXT_LEASE.as_millis() as u64))
            .fetch_one(&mut *transaction)
            .await
            .on_table("context_leases")?;
        if renewals == 1 {
            let ended = sqlx::query(DELETE_ENDED).bind(ENDED_KEPT_MS);
            ended.execute(&mut *transaction).await.on_table("context_leases")?;
        }
        commit(transaction, Label::ContextLeaseCommit).await
    }

    async fn list_context_leases(&self) -> Result<Vec<ContextLease>> {
        const LIST: &str = concat!(
            "SELECT gateway, renewals FROM context_leases /* reads all: a row for each gateway */
             WHERE expires_ms >= ",
            now_ms!(),
            " ORDER BY gateway"
        );
        let rows: Vec<(String, i64)> =
            sqlx::query_as(LIST).fetch_all(self.reader()).await.on_table("context_leases")?;
        let lease = |(gateway, renewals): (String, i64)| {
            let renewals = at("context_leases.renewals", &gateway).parse_unsigned(renewals)?;
            Ok(ContextLease { gateway, renewals })
        };
        rows.into_iter().map(lease).collect()
    }
}
