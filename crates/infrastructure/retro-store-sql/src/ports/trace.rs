//! Loads the trace contexts stored with retrospectives, runs and investigations.

use async_trait::async_trait;
use retro_core::id::{RetrospectiveId, Tenant};
use retro_core::trace::TraceContext;
use retro_store::trace::InvestigationTraces;
use retro_store::{Result, TraceStore};

use super::dialect::{OnTable, Store};
use crate::rows::trace::{investigation_traces_from_row, parse_trace};

#[async_trait]
impl TraceStore for Store {
    async fn find_retrospective_trace(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
    ) -> Result<Option<TraceContext>> {
        const OF: &str = "SELECT trace FROM retrospectives WHERE tenant = $1 AND id = $2";
        let row: Option<(Option<String>,)> = sqlx::query_as(OF)
            .bind(tenant.as_str())
            .bind(id.to_string())
            .fetch_optional(self.reader())
            .await
            .on_table("retrospectives")?;
        Ok(row.and_then(|(trace,)| parse_trace(trace.as_deref())))
    }

    async fn list_window_traces(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        limit: u32,
    ) -> Result<Vec<TraceContext>> {
        const OF: &str = "
            SELECT run_facts.trace FROM retrospectives AS whole
            JOIN runs ON runs.tenant = whole.tenant AND runs.workflow = whole.workflow
                AND runs.ordinal BETWEEN whole.first_ordinal AND whole.last_ordinal
            JOIN run_facts ON run_facts.tenant = runs.tenant AND run_facts.workflow = runs.workflow
                AND run_facts.number = runs.number
            WHERE whole.tenant = $1 AND whole.id = $2 AND run_facts.trace <> coalesce(whole.trace, '')
            GROUP BY run_facts.trace ORDER BY max(runs.ordinal) DESC LIMIT $3";
        let rows: Vec<(String,)> = sqlx::query_as(OF)
            .bind(tenant.as_str())
            .bind(id.to_string())
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("run_facts")?;
        Ok(rows.iter().filter_map(|(trace,)| parse_trace(Some(trace))).collect())
    }

    async fn load_investigation_traces(
        &self,
        tenant: &Tenant,
        id: RetrospectiveId,
        number: u32,
    ) -> Result<InvestigationTraces> {
        const OF: &str = "
            SELECT one.trace, run_facts.trace FROM investigations AS one
            JOIN retrospectives AS whole ON whole.tenant = one.tenant AND whole.id = one.retrospective
            LEFT JOIN runs ON runs.tenant = one.tenant AND runs.workflow = whole.workflow AND runs.run_id = one.run_id
            LEFT JOIN run_facts ON run_facts.tenant = runs.tenant AND run_facts.workflow = runs.workflow
                AND run_facts.number = runs.number
            WHERE one.tenant = $1 AND one.retrospective = $2 AND one.number = $3";
        let row: Option<(Option<String>, Option<String>)> = sqlx::query_as(OF)
            .bind(tenant.as_str())
            .bind(id.to_string())
            .bind(i64::from(number))
            .fetch_optional(self.reader())
            .await
            .on_table("investigations")?;
        Ok(investigation_traces_from_row(row))
    }
}
