//! Finds objects by the first digits of their ids.

use async_trait::async_trait;
use retro_core::id::{ObjectRef, Tenant};
use retro_store::Result;
use retro_store::object_ref::{CANDIDATES_MAX, ObjectKind, ObjectRefStore};
use uuid::Uuid;

use super::dialect::{OnTable, Store};
use crate::{at, to_i64};

#[async_trait]
impl ObjectRefStore for Store {
    async fn find_object_ids(&self, tenant: &Tenant, kind: ObjectKind, name: ObjectRef) -> Result<Vec<Uuid>> {
        // Each statement scans a range of a primary key: ids are stored in lower case, so they sort like their digits.
        const RETROSPECTIVES: &str =
            "SELECT id FROM retrospectives WHERE tenant = $1 AND id BETWEEN $2 AND $3 ORDER BY id LIMIT $4";
        const REPORTS: &str = "
            SELECT retrospective FROM reports WHERE tenant = $1 AND retrospective BETWEEN $2 AND $3
            UNION SELECT batch FROM review_reports WHERE tenant = $1 AND batch BETWEEN $2 AND $3
            ORDER BY 1 LIMIT $4";
        const REVIEW_REPORTS: &str = "SELECT batch FROM review_reports WHERE tenant = $1 AND batch BETWEEN $2 AND $3 ORDER BY batch LIMIT $4";
        const PROPOSALS: &str =
            "SELECT id FROM proposals WHERE tenant = $1 AND id BETWEEN $2 AND $3 ORDER BY id LIMIT $4";
        // The default tenant also sees dead letters whose tenant is unknown.
        const DEAD_LETTERS: &str = "
            SELECT id FROM dead_letters WHERE (tenant = $1 OR (tenant IS NULL AND $1 = $5)) AND id BETWEEN $2 AND $3
            ORDER BY id LIMIT $4";
        const REPLAY_BATCHES: &str =
            "SELECT id FROM replay_batches WHERE tenant = $1 AND id BETWEEN $2 AND $3 ORDER BY id LIMIT $4";
        let (sql, table) = match kind {
            ObjectKind::Retrospective => (RETROSPECTIVES, "retrospectives"),
            ObjectKind::Report => (REPORTS, "reports"),
            ObjectKind::ReviewReport => (REVIEW_REPORTS, "review_reports"),
            ObjectKind::Proposal => (PROPOSALS, "proposals"),
            ObjectKind::DeadLetter => (DEAD_LETTERS, "dead_letters"),
            ObjectKind::ReplayBatch => (REPLAY_BATCHES, "replay_batches"),
        };
        let (first, last) = name.id_range();
        let mut query = sqlx::query_scalar(sql)
            .bind(tenant.as_str())
            .bind(first.to_string())
            .bind(last.to_string())
            .bind(to_i64(CANDIDATES_MAX as u64 + 1));
        if kind == ObjectKind::DeadLetter {
            query = query.bind(Tenant::default_tenant().to_string());
        }
        let rows: Vec<String> = query.fetch_all(self.reader()).await.on_table(table)?;
        rows.iter().map(|id| at(table, id).parse(id)).collect()
    }
}
