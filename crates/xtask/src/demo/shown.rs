//! What a newcomer is shown at the end, each part by the command that prints it.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::instance::Instance;

/// Most memories shown of one workflow and status.
const MEMORIES_SHOWN_MAX: usize = 8;
/// The statuses in the order in which they are shown.
const STATUSES: [&str; 4] = ["active", "tentative", "archived", "deleted"];

/// Windows, memories, a report, what the next run is given, and whether everything holds.
pub(super) async fn everything(retro: &Instance, emitted: u64) -> Result<()> {
    let windows = retro.ask(&["retrospectives", "list", "--limit", "1000"]).await?;
    let windows = windows.as_array().context("a list of retrospectives")?;
    println!("3. What became of {emitted} events\n");
    for workflow in workflows(windows) {
        show_workflow(retro, &workflow, windows).await?;
    }
    println!("4. One report in full (retro reports show …)\n");
    let id = richest(windows)?;
    retro.say(&["reports", "show", &id]).await?;
    println!("\n5. What the next run of a step is given\n");
    for (workflow, step) in
        [("intercode-sql", "main"), ("composed-release", "deploy"), ("composed-settings", "configure")]
    {
        println!("$ retro context --workflow {workflow} --step {step}");
        retro.say(&["context", "--workflow", workflow, "--step", step]).await?;
        println!();
    }
    println!("6. Does everything hold? ($ retro verify)\n");
    retro.say(&["verify"]).await
}

fn workflows(windows: &[Value]) -> Vec<String> {
    let mut names: Vec<_> = windows
        .iter()
        .filter_map(|row| row["retrospective"]["key"]["workflow"].as_str())
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

async fn show_workflow(retro: &Instance, workflow: &str, windows: &[Value]) -> Result<()> {
    let own = |row: &&Value| row["retrospective"]["key"]["workflow"] == workflow;
    let mut spans: Vec<_> = windows.iter().filter(own).map(|row| span(&row["retrospective"])).collect();
    spans.reverse();
    println!("   {workflow}: {} windows: {}", spans.len(), spans.join(" "));
    let memories = retro.ask(&["memories", "list", "--workflow", workflow, "--limit", "1000"]).await?;
    let memories = memories.as_array().context("a list of memories")?;
    for status in STATUSES {
        let of_status: Vec<_> = memories.iter().filter(|memory| memory["status"] == status).collect();
        for memory in of_status.iter().take(MEMORIES_SHOWN_MAX) {
            let why = last_reason(retro, memory["id"].as_str().context("a memory's id")?).await?;
            println!(
                "     {:<9} {}  {}",
                status,
                weight(memory),
                memory["lesson"]["title"].as_str().unwrap_or_default()
            );
            println!("               because: {why}");
        }
        if of_status.len() > MEMORIES_SHOWN_MAX {
            println!("     {status:<9} … and {} more", of_status.len() - MEMORIES_SHOWN_MAX);
        }
    }
    println!();
    Ok(())
}

fn span(retrospective: &Value) -> String {
    format!("{}–{}", retrospective["first"], retrospective["last"])
}

fn weight(memory: &Value) -> String {
    let thousandths = memory["weight"].as_u64().unwrap_or(0);
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

/// The reason of a memory's most recent change.
async fn last_reason(retro: &Instance, id: &str) -> Result<String> {
    let why = retro.ask(&["memories", "why", id]).await?;
    let life = why["life"].as_array().context("a memory's life")?;
    let reason = life.last().and_then(|event| event["reason"].as_str()).unwrap_or("nothing is recorded");
    Ok(reason.chars().take(160).collect())
}

/// The report of real runs that changed the most.
fn richest(windows: &[Value]) -> Result<String> {
    let real = |row: &&Value| {
        row["retrospective"]["key"]["workflow"].as_str().is_some_and(|name| !name.starts_with("composed-"))
    };
    let row = windows
        .iter()
        .filter(real)
        .max_by_key(|row| row["changes"].as_u64())
        .context("a real retrospective")?;
    let id = row["retrospective"]["id"].as_str().context("a retrospective's id")?;
    Ok(id.to_owned())
}

/// Where a newcomer goes from here.
pub(super) fn what_next(folder: &Path) {
    let folder = folder.display();
    println!(
        "\nWhat to try next (everything is still in {folder}):\n\
         \n  retro --data-dir {folder} memories list --workflow composed-release\
         \n  retro --data-dir {folder} memories why ID            every change of a memory and its reason\
         \n  retro --data-dir {folder} reports show ID --markdown\
         \n  retro --data-dir {folder} up                         start it again and emit your own runs:\
         \n  retro --data-dir {folder} emit FILE…                 CloudEvents, ATIF, SWE-agent .traj, tau2\n\
         \n`retro` is target/release/retro."
    );
}
