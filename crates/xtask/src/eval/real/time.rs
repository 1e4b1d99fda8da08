//! How long the heuristics look into a run, and into a megabyte of trace. A figure of this machine at this hour: it says which
//! workflow is slow beside another, and whether the time grows with the length.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use retro_core::finding::{Answer, Brief};
use retro_core::run::RunFacts;
use retro_events::atif;
use retro_investigator::heuristics::investigate;
use serde_json::json;

use super::super::Data;
use super::runs::{FILES, by_workflow, of_file};
use crate::fixtures::Run;

/// How it is asked for.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    data: Data,
}

/// What looking into one run took.
struct Looked {
    bytes: usize,
    ms: f64,
    found: usize,
}

/// Looks into every run once and prints, by workflow, how long it took.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut rows = Vec::new();
    for file in FILES {
        rows.extend(of_file(&options.data, file)?);
    }
    let mut of_workflow = BTreeMap::new();
    for (workflow, runs) in by_workflow(rows) {
        of_workflow.insert(workflow, runs.iter().map(looked).collect::<Result<Vec<_>>>()?);
    }
    println!(
        "{:<26} {:>5} {:>8} {:>9}  ms a run: min, median, max  ms a MB",
        "workflow", "runs", "MB", "findings"
    );
    for (workflow, looked) in &of_workflow {
        say(workflow, &looked.iter().collect::<Vec<_>>());
    }
    say("all", &of_workflow.values().flatten().collect::<Vec<_>>());
    Ok(())
}

/// A run as the program has it when it is claimed: read from its event, without anything that is known of its workflow.
fn looked(run: &Run) -> Result<Looked> {
    let event = run.event();
    let document = event["data"]["trajectory"].to_string();
    let facts: RunFacts =
        serde_json::from_value(json!({"run_id": run.run_id, "outcome": event["data"]["outcome"]}))?;
    let bytes = document.len();
    let trajectory =
        atif::from_slice(&document.into()).map_err(|rejection| anyhow::anyhow!("{rejection}"))?;
    let brief: Brief = Brief {
        run: facts,
        trajectory,
        memories: Vec::new(),
        earlier: Vec::new(),
        outcomes: Vec::new(),
        focus: None,
    };
    let began = Instant::now();
    let answer = investigate(&brief);
    let ms = began.elapsed().as_secs_f64() * 1e3;
    let found = if let Answer::Looked(seen) = &answer { seen.findings.len() } else { 0 };
    Ok(Looked { bytes, ms, found })
}

fn say(workflow: &str, looked: &[&Looked]) {
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
