//! Runs one retrospective over failed runs with known causes, and prints the program's findings next to the
//! annotators' explanations.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use retro_core::report::{Report, ReportedInvestigation};
use retro_core::trajectory::QuotePlace;
use serde_json::Value;

use super::emit_runs;
use super::runs::{Row, read_runs_file};
use crate::converted_run::ConvertedRun;
use crate::decisions::eval_data::EvalData;
use crate::instance::{Instance, find_release_binary};

/// Options of `cargo xtask eval report`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
    /// Path of the `retro` binary [default: the release build].
    #[arg(long)]
    retro: Option<PathBuf>,
    /// Data set of the runs.
    #[arg(long, value_enum, default_value_t = ExplainedRuns::Magentic)]
    of: ExplainedRuns,
    /// Maximum number of failed runs to emit.
    #[arg(long, default_value_t = 20)]
    runs: usize,
}

/// Data set of failed runs with explanations by annotators.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExplainedRuns {
    /// Runs in which several agents answer questions together.
    Magentic,
    /// Runs in which a shop's agent talks with customers.
    Retail,
}

impl ExplainedRuns {
    fn file_name(self) -> &'static str {
        match self {
            Self::Magentic => "02b_agentrx/magentic_runs.jsonl",
            Self::Retail => "02b_agentrx/tau_retail_runs.jsonl",
        }
    }
}

/// Emits the failed runs to a fresh instance whose window and sample include all of them, and prints the only
/// report.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let explained = |row: &Row| row.is_failed() && row.labels.as_ref().is_some_and(Value::is_object);
    let rows = read_runs_file(&options.data, options.of.file_name())?
        .into_iter()
        .filter(explained)
        .take(options.runs);
    let mut labels = BTreeMap::new();
    let runs: Vec<ConvertedRun> = rows
        .map(|mut row| {
            labels.insert(row.run_id.clone(), row.labels.take().unwrap_or_default());
            row.into_run()
        })
        .collect();
    ensure!(!runs.is_empty(), "{} has no failed run with an explanation", options.of.file_name());
    let binary = options.retro.clone().map_or_else(find_release_binary, Ok)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (report, shown) = runtime.block_on(run_retrospective(root, &binary, &runs))?;
    println!("{shown}\n");
    println!("Findings of the program in each run, beside people's explanations:");
    let mut agreement = Agreement::default();
    for investigation in &report.investigations {
        let people = &labels[investigation.run.as_str()];
        print_comparison(investigation, people);
        agreement.add_investigation(investigation, people);
    }
    println!(
        "\nThe report names a probable step in {} of {} runs: {} within one turn of a labelled step, {} with a labelled agent.",
        agreement.named,
        report.investigations.len(),
        agreement.near,
        agreement.agent
    );
    Ok(())
}

async fn run_retrospective(root: &Path, binary: &Path, runs: &[ConvertedRun]) -> Result<(Report, String)> {
    let folder = root.join(".demo").join("report");
    let pipelines = folder.with_file_name("report-pipelines");
    std::fs::create_dir_all(pipelines.join("retrospective"))?;
    let all = runs.len();
    let policy = format!(
        "[trigger]\nthreshold_runs = {all}\n[selection]\nsample_permille = 1000\nsample_runs_max = {all}\n"
    );
    std::fs::write(pipelines.join("retrospective/pipeline.toml"), policy)?;
    let retro = Instance::start(binary, &folder, &pipelines, &[]).await?;
    let workflow = &runs[0].workflow;
    emit_runs(&retro, &folder, workflow, runs, &all.to_string()).await?;
    retro.wait_until_idle().await?;
    let listed = retro.run_json(&["retrospectives", "list", "--workflow", workflow]).await?;
    let id =
        listed[0]["retrospective"]["id"].as_str().context("the list of retrospectives is empty")?.to_owned();
    let report = serde_json::from_value(retro.run_json(&["reports", "show", &id]).await?)?;
    let shown = retro.run_text(&["reports", "show", &id, "--markdown"]).await?;
    retro.stop().await?;
    Ok((report, shown))
}

/// Number of runs in which the probable step agrees with the annotators' labels. The turn numbers match the
/// labelled step numbers only in data in which every log entry is its own message.
#[derive(Default)]
struct Agreement {
    named: usize,
    near: usize,
    agent: usize,
}

impl Agreement {
    fn add_investigation(&mut self, ours: &ReportedInvestigation, people: &Value) {
        let Some(fault) = &ours.checked.fault else { return };
        let failures = || people["failures"].as_array().into_iter().flatten();
        self.named += 1;
        // Labelled step numbers are 1-based.
        let off = |step: u64| {
            turn_of(fault.quote.place).is_some_and(|turn| (u64::from(turn) + 1).abs_diff(step) <= 1)
        };
        self.near += usize::from(failures().filter_map(|one| one["step_number"].as_u64()).any(off));
        let agent = |one: &Value| {
            one["failed_agent"].as_str().is_some_and(|name| name.eq_ignore_ascii_case(fault.step.as_str()))
        };
        self.agent += usize::from(failures().any(agent));
    }
}

/// Returns the 0-based turn of a place, or `None` for a place outside the trajectory.
const fn turn_of(place: QuotePlace) -> Option<u32> {
    match place {
        QuotePlace::Message { turn }
        | QuotePlace::Reasoning { turn }
        | QuotePlace::Arguments { turn, .. }
        | QuotePlace::Answer { turn, .. } => Some(turn),
        QuotePlace::SelfFeedback { .. } | QuotePlace::Review | QuotePlace::Saved => None,
    }
}

fn print_comparison(ours: &ReportedInvestigation, people: &Value) {
    println!("\n{} ({})", ours.run, ours.result);
    for finding in &ours.checked.findings {
        println!("  program: {}", finding.title);
        println!("           {:?}", finding.quote.text);
    }
    if let Some(fault) = &ours.checked.fault {
        println!("  probably in step {}: {}", fault.step, fault.sign);
        println!("           {:?}", fault.quote.text);
    }
    let text = |value: &Value| value.as_str().map(|text| text.trim().replace('\n', " "));
    for failure in people["failures"].as_array().into_iter().flatten() {
        let (category, reason) = (text(&failure["failure_category"]), text(&failure["step_reason"]));
        let step = failure["step_number"].as_u64().unwrap_or_default();
        println!("  people:  step {step}, {}: {}", category.unwrap_or_default(), reason.unwrap_or_default());
    }
}
