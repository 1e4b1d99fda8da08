//! Compares two versions of a pipeline: values one by one, prompts line by line.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::bail;
use retro_config::{Config, Pipeline};
use retro_core::pipeline::{PipelineContents, PipelineHash};
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use crate::cli::DiffArgs;
use crate::commands::command_context::CommandContext;
use crate::exit::Exit;
use crate::{output, store};

/// Lines around a change that are shown.
const CONTEXT_LINES: usize = 2;

/// A version to compare, with a name for people.
struct Side {
    name: String,
    hash: PipelineHash,
    contents: PipelineContents,
}

/// Differences between two versions of a pipeline.
#[derive(Debug, Serialize)]
struct Difference {
    from: String,
    to: String,
    from_hash: PipelineHash,
    to_hash: PipelineHash,
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
    let to = read_side(folder)?;
    let from = match &args.other {
        None => read_side(None)?,
        Some(other) if Path::new(other).is_dir() => read_side(Some(Path::new(other)))?,
        Some(digits) => load_side(context, config, digits).await?,
    };
    let difference = compare(&from, &to);
    output::print_data(context.output, &difference, || render(&difference))?;
    Ok(Exit::Done)
}

fn read_side(folder: Option<&Path>) -> anyhow::Result<Side> {
    let pipeline = Pipeline::read_folder(folder)?;
    let name = folder.map_or_else(|| "the built-in pipeline".to_owned(), |path| path.display().to_string());
    let version = pipeline.version();
    Ok(Side { name, hash: version.hashes().pipeline.clone(), contents: version.contents().clone() })
}

/// Loads a stored version. Fails if none or several have a hash that begins with the digits.
async fn load_side(context: &CommandContext<'_>, config: &Config, digits: &str) -> anyhow::Result<Side> {
    let stored = store::open_store(config).await?;
    let hashes = stored.find_pipelines(context.tenant, digits).await?;
    let hash = match &hashes[..] {
        [hash] => hash.clone(),
        [] => bail!("{digits} is neither a folder nor the beginning of the hash of a stored version; `retro pipeline versions` lists them"),
        [one, other, ..] => bail!("{digits} is the beginning of several hashes, such as {one} and {other}; give more digits"),
    };
    let contents = stored.load_pipeline(context.tenant, &hash).await?;
    let contents = contents.ok_or_else(|| anyhow::anyhow!("version {hash} is gone"))?;
    Ok(Side { name: format!("version {}", hash.short()), hash, contents })
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
        from: from.name.clone(),
        to: to.name.clone(),
        from_hash: from.hash.clone(),
        to_hash: to.hash.clone(),
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
    changed.map(|key| format!("{whose}{key} {} -> {}", shown(before.get(key)), shown(after.get(key)))).collect()
}

fn render(difference: &Difference) -> String {
    let Difference { from, to, from_hash, to_hash, values, prompts } = difference;
    let head = format!("from {from} ({}) to {to} ({})", from_hash.short(), to_hash.short());
    if from_hash == to_hash {
        return format!("{head}: no difference");
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
        Side { name: name.to_owned(), hash: contents.hashes().pipeline, contents }
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
        let values = ["unneeded_delta default -> -5", "workflow w: threshold_runs 10 -> 3", "workflow w: unneeded_delta default -> -5"];
        assert_eq!(difference.values, values);
        assert!(difference.prompts[0].contains("-two\n+three\n"), "{:?}", difference.prompts);
        let same = compare(&side("a", old.clone()), &side("b", old));
        assert!(render(&same).ends_with(": no difference"));
    }
}
