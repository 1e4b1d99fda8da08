//! Runs composed workflows with invented tools and agents, in which every kind of memory change occurs within
//! a minute.
//!
//! The sample of a retrospective depends only on its ID, so the demo can compute in advance which runs will
//! be sampled. It uses this only to place rare events (in one or two runs), never to influence what is
//! learned.

mod release;
mod settings;
mod window;

use std::path::Path;

use anyhow::Result;
use retro_eval::instance::Instance;

/// Runs both composed workflows. Returns the number of events sent.
pub(super) async fn run_composed_workflows(retro: &Instance, folder: &Path) -> Result<u64> {
    println!("\n2. A composed workflow: made-up tools, and agents that ask for context between their runs.");
    println!(
        "   They follow, ignore or are misled by what they get. Each window is 10 runs and one retrospective.\n"
    );
    let sent = release::run_release_workflow(retro, folder).await?
        + settings::run_settings_workflow(retro, folder).await?;
    println!();
    Ok(sent)
}
