//! The composed workflow: a release pipeline whose tools and agents are made up, so that everything that can happen
//! to a memory happens within a minute. Each act is one window of ten runs.
//!
//! The sample of a retrospective is derived from its id, so this world can know which runs will be looked at; it
//! uses that only where a rare case is to be seen (one run of two, say), never to decide what is learned.

mod release;
mod settings;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use retro_core::id::{RetrospectiveId, Tenant, Workflow, WorkflowKey};
use retro_core::policy::Policy;
use retro_core::sample;
use serde_json::Value;

use super::TENANT;
use crate::instance::Instance;

/// So much of a reason fits into a line.
const REASON_CHARS_MAX: usize = 110;
/// Runs of one act: the default threshold.
const RUNS: u64 = 10;

/// Plays both composed workflows. Returns how many events were sent.
pub(super) async fn play(retro: &Instance, folder: &Path) -> Result<u64> {
    println!("\n2. A composed workflow: made-up tools, and agents that ask for context between their runs.");
    println!(
        "   They follow, ignore or are misled by what they get. Each act is 10 runs and one retrospective.\n"
    );
    let sent = release::play(retro, folder).await? + settings::play(retro, folder).await?;
    println!();
    Ok(sent)
}

/// Which of the runs 0…9 of an act its retrospective will look at, in the order of investigation.
fn sampled(workflow: &str, act: u64) -> Result<Vec<u64>> {
    let key = WorkflowKey { tenant: Tenant::new(TENANT)?, workflow: Workflow::new(workflow)? };
    let first = (act - 1) * RUNS + 1;
    let sample = sample::draw(
        RetrospectiveId::automatic(&key, act),
        (first..first + RUNS).collect(),
        &Policy::default(),
    );
    Ok(sample.order.iter().take(sample.size as usize).map(|ordinal| ordinal - first).collect())
}

/// Sends the events of an act, waits for its retrospective, and says in one line each what it changed.
async fn close_act(
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
    retro.ask(&["emit", file.to_str().context("the folder's name is not UTF-8")?, "--pace", "10"]).await?;
    println!("   act {act:>2}: {title}");
    for line in changes(retro, workflow, act).await? {
        println!("           {line}");
    }
    Ok(())
}

/// What an act's retrospective changed, like changes of one kind in one line.
async fn changes(retro: &Instance, workflow: &str, act: u64) -> Result<Vec<String>> {
    let rows = retro.ask(&["retrospectives", "list", "--workflow", workflow, "--limit", "100"]).await?;
    let of_act = |row: &&Value| row["retrospective"]["epoch"].as_u64() == Some(act);
    let row =
        rows.as_array().and_then(|rows| rows.iter().find(of_act)).context("the act has no retrospective")?;
    let id = row["retrospective"]["id"].as_str().context("a retrospective without an id")?;
    let report = retro.ask(&["reports", "show", id]).await?;
    let subjects = subjects(retro, workflow).await?;
    let mut groups: Vec<(String, Vec<&str>, String)> = Vec::new();
    for change in report["changes"].as_array().into_iter().flatten() {
        let Some(what) = told(change) else { continue };
        let memory = change["memory"].as_str().unwrap_or_default();
        let about = subjects.get(memory).filter(|about| !about.is_empty());
        let about = about.map_or("what agents said", String::as_str);
        match groups.iter_mut().find(|(known, ..)| *known == what) {
            Some((_, abouts, _)) if abouts.contains(&about) => {}
            Some((_, abouts, _)) => abouts.push(about),
            None => groups.push((what, vec![about], reason(change))),
        }
    }
    Ok(groups.iter().map(|(what, abouts, why)| format!("{what:<26} {}: {why}", abouts.join(", "))).collect())
}

/// What each memory of the workflow is about.
async fn subjects(retro: &Instance, workflow: &str) -> Result<BTreeMap<String, String>> {
    let rows = retro.ask(&["memories", "list", "--workflow", workflow, "--limit", "1000"]).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = rows.as_array().cloned().unwrap_or_default();
    Ok(rows.iter().map(|row| (text(&row["id"]), text(&row["lesson"]["subject"]))).collect())
}

/// The kind of a change and what it did to the weight; `None` for what moved nothing.
fn told(change: &Value) -> Option<String> {
    let effect = &change["effect"];
    let kind = effect["change"].as_str()?;
    match kind {
        "observed" => None,
        "reweighted" if effect["before"] == effect["after"] => None,
        "reweighted" => Some(format!("{kind} {} → {}", weight(&effect["before"]), weight(&effect["after"]))),
        "promoted" | "created" => Some(format!("{kind} at {}", weight(&effect["weight"]))),
        _ => Some(kind.to_owned()),
    }
}

/// The first part of a change's reason, short enough for a line.
fn reason(change: &Value) -> String {
    let whole = change["reason"].as_str().unwrap_or_default();
    let first = whole.split("; ").next().unwrap_or(whole);
    first.chars().take(REASON_CHARS_MAX).collect()
}

fn weight(value: &Value) -> String {
    retro_core::weight::Weight::thousandths(value.as_u64().and_then(|w| u16::try_from(w).ok()).unwrap_or(0))
        .to_string()
}
