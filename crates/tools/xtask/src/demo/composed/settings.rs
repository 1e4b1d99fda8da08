//! Runs the workflow `composed-settings`: one step with a dozen tools that each need an extra argument. More
//! memories become eligible than fit into a prompt, so two places in the prompt go to newcomers.

use std::path::Path;

use anyhow::Result;
use retro_eval::instance::Instance;
use serde_json::json;

use super::window::{RUNS_PER_WINDOW, finish_window};
use crate::demo::agent::AgentRun;

const WORKFLOW: &str = "composed-settings";
const WINDOWS: u64 = 6;
/// Names of the tools, each with its required argument.
const TOOLS: [(&str, &str); 12] = [
    ("set_dns", "zone"),
    ("set_tls", "issuer"),
    ("set_quota", "unit"),
    ("set_owner", "team"),
    ("set_alerts", "severity"),
    ("set_backup", "retention_days"),
    ("set_cache", "ttl_s"),
    ("set_limits", "burst"),
    ("set_logging", "sink"),
    ("set_network", "subnet"),
    ("set_schedule", "timezone"),
    ("set_storage", "class"),
];
/// Number of tools that each run uses.
const TOOLS_PER_RUN: usize = 3;

/// Runs all windows of the workflow and returns the number of events sent.
pub(super) async fn run_settings_workflow(retro: &Instance, folder: &Path) -> Result<u64> {
    println!("   {WORKFLOW}");
    for act in 1..=WINDOWS {
        let mut events = Vec::new();
        for number in 0..RUNS_PER_WINDOW {
            let run = AgentRun::new(
                retro,
                WORKFLOW,
                format!("settings-{:03}", (act - 1) * RUNS_PER_WINDOW + number + 1),
            );
            events.push(simulate_run(run, number).await?);
        }
        let title = "each run uses three of twelve tools, and each tool needs one extra argument";
        finish_window(retro, folder, WORKFLOW, act, title, &events).await?;
    }
    Ok(WINDOWS * RUNS_PER_WINDOW)
}

/// Simulates one run and returns its event. The agent follows its memories about a tool; without one, it
/// finds the required argument by trial.
async fn simulate_run(mut run: AgentRun<'_>, number: u64) -> Result<serde_json::Value> {
    let advice = run.enter_step("configure", "Configure the service.").await?;
    let first = usize::try_from(number)? * TOOLS_PER_RUN;
    for at in first..first + TOOLS_PER_RUN {
        let (tool, wanted) = TOOLS[at % TOOLS.len()];
        if !advice.advises_tool(tool) {
            run.record_call(
                "configure",
                tool,
                &json!({"service": "checkout"}),
                &format!("Error: '{wanted}' is required"),
            );
        }
        run.record_call("configure", tool, &json!({"service": "checkout", wanted: "as agreed"}), "done");
    }
    Ok(run.into_event())
}
