//! Implements the port of the brief of a workflow.

use async_trait::async_trait;
use retro_core::calls::StoredSummary;
use retro_core::id::Ordinal;
use retro_core::run::RunFacts;
use retro_store::{Claim, Result, StoredBody, WorkflowBriefStore};
use serde_json::Value;

use super::dialect::{OnTable, Store};
use super::{run, summaries};
use crate::at;

#[async_trait]
impl WorkflowBriefStore for Store {
    async fn load_workflow_brief(&self, claim: &Claim) -> Result<Option<Value>> {
        const LOAD: &str = "
            SELECT body FROM journal
            WHERE tenant = $1 AND retrospective = $2 AND stage = 'briefed' ORDER BY number LIMIT 1";
        let id = claim.retrospective.id;
        let stored: Option<String> = sqlx::query_scalar(LOAD)
            .bind(claim.retrospective.key.tenant.as_str())
            .bind(id.to_string())
            .fetch_optional(self.reader())
            .await
            .on_table("journal")?;
        stored.map(|text| at("journal.body", format!("{id}, briefed")).parse_json(&text)).transpose()
    }

    async fn find_run_at(&self, claim: &Claim, ordinal: Ordinal) -> Result<Option<(RunFacts, StoredBody)>> {
        run::find_run_at(&mut *self.begin_snapshot().await?, &claim.retrospective, ordinal).await
    }

    async fn list_newest_summaries(&self, claim: &Claim, limit: u32) -> Result<Vec<StoredSummary>> {
        summaries::list_newest(&mut *self.begin_snapshot().await?, &claim.retrospective.key, limit).await
    }
}
