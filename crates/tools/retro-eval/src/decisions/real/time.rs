//! Measures the time of the heuristics per run and per megabyte of trajectory. The absolute numbers depend on
//! the machine; they show which workflow is slow, and whether the time grows with the length of the
//! trajectory.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use retro_core::finding::{InvestigationBrief, InvestigatorAnswer};
use retro_core::run::RunFacts;
use retro_events::atif;
use retro_investigator::heuristics::investigate_run;
use serde_json::json;

use super::runs::{FILES, group_by_workflow, read_runs_file};
use crate::converted_run::ConvertedRun;
use crate::decisions::eval_data::EvalData;

/// Options of `cargo xtask eval time`.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    data: EvalData,
}

/// Duration of the investigation of one run, and the size of the run.
struct InvestigationTiming {
    bytes: usize,
    ms: f64,
    found: usize,
}

/// Investigates every run once and prints the times of each workflow.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut rows = Vec::new();
    for file in FILES {
        rows.extend(read_runs_file(&options.data, file)?);
    }
    let mut of_workflow = BTreeMap::new();
    for (workflow, runs) in group_by_workflow(rows) {
        of_workflow.insert(workflow, runs.iter().map(time_investigation).collect::<Result<Vec<_>>>()?);
    }
    println!(
        "{:<26} {:>5} {:>8} {:>9}  ms a run: min, median, max  ms a MB",
        "workflow", "runs", "MB", "findings"
    );
    for (workflow, looked) in &of_workflow {
        print_timings(workflow, &looked.iter().collect::<Vec<_>>());
    }
    print_timings("all", &of_workflow.values().flatten().collect::<Vec<_>>());
    Ok(())
}

/// Times the investigation of one run, parsed from its event as in production, without memories or earlier
/// findings.
fn time_investigation(run: &ConvertedRun) -> Result<InvestigationTiming> {
    let event = run.to_event();
    let document = event["data"]["trajectory"].to_string();
    let facts: RunFacts =
        serde_json::from_value(json!({"run_id": run.run_id, "outcome": event["data"]["outcome"]}))?;
    let bytes = document.len();
    let trajectory =
        atif::from_slice(&document.into()).map_err(|rejection| anyhow::anyhow!("{rejection}"))?;
    let brief: InvestigationBrief =
        InvestigationBrief { run: facts, trajectory, memories: Vec::new(), earlier: Vec::new(), focus: None };
    let began = Instant::now();
    let answer = investigate_run(&brief);
    let ms = began.elapsed().as_secs_f64() * 1e3;
    let found = if let InvestigatorAnswer::Answered(seen) = &answer { seen.findings.len() } else { 0 };
    Ok(InvestigationTiming { bytes, ms, found })
}

fn print_timings(workflow: &str, looked: &[&InvestigationTiming]) {
    let mut ms: Vec<f64> = looked.iter().map(|one| one.ms).collect();
    ms.sort_unstable_by(f64::total_cmp);
    let mb = looked.iter().map(|one| one.bytes).sum::<usize>() as f64 / 1e6;
    let found: usize = looked.iter().map(|one| one.found).sum();
    let (min, median, max) = (ms[0], ms[ms.len() / 2], ms[ms.len() - 1]);
    let a_mb = ms.iter().sum::<f64>() / mb;
    println!(
        "{workflow:<26} {:>5} {mb:>8.2} {found:>9}  {min:>10.2} {median:>8.2} {max:>8.2}  {a_mb:>8.1}",
        looked.len()
    );
}
