//! Compares two versions of a pipeline: values one by one, prompts line by line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use retro_config::{Config, Pipeline};
use retro_core::pipeline::{PipelineContents, PipelineHash, PipelineName};
use retro_core::pipeline_quality::PipelineQuality;
use retro_core::policy::Policy;
use retro_core::review::ReviewSettings;
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
    let defaults = default_values(from.pipeline);
    let mut values = compare_values("", &defaults, &before.policy, &after.policy);
    let workflows: BTreeSet<_> = before.workflows.keys().chain(after.workflows.keys()).collect();
    for name in workflows {
        // A workflow without values of its own has the common ones.
        let (old, new) = (
            before.workflows.get(name).unwrap_or(&before.policy),
            after.workflows.get(name).unwrap_or(&after.policy),
        );
        values.extend(compare_values(&format!("workflow {name}: "), &defaults, old, new));
    }
    let prompts = compare_prompts(from, to);
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

/// Compares the prompts: the common ones, and those of each workflow that has prompts of its own on either side.
fn compare_prompts(from: &Side, to: &Side) -> Vec<String> {
    let (before, after) = (&from.contents, &to.contents);
    let mut found = Vec::new();
    let files: BTreeSet<_> = before.prompts.keys().chain(after.prompts.keys()).collect();
    let workflows: BTreeSet<_> =
        before.workflow_prompts.keys().chain(after.workflow_prompts.keys()).collect();
    for whose in [None].into_iter().chain(workflows.into_iter().map(Some)) {
        let prompts = |side: &PipelineContents| {
            whose.and_then(|name| side.workflow_prompts.get(name)).unwrap_or(&side.prompts).clone()
        };
        let (old, new) = (prompts(before), prompts(after));
        for file in &files {
            let text = |prompts: &BTreeMap<String, String>| prompts.get(*file).cloned().unwrap_or_default();
            let pair = (text(&old), text(&new));
            // What a workflow has in common with the others is shown once.
            let is_common = whose.is_some() && pair == (text(&before.prompts), text(&after.prompts));
            if pair.0 != pair.1 && !is_common {
                let whose = whose.map_or_else(String::new, |name| format!("workflow {name}: "));
                let names = [from, to].map(|side| format!("{whose}prompts/{file} of {}", side.name));
                let lines = TextDiff::from_lines(&pair.0, &pair.1);
                let mut unified = lines.unified_diff();
                found.push(unified.context_radius(CONTEXT_LINES).header(&names[0], &names[1]).to_string());
            }
        }
    }
    found
}

/// Returns the default value of every key of a pipeline.
fn default_values(pipeline: PipelineName) -> Value {
    match pipeline {
        PipelineName::Retrospective => serde_json::to_value(Policy::default()),
        PipelineName::Review => serde_json::to_value(ReviewSettings::default()),
    }
    .expect("settings are plain data")
}

/// Compares two stored policies. A key that one of them lacks has its default value, which is not stored.
fn compare_values(whose: &str, defaults: &Value, before: &Value, after: &Value) -> Vec<String> {
    let keys = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<BTreeSet<_>>());
    let all: BTreeSet<_> = keys(before).into_iter().chain(keys(after)).flatten().collect();
    let value = |side: &Value, key: &str| side.get(key).or_else(|| defaults.get(key)).cloned();
    // A key of another version of the program may have no default in this one.
    let shown = |value: Option<Value>| value.map_or("default".to_owned(), |value| value.to_string());
    let describe = |key: &String| {
        let (old, new) = (value(before, key), value(after, key));
        (old != new).then(|| format!("{whose}{key} {} -> {}", shown(old), shown(new)))
    };
    all.iter().filter_map(describe).collect()
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
            // A value that is stored although it is the default, as by an earlier program, is no difference.
            policy: json!({"threshold_runs": 10, "unneeded_delta": -5, "withhold_permille": 100}),
            workflows: [("w".to_owned(), json!({"threshold_runs": 3, "unneeded_delta": -5, "gone": 1}))]
                .into(),
            prompts: [("run.md".to_owned(), "one\nthree\n".to_owned())].into(),
            ..PipelineContents::default()
        };
        let difference = compare(&side("a", old.clone()), &side("b", new));
        let values = [
            "unneeded_delta -100 -> -5",
            "workflow w: gone default -> 1",
            "workflow w: threshold_runs 10 -> 3",
            "workflow w: unneeded_delta -100 -> -5",
        ];
        assert_eq!(difference.values, values);
        assert!(difference.prompts[0].contains("-two\n+three\n"), "{:?}", difference.prompts);
        let night = BTreeMap::from([("run.md".to_owned(), "one\nat night\n".to_owned())]);
        let with_own =
            PipelineContents { workflow_prompts: [("night".to_owned(), night)].into(), ..old.clone() };
        let own = compare(&side("a", old.clone()), &side("b", with_own));
        let [prompt] = &own.prompts[..] else { panic!("{own:?}") };
        assert!(
            prompt.contains("workflow night: prompts/run.md of b") && prompt.contains("-two\n+at night\n")
        );
        let same = compare(&side("a", old.clone()), &side("b", old));
        assert!(render(&same).ends_with("no difference"));
    }
}
