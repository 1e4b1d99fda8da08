//! Runs `retro config`, which checks the configuration and prints its effective values with their sources.

use std::collections::BTreeMap;
use std::path::Path;

use retro_config::keys::list_keys;
use retro_config::{Config, Origin, Pipeline};
use retro_core::id::Tenant;
use retro_events::permissions::{BrokerUser, render_nkey_users_file, render_users_file};
use serde::Serialize;
use serde_json::{Value, json};

use crate::cli::{ConfigCommand, Output};
use crate::exit::Exit;
use crate::outgoing::build_outgoing_http;
use crate::{embedder, model, output};

/// A configuration value and its source.
#[derive(Debug, Serialize)]
struct Row {
    value: Value,
    source: String,
}

pub(super) fn run_command(
    config: &Config,
    origins: &BTreeMap<String, Origin>,
    output: Output,
    command: &ConfigCommand,
) -> anyhow::Result<Exit> {
    match command {
        ConfigCommand::Check => check_config(config, output),
        ConfigCommand::Print => print_config(config, origins, output),
        ConfigCommand::NatsUsers { tenants, nkeys } => {
            let users = match nkeys {
                None => render_users_file(tenants),
                Some(folder) => render_users_with_seeds(folder, tenants)?,
            };
            output::print_data(output, &json!({"users_conf": users}), || users.clone())?;
            Ok(Exit::Done)
        }
    }
}

/// Renders the users file for the seeds in `folder`, after generating those that are missing.
fn render_users_with_seeds(folder: &Path, tenants: &[Tenant]) -> anyhow::Result<String> {
    let mut keys = BTreeMap::new();
    for user in BrokerUser::list_all(tenants) {
        let key = retro_bus::ensure_seed_file(&folder.join(format!("{user}.nk")))?;
        keys.insert(user.to_string(), key);
    }
    Ok(render_nkey_users_file(tenants, |user| keys[&user.to_string()].clone()))
}

/// Prints configuration problems, one per line.
pub(crate) fn report_problems(output: Output, problems: &[String]) -> anyhow::Result<Exit> {
    output::print_data(output, &json!({"problems": problems}), || problems.join("\n"))?;
    Ok(Exit::ProblemFound)
}

fn check_config(config: &Config, output: Output) -> anyhow::Result<Exit> {
    let pipeline = match Pipeline::read_folder(config.pipelines.as_deref()) {
        Ok(pipeline) => pipeline,
        Err(problems) => return report_problems(output, problems.sentences()),
    };
    if let Err(problem) = model::check_pipelines(config, &pipeline) {
        return report_problems(output, &[problem.to_string()]);
    }
    if let Err(problem) = embedder::check_support(config) {
        return report_problems(output, &[problem.to_string()]);
    }
    if let Err(problem) = build_outgoing_http(config) {
        return report_problems(output, &[problem.to_string()]);
    }
    output::print_data(output, &json!({"problems": []}), || {
        let pipelines =
            config.pipelines.as_ref().map_or("the built-in policy".to_owned(), |p| p.display().to_string());
        format!("the configuration is valid, and so is {pipelines}")
    })?;
    Ok(Exit::Done)
}

fn print_config(config: &Config, origins: &BTreeMap<String, Origin>, output: Output) -> anyhow::Result<Exit> {
    let values = serde_json::to_value(config)?;
    let row = |name: String| {
        let source = origins.get(&name).map_or("default".to_owned(), ToString::to_string);
        (name.clone(), Row { value: values[&name].clone(), source })
    };
    let rows: Vec<_> = list_keys::<Config>().into_iter().map(|key| row(key.name)).collect();
    let by_key: BTreeMap<_, _> = rows.iter().map(|(name, row)| (name, row)).collect();
    output::print_data(output, &by_key, || {
        rows.iter().map(|(name, row)| format_line(name, row)).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Done)
}

/// Formats a value as a TOML line with its source. A key without a value becomes a comment.
fn format_line(name: &str, row: &Row) -> String {
    match &row.value {
        Value::Null => format!("# {name} is not set"),
        value => format!("{name} = {value}  # {}", row.source),
    }
}
