//! `retro config`: what is in force and where it came from, or what is wrong with it.

use std::collections::BTreeMap;

use retro_config::keys::keys;
use retro_config::{Config, Edition, Origin};
use retro_events::rights::users_file;
use serde::Serialize;
use serde_json::{Value, json};

use super::Exit;
use crate::cli::{ConfigCommand, Output};
use crate::output;

/// A value in force.
#[derive(Debug, Serialize)]
struct Row {
    value: Value,
    from: String,
}

pub(super) fn run(
    config: &Config,
    origins: &BTreeMap<String, Origin>,
    output: Output,
    command: &ConfigCommand,
) -> anyhow::Result<Exit> {
    match command {
        ConfigCommand::Check => check(config, output),
        ConfigCommand::Print => print(config, origins, output),
        ConfigCommand::NatsUsers { tenants } => {
            let users = users_file(tenants);
            output::data(output, &json!({"users_conf": users}), || users.clone())?;
            Ok(Exit::Done)
        }
    }
}

/// Tells what is wrong, one sentence a line.
pub(crate) fn not_in_order(output: Output, problems: &[String]) -> anyhow::Result<Exit> {
    output::data(output, &json!({"problems": problems}), || problems.join("\n"))?;
    Ok(Exit::NotInOrder)
}

fn check(config: &Config, output: Output) -> anyhow::Result<Exit> {
    if let Err(problems) = Edition::read(config.pipelines.as_deref()) {
        return not_in_order(output, problems.sentences());
    }
    output::data(output, &json!({"problems": []}), || {
        let pipelines =
            config.pipelines.as_ref().map_or("the built-in policy".to_owned(), |p| p.display().to_string());
        format!("the configuration can be used, and so can {pipelines}")
    })?;
    Ok(Exit::Done)
}

fn print(config: &Config, origins: &BTreeMap<String, Origin>, output: Output) -> anyhow::Result<Exit> {
    let values = serde_json::to_value(config)?;
    let row = |name: String| {
        let from = origins.get(&name).map_or("default".to_owned(), ToString::to_string);
        (name.clone(), Row { value: values[&name].clone(), from })
    };
    let rows: Vec<_> = keys::<Config>().into_iter().map(|key| row(key.name)).collect();
    let by_key: BTreeMap<_, _> = rows.iter().map(|(name, row)| (name, row)).collect();
    output::data(output, &by_key, || {
        rows.iter().map(|(name, row)| line(name, row)).collect::<Vec<_>>().join("\n")
    })?;
    Ok(Exit::Done)
}

/// A line of TOML, with where the value came from; a key without a value is a comment.
fn line(name: &str, row: &Row) -> String {
    match &row.value {
        Value::Null => format!("# {name} is not set"),
        value => format!("{name} = {value}  # {}", row.from),
    }
}
