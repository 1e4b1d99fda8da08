//! Tests of summaries and of what is counted of them.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::summary::ObservedCall;
use super::*;
use crate::id::{RunId, Step};
use crate::run::RunFacts;

fn facts(run: &str, outcome: &str) -> RunFacts {
    serde_json::from_value(serde_json::json!({ "run_id": run, "outcome": outcome })).unwrap()
}

fn observed<'a>(step: &'a Step, tool: &'a str, error: Option<&str>) -> ObservedCall<'a> {
    ObservedCall {
        step,
        tool,
        program: Vec::new(),
        goal: String::new(),
        error: error.map(str::to_owned),
        took_ms: Some(20),
    }
}

/// Returns the summary of a run that meets an error and then gets past it, or not.
fn run_with_error(run: &str, error: &str, recovers: bool, facts: &RunFacts) -> StoredSummary {
    let step = Step::main();
    let mut calls = vec![observed(&step, "query", Some(error))];
    calls.extend(recovers.then(|| observed(&step, "query", None)));
    StoredSummary {
        run: RunId::new(run).unwrap(),
        ordinal: 1,
        content: SummaryContent::Summary(CallSummary::from_calls(facts, calls, ObservedBehaviour::default())),
    }
}

fn count(summaries: Vec<StoredSummary>) -> CallCounts {
    let runs = u32::try_from(summaries.len()).unwrap();
    count_calls(&WindowSummaries { runs, summaries, earlier: Vec::new() }, &BTreeSet::new())
}

#[test]
fn a_failure_recurs_if_two_witnesses_met_it() {
    let summaries: Vec<_> = [("a", true), ("b", false), ("c", true)]
        .map(|(run, recovers)| run_with_error(run, "no such table", recovers, &facts(run, "failure")))
        .into();
    let counts = count(summaries);
    let failure = &counts.failures[0];
    assert_eq!((failure.runs, failure.witnesses, failure.recovered, failure.failed_runs), (3, 3, 2, 3));
    assert_eq!(failure.last_run.as_str(), "c");
    assert_eq!(counts.coverage, SummaryCoverage { runs: 3, counted: 3, ..SummaryCoverage::default() });

    let one_user = |run: &str| {
        let mut facts = facts(run, "success");
        (facts.user, facts.task) = (Some("anna".into()), Some("17".into()));
        run_with_error(run, "no such table", true, &facts)
    };
    assert!(count(vec![one_user("a"), one_user("b")]).failures.is_empty());
}

#[test]
fn an_error_that_occurs_again_was_not_recovered_from() {
    let step = Step::main();
    let calls = [Some("locked"), None, Some("locked")].map(|error| observed(&step, "query", error));
    let summary = CallSummary::from_calls(&facts("a", "failure"), calls, ObservedBehaviour::default());
    assert_eq!((summary.errors[0].calls, summary.errors[0].recovered), (2, false));
    assert_eq!((summary.operations[0].calls, summary.operations[0].failed), (3, 2));
}

#[test]
fn statistics_begin_with_what_failed_most() {
    let step = Step::main();
    let calls = [("read", None), ("read", None), ("write", Some("denied")), ("write", None)]
        .map(|(tool, error)| observed(&step, tool, error));
    let summary = CallSummary::from_calls(&facts("a", "success"), calls, ObservedBehaviour::default());
    let statistics = compute_statistics([&summary, &summary]);
    let rows: Vec<_> = statistics.iter().map(|one| (&*one.tool, one.runs, one.calls, one.failed)).collect();
    assert_eq!(rows, [("write", 2, 4, 2), ("read", 2, 4, 0)]);
    assert_eq!(statistics[0].median_ms, Some(20));
}

#[test]
fn summaries_that_cannot_be_read_or_compared_are_counted_apart() {
    let old = |mut stored: StoredSummary| {
        if let SummaryContent::Summary(summary) = &mut stored.content {
            summary.version = SUMMARY_VERSION + 1;
        }
        stored
    };
    let unreadable = StoredSummary {
        run: RunId::new("b").unwrap(),
        ordinal: 2,
        content: SummaryContent::Unreadable("the body is gone".into()),
    };
    let other = old(run_with_error("a", "no such table", true, &facts("a", "failure")));
    let counts = count(vec![other, unreadable]);
    assert_eq!(counts.coverage, SummaryCoverage { runs: 2, unreadable: 1, ..SummaryCoverage::default() });
    assert!(counts.operations.is_empty());
}

#[test]
fn a_cue_names_a_failure_of_its_step_and_tool() {
    let counts = count(
        ["a", "b"]
            .map(|run| run_with_error(run, &"é".repeat(ERROR_CHARS_MAX + 9), true, &facts(run, "failure")))
            .into(),
    );
    let (failure, step) = (&counts.failures[0], Step::main());
    assert!(failure.is_about(&step, "query", &"é".repeat(ERROR_CHARS_MAX + 9)));
    assert!(!failure.is_about(&step, "query", &"é".repeat(ERROR_CHARS_MAX - 1)));
    assert!(!failure.is_about(&step, "other", &"é".repeat(ERROR_CHARS_MAX + 9)));
}

proptest! {
    #[test]
    fn a_summary_is_small_whatever_the_run_calls(
        calls in prop::collection::vec((0..80u8, "\\PC{0,90}", prop::option::of("\\PC{0,200}")), 0..400),
    ) {
        let step = Step::main();
        let total = u32::try_from(calls.len()).unwrap();
        let observed = calls.iter().map(|(nth, tool, error)| ObservedCall {
            step: &step,
            tool,
            program: vec![nth.to_string()],
            goal: String::new(),
            error: error.clone(),
            took_ms: None,
        });
        let summary = CallSummary::from_calls(&facts("a", "success"), observed, ObservedBehaviour::default());
        prop_assert!(serde_json::to_vec(&summary).unwrap().len() <= SUMMARY_BYTES_MAX);
        let counted: u32 = summary.operations.iter().map(|one| one.calls).sum();
        prop_assert_eq!(counted + summary.uncounted_calls, total);
        // Every reference leads somewhere.
        for call in &summary.calls {
            prop_assert!(usize::from(call.operation) < summary.operations.len());
            prop_assert!(call.error.is_none_or(|error| usize::from(error) < summary.errors.len()));
        }
        let text = serde_json::to_string(&summary).unwrap();
        prop_assert_eq!(serde_json::from_str::<CallSummary>(&text).unwrap(), summary);
    }

    #[test]
    fn the_order_of_equal_runs_does_not_change_what_is_counted(order in Just((0..6usize).collect::<Vec<_>>()).prop_shuffle()) {
        let runs: Vec<_> = (0..6)
            .map(|n| {
                let run = format!("run-{n}");
                run_with_error(&run, ["locked", "denied"][n % 2], n < 4, &facts(&run, "failure"))
            })
            .collect();
        let shuffled: Vec<_> = order.iter().map(|at| runs[*at].clone()).collect();
        let without_last = |mut counts: CallCounts| {
            counts.failures.iter_mut().for_each(|failure| failure.last_run = RunId::new("any").unwrap());
            counts
        };
        prop_assert_eq!(without_last(count(shuffled)), without_last(count(runs)));
    }
}
