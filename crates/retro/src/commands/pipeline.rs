//! `retro pipeline`: the policy of learning, what is wrong with it and where each value came from.

use std::path::Path;

use retro_config::{Config, Edition, Explained};
use retro_core::id::Workflow;
use serde_json::{Map, Value, json};

use super::Exit;
use super::configuration::not_in_order;
use crate::cli::{Output, PipelineCommand};
use crate::output;

pub(super) fn run(config: &Config, output: Output, command: &PipelineCommand) -> anyhow::Result<Exit> {
    match command {
        PipelineCommand::Check { folder } => check(folder.as_deref().or(config.pipelines.as_deref()), output),
        PipelineCommand::Explain { workflow } => explain(config, output, workflow.as_ref()),
    }
}

fn check(folder: Option<&Path>, output: Output) -> anyhow::Result<Exit> {
    if let Err(problems) = Edition::read(folder) {
        return not_in_order(output, problems.sentences());
    }
    output::data(output, &json!({"problems": []}), || match folder {
        Some(folder) => format!("{} can be used", folder.display()),
        None => "no folder is named by `pipelines`: the built-in policy holds".to_owned(),
    })?;
    Ok(Exit::Done)
}

fn explain(config: &Config, output: Output, workflow: Option<&Workflow>) -> anyhow::Result<Exit> {
    let explained = Edition::read(config.pipelines.as_deref())?.explained(workflow);
    let by_key: Map<String, Value> = explained
        .iter()
        .map(|one| {
            (
                one.key.clone(),
                json!({"value": one.value, "from": from(one), "default": one.default, "doc": one.doc}),
            )
        })
        .collect();
    output::data(output, &by_key, || explained.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    Ok(Exit::Done)
}

fn from(one: &Explained) -> String {
    one.from.as_ref().map_or("default".to_owned(), ToString::to_string)
}

fn line(one: &Explained) -> String {
    format!("{} = {}  # {}. {}", one.key, one.value, from(one), one.doc)
}
