//! Runs `retro pipeline`, which checks, explains, tests and compares the learning policy and the prompts.

mod difference;
mod revert;
mod test;
mod versions;

use std::path::Path;

use retro_config::{Config, ExplainedPrompt, ExplainedValue, Pipeline};
use retro_core::id::Workflow;
use serde_json::{Map, Value, json};

use super::command_context::CommandContext;
use super::configuration::report_problems;
use crate::cli::{Output, PipelineCommand};
use crate::exit::Exit;
use crate::output;

pub(super) async fn run_command(
    context: &CommandContext<'_>,
    config: &Config,
    command: &PipelineCommand,
) -> anyhow::Result<Exit> {
    let configured = config.pipelines.as_deref();
    match command {
        PipelineCommand::Check { folder } => check_pipeline(folder.as_deref().or(configured), context.output),
        PipelineCommand::Explain { workflow } => explain_pipeline(config, context.output, workflow.as_ref()),
        PipelineCommand::Versions => versions::print_versions(context, config).await,
        PipelineCommand::Revert(args) => revert::revert_pipeline(context, config, args).await,
        PipelineCommand::Test(args) => test::test_pipeline(config, context.output, args).await,
        PipelineCommand::Diff(args) => difference::print_difference(context, config, args).await,
    }
}

fn check_pipeline(folder: Option<&Path>, output: Output) -> anyhow::Result<Exit> {
    let pipeline = match Pipeline::read_folder(folder) {
        Ok(pipeline) => pipeline,
        Err(problems) => return report_problems(output, problems.sentences()),
    };
    let hashes = pipeline.version().hashes();
    output::print_data(output, &json!({"problems": [], "version": hashes}), || match folder {
        Some(folder) => format!("{} is valid: pipeline {hashes}", folder.display()),
        None => format!("`pipelines` is not set: the built-in pipeline applies, {hashes}"),
    })?;
    Ok(Exit::Done)
}

fn explain_pipeline(config: &Config, output: Output, workflow: Option<&Workflow>) -> anyhow::Result<Exit> {
    let pipeline = Pipeline::read_folder(config.pipelines.as_deref())?;
    let (values, prompts) = (pipeline.policies().explain_values(workflow), pipeline.explain_prompts());
    let hashes = pipeline.version().hashes();
    let mut by_key: Map<String, Value> = values
        .iter()
        .map(|one| {
            (
                one.key.clone(),
                json!({"value": one.value, "source": describe_origin(one), "default": one.default, "description": one.doc}),
            )
        })
        .collect();
    let by_file: Map<String, Value> = prompts
        .iter()
        .map(|one| (one.file.clone(), json!({"text": one.text, "source": describe_prompt_origin(one)})))
        .collect();
    by_key.insert("prompts".to_owned(), by_file.into());
    by_key.insert("version".to_owned(), json!(hashes));
    output::print_data(output, &by_key, || {
        let lines = values.iter().map(format_value).chain(prompts.iter().map(format_prompt));
        lines.chain([format!("pipeline {hashes}")]).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Done)
}

fn describe_origin(one: &ExplainedValue) -> String {
    one.from.as_ref().map_or("default".to_owned(), ToString::to_string)
}

fn describe_prompt_origin(one: &ExplainedPrompt) -> String {
    one.from.as_ref().map_or("default".to_owned(), |path| path.display().to_string())
}

fn format_value(one: &ExplainedValue) -> String {
    format!("{} = {}  # {}. {}", one.key, one.value, describe_origin(one), one.doc)
}

fn format_prompt(one: &ExplainedPrompt) -> String {
    let lines = one.text.lines().count();
    format!("prompts/{}: {lines} lines  # {}", one.file, describe_prompt_origin(one))
}
