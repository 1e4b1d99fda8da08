//! Prints the results at the end of the demo, each part with the command that shows it again.

use std::path::Path;

use anyhow::{Context, Result};
use retro_eval::instance::Instance;
use serde_json::Value;

/// Maximum number of memories shown per workflow and status.
const MEMORIES_SHOWN_MAX: usize = 8;
/// Memory statuses in display order.
const STATUSES: [&str; 4] = ["active", "tentative", "archived", "deleted"];

/// Prints the windows, the memories, one full report, the context of the next run, and the result of `retro
/// verify`.
pub(super) async fn show_results(retro: &Instance, emitted: u64) -> Result<()> {
    let windows = retro.run_json(&["retrospectives", "list", "--limit", "1000"]).await?;
    let windows = windows.as_array().context("no list of retrospectives")?;
    println!("3. Results of {emitted} events\n");
    for workflow in workflow_names(windows) {
        show_workflow(retro, &workflow, windows).await?;
    }
    println!("4. One report in full (retro reports show …)\n");
    let id = find_largest_report(windows)?;
    retro.run_command(&["reports", "show", &id]).await?;
    println!("\n5. Context of the next run of a step\n");
    for (workflow, step) in
        [("intercode-sql", "main"), ("composed-release", "deploy"), ("composed-settings", "configure")]
    {
        println!("$ retro context --workflow {workflow} --step {step}");
        retro.run_command(&["context", "--workflow", workflow, "--step", step]).await?;
        println!();
    }
    println!("6. Check of the stored invariants ($ retro verify)\n");
    retro.run_command(&["verify"]).await
}

fn workflow_names(windows: &[Value]) -> Vec<String> {
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
    let mut spans: Vec<_> =
        windows.iter().filter(own).map(|row| format_span(&row["retrospective"])).collect();
    // The list has the newest window first.
    spans.reverse();
    println!("   {workflow}: {} windows: {}", spans.len(), spans.join(" "));
    let memories = retro.run_json(&["memories", "list", "--workflow", workflow, "--limit", "1000"]).await?;
    let memories = memories.as_array().context("no list of memories")?;
    for status in STATUSES {
        let of_status: Vec<_> = memories.iter().filter(|memory| memory["status"] == status).collect();
        for memory in of_status.iter().take(MEMORIES_SHOWN_MAX) {
            let why = last_reason(retro, memory["id"].as_str().context("a memory without an id")?).await?;
            println!(
                "     {:<9} {}  {}",
                status,
                format_weight(memory),
                memory["lesson"]["title"].as_str().unwrap_or_default()
            );
            println!("               reason: {why}");
        }
        if of_status.len() > MEMORIES_SHOWN_MAX {
            println!("     {status:<9} … and {} more", of_status.len() - MEMORIES_SHOWN_MAX);
        }
    }
    println!();
    Ok(())
}

fn format_span(retrospective: &Value) -> String {
    format!("{}–{}", retrospective["first"], retrospective["last"])
}

fn format_weight(memory: &Value) -> String {
    let thousandths = memory["weight"].as_u64().unwrap_or(0);
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

/// Returns the reason of the latest change of a memory.
async fn last_reason(retro: &Instance, id: &str) -> Result<String> {
    let why = retro.run_json(&["memories", "why", id]).await?;
    let history = why["history"].as_array().context("a memory without its changes")?;
    let reason = history.last().and_then(|event| event["reason"].as_str()).unwrap_or("no reason recorded");
    Ok(reason.chars().take(160).collect())
}

/// Returns the ID of the report with the most changes in the real workflows.
fn find_largest_report(windows: &[Value]) -> Result<String> {
    let real = |row: &&Value| {
        row["retrospective"]["key"]["workflow"].as_str().is_some_and(|name| !name.starts_with("composed-"))
    };
    let row = windows
        .iter()
        .filter(real)
        .max_by_key(|row| row["changes"].as_u64())
        .context("no retrospective of real runs")?;
    let id = row["retrospective"]["id"].as_str().context("a retrospective without an id")?;
    Ok(id.to_owned())
}

/// Prints commands that the viewer can try next.
pub(super) fn print_next_steps(folder: &Path) {
    let folder = folder.display();
    println!(
        "\nWhat to try next (everything is still in {folder}):\n\
         \n  retro --data-dir {folder} memories list --workflow composed-release\
         \n  retro --data-dir {folder} memories why ID            every change of a memory and its reason\
         \n  retro --data-dir {folder} reports show ID --markdown\
         \n  retro --data-dir {folder} up                         start it again and emit your own runs:\
         \n  retro --data-dir {folder} emit FILE…                 CloudEvents, ATIF, Claude Code, Codex, chat messages, SWE-agent, tau2\n\
         \n`retro` is target/release/retro."
    );
}
