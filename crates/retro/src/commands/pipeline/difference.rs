//! Compares two versions of a pipeline: values one by one, prompts line by line.

use std::collections::BTreeSet;
use std::path::Path;

use retro_config::{Config, Pipeline};
use retro_core::pipeline::{PipelineContents, PipelineHash, PipelineName};
use retro_core::pipeline_quality::PipelineQuality;
use retro_operator::describe_pipeline_quality;
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use super::versions::{self, StoredVersion};
use crate::cli::DiffArgs;
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::{output, store};

/// Lines around a change that are shown.
const CONTEXT_LINES: usize = 2;

/// A version to compare, with a name for people.
struct Side {
    pipeline: PipelineName,
    name: String,
    hash: PipelineHash,
    contents: PipelineContents,
    quality: Option<PipelineQuality>,
}

/// Differences between two versions of a pipeline.
#[derive(Debug, Serialize)]
struct Difference {
    pipeline: PipelineName,
    from: String,
    to: String,
    from_hash: PipelineHash,
    to_hash: PipelineHash,
    /// What became of the memories that each version made; `None` if it had no retrospective.
    from_quality: Option<PipelineQuality>,
    to_quality: Option<PipelineQuality>,
    /// Changed values, such as `workflow release: helped_delta 100 -> 70`.
    values: Vec<String>,
    /// Unified difference of each changed prompt.
    prompts: Vec<String>,
}

/// Prints what the pipeline changes, compared with the built-in one, another folder or a stored version.
pub(super) async fn print_difference(
    context: &CommandContext<'_>,
    config: &Config,
    args: &DiffArgs,
) -> anyhow::Result<Exit> {
    let folder = args.folder.as_deref().or(config.pipelines.as_deref());
    let mut pairs: Vec<[Side; 2]> = Vec::new();
    match &args.other {
        // A stored version is one of one pipeline.
        Some(digits) if !Path::new(digits).is_dir() => {
            let from = load_side(context, config, digits).await?;
            let to = read_side(folder, from.pipeline)?;
            pairs.push([from, to]);
        }
        other => {
            let other = other.as_deref().map(Path::new);
            for pipeline in PipelineName::ALL.iter().copied() {
                pairs.push([read_side(other, pipeline)?, read_side(folder, pipeline)?]);
            }
        }
    }
    let mut differences = Vec::new();
    for [from, to] in &mut pairs {
        add_quality(context, config, [&mut *from, &mut *to]).await?;
        differences.push(compare(from, to));
    }
    // The pipeline of retrospectives comes first, as it was alone before there were others.
    let mut data = serde_json::to_value(&differences[0])?;
    if let [_, review] = &differences[..] {
        data["review"] = serde_json::to_value(review)?;
    }
    output::print_data(context.output, &data, || {
        differences.iter().map(render).collect::<Vec<_>>().join("\n\n")
    })?;
    Ok(Exit::Done)
}

fn read_side(folder: Option<&Path>, pipeline: PipelineName) -> anyhow::Result<Side> {
    let pipelines = Pipeline::read_folder(folder)?;
    let built_in = || format!("the built-in {pipeline} pipeline");
    let name = folder.map_or_else(built_in, |path| path.join(pipeline.as_str()).display().to_string());
    let version = pipelines.version_of(pipeline);
    Ok(Side {
        pipeline,
        name,
        hash: version.hashes().pipeline.clone(),
        contents: version.contents().clone(),
        quality: None,
    })
}

/// Loads a stored version by the first digits of its hash.
async fn load_side(context: &CommandContext<'_>, config: &Config, digits: &str) -> anyhow::Result<Side> {
    let stored = store::open_store(config).await?;
    let StoredVersion { pipeline, hash, contents } =
        versions::load_version(&*stored, context.tenant, digits).await?;
    Ok(Side { pipeline, name: format!("version {}", hash.short()), hash, contents, quality: None })
}

/// Adds what became of the memories that each side made, as far as the database knows. Without a database, it knows nothing.
async fn add_quality(
    context: &CommandContext<'_>,
    config: &Config,
    sides: [&mut Side; 2],
) -> anyhow::Result<()> {
    if store::is_not_created(config) {
        return Ok(());
    }
    let stored = store::open_store(config).await?;
    let pipeline = sides[0].pipeline;
    let rows = stored.list_pipelines(context.tenant, pipeline, versions::LISTED_MAX).await?;
    for side in sides {
        side.quality = rows.iter().find(|row| row.hash == side.hash).map(|row| row.quality);
    }
    Ok(())
}

fn compare(from: &Side, to: &Side) -> Difference {
    let (before, after) = (&from.contents, &to.contents);
    let mut values = compare_values("", &before.policy, &after.policy);
    let workflows: BTreeSet<_> = before.workflows.keys().chain(after.workflows.keys()).collect();
    for name in workflows {
        // A workflow without values of its own has the common ones.
        let (old, new) = (
            before.workflows.get(name).unwrap_or(&before.policy),
            after.workflows.get(name).unwrap_or(&after.policy),
        );
        values.extend(compare_values(&format!("workflow {name}: "), old, new));
    }
    let files: BTreeSet<_> = before.prompts.keys().chain(after.prompts.keys()).collect();
    let text = |side: &PipelineContents, file: &String| side.prompts.get(file).cloned().unwrap_or_default();
    let prompts = files.into_iter().filter_map(|file| {
        let (old, new) = (text(before, file), text(after, file));
        (old != new).then(|| {
            let names = [from, to].map(|side| format!("prompts/{file} of {}", side.name));
            let lines = TextDiff::from_lines(&old, &new);
            lines.unified_diff().context_radius(CONTEXT_LINES).header(&names[0], &names[1]).to_string()
        })
    });
    let prompts = prompts.collect();
    Difference {
        pipeline: from.pipeline,
        from: from.name.clone(),
        to: to.name.clone(),
        from_hash: from.hash.clone(),
        to_hash: to.hash.clone(),
        from_quality: from.quality,
        to_quality: to.quality,
        values,
        prompts,
    }
}

/// Compares two stored policies. A key that one of them lacks had its default value, which is not stored.
fn compare_values(whose: &str, before: &Value, after: &Value) -> Vec<String> {
    let keys = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<BTreeSet<_>>());
    let all: BTreeSet<_> = keys(before).into_iter().chain(keys(after)).flatten().collect();
    let shown = |value: Option<&Value>| value.map_or("default".to_owned(), ToString::to_string);
    let changed = all.iter().filter(|key| before.get(key) != after.get(key));
    changed
        .map(|key| format!("{whose}{key} {} -> {}", shown(before.get(key)), shown(after.get(key))))
        .collect()
}

fn render(difference: &Difference) -> String {
    let Difference { pipeline, from, to, from_hash, to_hash, from_quality, to_quality, values, prompts } =
        difference;
    let quality = |hash: &PipelineHash, quality: &Option<PipelineQuality>| {
        let nothing = || format!("no {pipeline} yet");
        let known =
            quality.as_ref().map_or_else(nothing, |quality| describe_pipeline_quality(*pipeline, quality));
        format!("{}: {known}", hash.short())
    };
    let head = format!(
        "from {from} to {to}\n{}\n{}",
        quality(from_hash, from_quality),
        quality(to_hash, to_quality)
    );
    if from_hash == to_hash {
        return format!("{head}\n\nno difference");
    }
    let values = values.iter().map(|line| format!("{line}\n"));
    let prompts = prompts.iter().map(|text| format!("\n{text}"));
    format!("{head}\n\n{}{}", values.collect::<String>(), prompts.collect::<String>()).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn side(name: &str, contents: PipelineContents) -> Side {
        Side {
            pipeline: PipelineName::Retrospective,
            name: name.to_owned(),
            hash: contents.hashes().pipeline,
            contents,
            quality: None,
        }
    }

    #[test]
    fn values_and_lines_are_compared_and_a_workflow_has_the_common_values() {
        let old = PipelineContents {
            policy: json!({"threshold_runs": 10}),
            prompts: [("run.md".to_owned(), "one\ntwo\n".to_owned())].into(),
            ..PipelineContents::default()
        };
        let new = PipelineContents {
            policy: json!({"threshold_runs": 10, "unneeded_delta": -5}),
            workflows: [("w".to_owned(), json!({"threshold_runs": 3, "unneeded_delta": -5}))].into(),
            prompts: [("run.md".to_owned(), "one\nthree\n".to_owned())].into(),
            ..PipelineContents::default()
        };
        let difference = compare(&side("a", old.clone()), &side("b", new));
        let values = [
            "unneeded_delta default -> -5",
            "workflow w: threshold_runs 10 -> 3",
            "workflow w: unneeded_delta default -> -5",
        ];
        assert_eq!(difference.values, values);
        assert!(difference.prompts[0].contains("-two\n+three\n"), "{:?}", difference.prompts);
        let same = compare(&side("a", old.clone()), &side("b", old));
        assert!(render(&same).ends_with("no difference"));
    }
}
