//! Conformance cases for the order of the intake stream, which several counters count at once (law 3).

use std::ops::RangeInclusive;
use std::sync::Mutex;

use retro_core::count::{Arrival, CountingFacts, Disposition, IntakeProgress, count_arrivals};
use retro_core::retrospective::InvestigationResult;

use super::Database;
use super::close::closing_facts;
use super::count::dispositions_of;
use super::scenario::{Scenario, new_run, result_with_finding, run_at, time_at};
use crate::{CommitResult as Done, RunFilter, WindowsToCheck};

use Disposition::Counted as Now;

/// Checks that a window contains the same runs in stream order regardless of which counter is faster (law 3).
pub async fn a_window_is_claimed_in_the_order_of_the_stream_whoever_was_quicker(database: &Database) {
    let mut one = Scenario::new(&*database.one, "t", "w");
    one.policy.threshold_runs = 4;
    let two = one.with_store(&*database.two);
    let key = &one.key;
    let at = |name: &str, position| run_at(new_run(key, name), position);
    let order = async || {
        let filter = RunFilter { limit: 9, ..Default::default() };
        let mut rows = database.one.list_runs(&key.tenant, &filter).await.expect("runs");
        rows.sort_by_key(|row| row.ordinal);
        rows.iter().map(|row| row.facts.run_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(dispositions_of(one.count_batch(&[at("d", 14)], time_at(0)).await), [Now(1)]);
    assert_eq!(
        dispositions_of(two.count_batch(&[at("a", 11), at("c", 13)], time_at(0)).await),
        [Now(2), Now(3)]
    );
    assert_eq!(order().await, ["d", "a", "c"], "while it waits, the order of counting");
    assert_eq!(dispositions_of(one.count_batch(&[at("b", 12)], time_at(0)).await), [Now(4)]);
    assert_eq!(order().await, ["a", "b", "c", "d"], "claimed in the order of the stream");

    // A late run gets no ordinal before claimed runs, even after their release.
    let id = one.latest_retrospective().await.id;
    assert_eq!(one.draw_sample().await, Done::Done);
    one.investigate_all(&|_| InvestigationResult::Failed { reason: "no".to_owned() }).await;
    assert_eq!(one.close_retrospective(id).await, Done::Done);
    assert_eq!(one.workflow_state().await.window_size(), 4, "it is released");
    one.count_batch(&[at("y", 9), at("x", 8)], time_at(20)).await;
    assert_eq!(one.workflow_state().await.window_size(), 6, "a pause runs");
    one.count_batch(&[], time_at(48 * 3600)).await;
    assert_eq!(one.latest_retrospective().await.window_runs(), 6);
    assert_eq!(order().await, ["a", "b", "c", "d", "x", "y"]);
}

/// Checks that a backlog is claimed in parts, each of which has the runs that come next in the stream (law 3).
pub async fn a_backlog_is_claimed_in_parts_in_the_order_of_the_stream(database: &Database) {
    let mut one = Scenario::new(&*database.one, "t", "w");
    (one.policy.threshold_runs, one.policy.window_runs_max, one.policy.window_backlog_permille) = (2, 3, 400);
    let two = one.with_store(&*database.two);
    one.count_runs(&["first", "second"]).await;
    let at = |sequence: u64| run_at(new_run(&one.key, &format!("run {sequence}")), sequence);
    // Two counters, and each has what comes later in the stream first.
    for sequence in (11..21).rev() {
        let counter = if sequence % 3 == 0 { &two } else { &one };
        counter.count_batch(&[at(sequence)], time_at(0)).await;
    }
    let mut windows = Vec::new();
    while one.workflow_state().await.open {
        let window = one.latest_retrospective().await;
        windows.push((window.first, window.last));
        assert_eq!(one.draw_sample().await, Done::Done);
        one.investigate_all(&|_| result_with_finding("a lesson")).await;
        assert_eq!(one.close_retrospective(window.id).await, Done::Done);
    }
    assert_eq!(windows, [(1, 2), (3, 6), (7, 9), (10, 12)]);
    let filter = RunFilter { limit: 20, ..Default::default() };
    let mut rows = database.one.list_runs(&one.key.tenant, &filter).await.expect("runs");
    rows.sort_by_key(|row| row.ordinal);
    let dealt: Vec<String> = rows.iter().skip(2).map(|row| row.facts.run_id.to_string()).collect();
    assert_eq!(dealt, (11..21).map(|sequence| format!("run {sequence}")).collect::<Vec<_>>());
}

/// Checks that a retrospective is put off while another counter has earlier runs, and that closing one opens the next
/// only over runs that are in order (law 3).
pub async fn a_window_waits_for_the_runs_that_precede_it(database: &Database) {
    let mut scenario = Scenario::new(&*database.one, "t", "w");
    (scenario.policy.threshold_runs, scenario.policy.window_runs_max) = (3, 4);
    let at = |position: u64| run_at(scenario.new_run(&format!("run {position}")), position);
    let count = async |positions: RangeInclusive<u64>, progress, handled_up_to| {
        let put_off = Mutex::new(0);
        let decide = |facts: CountingFacts, arrivals: &[Arrival]| {
            let effects = count_arrivals(facts, arrivals, progress, &scenario.policy, time_at(0));
            *put_off.lock().expect("the decision does not panic") = effects.put_off.len();
            effects
        };
        let batch: Vec<_> = positions.map(at).collect();
        let keys = [scenario.key.clone()];
        let windows = WindowsToCheck { keys: if batch.is_empty() { &keys } else { &[] }, handled_up_to };
        database.two.count_runs(&batch, windows, &decide).await.expect("counting");
        put_off.into_inner().expect("the decision does not panic")
    };
    let none = || RangeInclusive::new(1, 0);
    let up_to = IntakeProgress::UpTo;

    assert_eq!(count(5..=8, up_to(0), 0).await, 1, "another counter has 1 to 4");
    let state = scenario.workflow_state().await;
    assert_eq!((state.counted_up_to, state.handled_up_to, state.open), (8, 0, false));
    assert_eq!(count(1..=2, IntakeProgress::BeforeEachEvent, 0).await, 1, "3 and 4 are missing");
    assert_eq!(count(none(), up_to(2), 2).await, 1, "two of three are in order");
    assert_eq!(count(3..=4, IntakeProgress::BeforeEachEvent, 0).await, 1, "5 to 8 may be missing");
    assert_eq!(count(none(), up_to(6), 6).await, 0);
    let first = scenario.latest_retrospective().await;
    assert_eq!((first.first, first.last), (1, 3));
    let state = scenario.workflow_state().await;
    assert_eq!((state.counted_up_to, state.handled_up_to), (8, 4), "as of the last batch");

    // What is counted while it is open may be out of order, too.
    count(11..=13, up_to(7), 0).await;
    scenario.draw_sample().await;
    scenario.investigate_all(&|_| result_with_finding("a lesson")).await;
    assert_eq!(closing_facts(&scenario, first.id).await.waiting_in_order, 4, "4 to 7");
    assert_eq!(scenario.close_retrospective(first.id).await, Done::Done);
    let second = scenario.latest_retrospective().await;
    assert_eq!((second.first, second.last), (4, 7));
    let filter = RunFilter { limit: 20, ..Default::default() };
    let mut rows = database.one.list_runs(&scenario.key.tenant, &filter).await.expect("runs");
    rows.sort_by_key(|row| row.ordinal);
    let dealt: Vec<String> = rows.iter().map(|row| row.facts.run_id.to_string()).collect();
    let stream = (1..=8).chain(11..=13).map(|position| format!("run {position}"));
    assert_eq!(dealt, stream.collect::<Vec<_>>());
}
