//! Renders versions of the pipeline with what became of the memories that they made.

use retro_core::pipeline::{PipelineHash, PipelineName};
use retro_core::pipeline_quality::PipelineQuality;
use retro_store::{PipelineRevert, PipelineVersionRow};

use crate::text;
use crate::text_table::{Layout, render_table};

/// Renders versions as a table, newest first, and the reverts beneath. `current` are the versions in force, one of each pipeline.
pub fn render_pipeline_versions(
    versions: &[PipelineVersionRow],
    reverts: &[PipelineRevert],
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
    let reverts = reverts.iter().map(|revert| {
        format!(
            "{} reverted to {} in {} at {}: {}\n",
            text::single_line(&revert.act.by),
            revert.hash.short(),
            text::single_line(&revert.folder),
            text::format_timestamp(revert.act.at),
            text::single_line(&revert.act.reason)
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
