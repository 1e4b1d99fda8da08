//! Runs one window of a composed workflow: computes which runs will be sampled, and shows what changed.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use retro_core::id::{RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::sample;
use retro_eval::instance::Instance;
use serde_json::Value;

/// Tenant of the demo's runs.
const TENANT: &str = "default";

/// Maximum number of characters of a printed reason, which has to fit on one line.
const REASON_CHARS_MAX: usize = 110;
/// Number of runs per window, equal to the policy's default threshold.
pub(super) const RUNS_PER_WINDOW: u64 = 10;

/// Returns the 0-based indexes of a window's runs that will be sampled, in the order of investigation.
pub(super) fn sampled_runs(workflow: &str, act: u64) -> Result<Vec<u64>> {
    let key = WorkflowKey { tenant: Tenant::new(TENANT)?, workflow: Workflow::new(workflow)? };
    let first = (act - 1) * RUNS_PER_WINDOW + 1;
    let sample = sample::draw_sample(
        RetrospectiveId::of_epoch(&key, act),
        (first..first + RUNS_PER_WINDOW).collect(),
        &Policy::default(),
    );
    Ok(sample.order.iter().take(sample.size as usize).map(|ordinal| ordinal - first).collect())
}

/// Emits the events of a window, waits for its retrospective, and prints one line per kind of change.
pub(super) async fn finish_window(
    retro: &Instance,
    folder: &Path,
    workflow: &str,
    act: u64,
    title: &str,
    events: &[Value],
) -> Result<()> {
    let file = folder.join(format!("{workflow}-{act:02}.jsonl"));
    let lines: Vec<String> = events.iter().map(Value::to_string).collect();
    std::fs::write(&file, lines.join("\n"))?;
    retro
        .run_json(&["emit", file.to_str().context("the folder's name is not UTF-8")?, "--pause-every", "10"])
        .await?;
    println!("   window {act:>2}: {title}");
    for line in describe_changes(retro, workflow, act).await? {
        println!("           {line}");
    }
    Ok(())
}

/// Describes the changes made by a window's retrospective, grouped by kind.
async fn describe_changes(retro: &Instance, workflow: &str, act: u64) -> Result<Vec<String>> {
    let rows = retro.run_json(&["retrospectives", "list", "--workflow", workflow, "--limit", "100"]).await?;
    let of_act = |row: &&Value| row["retrospective"]["epoch"].as_u64() == Some(act);
    let row = rows
        .as_array()
        .and_then(|rows| rows.iter().find(of_act))
        .context("the window has no retrospective")?;
    let id = row["retrospective"]["id"].as_str().context("a retrospective without an id")?;
    let report = retro.run_json(&["reports", "show", id]).await?;
    let subjects = memory_subjects(retro, workflow).await?;
    let mut groups: Vec<(String, Vec<&str>, String)> = Vec::new();
    for change in report["changes"].as_array().into_iter().flatten() {
        let Some(what) = describe_change(change) else { continue };
        let memory = change["memory"].as_str().unwrap_or_default();
        let about = subjects.get(memory).filter(|about| !about.is_empty());
        let about = about.map_or("remarks of agents", String::as_str);
        match groups.iter_mut().find(|(known, ..)| *known == what) {
            Some((_, abouts, _)) if abouts.contains(&about) => {}
            Some((_, abouts, _)) => abouts.push(about),
            None => groups.push((what, vec![about], short_reason(change))),
        }
    }
    Ok(groups.iter().map(|(what, abouts, why)| format!("{what:<26} {}: {why}", abouts.join(", "))).collect())
}

/// Returns the subject of each memory of the workflow, keyed by memory ID.
async fn memory_subjects(retro: &Instance, workflow: &str) -> Result<BTreeMap<String, String>> {
    let rows = retro.run_json(&["memories", "list", "--workflow", workflow, "--limit", "1000"]).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = rows.as_array().cloned().unwrap_or_default();
    Ok(rows.iter().map(|row| (text(&row["id"]), text(&row["lesson"]["subject"]))).collect())
}

/// Describes the kind of a change and its effect on the weight. Returns `None` if the change has no visible
/// effect.
fn describe_change(change: &Value) -> Option<String> {
    let effect = &change["effect"];
    let kind = effect["change"].as_str()?;
    match kind {
        "observed" => None,
        "reweighted" if effect["before"] == effect["after"] => None,
        "reweighted" => {
            Some(format!("{kind} {} → {}", format_weight(&effect["before"]), format_weight(&effect["after"])))
        }
        "promoted" | "created" => Some(format!("{kind} at {}", format_weight(&effect["weight"]))),
        _ => Some(kind.to_owned()),
    }
}

/// Returns the first part of a change's reason, shortened to one line.
fn short_reason(change: &Value) -> String {
    let whole = change["reason"].as_str().unwrap_or_default();
    let first = whole.split("; ").next().unwrap_or(whole);
    first.chars().take(REASON_CHARS_MAX).collect()
}

fn format_weight(value: &Value) -> String {
    retro_core::weight::Weight::from_thousandths(
        value.as_u64().and_then(|w| u16::try_from(w).ok()).unwrap_or(0),
    )
    .to_string()
}
