//! Shows what is known about the quotes that agents gave when they saved lessons.
//!
//! The investigator looks for them in the trace when the window of the run is claimed, and the writer keeps or drops
//! them. Until then, a person who looks is told what the stored trace says.

use retro_core::id::{RunId, Step, Tenant, WorkflowKey};
use retro_core::memory::Memory;
use retro_core::trajectory::Trajectory;
use retro_store::{InspectStore, Result, StoredBody};
use serde::Serialize;

use crate::text;

/// Quote that an agent gave when it saved a lesson, and what is known about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SavedQuote {
    /// Run of the agent.
    pub run: RunId,
    /// Whether the trace of the run contains the quote; `None` while that is not known.
    pub in_trace: Option<bool>,
    /// The same in one sentence for people.
    pub check: String,
}

/// Checks the quotes of a memory that agents gave.
pub(crate) async fn check_saved_quotes(
    store: &(impl InspectStore + ?Sized),
    tenant: &Tenant,
    memory: &Memory,
) -> Result<Vec<SavedQuote>> {
    let Some(workflow) = memory.scope.workflow() else { return Ok(Vec::new()) };
    let key = WorkflowKey { tenant: tenant.clone(), workflow: workflow.clone() };
    let missing = |run: &RunId| SavedQuote {
        run: run.clone(),
        in_trace: Some(false),
        check: "the trace of the run does NOT contain it: dropped, and the run confirms nothing".to_owned(),
    };
    let mut checked: Vec<_> = memory.quote_missing_in.iter().map(missing).collect();
    let step = memory.scope.step().cloned().unwrap_or_else(Step::main);
    for evidence in memory.evidence.iter().filter(|one| one.is_unchecked()) {
        let (in_trace, check) = match store.load_run_detail(&key, &evidence.run).await? {
            None => (None, "unchecked: the run has not been recorded yet".to_owned()),
            Some(detail) => check_body(&detail.body, &step, &evidence.quote.text),
        };
        checked.push(SavedQuote { run: evidence.run.clone(), in_trace, check });
    }
    Ok(checked)
}

fn check_body(body: &StoredBody, step: &Step, quote: &str) -> (Option<bool>, String) {
    let trajectory: Option<Trajectory> = match body {
        StoredBody::Inline(bytes) => serde_json::from_slice(bytes).ok(),
        _ => None,
    };
    match trajectory.map(|trajectory| trajectory.find_answer(step, quote).is_some()) {
        Some(true) => (
            Some(true),
            "the trace of the run contains it; the next retrospective that claims it counts it".to_owned(),
        ),
        Some(false) => (Some(false), "the trace of the run does NOT contain it".to_owned()),
        None => (None, "unchecked: the trace of the run is not stored here".to_owned()),
    }
}

/// Renders the checks for a terminal. Returns an empty string if there are none.
pub(crate) fn render_saved_quotes(quotes: &[SavedQuote]) -> String {
    let line = |quote: &SavedQuote| {
        format!(
            "quote given by the agent of run {}: {}\n",
            text::single_line(quote.run.as_str()),
            quote.check
        )
    };
    quotes.iter().map(line).collect()
}
