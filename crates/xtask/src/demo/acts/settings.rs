//! `composed-settings`: one step with a dozen tools that each want one more argument, so that more memories are
//! eligible than a prompt has places, and newcomers get two of them.

use std::path::Path;

use anyhow::Result;
use serde_json::json;

use super::{RUNS, close_act};
use crate::demo::agent::Run;
use crate::instance::Instance;

const WORKFLOW: &str = "composed-settings";
const ACTS: u64 = 6;
/// The tools, each with the argument that it wants.
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
/// Tools that one run uses.
const TOOLS_A_RUN: usize = 3;

/// Plays every act. Returns how many events were sent.
pub(super) async fn play(retro: &Instance, folder: &Path) -> Result<u64> {
    println!("   {WORKFLOW}");
    for act in 1..=ACTS {
        let mut events = Vec::new();
        for number in 0..RUNS {
            let run = Run::new(retro, WORKFLOW, format!("settings-{:03}", (act - 1) * RUNS + number + 1));
            events.push(configure(run, number).await?);
        }
        let title = "three of twelve tools a run; each wants one more argument than its name says";
        close_act(retro, folder, WORKFLOW, act, title, &events).await?;
    }
    Ok(ACTS * RUNS)
}

/// The agent does what it is told about a tool, and finds out by itself what it is not told.
async fn configure(mut run: Run<'_>, number: u64) -> Result<serde_json::Value> {
    let advice = run.enter("configure", "Configure the service.").await?;
    let first = usize::try_from(number)? * TOOLS_A_RUN;
    for at in first..first + TOOLS_A_RUN {
        let (tool, wanted) = TOOLS[at % TOOLS.len()];
        if !advice.says_pass_with(tool) {
            run.call(
                "configure",
                tool,
                &json!({"service": "checkout"}),
                &format!("Error: '{wanted}' is required"),
            );
        }
        run.call("configure", tool, &json!({"service": "checkout", wanted: "as agreed"}), "done");
    }
    Ok(run.event())
}
