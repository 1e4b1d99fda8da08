//! One retrospective over failed runs whose cause people know: what the program found in each, beside what they say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use retro_core::report::{Report, ReportedInvestigation};
use retro_core::trajectory::Place;
use serde_json::Value;

use super::super::Data;
use super::emit;
use super::runs::{Row, of_file};
use crate::demo::built;
use crate::fixtures::Run;
use crate::instance::Instance;

/// How it is asked for.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    data: Data,
    /// The built program [default: `retro` of the release profile].
    #[arg(long)]
    retro: Option<PathBuf>,
    /// Whose runs.
    #[arg(long, value_enum, default_value_t = Of::Magentic)]
    of: Of,
    /// How many failed runs, at most.
    #[arg(long, default_value_t = 20)]
    runs: usize,
}

/// A file of failed runs that people have explained.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Of {
    /// Several agents that answer questions.
    Magentic,
    /// A shop's agent with its customers.
    Retail,
}

impl Of {
    fn file(self) -> &'static str {
        match self {
            Self::Magentic => "02b_agentrx/magentic_runs.jsonl",
            Self::Retail => "02b_agentrx/tau_retail_runs.jsonl",
        }
    }
}

/// Sends the failed runs to a fresh instance whose window and sample hold all of them, and shows its one report.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let explained = |row: &Row| row.failed() && row.labels.as_ref().is_some_and(Value::is_object);
    let rows = of_file(&options.data, options.of.file())?.into_iter().filter(explained).take(options.runs);
    let mut labels = BTreeMap::new();
    let runs: Vec<Run> = rows
        .map(|mut row| {
            labels.insert(row.run_id.clone(), row.labels.take().unwrap_or_default());
            row.converted()
        })
        .collect();
    ensure!(!runs.is_empty(), "{} holds no failed run that people explained", options.of.file());
    let binary = options.retro.clone().map_or_else(built, Ok)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (report, shown) = runtime.block_on(looked_back(root, &binary, &runs))?;
    println!("{shown}\n");
    println!("What the program found in each run, and what people say of it:");
    let mut told = Told::default();
    for investigation in &report.investigations {
        let people = &labels[investigation.run.as_str()];
        beside(investigation, people);
        told.add(investigation, people);
    }
    println!(
        "\nA probable step is named in {} of {} runs: in {} within one turn of a step that people name, in {} with an agent that they name.",
        told.named,
        report.investigations.len(),
        told.near,
        told.agent
    );
    Ok(())
}

async fn looked_back(root: &Path, binary: &Path, runs: &[Run]) -> Result<(Report, String)> {
    let folder = root.join(".demo").join("report");
    let pipelines = folder.with_file_name("report-pipelines");
    std::fs::create_dir_all(pipelines.join("retrospective"))?;
    let all = runs.len();
    let policy =
        format!("[policy]\nthreshold_runs = {all}\nsample_permille = 1000\nsample_runs_max = {all}\n");
    std::fs::write(pipelines.join("retrospective/pipeline.toml"), policy)?;
    let retro = Instance::start(binary, &folder, &pipelines, &[]).await?;
    let workflow = &runs[0].workflow;
    emit(&retro, &folder, workflow, runs, &all.to_string()).await?;
    retro.wait_until_still().await?;
    let listed = retro.ask(&["retrospectives", "list", "--workflow", workflow]).await?;
    let id = listed[0]["retrospective"]["id"].as_str().context("there is one retrospective")?.to_owned();
    let report = serde_json::from_value(retro.ask(&["reports", "show", &id]).await?)?;
    let shown = retro.tell(&["reports", "show", &id, "--markdown"]).await?;
    retro.stop().await?;
    Ok((report, shown))
}

/// How often the probable step of a run agrees with what people say. Turns are counted as people count steps only where every
/// entry is a message of its own.
#[derive(Default)]
struct Told {
    named: usize,
    near: usize,
    agent: usize,
}

impl Told {
    fn add(&mut self, ours: &ReportedInvestigation, people: &Value) {
        let Some(fault) = &ours.fault else { return };
        let failures = || people["failures"].as_array().into_iter().flatten();
        self.named += 1;
        // Annotators count from 1.
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

/// The turn of a place; `None` outside of the trace.
const fn turn_of(place: Place) -> Option<u32> {
    match place {
        Place::Message { turn }
        | Place::Reasoning { turn }
        | Place::Arguments { turn, .. }
        | Place::Answer { turn, .. } => Some(turn),
        Place::SelfFeedback { .. } | Place::Review => None,
    }
}

fn beside(ours: &ReportedInvestigation, people: &Value) {
    println!("\n{} ({})", ours.run, ours.result);
    for finding in &ours.findings {
        println!("  program: {}", finding.title);
        println!("           {:?}", finding.quote.text);
    }
    if let Some(fault) = &ours.fault {
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
