//! Traces: stored beside what they belong to, found by whoever continues it, and never in the way.

use retro_core::dead_letter::Code;
use retro_core::id::RetrospectiveId;
use retro_core::message::Message;
use retro_core::trace::TraceContext;

use super::Database;
use super::story::{LONG_S, Story, failed, moment, tenant};
use crate::trace::InvestigationTraces;
use crate::{DeadLetterFilter, IncomingRun, Reopened};

/// The context of one run, as an emitter would send it.
fn of(span: u64) -> TraceContext {
    TraceContext { trace_id: 7, span_id: span, flags: 1, state: Some("vendor=a".to_owned()) }
}

fn traced(story: &Story<'_>, name: &str, span: u64) -> IncomingRun {
    IncomingRun { trace: Some(of(span)), position: span, ..story.run(name) }
}

async fn first_unsent(story: &Story<'_>) -> Message {
    let unsent = story.store.unsent(10).await.expect("reading the outbox");
    unsent.into_iter().next().expect("a message waits")
}

/// The latest run of the stream, not the one that was counted last.
pub async fn a_retrospective_continues_the_run_that_filled_its_window(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count_batch(&[traced(&story, "b", 2), traced(&story, "a", 1)], moment(0)).await;
    let (owner, id) = (&story.key.tenant, story.retrospective().await.id);
    let trace = |of| database.two.trace_of_retrospective(of, id);
    assert_eq!(trace(owner).await.expect("reading"), Some(of(2)));
    assert_eq!(first_unsent(&story).await.trace, Some(of(2)), "its message continues it, too");
    let window = |of, limit| database.two.traces_of_window(of, id, limit);
    assert_eq!(window(owner, 10).await.expect("reading"), [of(1)], "the others of the window");
    assert_eq!(window(owner, 0).await.expect("reading"), [], "at most so many");
    let other = tenant("other");
    assert_eq!(trace(&other).await.expect("reading"), None);
    assert_eq!(window(&other, 10).await.expect("reading"), []);
}

/// What happens again is linked, not continued: the second look at the same runs is no part of what filled the window.
pub async fn a_window_that_is_opened_again_does_not_continue_the_run_that_filled_it(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count_batch(&[traced(&story, "a", 1), traced(&story, "b", 2)], moment(0)).await;
    let first = story.retrospective().await.id;
    story.sample().await;
    story.investigate(&|_| failed()).await;
    story.close(first).await;
    story.everything_sent().await;
    let filter = DeadLetterFilter { code: Some(Code::RetrospectiveFailed), ..Default::default() };
    let letters = story.store.dead_letters(&story.key.tenant, &filter).await.expect("listing");
    let Reopened::Now(opened) = super::steer::reopen(&story, letters[0].id, "ann").await else {
        panic!("nothing is in its way")
    };
    let owner = &story.key.tenant;
    let trace = |id| database.two.trace_of_retrospective(owner, id);
    assert_eq!(trace(first).await.expect("reading"), Some(of(2)));
    assert_eq!(trace(opened.id).await.expect("reading"), None);
    assert_eq!(first_unsent(&story).await.trace, None, "and neither does its message");
    let window = database.two.traces_of_window(owner, opened.id, 10).await.expect("reading");
    assert_eq!(window, [of(2), of(1)], "all of the window are there to be linked");
}

/// The run's is told beside what made the investigation due, which here nobody traced.
pub async fn an_investigation_knows_the_run_that_it_looks_into(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count_batch(&[traced(&story, "a", 1), traced(&story, "b", 2)], moment(0)).await;
    story.sample().await;
    let claim = story.claim(LONG_S).await;
    let (owner, id) = (&story.key.tenant, claim.retrospective.id);
    let run = if claim.run.run_id.as_str() == "a" { of(1) } else { of(2) };
    let found = database.two.traces_of_investigation(owner, id, claim.number).await.expect("reading");
    assert_eq!(found, InvestigationTraces { due: None, run: Some(run) });
    for (tenant, id, number) in [
        (&tenant("other"), id, claim.number),
        (owner, id, 99),
        (owner, RetrospectiveId::automatic(&story.key, 99), 1),
    ] {
        let found = database.two.traces_of_investigation(tenant, id, number).await.expect("reading");
        assert_eq!(found, InvestigationTraces::default());
    }
}

/// Rows of a time or a process without traces.
pub async fn what_nobody_traced_goes_its_way_all_the_same(database: &Database) {
    let story = Story::new(&*database.one, "t", "w");
    story.count(&["a", "b"]).await;
    let (owner, id) = (&story.key.tenant, story.retrospective().await.id);
    assert_eq!(database.two.trace_of_retrospective(owner, id).await.expect("reading"), None);
    assert_eq!(database.two.traces_of_window(owner, id, 10).await.expect("reading"), []);
    assert_eq!(first_unsent(&story).await.trace, None);
}
