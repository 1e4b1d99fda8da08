//! Runs `retro validate`, which says what is understood of the runs in files, and sends nothing.

mod overview;

use std::path::Path;

use anyhow::Context;
use retro_adapters::{Format, ImportOptions};
use retro_config::Config;
use retro_core::dead_letter::Rejection;
use retro_core::id::Tenant;
use retro_core::time::Clock;
use retro_events::run_completed;
use serde::Serialize;

use crate::cli::{Output, Validate};
use crate::clock::SystemClock;
use crate::emit;
use crate::exit::Exit;
use crate::output;
use overview::RunOverview;

/// Result of `retro validate` for one file.
#[derive(Debug, Serialize)]
struct FileOverview {
    /// Path of the file, as given.
    file: String,
    /// Its format; absent if the file is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    /// Its runs, in order.
    runs: Vec<RunOverview>,
    /// Location and reason, if the file would not be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// Reads the files and prints what is understood of them.
pub(crate) fn run_validate(
    args: &Validate,
    config: &Config,
    tenant: &Tenant,
    output: Output,
) -> anyhow::Result<Exit> {
    let mut files = Vec::new();
    let options = args.import.options().map_err(anyhow::Error::msg)?;
    for file in &args.files {
        files.push(read_file(file, &options, config, tenant)?);
    }
    output::print_data(output, &files, || render(&files))?;
    let is_refused = files.iter().any(|file| file.refused.is_some());
    Ok(if is_refused { Exit::ProblemFound } else { Exit::Done })
}

/// Reads one file. Fails if it cannot be read.
fn read_file(
    file: &Path,
    options: &ImportOptions,
    config: &Config,
    tenant: &Tenant,
) -> anyhow::Result<FileOverview> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let read = read_runs(&bytes, file, options, config, tenant);
    let file = file.display().to_string();
    Ok(match read {
        Ok((format, runs)) => FileOverview { file, format: Some(format), runs, refused: None },
        Err(rejection) => {
            FileOverview { file, format: None, runs: Vec::new(), refused: Some(rejection.to_string()) }
        }
    })
}

fn read_runs(
    bytes: &[u8],
    file: &Path,
    options: &ImportOptions,
    config: &Config,
    tenant: &Tenant,
) -> Result<(&'static str, Vec<RunOverview>), Rejection> {
    let name = emit::file_name(file);
    let format = retro_adapters::detect_format(bytes, &name)?;
    let hosts =
        config.allowed_hosts().expect("invalid hosts were rejected when the configuration was loaded");
    // The steps of the others are never named.
    let names_steps = matches!(format, Format::CloudEvents | Format::Atif | Format::OpenTelemetry);
    let mut runs = Vec::new();
    for run in retro_adapters::import_file(bytes, &name, options)? {
        // As the server will read it, so that what it would refuse is refused here.
        let checked = run_completed::validate_envelope(run.event.envelope, tenant, SystemClock.now(), &hosts);
        let checked = checked.and_then(|event| RunOverview::of_event(&run.location, &event, names_steps));
        runs.push(checked.map_err(|rejection| retro_adapters::prefix_path(&run.location, rejection))?);
    }
    Ok((format.as_str(), runs))
}

fn render(files: &[FileOverview]) -> String {
    let mut text = String::new();
    for file in files {
        match (&file.refused, file.format) {
            (Some(refused), _) => text.push_str(&format!("{}: refused: {refused}\n", file.file)),
            (None, format) => {
                let format = format.unwrap_or_default();
                let runs = if file.runs.len() == 1 { "run" } else { "runs" };
                text.push_str(&format!("{}: {format}, {} {runs}\n", file.file, file.runs.len()));
                file.runs.iter().for_each(|run| run.render(&mut text));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests;
