//! Lists and renders versions of the pipelines with what became of the memories that they made.

mod routes;

use retro_core::id::Tenant;
use retro_core::pipeline::{PipelineHash, PipelineName};
use retro_core::pipeline_quality::PipelineQuality;
use retro_store::{PipelineRevert, PipelineRevertRow, PipelineStore, PipelineVersionRow, Result};
use serde::Serialize;
use utoipa::ToSchema;

use crate::text;
use crate::text_table::{Layout, render_table};

pub use routes::pipeline_router;
pub(crate) use routes::routes;

/// Versions of the pipelines under which a tenant had retrospectives or reviews, and the versions that people took back.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct PipelineVersions {
    /// The versions: those of retrospectives first, of each pipeline the newest first.
    pub versions: Vec<PipelineVersionRow>,
    /// `true` if a pipeline had more versions.
    pub more: bool,
    /// Versions that people took back, newest first.
    pub reverts: Vec<PipelineRevertRow>,
    /// Version of the pipeline of retrospectives in force; `None` if the folder has a mistake.
    #[schema(value_type = Option<String>, required = true)]
    pub current: Option<PipelineHash>,
    /// Version of the review pipeline in force; `None` if the folder has a mistake.
    #[schema(value_type = Option<String>, required = true)]
    pub current_review: Option<PipelineHash>,
}

impl PipelineVersions {
    /// Loads the versions of a tenant, at most `limit` of each pipeline, and as many reverts. `current` returns the version in
    /// force.
    pub async fn load(
        store: &dyn PipelineStore,
        tenant: &Tenant,
        limit: u32,
        current: impl Fn(PipelineName) -> Option<PipelineHash>,
    ) -> Result<Self> {
        let (mut versions, mut more) = (Vec::new(), false);
        for pipeline in PipelineName::ALL {
            let mut found = store.list_pipelines(tenant, *pipeline, limit.saturating_add(1)).await?;
            more |= found.len() > limit as usize;
            found.truncate(limit as usize);
            versions.extend(found);
        }
        let reverts = store.list_pipeline_reverts(tenant, limit).await?;
        let (current, current_review) = (current(PipelineName::Retrospective), current(PipelineName::Review));
        Ok(Self { versions, more, reverts, current, current_review })
    }

    /// Renders the versions as a table, and the reverts beneath.
    pub fn render(&self, layout: impl Into<Layout>) -> String {
        let current: Vec<_> = self.current.iter().chain(&self.current_review).collect();
        let rendered = render_versions(&self.versions, &self.reverts, &current, layout.into());
        if self.more { rendered + "older versions are not shown\n" } else { rendered }
    }
}

fn render_versions(
    versions: &[PipelineVersionRow],
    reverts: &[PipelineRevertRow],
    current: &[&PipelineHash],
    layout: Layout,
) -> String {
    if versions.is_empty() {
        return "no retrospective was opened and no review decided under a stored version yet\n".to_owned();
    }
    let head = [
        "pipeline",
        "version",
        "prompts",
        "first seen",
        "done under it",
        "made / confirmed / contradicted",
        "helped / harmed",
        "kept / removed by people",
        "active",
        "cost per active",
    ];
    let row = |version: &PipelineVersionRow| {
        let quality = &version.quality;
        let mark = if current.contains(&&version.hash) { " (in force)" } else { "" };
        let failed = if quality.failed > 0 { format!(", {} failed", quality.failed) } else { String::new() };
        let done = match version.pipeline {
            PipelineName::Retrospective => text::format_count(quality.retrospectives, "retrospective"),
            PipelineName::Review => text::format_count(quality.retrospectives, "review"),
        };
        [
            version.pipeline.to_string(),
            format!("{}{mark}", version.hash.short()),
            version.prompts.short().to_owned(),
            text::format_timestamp(version.first_seen),
            format!("{done}{failed}"),
            format!("{} / {} / {}", quality.made, quality.confirmed, quality.contradicted),
            format!("{} / {}", quality.helped, quality.harmed),
            format!("{} / {}", quality.kept_by_people, quality.removed_by_people),
            quality.active.to_string(),
            format_cost(quality),
        ]
    };
    let table = render_table(layout, head, versions.iter().map(row).collect());
    let origins = versions.iter().map(|version| {
        let from = if version.loaded_from.is_empty() { "built in" } else { &version.loaded_from };
        format!("{} first read from {}\n", version.hash.short(), text::single_line(from))
    });
    let origins: String = origins.collect();
    let reverts = reverts.iter().map(|PipelineRevertRow { revert, recorded_at }| {
        let PipelineRevert { hash, act, folder } = revert;
        format!(
            "{} reverted to {} in {} at {}: {}\n",
            text::single_line(&act.by),
            hash.short(),
            text::single_line(folder),
            text::format_timestamp(*recorded_at),
            text::single_line(&act.reason)
        )
    });
    format!("{table}\n{origins}{}", reverts.collect::<String>())
}

/// Describes the quality of a version in one sentence.
pub fn describe_pipeline_quality(pipeline: PipelineName, quality: &PipelineQuality) -> String {
    let done = match pipeline {
        PipelineName::Retrospective => "retrospective",
        PipelineName::Review => "review",
    };
    format!(
        "{}, {} made, {} confirmed, {} contradicted, helped in {}, harmed in {}, {} kept and {} removed by people, {} \
         active, cost per active memory {}",
        text::format_count(quality.retrospectives, done),
        text::format_count(quality.made, "memory"),
        quality.confirmed,
        quality.contradicted,
        text::format_count(quality.helped, "run"),
        text::format_count(quality.harmed, "run"),
        quality.kept_by_people,
        quality.removed_by_people,
        quality.active,
        format_cost(quality)
    )
}

fn format_cost(quality: &PipelineQuality) -> String {
    quality.cost_per_active().map_or_else(|| "—".to_owned(), |cost| format!("${cost:.4}"))
}
