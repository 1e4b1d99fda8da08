//! Gives the runs of the in-memory store summaries of their calls.

use std::collections::BTreeSet;

use jiff::Timestamp;
use retro_core::calls::{
    CallCounts, CallSummary, ObservedBehaviour, ObservedCall, StoredSummary, SummaryContent, WindowSummaries,
    count_calls,
};
use retro_core::id::{Ordinal, RunId, Step, WorkflowKey};
use retro_core::retrospective::{Investigation, Retrospective};
use retro_core::run::RunFacts;

use super::World;

/// Name of a tool that would clear the screen, notify somebody and make a tag and a table cell.
pub(crate) const HOSTILE_TOOL: &str = "t|<img src=x> @octocat\u{1b}[2J";

/// Error with the same intentions.
pub(crate) const HOSTILE_ERROR: &str = "`a` | <b>bold</b> @octocat [l](http://x)\u{1b}[2J";

/// A call of a tool, with its error if it failed.
pub(crate) type ToolCall<'a> = (&'a str, Option<&'a str>);

/// Returns the summary of the run with this ordinal and these calls, each of which takes 30 milliseconds. The program of `bash` is
/// `git push`.
pub(crate) fn run_summary(
    n: Ordinal,
    finished_at: Option<Timestamp>,
    calls: &[ToolCall<'_>],
) -> StoredSummary {
    let run = RunId::new(format!("run-{n:02}")).unwrap();
    let outcome = if n.is_multiple_of(3) { "failure" } else { "success" };
    let mut facts: RunFacts =
        serde_json::from_value(serde_json::json!({"run_id": run, "outcome": outcome})).unwrap();
    facts.finished_at = finished_at;
    let step = Step::main();
    let observed = calls.iter().map(|(tool, error)| ObservedCall {
        step: &step,
        tool,
        program: if *tool == "bash" { vec!["git".to_owned(), "push".to_owned()] } else { Vec::new() },
        goal: String::new(),
        error: error.map(str::to_owned),
        took_ms: Some(30),
    });
    let content =
        SummaryContent::Summary(CallSummary::from_calls(&facts, observed, ObservedBehaviour::default()));
    StoredSummary { run, ordinal: n, content }
}

pub(crate) fn unreadable_summary(n: Ordinal, reason: &str) -> StoredSummary {
    let content = SummaryContent::Unreadable(reason.to_owned());
    StoredSummary { run: RunId::new(format!("run-{n:02}")).unwrap(), ordinal: n, content }
}

impl World {
    /// Summarises the runs of the third window: they repeat an error with an active memory, one whose memory was
    /// deleted, one that nobody got past and one with a hostile tool. One body is gone.
    pub(crate) fn summarize_third_window(&mut self, key: &WorkflowKey) {
        let of_run = |n: Ordinal| match n {
            21 => unreadable_summary(n, "the body is gone"),
            22..=23 => run_summary(n, None, &[("mysql", Some("unknown column")), ("mysql", None)]),
            24..=25 => run_summary(n, None, &[("mysql", Some("timeout")), ("bash", None)]),
            26..=28 => run_summary(n, None, &[("bash", Some("no upstream")), ("mysql", None)]),
            _ => run_summary(n, None, &[(HOSTILE_TOOL, Some(HOSTILE_ERROR)), (HOSTILE_TOOL, None)]),
        };
        self.summaries.extend((21..=30).map(|n| (key.clone(), of_run(n))));
    }

    /// Counts the calls of a window; `None` if none of its runs has a summary.
    pub(super) fn count_window_calls(
        &self,
        retrospective: &Retrospective,
        investigations: &[Investigation],
    ) -> Option<CallCounts> {
        let window = retrospective.first..=retrospective.last;
        let ours = self.summaries.iter().filter(|(owner, _)| *owner == retrospective.key);
        let summaries: Vec<_> =
            ours.map(|(_, one)| one.clone()).filter(|one| window.contains(&one.ordinal)).collect();
        let answered = |one: &&Investigation| one.result.as_ref().is_some_and(|result| result.is_success());
        let investigated: BTreeSet<_> =
            investigations.iter().filter(answered).map(|one| one.run.clone()).collect();
        let runs = u32::try_from(retrospective.window_runs()).unwrap();
        (!summaries.is_empty())
            .then(|| count_calls(&WindowSummaries { runs, summaries, earlier: Vec::new() }, &investigated))
    }
}
