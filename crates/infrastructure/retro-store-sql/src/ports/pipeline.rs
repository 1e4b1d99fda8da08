//! Implements the port of the versions of the pipeline.

use async_trait::async_trait;
use futures::TryStreamExt as _;
use retro_core::attribution::Attribution;
use retro_core::id::Tenant;
use retro_core::memory::Change;
use retro_core::pipeline::{PipelineContents, PipelineHash, PipelineName};
use retro_core::pipeline_quality::PipelineQuality;
use retro_core::retrospective::Retrospective;
use retro_store::{
    NewReviewBatch, PipelineRevert, PipelineRevertRow, PipelineStore, PipelineVersionRow, Result,
};

use super::audit::commit_audit;
use super::dialect::{Connection, OnTable, Store, now_ms, storable_text};
use crate::rows::pipeline::PipelineVersionRecord;
use crate::{at, format_policy_time, to_json};

#[async_trait]
impl PipelineStore for Store {
    async fn load_pipeline(
        &self,
        tenant: &Tenant,
        pipeline: PipelineName,
        hash: &PipelineHash,
    ) -> Result<Option<PipelineContents>> {
        const LOAD: &str = "SELECT contents FROM pipeline_versions WHERE tenant = $1 AND hash = $2";
        const LOAD_REVIEW: &str =
            "SELECT contents FROM review_pipeline_versions WHERE tenant = $1 AND hash = $2";
        let sql = match pipeline {
            PipelineName::Retrospective => LOAD,
            PipelineName::Review => LOAD_REVIEW,
        };
        let stored: Option<String> = sqlx::query_scalar(sql)
            .bind(tenant.as_str())
            .bind(hash.as_str())
            .fetch_optional(self.reader())
            .await
            .on_table(table_of(pipeline))?;
        stored.map(|text| at(table_of(pipeline), hash).parse_json(&text)).transpose()
    }

    async fn find_pipelines(
        &self,
        tenant: &Tenant,
        digits: &str,
    ) -> Result<Vec<(PipelineName, PipelineHash)>> {
        const FIND: &str = "
            SELECT hash FROM pipeline_versions WHERE tenant = $1 AND hash >= $2 AND hash < $3 ORDER BY hash LIMIT 2";
        const FIND_REVIEW: &str = "
            SELECT hash FROM review_pipeline_versions
            WHERE tenant = $1 AND hash >= $2 AND hash < $3 ORDER BY hash LIMIT 2";
        let mut found = Vec::new();
        for (pipeline, sql) in [(PipelineName::Retrospective, FIND), (PipelineName::Review, FIND_REVIEW)] {
            // A hash has no letter beyond `f`.
            let hashes: Vec<String> = sqlx::query_scalar(sql)
                .bind(tenant.as_str())
                .bind(storable_text(digits).to_string())
                .bind(format!("{}g", storable_text(digits)))
                .fetch_all(self.reader())
                .await
                .on_table(table_of(pipeline))?;
            for hash in &hashes {
                found.push((pipeline, at(table_of(pipeline), hash).parse(hash)?));
            }
        }
        Ok(found)
    }

    async fn list_pipelines(
        &self,
        tenant: &Tenant,
        pipeline: PipelineName,
        limit: u32,
    ) -> Result<Vec<PipelineVersionRow>> {
        const LOAD: &str = "
            SELECT /* reads all: few, as people write them */ version.hash, version.prompts, version.loaded_from,
                version.retrospective AS first, version.workflow, version.first_seen_ms,
                (SELECT count(*) FROM retrospectives AS one WHERE one.tenant = version.tenant
                    AND one.pipeline = version.hash AND one.state = 'closed') AS closed,
                (SELECT count(*) FROM retrospectives AS one WHERE one.tenant = version.tenant
                    AND one.pipeline = version.hash AND one.state = 'failed') AS failed,
                (SELECT coalesce(sum(investigations.cost_usd), 0.0) FROM retrospectives AS one
                    JOIN investigations ON investigations.tenant = one.tenant
                        AND investigations.retrospective = one.id
                    WHERE one.tenant = version.tenant AND one.pipeline = version.hash) AS cost_usd
            FROM pipeline_versions AS version WHERE version.tenant = $1
            ORDER BY version.first_seen_ms DESC, version.hash LIMIT $2";
        const LOAD_REVIEW: &str = "
            SELECT /* reads all: few, as people write them */ version.hash, version.prompts, version.loaded_from,
                version.batch AS first, version.workflow, version.first_seen_ms,
                (SELECT count(*) FROM rule_batches AS one WHERE one.tenant = version.tenant
                    AND one.pipeline = version.hash AND one.state = 'closed') AS closed,
                CAST(0 AS BIGINT) AS failed,
                (SELECT CAST(coalesce(sum(calls.cost_micro_usd), 0) AS DOUBLE PRECISION) / 1000000 FROM rule_batches AS one
                    JOIN review_calls AS calls ON calls.tenant = one.tenant AND calls.repo = one.repo
                        AND calls.number = one.number AND calls.round = one.round
                    WHERE one.tenant = version.tenant AND one.pipeline = version.hash) AS cost_usd
            FROM review_pipeline_versions AS version WHERE version.tenant = $1
            ORDER BY version.first_seen_ms DESC, version.hash LIMIT $2";
        let sql = match pipeline {
            PipelineName::Retrospective => LOAD,
            PipelineName::Review => LOAD_REVIEW,
        };
        let rows: Vec<PipelineVersionRecord> = sqlx::query_as(sql)
            .bind(tenant.as_str())
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table(table_of(pipeline))?;
        let mut versions = Vec::with_capacity(rows.len());
        for row in &rows {
            let mut version = row.to_version_row(pipeline)?;
            self.add_memories(tenant, pipeline, &version.hash, &mut version.quality).await?;
            versions.push(version);
        }
        Ok(versions)
    }

    async fn record_pipeline_revert(&self, tenant: &Tenant, revert: &PipelineRevert) -> Result<()> {
        const APPEND: &str = concat!(
            "INSERT INTO pipeline_reverts (tenant, hash, requested_by, reason, requested_at, detail, recorded_ms)
             VALUES ($1, $2, $3, $4, $5, $6, ",
            now_ms!(),
            ")"
        );
        let mut transaction = self.begin_write().await?;
        sqlx::query(APPEND)
            .bind(tenant.as_str())
            .bind(revert.hash.as_str())
            .bind(storable_text(&revert.act.by))
            .bind(storable_text(&revert.act.reason))
            .bind(format_policy_time(revert.act.at))
            .bind(storable_text(&revert.folder))
            .execute(&mut *transaction)
            .await
            .on_table("pipeline_reverts")?;
        commit_audit(transaction).await
    }

    async fn list_pipeline_reverts(&self, tenant: &Tenant, limit: u32) -> Result<Vec<PipelineRevertRow>> {
        const LOAD: &str = "
            SELECT /* reads all: the newest of a tenant, up to the limit */ hash, requested_by, reason, requested_at, detail,
                recorded_ms
            FROM pipeline_reverts
            WHERE tenant = $1 ORDER BY sequence DESC LIMIT $2";
        let rows: Vec<(String, String, String, String, String, i64)> = sqlx::query_as(LOAD)
            .bind(tenant.as_str())
            .bind(i64::from(limit))
            .fetch_all(self.reader())
            .await
            .on_table("pipeline_reverts")?;
        let parse =
            |(hash, by, reason, requested_at, folder, recorded_ms): (String, _, _, String, _, i64)| {
                let place = at("pipeline_reverts", &hash);
                let act = Attribution { by, with_token: None, reason, at: place.parse(&requested_at)? };
                let revert = PipelineRevert { hash: place.parse(&hash)?, act, folder };
                Ok(PipelineRevertRow { revert, recorded_at: place.parse_millis(recorded_ms)? })
            };
        rows.into_iter().map(parse).collect()
    }
}

impl Store {
    /// Adds the memories that the retrospectives or reviews of a version made to its quality, one memory at a time.
    async fn add_memories(
        &self,
        tenant: &Tenant,
        pipeline: PipelineName,
        hash: &PipelineHash,
        quality: &mut PipelineQuality,
    ) -> Result<()> {
        const LOAD: &str = "
            SELECT change.memory, change.change
            FROM retrospectives AS one
            JOIN changes AS made ON made.tenant = one.tenant AND made.retrospective = one.id AND made.kind = 'created'
            JOIN changes AS change ON change.tenant = made.tenant AND change.memory = made.memory
            WHERE one.tenant = $1 AND one.pipeline = $2
            ORDER BY change.memory, change.sequence";
        const LOAD_REVIEW: &str = "
            SELECT change.memory, change.change
            FROM changes AS made
            JOIN changes AS change ON change.tenant = made.tenant AND change.memory = made.memory
            WHERE made.tenant = $1 AND made.review_pipeline = $2 AND made.kind = 'created'
            ORDER BY change.memory, change.sequence";
        let sql = match pipeline {
            PipelineName::Retrospective => LOAD,
            PipelineName::Review => LOAD_REVIEW,
        };
        let mut rows = sqlx::query_as(sql).bind(tenant.as_str()).bind(hash.as_str()).fetch(self.reader());
        let (mut memory, mut changes): (String, Vec<Change>) = (String::new(), Vec::new());
        while let Some((of, change)) = rows.try_next().await.on_table("changes")? {
            let (of, change): (String, String) = (of, change);
            if of != memory {
                add_memory(quality, &changes);
                changes.clear();
                memory = of;
            }
            changes.push(at("changes.change", &memory).parse_json(&change)?);
        }
        add_memory(quality, &changes);
        Ok(())
    }
}

const fn table_of(pipeline: PipelineName) -> &'static str {
    match pipeline {
        PipelineName::Retrospective => "pipeline_versions",
        PipelineName::Review => "review_pipeline_versions",
    }
}

fn add_memory(quality: &mut PipelineQuality, changes: &[Change]) {
    if !changes.is_empty() {
        quality.add_memory(changes);
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

/// Records the version under which a review is decided, if it is new to its tenant.
pub(crate) async fn record_review_version(
    connection: &mut Connection,
    decided: &NewReviewBatch,
) -> Result<()> {
    const FIND: &str = "SELECT 1 FROM review_pipeline_versions WHERE tenant = $1 AND hash = $2";
    const ADD: &str = concat!(
        "INSERT INTO review_pipeline_versions (tenant, hash, prompts, contents, loaded_from, batch, workflow,
             first_seen_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, ",
        now_ms!(),
        ") ON CONFLICT (tenant, hash) DO NOTHING"
    );
    let (tenant, hashes) = (decided.rule_scope.tenant.as_str(), decided.pipeline.hashes());
    // Nearly always known, and then the contents need not be sent.
    let known: Option<i32> = sqlx::query_scalar(FIND)
        .bind(tenant)
        .bind(hashes.pipeline.as_str())
        .fetch_optional(&mut *connection)
        .await
        .on_table("review_pipeline_versions")?;
    if known.is_some() {
        return Ok(());
    }
    sqlx::query(ADD)
        .bind(tenant)
        .bind(hashes.pipeline.as_str())
        .bind(hashes.prompts.as_str())
        .bind(to_json(decided.pipeline.contents()))
        .bind(storable_text(decided.pipeline.loaded_from()).to_string())
        .bind(decided.id.to_string())
        .bind(decided.rule_scope.workflow.as_str())
        .execute(connection)
        .await
        .on_table("review_pipeline_versions")?;
    Ok(())
}
