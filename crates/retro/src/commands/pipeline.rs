//! Runs `retro pipeline`, which checks, explains, tests and compares the learning policy and the prompts.

mod difference;
mod revert;
mod test;
mod versions;

use std::path::Path;

use retro_config::{Config, ExplainedPrompt, ExplainedValue, Pipeline};
use retro_core::id::Workflow;
use retro_core::pipeline::PipelineName;
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
    let versions = name_versions(&pipeline);
    let notes = pipeline.policies().describe_older_forms();
    let data = json!({"problems": [], "notes": notes, "version": pipeline.version().hashes(),
        "versions": version_map(&pipeline)});
    output::print_data(output, &data, || {
        let valid = match folder {
            Some(folder) => format!("{} is valid: {versions}", folder.display()),
            None => format!("`pipelines` is not set: the built-in pipelines apply, {versions}"),
        };
        [valid].iter().chain(&notes).cloned().collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Done)
}

/// Names the versions of all pipelines in one line.
fn name_versions(pipeline: &Pipeline) -> String {
    let name = |one: &PipelineName| format!("{one} pipeline {}", pipeline.version_of(*one).hashes());
    PipelineName::ALL.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn version_map(pipeline: &Pipeline) -> Map<String, Value> {
    let hashes = |one: &PipelineName| (one.to_string(), json!(pipeline.version_of(*one).hashes()));
    PipelineName::ALL.iter().map(hashes).collect()
}

fn explain_pipeline(config: &Config, output: Output, workflow: Option<&Workflow>) -> anyhow::Result<Exit> {
    let pipeline = Pipeline::read_folder(config.pipelines.as_deref())?;
    let of_review = (pipeline.review().explain_values(), pipeline.review().explain_prompts());
    let (values, prompts) =
        (pipeline.policies().explain_values(workflow), pipeline.explain_prompts(workflow));
    let mut by_key = explain_as_map(&values, &prompts);
    by_key.insert("version".to_owned(), json!(pipeline.version().hashes()));
    let mut review = explain_as_map(&of_review.0, &of_review.1);
    review.insert("version".to_owned(), json!(pipeline.review().version().hashes()));
    by_key.insert("review".to_owned(), review.into());
    output::print_data(output, &by_key, || {
        let lines = format_values(&values).into_iter().chain(prompts.iter().map(format_prompt));
        let review = format_values(&of_review.0).into_iter().chain(of_review.1.iter().map(format_prompt));
        let review = review.map(|line| format!("review: {line}"));
        lines.chain(review).chain([name_versions(&pipeline)]).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Done)
}

fn explain_as_map(values: &[ExplainedValue], prompts: &[ExplainedPrompt]) -> Map<String, Value> {
    let value = |one: &ExplainedValue| {
        (
            one.key.clone(),
            json!({"value": one.value, "section": one.section, "source": describe_origin(one),
                "default": one.default, "description": one.doc}),
        )
    };
    let mut by_key: Map<String, Value> = values.iter().map(value).collect();
    let prompt = |one: &ExplainedPrompt| {
        (one.file.clone(), json!({"text": one.text, "source": describe_prompt_origin(one)}))
    };
    by_key.insert("prompts".to_owned(), prompts.iter().map(prompt).collect::<Map<_, _>>().into());
    by_key
}

fn describe_origin(one: &ExplainedValue) -> String {
    one.from.as_ref().map_or("default".to_owned(), ToString::to_string)
}

fn describe_prompt_origin(one: &ExplainedPrompt) -> String {
    one.from.as_ref().map_or("default".to_owned(), |path| path.display().to_string())
}

/// Formats values as lines, those of each section below its name.
fn format_values(values: &[ExplainedValue]) -> Vec<String> {
    let of_section = values.chunk_by(|one, next| one.section == next.section);
    let lines = of_section.flat_map(|values| {
        let head = values.first().map(|one| format!("[{}]", one.section));
        head.into_iter().chain(values.iter().map(format_value))
    });
    lines.collect()
}

fn format_value(one: &ExplainedValue) -> String {
    format!("{} = {}  # {}. {}", one.key, one.value, describe_origin(one), one.doc)
}

fn format_prompt(one: &ExplainedPrompt) -> String {
    let lines = one.text.lines().count();
    format!("prompts/{}: {lines} lines  # {}", one.file, describe_prompt_origin(one))
}
