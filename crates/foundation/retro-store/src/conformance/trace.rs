//! Conformance cases for stored trace contexts.

use retro_core::dead_letter::DeadLetterCode;
use retro_core::id::RetrospectiveId;
use retro_core::message::Message;
use retro_core::trace::TraceContext;

use super::Database;
use super::scenario::{LONG_S, Scenario, failed_result, run_at, test_tenant, time_at};
use crate::trace::InvestigationTraces;
use crate::{DeadLetterFilter, IncomingRun, ReopenResult};

/// Creates a trace context as an emitter would send it with a run.
fn context_of(span: u64) -> TraceContext {
    TraceContext { trace_id: 7, span_id: span, flags: 1, state: Some("vendor=a".to_owned()) }
}

fn traced_run(scenario: &Scenario<'_>, name: &str, span: u64) -> IncomingRun {
    IncomingRun { trace: Some(context_of(span)), ..run_at(scenario.new_run(name), span) }
}

async fn first_unsent(scenario: &Scenario<'_>) -> Message {
    let unsent = scenario.store.list_unsent_messages(10).await.expect("reading the outbox");
    unsent.into_iter().next().expect("a message waits")
}

/// Checks that a retrospective continues the trace of the last run in stream order, not of the run that was
/// counted last.
pub async fn a_retrospective_continues_the_run_that_filled_its_window(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_batch(&[traced_run(&scenario, "b", 2), traced_run(&scenario, "a", 1)], time_at(0)).await;
    let (owner, id) = (&scenario.key.tenant, scenario.latest_retrospective().await.id);
    let trace = |of| database.two.find_retrospective_trace(of, id);
    assert_eq!(trace(owner).await.expect("reading"), Some(context_of(2)));
    assert_eq!(first_unsent(&scenario).await.trace, Some(context_of(2)), "its message continues it, too");
    let window = |of, limit| database.two.list_window_traces(of, id, limit);
    assert_eq!(window(owner, 10).await.expect("reading"), [context_of(1)], "the others of the window");
    assert_eq!(window(owner, 0).await.expect("reading"), [], "at most so many");
    let other = test_tenant("other");
    assert_eq!(trace(&other).await.expect("reading"), None);
    assert_eq!(window(&other, 10).await.expect("reading"), []);
}

/// Checks that a reopened window links the trace of the run that filled it instead of continuing it.
pub async fn a_window_that_is_opened_again_does_not_continue_the_run_that_filled_it(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_batch(&[traced_run(&scenario, "a", 1), traced_run(&scenario, "b", 2)], time_at(0)).await;
    let first = scenario.latest_retrospective().await.id;
    scenario.draw_sample().await;
    scenario.investigate_all(&|_| failed_result()).await;
    scenario.close_retrospective(first).await;
    scenario.mark_all_sent().await;
    let filter = DeadLetterFilter { code: Some(DeadLetterCode::RetrospectiveFailed), ..Default::default() };
    let dead_letters =
        scenario.store.list_dead_letters(&scenario.key.tenant, &filter).await.expect("listing");
    let ReopenResult::Opened(opened) =
        super::cancel::reopen_failed(&scenario, dead_letters[0].id, "ann").await
    else {
        panic!("nothing blocks it")
    };
    let owner = &scenario.key.tenant;
    let trace = |id| database.two.find_retrospective_trace(owner, id);
    assert_eq!(trace(first).await.expect("reading"), Some(context_of(2)));
    assert_eq!(trace(opened.id).await.expect("reading"), None);
    assert_eq!(first_unsent(&scenario).await.trace, None, "and neither does its message");
    let window = database.two.list_window_traces(owner, opened.id, 10).await.expect("reading");
    assert_eq!(window, [context_of(2), context_of(1)], "all of the window are there to be linked");
}

/// Checks that an investigation has the trace context of its run, even if the transaction that made it due
/// was not traced.
pub async fn an_investigation_knows_the_context_of_its_run(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_batch(&[traced_run(&scenario, "a", 1), traced_run(&scenario, "b", 2)], time_at(0)).await;
    scenario.draw_sample().await;
    let claim = scenario.claim_next(LONG_S).await;
    let (owner, id) = (&scenario.key.tenant, claim.retrospective.id);
    let run = if claim.run.run_id.as_str() == "a" { context_of(1) } else { context_of(2) };
    let found = database.two.load_investigation_traces(owner, id, claim.number).await.expect("reading");
    assert_eq!(found, InvestigationTraces { due: None, run: Some(run) });
    for (tenant, id, number) in [
        (&test_tenant("other"), id, claim.number),
        (owner, id, 99),
        (owner, RetrospectiveId::of_epoch(&scenario.key, 99), 1),
    ] {
        let found = database.two.load_investigation_traces(tenant, id, number).await.expect("reading");
        assert_eq!(found, InvestigationTraces::default());
    }
}

/// Checks that work without trace contexts, as in a process without tracing, proceeds as usual.
pub async fn untraced_work_proceeds_as_usual(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    let (owner, id) = (&scenario.key.tenant, scenario.latest_retrospective().await.id);
    assert_eq!(database.two.find_retrospective_trace(owner, id).await.expect("reading"), None);
    assert_eq!(database.two.list_window_traces(owner, id, 10).await.expect("reading"), []);
    assert_eq!(first_unsent(&scenario).await.trace, None);
}
