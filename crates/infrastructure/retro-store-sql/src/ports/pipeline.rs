//! Implements the port of the versions of the pipeline.

use async_trait::async_trait;
use retro_core::id::Tenant;
use retro_core::pipeline::{PipelineContents, PipelineHash};
use retro_core::retrospective::Retrospective;
use retro_store::{PipelineStore, Result};

use super::dialect::{Connection, OnTable, Store, now_ms, storable_text};
use crate::{at, to_json};

#[async_trait]
impl PipelineStore for Store {
    async fn load_pipeline(&self, tenant: &Tenant, hash: &PipelineHash) -> Result<Option<PipelineContents>> {
        const LOAD: &str = "SELECT contents FROM pipeline_versions WHERE tenant = $1 AND hash = $2";
        let stored: Option<String> = sqlx::query_scalar(LOAD)
            .bind(tenant.as_str())
            .bind(hash.as_str())
            .fetch_optional(self.reader())
            .await
            .on_table("pipeline_versions")?;
        stored.map(|text| at("pipeline_versions.contents", hash).parse_json(&text)).transpose()
    }

    async fn find_pipelines(&self, tenant: &Tenant, digits: &str) -> Result<Vec<PipelineHash>> {
        const FIND: &str = "
            SELECT hash FROM pipeline_versions WHERE tenant = $1 AND hash >= $2 AND hash < $3 ORDER BY hash LIMIT 2";
        // A hash has no letter beyond `f`.
        let found: Vec<String> = sqlx::query_scalar(FIND)
            .bind(tenant.as_str())
            .bind(storable_text(digits).to_string())
            .bind(format!("{}g", storable_text(digits)))
            .fetch_all(self.reader())
            .await
            .on_table("pipeline_versions")?;
        found.iter().map(|hash| at("pipeline_versions", hash).parse(hash)).collect()
    }
}

/// Records the versions under which retrospectives are being opened, each if it is new to its tenant.
pub(crate) async fn record_versions(connection: &mut Connection, opened: &[&Retrospective]) -> Result<()> {
    const FIND: &str = "SELECT 1 FROM pipeline_versions WHERE tenant = $1 AND hash = $2";
    const ADD: &str = concat!(
        "INSERT INTO pipeline_versions (tenant, hash, prompts, contents, loaded_from, retrospective, workflow,
             first_seen_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, ",
        now_ms!(),
        ") ON CONFLICT (tenant, hash) DO NOTHING"
    );
    for retrospective in opened {
        let Some(version) = &retrospective.policy.pipeline else { continue };
        let (tenant, hashes) = (retrospective.key.tenant.as_str(), version.hashes());
        // Nearly always known, and then the contents need not be sent.
        let known: Option<i32> = sqlx::query_scalar(FIND)
            .bind(tenant)
            .bind(hashes.pipeline.as_str())
            .fetch_optional(&mut *connection)
            .await
            .on_table("pipeline_versions")?;
        if known.is_some() {
            continue;
        }
        sqlx::query(ADD)
            .bind(tenant)
            .bind(hashes.pipeline.as_str())
            .bind(hashes.prompts.as_str())
            .bind(to_json(version.contents()))
            .bind(storable_text(version.loaded_from()).to_string())
            .bind(retrospective.id.to_string())
            .bind(retrospective.key.workflow.as_str())
            .execute(&mut *connection)
            .await
            .on_table("pipeline_versions")?;
    }
    Ok(())
}
