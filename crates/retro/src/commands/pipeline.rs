//! Runs `retro pipeline`, which checks the learning policy and prints its values with their sources.

use std::path::Path;

use retro_config::{Config, ExplainedValue, PolicySet};
use retro_core::id::Workflow;
use serde_json::{Map, Value, json};

use super::configuration::report_problems;
use crate::cli::{Output, PipelineCommand};
use crate::exit::Exit;
use crate::output;

pub(super) fn run_command(
    config: &Config,
    output: Output,
    command: &PipelineCommand,
) -> anyhow::Result<Exit> {
    match command {
        PipelineCommand::Check { folder } => {
            check_policy(folder.as_deref().or(config.pipelines.as_deref()), output)
        }
        PipelineCommand::Explain { workflow } => explain_policy(config, output, workflow.as_ref()),
    }
}

fn check_policy(folder: Option<&Path>, output: Output) -> anyhow::Result<Exit> {
    if let Err(problems) = PolicySet::read_folder(folder) {
        return report_problems(output, problems.sentences());
    }
    output::print_data(output, &json!({"problems": []}), || match folder {
        Some(folder) => format!("{} is valid", folder.display()),
        None => "`pipelines` is not set: the built-in policy applies".to_owned(),
    })?;
    Ok(Exit::Done)
}

fn explain_policy(config: &Config, output: Output, workflow: Option<&Workflow>) -> anyhow::Result<Exit> {
    let explained = PolicySet::read_folder(config.pipelines.as_deref())?.explain_values(workflow);
    let by_key: Map<String, Value> = explained
        .iter()
        .map(|one| {
            (
                one.key.clone(),
                json!({"value": one.value, "source": describe_origin(one), "default": one.default, "description": one.doc}),
            )
        })
        .collect();
    output::print_data(output, &by_key, || explained.iter().map(format_line).collect::<Vec<_>>().join("\n"))?;
    Ok(Exit::Done)
}

fn describe_origin(one: &ExplainedValue) -> String {
    one.from.as_ref().map_or("default".to_owned(), ToString::to_string)
}

fn format_line(one: &ExplainedValue) -> String {
    format!("{} = {}  # {}. {}", one.key, one.value, describe_origin(one), one.doc)
}
