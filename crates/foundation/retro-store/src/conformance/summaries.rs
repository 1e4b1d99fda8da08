//! Conformance cases for call summaries.

use std::sync::Mutex;

use retro_core::calls::{
    CallSummary, ObservedBehaviour, ObservedCall, SUMMARIES_KEPT, SUMMARY_VERSION, StoredSummary,
    SummaryContent, SummaryCoverage, WindowSummaries,
};
use retro_core::report::InvestigationTiming;

use super::Database;
use super::close::closing_facts;
use super::scenario::{
    LONG_S, Scenario, decide_finish, empty_result, failed_result, run_id, test_step, time_at,
};
use crate::investigate::InvestigationSequence;
use crate::{
    Claim, IncomingBody, Result, RunToSummarize, SUMMARY_ATTEMPTS_MAX, StoreError, StoredBody, SummaryWrite,
    decompress_document,
};

/// Limit above the number of runs in any case but the largest.
const ALL: u32 = 1000;

/// Checks that the runs of a window are begun in the order of their ordinals, with facts and body, and that a
/// stored summary is read back unchanged and not begun again.
pub async fn runs_of_a_window_are_summarised_once(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let claim = claim_window(&scenario, &["a", "b"]).await;
    let begun = begin(&scenario, &claim, 1).await;
    assert_eq!(run_names(&begun), ["a"]);
    let IncomingBody::Inline(body) = scenario.new_run("a").body else { unreachable!("bodies are inline") };
    assert_eq!(begun[0].run, scenario.new_run("a").arrival.run);
    assert_eq!(
        begun[0].body,
        StoredBody::Inline(decompress_document(body.as_bytes()).expect("it was compressed"))
    );
    assert_eq!(list_summaries(&scenario).await, [], "it is begun, not stored");
    let writes = [readable("a", "read"), unreadable("b", "it is gone: \0")];
    store(&scenario, &claim, &writes).await.expect("storing");
    assert_eq!(run_names(&begin(&scenario, &claim, ALL).await), [""; 0]);
    let other = scenario.with_store(&*database.two);
    let stored = list_summaries(&other).await;
    let expected = [unreadable("b", "it is gone: \u{fffd}"), readable("a", "read")];
    assert_eq!(stored.iter().map(|one| one.ordinal).collect::<Vec<_>>(), [2, 1], "newest first");
    for (stored, expected) in stored.iter().zip(expected) {
        assert_eq!((&stored.run, &stored.content), (&expected.run, &expected.content));
    }
    let newest = scenario.store.list_call_summaries(&scenario.key, 1).await.expect("listing");
    assert_eq!(newest, stored[..1]);
}

/// Checks that a run whose summary was begun and not stored is begun alone, and that a run that comes after it
/// does not wait for it.
pub async fn a_summary_that_was_begun_before_is_begun_alone(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.threshold_runs = 4;
    let claim = claim_window(&scenario, &["a", "b", "c", "d"]).await;
    store(&scenario, &claim, &[readable("a", "read")]).await.expect("storing");
    assert_eq!(run_names(&begin(&scenario, &claim, 2).await), ["b", "c"]);
    assert_eq!(run_names(&begin(&scenario, &claim, ALL).await), ["b"]);
    store(&scenario, &claim, &[readable("b", "read")]).await.expect("storing");
    assert_eq!(run_names(&begin(&scenario, &claim, ALL).await), ["c"]);
    store(&scenario, &claim, &[readable("c", "read")]).await.expect("storing");
    assert_eq!(run_names(&begin(&scenario, &claim, ALL).await), ["d"]);
}

/// Checks that a body that ends the process each time is given up, so it does not stop its retrospective.
pub async fn a_summary_that_was_begun_too_often_is_given_up(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let mut claim = claim_window(&scenario, &["a", "b"]).await;
    store(&scenario, &claim, &[readable("b", "read")]).await.expect("storing");
    for _ in 0..SUMMARY_ATTEMPTS_MAX {
        assert_eq!(run_names(&begin(&scenario, &claim, ALL).await), ["a"]);
        scenario.store.extend_lease(&claim, 0).await.expect("a heartbeat");
        claim = scenario.with_store(&*database.two).claim_next(LONG_S).await;
    }
    assert_eq!(run_names(&begin(&scenario, &claim, ALL).await), [""; 0]);
    let stored = list_summaries(&scenario).await;
    let SummaryContent::Unreadable(problem) = &stored[1].content else { panic!("{stored:?}") };
    assert!(problem.contains("begun 3 times"), "{problem}");
    assert_eq!(stored.len(), 2);
}

/// Checks that runs whose facts were purged are unreadable at once, and that their purged bodies are gone.
pub async fn a_run_without_details_has_an_unreadable_summary(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    for (names, stages) in [(["a", "b"], 2), (["c", "d"], 1)] {
        let id = scenario.settle_window(names, &|_| empty_result()).await;
        scenario.close_retrospective(id).await;
        for stage in [crate::retention::RetentionStage::Bodies, crate::retention::RetentionStage::Runs]
            .into_iter()
            .take(stages)
        {
            database.one.purge_stage(stage, 0, ALL).await.expect("purging");
        }
    }
    let mut claim = claim_window(&scenario, &["e", "f"]).await;
    claim.retrospective.first = 1;
    let begun = begin(&scenario, &claim, 2).await;
    assert_eq!(run_names(&begun), ["c", "d"], "the first two were given up");
    assert!(begun.iter().all(|one| matches!(&one.body, StoredBody::Gone(why) if why.contains("dropped"))));
    let stored = list_summaries(&scenario).await;
    let unreadable = |one: &StoredSummary| matches!(&one.content, SummaryContent::Unreadable(why) if why.contains("facts"));
    assert_eq!((stored.len(), stored.iter().all(unreadable)), (2, true), "{stored:?}");
}

/// Checks that a run that was released is summarised again if a higher attempt replaced its facts, and only
/// then.
pub async fn a_summary_of_a_lower_attempt_is_replaced(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.failure_pause_s = 0;
    let claim = claim_window(&scenario, &["a", "b"]).await;
    store(&scenario, &claim, &[readable("a", "first"), readable("b", "first")]).await.expect("storing");
    scenario.finish_claim(&claim, &failed_result()).await.expect("finishing");
    scenario.investigate_all(&|_| failed_result()).await;
    // The writer opens the next retrospective over the released runs at once, unless there is a pause.
    scenario.policy.threshold_runs = 3;
    scenario.close_retrospective(scenario.latest_retrospective().await.id).await;
    let mut higher = scenario.new_run("b");
    (higher.arrival.run.attempt, higher.arrival.event.id) = (2, "another event".to_owned());
    scenario.count_batch(&[higher, scenario.new_run("c")], time_at(1)).await;
    scenario.draw_sample().await;
    let claim = scenario.claim_next(LONG_S).await;
    assert_eq!((claim.retrospective.first, claim.retrospective.last), (1, 3));
    let begun = begin(&scenario, &claim, ALL).await;
    assert_eq!(run_names(&begun), ["b", "c"]);
    assert_eq!(begun[0].run.attempt, 2);
    let second = SummaryWrite { attempt: 2, ..readable("b", "second") };
    store(&scenario, &claim, std::slice::from_ref(&second)).await.expect("storing");
    store(&scenario, &claim, &[readable("b", "too late")]).await.expect("a lower attempt is ignored");
    assert_eq!(find_content(&scenario, "b").await, Some(second.content));
    assert_eq!(find_content(&scenario, "a").await, Some(readable("a", "first").content));
}

/// Checks that a summary of an older version is begun again, and that one of a newer version stands.
pub async fn a_summary_of_an_older_version_is_replaced(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    let claim = claim_window(&scenario, &["a", "b"]).await;
    let of_version = |name: &str, version: u16| {
        let mut write = readable(name, "read");
        if let SummaryContent::Summary(summary) = &mut write.content {
            summary.version = version;
        }
        write
    };
    let newer = of_version("b", SUMMARY_VERSION + 1);
    store(&scenario, &claim, &[of_version("a", SUMMARY_VERSION - 1), newer.clone()]).await.expect("storing");
    assert_eq!(run_names(&begin(&scenario, &claim, ALL).await), ["a"]);
    let mut current = [readable("a", "again"), readable("b", "again")];
    current[1].attempt = 7;
    store(&scenario, &claim, &current).await.expect("storing");
    assert_eq!(find_content(&scenario, "a").await.as_ref(), Some(&current[0].content));
    assert_eq!(find_content(&scenario, "b").await, Some(newer.content), "a newer program wrote it");
    assert_eq!(run_names(&begin(&scenario, &claim, ALL).await), [""; 0]);
}

/// Checks that a worker that lost its claim neither begins nor stores summaries, and that no claim stores those
/// of runs outside its window.
pub async fn the_old_holder_neither_begins_nor_stores_summaries(database: &Database) {
    let scenario = Scenario::new(&*database.one, "t", "w");
    scenario.count_runs(&["a", "b"]).await;
    scenario.draw_sample().await;
    let old = scenario.claim_next(0).await;
    let new = scenario.with_store(&*database.two).claim_next(LONG_S).await;
    let begun = database.one.begin_summaries(&old, ALL).await;
    assert!(matches!(begun, Err(StoreError::Fenced { .. })), "{begun:?}");
    let stored = store(&scenario, &old, &[readable("a", "too late")]).await;
    assert!(matches!(stored, Err(StoreError::Fenced { .. })), "{stored:?}");
    assert_eq!(list_summaries(&scenario).await, []);
    scenario.count_runs(&["of the next window"]).await;
    let writes = [readable("a", "read"), readable("of the next window", "read"), readable("unknown", "read")];
    store(&scenario, &new, &writes).await.expect("storing");
    let stored = list_summaries(&scenario).await;
    assert_eq!(stored.iter().map(|one| one.run.as_str()).collect::<Vec<_>>(), ["a"]);
    let begun = begin(&scenario, &new, ALL).await;
    assert_eq!(run_names(&begun), ["b"], "the old holder has begun nothing");
}

/// Checks that a manual retrospective, which has no window, neither begins nor loads summaries.
pub async fn a_manual_retrospective_has_no_summaries(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    scenario.policy.threshold_runs = 9;
    scenario.count_runs(&["a", "b"]).await;
    super::manual::trigger_manual(&scenario, "q", &["a"]).await.expect("the run is counted");
    let claim = scenario.claim_next(LONG_S).await;
    assert_eq!(run_names(&begin(&scenario, &claim, ALL).await), [""; 0]);
    store(&scenario, &claim, &[readable("a", "read")]).await.expect("storing");
    assert_eq!(list_summaries(&scenario).await, []);
    assert_eq!(finish_and_see_window(&scenario, &claim).await, WindowSummaries::default());
    assert_eq!(closing_facts(&scenario, claim.retrospective.id).await.calls, None);
}

/// Checks that the last investigation of a retrospective gets the summaries of the whole window, and that what
/// is counted of them reaches the writer.
pub async fn counts_travel_from_the_last_investigation_to_the_closing(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    (scenario.policy.threshold_runs, scenario.policy.sample_runs_max) = (3, 2);
    let claim = claim_window(&scenario, &["a", "b", "c"]).await;
    let writes = [readable("a", "read"), unreadable("b", "it is gone")];
    store(&scenario, &claim, &writes).await.expect("storing");
    assert_eq!(finish_and_see_window(&scenario, &claim).await, WindowSummaries::default(), "one is left");
    let claim = scenario.claim_next(LONG_S).await;
    let window = finish_and_see_window(&scenario, &claim).await;
    assert_eq!(window.runs, 3);
    let summaries: Vec<_> = window.summaries.iter().map(|one| (one.ordinal, one.run.as_str())).collect();
    assert_eq!(summaries, [(1, "a"), (2, "b")], "the third has none");
    let calls = closing_facts(&scenario, claim.retrospective.id).await.calls.expect("they were counted");
    let coverage = SummaryCoverage { runs: 3, counted: 1, unreadable: 1, uncounted_calls: 0 };
    assert_eq!((calls.coverage, calls.operations.len()), (coverage, 1));
    assert_eq!(calls.operations[0].tool, "read");
    scenario.close_retrospective(claim.retrospective.id).await;
    let report = scenario.store.find_report(&scenario.key.tenant, claim.retrospective.id).await;
    let report = report.expect("reading").expect("it is closed");
    assert_eq!(report.calls.expect("it has calls").coverage, coverage);

    // The next window gets the summaries of the runs before it apart from its own.
    let claim = claim_window(&scenario, &["d", "e", "f"]).await;
    store(&scenario, &claim, &[readable("d", "read")]).await.expect("storing");
    finish_and_see_window(&scenario, &claim).await;
    let window = finish_and_see_window(&scenario, &scenario.claim_next(LONG_S).await).await;
    let names = |summaries: &[StoredSummary]| -> Vec<(u64, String)> {
        summaries.iter().map(|one| (one.ordinal, one.run.to_string())).collect()
    };
    assert_eq!(names(&window.earlier), [(1, "a".to_owned()), (2, "b".to_owned())]);
    assert_eq!(names(&window.summaries), [(4, "d".to_owned())]);
}

/// Checks that closing a retrospective deletes the summaries of ordinals far before the end of its window, and
/// that no run of those ordinals is summarised.
pub async fn old_summaries_are_deleted_by_ordinal(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    let other = Scenario::new(&*database.one, "t", "of the same tenant");
    for one in [&scenario, &other] {
        let claim = claim_window(one, &["a", "b"]).await;
        store(one, &claim, &[readable("a", "read"), readable("b", "read")]).await.expect("storing");
        one.finish_claim(&claim, &empty_result()).await.expect("finishing");
        one.investigate_all(&|_| empty_result()).await;
        one.close_retrospective(claim.retrospective.id).await;
    }
    assert_eq!(list_summaries(&scenario).await.len(), 2, "they are few");
    let runs = u32::try_from(SUMMARIES_KEPT - 1).expect("a small number");
    (scenario.policy.threshold_runs, scenario.policy.sample_runs_max) = (runs, 1);
    let names: Vec<String> = (0..runs).map(|number| format!("run {number}")).collect();
    let claim = claim_window(&scenario, &names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(claim.retrospective.last, SUMMARIES_KEPT + 1);
    // Of a window that is longer than what is kept, the oldest runs are not summarised.
    let mut long = claim.clone();
    long.retrospective.first = 1;
    let again = ["a", "b"].map(|name| SummaryWrite { attempt: 2, ..readable(name, "again") });
    store(&scenario, &long, &again).await.expect("storing");
    let [a, b] = [find_content(&scenario, "a").await, find_content(&scenario, "b").await];
    assert_eq!([a, b], [Some(readable("a", "read").content), Some(again[1].content.clone())]);
    let writes: Vec<_> = names.iter().map(|name| readable(name, "read")).collect();
    store(&scenario, &claim, &writes).await.expect("storing");
    assert_eq!(finish_and_see_window(&scenario, &claim).await.summaries.len(), writes.len());
    scenario.close_retrospective(claim.retrospective.id).await;
    let left = scenario.store.list_call_summaries(&scenario.key, 9999).await.expect("listing");
    assert_eq!(left.len() as u64, SUMMARIES_KEPT);
    assert_eq!(left.last().map(|one| (one.ordinal, one.run.as_str())), Some((2, "b")));
    assert_eq!(list_summaries(&other).await.len(), 2);
}

/// Counts runs that fill a window, draws its sample and claims the first investigation.
pub(super) async fn claim_window(scenario: &Scenario<'_>, names: &[&str]) -> Claim {
    scenario.count_runs(names).await;
    scenario.draw_sample().await;
    scenario.claim_next(LONG_S).await
}

pub(super) async fn begin(scenario: &Scenario<'_>, claim: &Claim, limit: u32) -> Vec<RunToSummarize> {
    scenario.store.begin_summaries(claim, limit).await.expect("beginning")
}

pub(super) async fn store(scenario: &Scenario<'_>, claim: &Claim, writes: &[SummaryWrite]) -> Result<()> {
    scenario.store.store_summaries(claim, writes).await
}

pub(super) async fn list_summaries(scenario: &Scenario<'_>) -> Vec<StoredSummary> {
    scenario.store.list_call_summaries(&scenario.key, ALL).await.expect("listing")
}

pub(super) fn run_names(runs: &[RunToSummarize]) -> Vec<&str> {
    runs.iter().map(|one| one.run.run_id.as_str()).collect()
}

/// Creates the summary of the first attempt at a run with one call.
pub(super) fn readable(name: &str, tool: &str) -> SummaryWrite {
    let run = super::scenario::new_run(&super::scenario::workflow_key("t", "w"), name).arrival.run;
    let call = ObservedCall {
        step: &test_step(),
        tool,
        program: vec!["größe".to_owned()],
        goal: String::new(),
        error: Some("no \0 such file".to_owned()),
        took_ms: Some(u32::MAX),
    };
    let content =
        SummaryContent::Summary(CallSummary::from_calls(&run, [call], ObservedBehaviour::default()));
    SummaryWrite { run: run.run_id, attempt: 1, content }
}

fn unreadable(name: &str, problem: &str) -> SummaryWrite {
    SummaryWrite { run: run_id(name), attempt: 1, content: SummaryContent::Unreadable(problem.to_owned()) }
}

async fn find_content(scenario: &Scenario<'_>, name: &str) -> Option<SummaryContent> {
    let all = list_summaries(scenario).await;
    all.into_iter().find(|one| one.run.as_str() == name).map(|one| one.content)
}

/// Finishes a claim and returns the summaries that were there to decide about.
async fn finish_and_see_window(scenario: &Scenario<'_>, claim: &Claim) -> WindowSummaries {
    let seen = Mutex::new(None);
    let decide = |sequence: &InvestigationSequence| {
        *seen.lock().expect("nothing panics with it") = Some(sequence.window.clone());
        decide_finish(sequence)
    };
    let timing = InvestigationTiming::default();
    scenario.store.finish_investigation(claim, &empty_result(), timing, &decide).await.expect("finishing");
    seen.into_inner().expect("nothing panics with it").expect("it was decided")
}
