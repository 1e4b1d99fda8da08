//! Reads the metrics of the database.

use async_trait::async_trait;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_store::kill_switch::KillSwitchStore as _;
use retro_store::metrics::COUNTED_MAX;
use retro_store::{DatabaseMetrics, MetricsStore, Result};

use super::claim::free;
use super::dialect::{OnTable, Store, by_index, now_ms};
use super::memory::is_held;
use crate::rows::metrics::{MetricsRecord, OpenDeadLettersRecord, metrics_from_rows, non_negative_millis};

#[async_trait]
impl MetricsStore for Store {
    async fn load_metrics(&self) -> Result<DatabaseMetrics> {
        const OPEN_DEAD_LETTERS: &str = concat!(
            "SELECT code, count(*) AS total, ",
            now_ms!(),
            " - min(created_ms) AS age_ms
             FROM (SELECT code, created_ms FROM dead_letters WHERE status = 'open' ORDER BY created_ms LIMIT $1) AS open
             GROUP BY code"
        );
        const HELD: &str = concat!(
            "SELECT status, count(*) FROM (SELECT status FROM memories",
            by_index!("memories_held"),
            " WHERE ",
            is_held!(),
            " LIMIT $1) AS held GROUP BY status"
        );
        const REST: &str = concat!(
            "SELECT (SELECT count(*) FROM (SELECT 1 FROM outbox WHERE sent_ms IS NULL LIMIT $1) AS unsent)
                 AS outbox_unsent,
             ",
            now_ms!(),
            " - (SELECT created_ms FROM outbox WHERE sent_ms IS NULL ORDER BY sequence LIMIT 1) AS outbox_age_ms,
             (SELECT count(*) FROM retrospectives
              WHERE request IS NULL AND state IN ('due', 'investigating', 'settling')) AS retrospectives_open,
             ",
            now_ms!(),
            " - (SELECT min(opened_ms) FROM retrospectives
                 WHERE request IS NULL AND state IN ('due', 'investigating', 'settling')) AS retrospectives_age_ms,
             (SELECT min(changed_at) FROM memories WHERE status = 'tentative') AS oldest_tentative,
             (SELECT count(*) FROM (SELECT 1 ",
            free!(),
            " LIMIT $1) AS free) AS claimable,
             (SELECT count(*) FROM (SELECT 1 FROM collected_traces WHERE due_ms IS NOT NULL AND read_spans = 0 LIMIT $1)
                  AS waiting) AS traces_waiting,
             ",
            now_ms!(),
            " - (SELECT min(last_ms) FROM (
                     SELECT last_ms FROM collected_traces WHERE due_ms IS NOT NULL AND read_spans = 0 LIMIT $1
                 ) AS waiting) AS traces_waiting_age_ms"
        );
        let bound = i64::from(COUNTED_MAX);
        let open_dead_letters: Vec<OpenDeadLettersRecord> = sqlx::query_as(OPEN_DEAD_LETTERS)
            .bind(bound)
            .fetch_all(self.reader())
            .await
            .on_table("dead_letters")?;
        let held: Vec<(String, i64)> =
            sqlx::query_as(HELD).bind(bound).fetch_all(self.reader()).await.on_table("memories")?;
        let rest: MetricsRecord =
            sqlx::query_as(REST).bind(bound).fetch_one(self.reader()).await.on_table("outbox")?;
        let engaged = self.load_engaged_kill_switches().await?;
        metrics_from_rows(&rest, &open_dead_letters, &held, &engaged)
    }

    async fn load_confirmation_delays_ms(&self, tenant: &Tenant, id: RetrospectiveId) -> Result<Vec<u64>> {
        // A memory is confirmed by promotion, or by its creation if the policy activates it after one run.
        // The status is matched as text, because Postgres cannot extract parts of JSON that contains an
        // escaped NUL. The pattern relies on compact JSON, and cannot match inside a JSON string, where quotes
        // are escaped.
        const CONFIRMED: &str = "
            SELECT reports.written_ms - runs.received_ms
            FROM changes
            JOIN reports ON reports.tenant = changes.tenant AND reports.retrospective = changes.retrospective
            JOIN runs ON runs.tenant = changes.tenant AND runs.workflow = changes.workflow
                AND runs.run_id = changes.cause_id
            WHERE changes.tenant = $1 AND changes.retrospective = $2 AND changes.cause = 'run'
                AND (changes.kind = 'promoted'
                    OR (changes.kind = 'created' AND changes.change LIKE '%\"status\":\"active\"%'))
            LIMIT $3";
        let waits: Vec<i64> = sqlx::query_scalar(CONFIRMED)
            .bind(tenant.as_str())
            .bind(id.to_string())
            .bind(i64::from(COUNTED_MAX))
            .fetch_all(self.reader())
            .await
            .on_table("changes")?;
        Ok(waits.into_iter().map(non_negative_millis).collect())
    }
}
